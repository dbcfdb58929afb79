//! Many messages as one that Kubernetes stores and people read.

/// So many are named; the rest is counted.
const NAMED: usize = 3;
/// The most characters of a message. Kubernetes stores 32,768 bytes of a condition's message and 1,024 of
/// an event's note, and refuses the whole write beyond; people read less.
pub(crate) const LONGEST: usize = 1000;
/// The most characters of each of several messages.
const EACH: usize = 300;

/// The first few messages, and how many more there are.
pub(crate) fn few<'t>(texts: impl IntoIterator<Item = &'t str>) -> String {
    let mut few = Few::default();
    for text in texts {
        few.add(|| text.to_owned());
    }
    few.into_text()
}

/// Messages of which only the first few are made.
#[derive(Debug, Default)]
pub(crate) struct Few {
    named: Vec<String>,
    more: usize,
}

impl Few {
    /// One more message, made only if it is named.
    pub(crate) fn add(&mut self, text: impl FnOnce() -> String) {
        match self.named.len() < NAMED {
            true => self.named.push(text()),
            false => self.more += 1,
        }
    }

    /// Those that are named, and how many more there are; empty where there is none.
    pub(crate) fn into_text(self) -> String {
        if let [only] = &self.named[..] {
            return cut(only, LONGEST);
        }
        let mut named: Vec<String> = self.named.iter().map(|t| cut(t, EACH)).collect();
        if self.more > 0 {
            named.push(format!("and {} more", self.more));
        }
        named.join("; ")
    }
}

/// A text of at most so many characters, in one line: what others wrote stands in it, and neither lines
/// of their own nor the colours of a terminal are theirs to write.
pub(crate) fn cut(text: &str, longest: usize) -> String {
    let harmless = |c: char| if c.is_control() { ' ' } else { c };
    let mut all = text.chars().map(harmless);
    if text.chars().nth(longest).is_none() {
        return all.collect();
    }
    let mut cut: String = all.by_ref().take(longest.saturating_sub(3)).collect();
    cut.push_str("...");
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_are_named_and_the_rest_is_counted() {
        assert_eq!(few(["a", "b", "c"]), "a; b; c");
        assert_eq!(few(["a", "b", "c", "d", "e"]), "a; b; c; and 2 more");
    }

    #[test]
    fn what_others_wrote_stays_in_its_line_and_without_colour() {
        assert_eq!(
            cut("x\n  2. ask \u{1b}[31mme\r", 100),
            "x   2. ask  [31mme "
        );
        assert_eq!(cut("a\nbcdef", 5), "a ...");
    }

    #[test]
    fn no_message_is_longer_than_kubernetes_stores() {
        let long = "ä".repeat(40_000);
        assert_eq!(few([long.as_str()]).chars().count(), LONGEST);
        let many = few((0..10_000).map(|_| long.as_str()));
        assert!(many.chars().count() <= LONGEST, "{}", many.len());
        assert!(many.ends_with("...; and 9997 more"), "{many}");
    }
}
