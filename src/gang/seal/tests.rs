use super::*;

const STAMP: &str = r#"{"scheduler":"some","level":"Whole","size":4,"quorum":4}"#;

fn bearer(workload: Called<'_>) -> Bearer<'_> {
    Bearer {
        namespace: "ml",
        kind: "Thing",
        workload,
        gang: "workers",
    }
}

fn train() -> Bearer<'static> {
    bearer(Called::Name("train"))
}

fn seals(first: u8, others: &[u8]) -> Seals {
    let others: Vec<KeyBytes> = others.iter().map(|byte| [*byte; 32]).collect();
    Seals::new(&[first; 32], &others)
}

#[test]
fn a_sealed_stamp_is_the_stamp_and_one_field() {
    let sealed = Seals::fixed().seal(&train(), STAMP);
    insta::assert_snapshot!(sealed, @r#"{"scheduler":"some","level":"Whole","size":4,"quorum":4,"seal":"c914ec48.DeNGiHTrvjMJTW_M1Zmymg"}"#);
    assert_eq!(sealed.len(), STAMP.len() + SEAL);
    assert_eq!(content(&sealed), content(STAMP));
    assert!(crate::gang::Stamp::parse(&sealed).is_ok());
}

#[test]
fn a_seal_holds_for_one_bearer_and_one_text() {
    let seals = seals(1, &[]);
    let sealed = seals.seal(&train(), STAMP);
    assert_eq!(seals.check(&train(), &sealed), Verdict::Good);
    let changed = sealed.replace("\"size\":4", "\"size\":5");
    assert_eq!(seals.check(&train(), &changed), Verdict::Broken);
    let others = [
        Bearer {
            namespace: "web",
            ..train()
        },
        Bearer {
            kind: "Other",
            ..train()
        },
        bearer(Called::Name("train2")),
        bearer(Called::Prefix("train")),
        Bearer {
            gang: "leader",
            ..train()
        },
    ];
    for other in others {
        assert_eq!(seals.check(&other, &sealed), Verdict::Broken, "{other:?}");
    }
}

#[test]
fn a_generated_name_is_known_by_its_beginning() {
    let seals = seals(1, &[]);
    let sealed = seals.seal(&bearer(Called::Prefix("train-")), STAMP);
    let check = |name| seals.check(&bearer(Called::Name(name)), &sealed);
    assert_eq!(check("train-x7k2p"), Verdict::Good);
    assert_eq!(check("train-x7k2"), Verdict::Broken);
    assert_eq!(check("train-"), Verdict::Broken);
    assert_eq!(check("t"), Verdict::Broken);
    let long = "x".repeat(80);
    let sealed = seals.seal(&bearer(Called::Prefix(&long)), STAMP);
    let name = format!("{}abcde", &long[..58]);
    let named = bearer(Called::Name(&name));
    assert_eq!(seals.check(&named, &sealed), Verdict::Good);
}

#[test]
fn what_an_older_key_sealed_is_good_and_what_an_unknown_one_did_is_unknown() {
    let sealed = seals(1, &[]).seal(&train(), STAMP);
    assert_eq!(seals(2, &[1]).check(&train(), &sealed), Verdict::Good);
    assert_eq!(seals(2, &[3]).check(&train(), &sealed), Verdict::Unknown);
}

#[test]
fn a_token_is_of_one_barrier() {
    let seals = seals(1, &[]);
    let token = seals.token("ml", "train-barrier-0-x");
    let check = |namespace, barrier| seals.check_token(namespace, barrier, &token);
    assert_eq!(check("ml", "train-barrier-0-x"), Verdict::Good);
    assert_eq!(check("ml", "train-barrier-1-x"), Verdict::Broken);
    assert_eq!(check("web", "train-barrier-0-x"), Verdict::Broken);
    let other = super::tests::seals(2, &[]);
    assert_eq!(
        other.check_token("ml", "train-barrier-0-x", &token),
        Verdict::Unknown
    );
    assert_eq!(
        seals.check_token("ml", "train-barrier-0-x", "open"),
        Verdict::Unsealed
    );
}

#[test]
fn a_stamp_without_a_seal_is_unsealed_whatever_it_ends_with() {
    let seals = seals(1, &[]);
    let odd = [
        "",
        "}",
        STAMP,
        &"é".repeat(40),
        &format!("{STAMP},\"seal\":\"\"}}"),
        &format!("{{{OPEN}{}{CLOSE}", "é".repeat(15)),
    ];
    for text in odd {
        assert_eq!(seals.check(&train(), text), Verdict::Unsealed, "{text}");
        content(text);
    }
}

#[test]
fn a_cut_or_lengthened_hash_is_broken() {
    let seals = seals(1, &[]);
    let sealed = seals.seal(&train(), STAMP);
    let hash = &sealed[sealed.len() - TEXT - CLOSE.len()..sealed.len() - CLOSE.len()];
    let swapped = sealed.replace(hash, &"A".repeat(TEXT));
    assert_eq!(seals.check(&train(), &swapped), Verdict::Broken);
}
