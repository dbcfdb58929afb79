//! What a person names: `KIND/NAME` or `KIND NAME`, with the names that kubectl knows. Kinds come from
//! their table.

use crate::gang::name::is_dns_subdomain;
use crate::gang::nearest::nearest;
use crate::workload::{KINDS, Kind};

/// The word for a gang itself, which is of no kind of the API.
const GANG: [&str; 2] = ["gang", "gangs"];

/// What is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    /// An object.
    Object(&'static Kind),
    /// A gang.
    Gang,
}

/// Nothing is named that can be looked for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no name.
    #[error("{0:?} names nothing: write KIND/NAME or KIND NAME, where KIND is {list}", list = listed())]
    Nameless(String),
    /// There is a name twice.
    #[error("{0:?} and {1:?} are two names: write KIND/NAME or KIND NAME")]
    TwoNames(String, String),
    /// There is no such kind.
    #[error(
        "{0:?} is no kind that can be explained{near}: KIND is {list}",
        near = meant(.0),
        list = listed()
    )]
    Kind(String),
}

/// Of the help: the first kind in the singular, and all in the plural with their short names.
pub(crate) fn help() -> (String, String) {
    const WIDTH: usize = 90;
    let kinds = KINDS.iter().map(|entry| entry.kind);
    let first = kinds.clone().next().map_or("", |kind| kind.name);
    let word = |kind: &Kind| match kind.short {
        [] => kind.plural.to_owned(),
        short => format!("{} ({})", kind.plural, short.join(", ")),
    };
    let mut lines = vec![String::new()];
    for word in kinds.map(word).chain([GANG[1].to_owned()]) {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&format!("  {word}")),
            Some(line) if line.len() + word.len() < WIDTH => line.push_str(&format!(", {word}")),
            Some(line) => {
                line.push(',');
                lines.push(format!("  {word}"));
            }
            None => {}
        }
    }
    (first.to_lowercase(), lines.join("\n"))
}

fn listed() -> String {
    let named = KINDS.iter().map(|entry| entry.kind.plural);
    let named: Vec<&str> = named.chain([GANG[1]]).collect();
    super::one_of(&named)
}

fn meant(word: &str) -> String {
    let names = KINDS.iter().map(|entry| entry.kind.plural);
    let near = nearest(word, names.chain(GANG));
    near.map(|near| format!(" (did you mean {near}?)"))
        .unwrap_or_default()
}

/// Reads what is named.
pub(super) fn parse(word: &str, name: Option<&str>) -> Result<(Target, String), Wrong> {
    let (kind, name) = match (word.split_once('/'), name) {
        (Some((kind, name)), None) => (kind, name),
        (None, Some(name)) => (word, name),
        (Some(_), Some(name)) => return Err(Wrong::TwoNames(word.to_owned(), name.to_owned())),
        (None, None) => return Err(Wrong::Nameless(word.to_owned())),
    };
    // It becomes a part of a path. A gang's name may have a revision in it, after an underscore.
    if !is_dns_subdomain(&name.replace('_', "-")) {
        return Err(Wrong::Nameless(format!("{kind}/{name}")));
    }
    let target = target(kind).ok_or_else(|| Wrong::Kind(kind.to_owned()))?;
    Ok((target, name.to_owned()))
}

/// `statefulset`, `statefulsets`, `sts`, `StatefulSet`, `statefulsets.apps`, `statefulsets.v1.apps`.
fn target(word: &str) -> Option<Target> {
    let word = word.to_ascii_lowercase();
    if GANG.contains(&&*word) {
        return Some(Target::Gang);
    }
    let (name, group) = word.split_once('.').unwrap_or((&word, ""));
    let means = |kind: &&'static Kind| {
        let own = [kind.plural].into_iter().chain(kind.short.iter().copied());
        let named = kind.name.eq_ignore_ascii_case(name) || own.into_iter().any(|own| own == name);
        let versioned = format!("{}.{}", kind.version, kind.group);
        named && (group.is_empty() || group == kind.group || group == versioned)
    };
    let mut kinds = KINDS.iter().map(|entry| entry.kind);
    kinds.find(means).map(Target::Object)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(word: &str) -> Option<&'static str> {
        match target(word)? {
            Target::Object(kind) => Some(kind.name),
            Target::Gang => Some("gang"),
        }
    }

    #[test]
    fn kinds_are_named_as_kubectl_names_them() {
        for entry in KINDS {
            let Kind {
                name,
                plural,
                group,
                version,
                short,
            } = entry.kind;
            for word in [*name, *plural].iter().chain(*short) {
                assert_eq!(kind(word), Some(*name), "{word}");
            }
            if !group.is_empty() {
                assert_eq!(kind(&format!("{plural}.{group}")), Some(*name));
                let word = format!("{}.{version}.{group}", name.to_lowercase());
                assert_eq!(kind(&word), Some(*name));
            }
        }
        for (word, meant) in [
            ("sts", Some("StatefulSet")),
            ("deploy", Some("Deployment")),
            ("po", Some("Pod")),
            ("Gang", Some("gang")),
            ("gangs", Some("gang")),
            ("statefulsets.batch", None),
            ("s", None),
            ("configmap", None),
            ("", None),
        ] {
            assert_eq!(kind(word), meant, "{word}");
        }
    }

    #[test]
    fn no_two_kinds_share_a_word() {
        let mut words: Vec<String> = GANG.map(str::to_owned).to_vec();
        for entry in KINDS {
            let kind = entry.kind;
            let own = [kind.plural].into_iter().chain(kind.short.iter().copied());
            words.extend(own.map(str::to_owned).chain([kind.name.to_lowercase()]));
        }
        let all = words.len();
        words.sort();
        words.dedup();
        assert_eq!(words.len(), all, "{words:?}");
    }

    #[test]
    fn what_names_nothing_is_told_how_to_name_it() {
        let named = |word: &str, name: Option<&str>| parse(word, name).map(|(_, name)| name);
        assert_eq!(named("sts/ring", None).unwrap(), "ring");
        assert_eq!(named("sts", Some("ring")).unwrap(), "ring");
        let said = |word: &str, name: Option<&str>| {
            let said = named(word, name).unwrap_err().to_string();
            said.replace(&listed(), "LIST")
        };
        insta::assert_snapshot!(said("ring", None), @r#""ring" names nothing: write KIND/NAME or KIND NAME, where KIND is LIST"#);
        insta::assert_snapshot!(said("sts/", None), @r#""sts/" names nothing: write KIND/NAME or KIND NAME, where KIND is LIST"#);
        insta::assert_snapshot!(said("sts/a/../../secrets", None), @r#""sts/a/../../secrets" names nothing: write KIND/NAME or KIND NAME, where KIND is LIST"#);
        insta::assert_snapshot!(said("sts/a", Some("b")), @r#""sts/a" and "b" are two names: write KIND/NAME or KIND NAME"#);
        insta::assert_snapshot!(said("statefulsts/a", None), @r#""statefulsts" is no kind that can be explained (did you mean statefulsets?): KIND is LIST"#);
        insta::assert_snapshot!(said("configmap/a", None), @r#""configmap" is no kind that can be explained: KIND is LIST"#);
        assert!(listed().ends_with("pods or gangs"), "{}", listed());
    }
}
