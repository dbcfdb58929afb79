//! Which known word a slip of the pen probably means. Knows no words of its own.

/// Nothing longer is a slip of the pen, and comparing takes time and room.
const MAX_COMPARED: usize = 64;

/// The known word that is nearest, where one is near: a few letters apart, whatever their case, and at
/// most half of the word wrong. Otherwise every word is near.
pub(crate) fn nearest<'k>(word: &str, known: impl IntoIterator<Item = &'k str>) -> Option<&'k str> {
    if word.len() > MAX_COMPARED {
        return None;
    }
    let lower = word.to_lowercase();
    let distances = known.into_iter().map(|candidate| {
        let distance = strsim::damerau_levenshtein(&lower, &candidate.to_lowercase());
        (distance, candidate)
    });
    distances
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= 3 && *distance * 2 <= word.len())
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn the_nearest_word_is_found_and_no_other_is_near() {
        let known = ["parallelism", "completions", "template"];
        for (word, meant) in [
            ("paralellism", Some("parallelism")),
            ("Completions", Some("completions")),
            ("tempalte", Some("template")),
            ("replicas", None),
            ("", None),
        ] {
            assert_eq!(nearest(word, known), meant, "{word}");
        }
        assert_eq!(nearest(&"template".repeat(9), known), None);
    }
}
