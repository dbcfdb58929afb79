use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

#[test]
fn names_are_what_kubernetes_says() {
    let long = |length: usize| "x".repeat(length);
    assert!(is_dns_label(&long(63)) && !is_dns_label(&long(64)));
    assert!(is_object_name(&long(253)) && !is_object_name(&long(254)));
    assert!(!is_dns_subdomain(&long(64)));
    for (text, label, subdomain, key, value) in [
        ("train-0", true, true, true, true),
        ("train.v1", false, true, true, true),
        ("Train_0", false, false, true, true),
        ("", false, false, false, true),
        ("-a", false, false, false, false),
        ("a-", false, false, false, false),
        ("a..b", false, false, true, true),
        ("a b", false, false, false, false),
        ("muster.dev/Gang_mode", false, false, true, false),
        ("Muster.dev/gang", false, false, false, false),
        ("/gang", false, false, false, false),
        ("a/b/c", false, false, false, false),
    ] {
        assert_eq!(is_dns_label(text), label, "{text}");
        assert_eq!(is_dns_subdomain(text), subdomain, "{text}");
        assert_eq!(is_object_name(text), subdomain, "{text}");
        assert_eq!(is_qualified_name(text), key, "{text}");
        assert_eq!(is_label_value(text), value, "{text}");
    }
    let key = format!("{}/{}", long(253), long(63));
    assert!(is_qualified_name(&key) && !is_qualified_name(&format!("{key}x")));
    assert!(is_label_value(&long(63)) && !is_label_value(&long(64)));
}

fn identity() -> impl Strategy<Value = Identity> {
    // Few values per field, so that generated identities often differ in one field only.
    let name = prop_oneof!["[a-c]{1,2}", "[a-z0-9-]{1,70}", "[a-z.]{1,20}"];
    (
        "[a-b]{1,2}",
        name,
        "[a-b]{1,2}",
        prop_oneof!["[a-c]{1,2}", "[a-c]-[0-1]", "[a-z]{60}"],
        prop_oneof![Just(None), (0..3u32).prop_map(Some)],
        (0..3u32, 0..2u32, 0..3u32),
    )
        .prop_map(|(namespace, workload, uid, part, index, counts)| Identity {
            namespace,
            workload,
            uid,
            part: PartName::new(part),
            index,
            attempt: Attempt {
                whole: counts.0,
                own: counts.1,
            },
            round: Round(counts.2),
            revision: None,
        })
}

/// All but the workload's name, which follows from the uid.
fn key(id: &Identity) -> (String, String, PartName, Option<u32>, Attempt, Round) {
    (
        id.namespace.clone(),
        id.uid.clone(),
        id.part.clone(),
        id.index,
        id.attempt,
        id.round,
    )
}

proptest! {
    #[test]
    fn a_name_is_always_a_dns_label(id in identity()) {
        let name = id.name();
        prop_assert!(is_dns_label(name.as_str()), "{name}");
    }

    #[test]
    fn two_gangs_never_share_a_name(ids in proptest::collection::vec(identity(), 2..200)) {
        let mut seen = HashMap::new();
        for id in ids {
            // The same text of a workload name would hide a weak hash behind the prefix.
            let id = Identity { workload: "w".into(), ..id };
            if let Some(other) = seen.insert(id.name(), key(&id)) {
                prop_assert_eq!(other, key(&id));
            }
        }
    }
}

#[test]
fn every_field_of_the_identity_is_in_the_name() {
    let base = Identity {
        namespace: "ml".into(),
        workload: "train".into(),
        uid: "7f6c".into(),
        part: PartName::new("workers"),
        index: Some(1),
        attempt: Attempt { whole: 2, own: 0 },
        round: Round(0),
        revision: None,
    };
    let with = |change: fn(&mut Identity)| {
        let mut id = base.clone();
        change(&mut id);
        id.name()
    };
    let names = [
        base.name(),
        base.shared_name("bundle", "workers"),
        with(|id| id.namespace.push('2')),
        with(|id| id.uid.push('2')),
        with(|id| id.part = PartName::new("workers2")),
        with(|id| id.index = None),
        with(|id| id.index = Some(2)),
        with(|id| id.attempt.whole = 3),
        with(|id| id.attempt.own = 1),
        with(|id| id.round = Round(1)),
    ];
    let different: HashSet<_> = names.iter().collect();
    assert_eq!(different.len(), names.len());
    assert!(
        base.name().as_str().starts_with("train-workers-1-2-"),
        "{}",
        base.name()
    );
}
