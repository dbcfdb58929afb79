//! Quantities against Go's, from `fixtures/quantity`, and by properties.

use proptest::prelude::*;

use super::*;

fn quantity(text: &str) -> Quantity {
    Quantity::parse(text).unwrap_or_else(|error| panic!("{text:?}: {error}"))
}

fn known(file: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    file.lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split('\t').collect())
}

fn shown(quantity: Quantity) -> (String, String) {
    (quantity.to_string(), format!("{:?}", quantity.format))
}

fn pair(canonical: &str, format: &str) -> (String, String) {
    (canonical.to_owned(), format.to_owned())
}

#[test]
fn every_text_is_read_and_printed_as_go_does() {
    let mut lines = 0;
    for line in known(include_str!("../../../fixtures/quantity/parse.tsv")) {
        let [input, canonical, format] = line[..] else {
            panic!("{line:?}");
        };
        match Quantity::parse(input) {
            Ok(read) => assert_eq!(shown(read), pair(canonical, format), "{input:?}"),
            Err(error) => assert_eq!("error", canonical, "{input:?}: {error}"),
        }
        lines += 1;
    }
    assert!(lines > 500, "{lines}");
}

#[test]
fn sums_products_order_and_rounding_are_those_of_go() {
    let mut lines = 0;
    for line in known(include_str!("../../../fixtures/quantity/add.tsv")) {
        match line[..] {
            ["add", a, b, sum, format, order] => {
                let (a, b) = (quantity(a), quantity(b));
                let got = a.checked_add(b).expect("in range");
                assert_eq!(shown(got), pair(sum, format), "{line:?}");
                assert_eq!((a.cmp(&b) as i8).to_string(), order, "{line:?}");
            }
            ["mul", a, count, product, format] => {
                let count = count.parse().expect("a count");
                let got = quantity(a).checked_mul(count).expect("in range");
                assert_eq!(shown(got), pair(product, format), "{line:?}");
            }
            ["milli", a, rounded, format] => {
                let got = quantity(a).round_up_to_milli();
                assert_eq!(shown(got), pair(rounded, format), "{line:?}");
            }
            _ => panic!("{line:?}"),
        }
        lines += 1;
    }
    assert!(lines > 300, "{lines}");
}

#[test]
fn a_value_beyond_the_largest_suffix_is_kept_where_go_loses_it() {
    assert_eq!(quantity("1000E").to_string(), "1000E");
    assert_eq!(quantity("1000000E").to_string(), "1000000E");
    let exbi = quantity("1Ei").checked_mul(1024).expect("in range");
    assert_eq!(exbi.to_string(), "1024Ei");
}

#[test]
fn a_value_out_of_range_is_an_error_and_never_wraps() {
    for text in ["1e30", "1e99", "-1e2147483647", "1000000000000E"] {
        assert_eq!(
            Quantity::parse(text),
            Err(QuantityError::TooLarge),
            "{text}"
        );
    }
    let long = "9".repeat(10_000);
    assert_eq!(Quantity::parse(&long), Err(QuantityError::TooLarge));
    assert_eq!(
        quantity(&format!("{long}Ki")).to_string(),
        i64::MAX.to_string()
    );
    assert_eq!(
        quantity(&format!("0.{}1", "0".repeat(10_000))).to_string(),
        "1n"
    );
    assert_eq!(quantity("1e-2000000000").to_string(), "1e-9");
    assert_eq!(quantity("1e4294967296").to_string(), "1");
    let large = quantity("1e29");
    assert!(large.checked_add(large).is_none());
    assert!(large.checked_mul(u64::MAX).is_none());
    let edge = Quantity {
        nanos: LARGEST - 1,
        format: Format::DecimalSI,
    };
    assert_eq!(edge.round_up_to_milli().nanos, LARGEST);
}

#[test]
fn each_kind_of_fault_has_its_own_error() {
    for (text, error) in [
        ("", QuantityError::Format),
        ("1 Gi", QuantityError::Format),
        ("1GB", QuantityError::Format),
        ("1KI", QuantityError::Format),
        ("1Kii", QuantityError::Suffix),
        ("1e", QuantityError::Suffix),
        ("Ei", QuantityError::Numeric),
    ] {
        assert_eq!(Quantity::parse(text), Err(error), "{text:?}");
    }
}

#[test]
fn the_greater_of_two_equals_is_the_left_one() {
    assert_eq!(quantity("1Ki").max(quantity("1024")).to_string(), "1Ki");
    assert_eq!(quantity("1024").max(quantity("1Ki")).to_string(), "1024");
}

#[test]
fn json_strings_numbers_and_null_are_read_as_go_reads_them() {
    for (json, canonical) in [
        (r#""500m""#, "500m"),
        (r#"" 2Gi ""#, "2Gi"),
        ("2", "2"),
        ("-3", "-3"),
        ("1.5", "1500m"),
        ("0.1", "100m"),
        ("18446744073709551615", "18446744073709551615"),
        ("null", "0"),
    ] {
        let read: Quantity = serde_json::from_str(json).expect(json);
        assert_eq!(read.to_string(), canonical, "{json}");
    }
}

#[test]
fn a_serde_error_names_the_text_and_the_reason() {
    let error = serde_json::from_str::<Quantity>(r#""1x""#).expect_err("no quantity");
    assert!(
        error
            .to_string()
            .starts_with(r#"quantity "1x": quantities must match"#),
        "{error}"
    );
    let error = serde_json::from_str::<Quantity>("true").expect_err("no quantity");
    assert!(error.to_string().contains("a quantity"), "{error}");
}

fn any_quantity() -> impl Strategy<Value = Quantity> {
    let format = prop_oneof![
        Just(Format::BinarySI),
        Just(Format::DecimalSI),
        Just(Format::DecimalExponent)
    ];
    // Within what a binary suffix may hold, as larger ones are capped when read.
    let nanos = prop_oneof![
        -INT64_MAX_NANOS..=INT64_MAX_NANOS,
        (i64::MIN + 1..i64::MAX).prop_map(|n| i128::from(n) * NANOS),
        (-4096i128..4096, 0u32..6).prop_map(|(n, k)| n * NANOS * 1024i128.pow(k) / 1024),
        -4096i128..4096,
    ];
    (nanos, format).prop_map(|(nanos, format)| Quantity { nanos, format })
}

#[test]
fn a_binary_amount_without_a_binary_factor_is_decimal_when_it_is_read_again() {
    let plain = Quantity {
        nanos: -2_097_328_226_433_555_000 * NANOS,
        format: Format::BinarySI,
    };
    assert_eq!(plain.to_string(), "-2097328226433555000");
    let back = quantity("-2097328226433555000");
    assert_eq!(
        (back, back.to_string().as_str()),
        (plain, "-2097328226433555k")
    );
}

proptest! {
    #[test]
    fn what_is_printed_reads_back_as_the_same_value(a in any_quantity()) {
        let back = quantity(&a.to_string());
        prop_assert_eq!(back, a);
        // Once read, the words stay too. Not before: a binary amount without a factor of 1024
        // is printed plain, and plain is decimal, as in Go.
        let text = back.to_string();
        prop_assert_eq!(quantity(&text).to_string(), text);
    }

    #[test]
    fn a_sum_does_not_depend_on_the_order(a in any_quantity(), b in any_quantity()) {
        prop_assert_eq!(a.checked_add(b), b.checked_add(a));
    }

    #[test]
    fn order_agrees_with_the_value(a in any_quantity(), b in any_quantity()) {
        prop_assert_eq!(a.cmp(&b), a.nanos.cmp(&b.nanos));
        prop_assert_eq!(a == b, a.nanos == b.nanos);
        prop_assert!(a.max(b) >= a && a.max(b) >= b);
    }

    #[test]
    fn no_text_makes_the_parser_panic(text in any::<String>()) {
        let _ = Quantity::parse(&text);
    }

    #[test]
    fn no_near_quantity_makes_the_parser_panic(
        text in "[+-]?[0-9.]{0,50}[eEinumkKMGTP]{0,3}[-+]?[0-9]{0,25}"
    ) {
        if let Ok(read) = Quantity::parse(&text) {
            let _ = (read.to_string(), read.round_up_to_milli());
        }
    }
}
