//! What holds for any value and any text: the one comes back, the other never panics.

use proptest::prelude::*;
use serde_json::{Map, Value};

use super::{documents, to_string};

fn text() -> impl Strategy<Value = String> {
    let look_alikes = include_str!("../../../fixtures/yaml/scalars.tsv").lines();
    let look_alikes: Vec<_> = look_alikes
        .filter_map(|row| Some(row.split_once('\t')?.0.to_owned()))
        .collect();
    prop_oneof![
        any::<String>(),
        proptest::sample::select(look_alikes),
        r##"[-?:,\[\]{}#&*!|>'"%@`~<=. \n\t\ra0]{0,12}"##,
        r"[a \n]{0,8}",
        "[a-z/.]{120,140}",
        "\\PC{1100,1200}",
    ]
}

/// Whole floats come back as integers, as with kubectl; there is a row for them in the table.
fn value() -> impl Strategy<Value = Value> {
    let float = any::<f64>().prop_filter("whole", |f| f.is_finite() && f.fract() != 0.0);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        float.prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..6)
                .prop_map(|pairs| Value::from(Map::from_iter(pairs))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_written_reads_back_the_same(value in value()) {
        let written = to_string(&value);
        let found = documents(&written);
        if value.is_null() {
            prop_assert!(found.is_empty());
        } else {
            prop_assert_eq!(found.len(), 1, "{}", written);
            let read = found[0].as_ref().map_err(|e| TestCaseError::fail(format!("{e}\n{written}")))?;
            prop_assert_eq!(&read.value, &value, "{}", written);
        }
    }

    #[test]
    fn no_text_makes_the_reader_panic(text in prop_oneof![any::<String>(), r##"[-?:,\[\]{}#&*!|>'"%<~ \n\ta0]{0,60}"##]) {
        for document in documents(&text).into_iter().flatten() {
            document.position(&text);
        }
    }
}
