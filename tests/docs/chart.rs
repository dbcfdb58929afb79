//! The chart's values are documented, and its constants are Muster's own.

use std::collections::BTreeMap;

use muster::cli::yaml;
use serde_json::Value;

use crate::page::read;

fn document(path: &str) -> Value {
    let mut documents = yaml::documents(&read(path));
    documents.pop().unwrap().unwrap().value
}

/// The values that hold no others, by their paths.
fn leaves(value: &Value, at: &str, found: &mut BTreeMap<String, Value>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            for (key, value) in map {
                let at = if at.is_empty() {
                    key.clone()
                } else {
                    format!("{at}.{key}")
                };
                leaves(value, &at, found);
            }
        }
        None => {
            found.insert(at.to_owned(), value.clone());
        }
    }
}

#[test]
fn every_value_of_the_chart_is_documented_with_its_default() {
    let mut values = BTreeMap::new();
    leaves(&document("manifests/helm/values.yaml"), "", &mut values);
    let page = read("docs/install.md");
    let section = page.split("\n| value | by default | does |\n").nth(1);
    let rows = section.unwrap().lines().skip(1);
    let rows = rows.take_while(|line| line.starts_with('|'));
    let documented: BTreeMap<String, String> = rows
        .map(|row| {
            let mut cells = row.split('|').skip(1).map(str::trim);
            let value = cells.next().unwrap().trim_matches('`');
            (value.to_owned(), cells.next().unwrap().to_owned())
        })
        .collect();
    let shown = |value: &Value| match value {
        Value::String(text) if text.is_empty() => String::new(),
        Value::String(text) => format!("`{text}`"),
        other => format!("`{other}`"),
    };
    let values: BTreeMap<String, String> = values
        .into_iter()
        .map(|(path, value)| (path, shown(&value)))
        .collect();
    assert_eq!(documented, values);
}

#[test]
fn the_chart_has_musters_version_and_schedulers() {
    let chart = document("manifests/helm/Chart.yaml");
    for field in ["version", "appVersion"] {
        assert_eq!(chart[field], env!("CARGO_PKG_VERSION"), "{field}");
    }
    let schema: Value = serde_json::from_str(&read("manifests/helm/values.schema.json")).unwrap();
    for at in [
        "/properties/scheduler/enum",
        "/properties/test/properties/scheduler/enum",
    ] {
        let known = schema.pointer(at).unwrap().as_array().unwrap();
        let known: Vec<&str> = known.iter().filter_map(Value::as_str).collect();
        let expected = [vec![""], muster::scheduler::names()].concat();
        assert_eq!(known, expected, "{at}");
    }
}

/// The overlays of the page are those that there are, each with its component.
#[test]
fn every_overlay_is_in_the_table() {
    let page = read("docs/install.md");
    let mut overlays = 0;
    for entry in std::fs::read_dir(crate::page::root().join("manifests")).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.path().join("kustomization.yaml").exists() {
            let row = format!("| `manifests/{name}` |");
            assert!(page.contains(&row), "no row of {name}");
            let alone = ["base", "monitoring", "policies"].contains(&name.as_str());
            let component = entry.path().join("component/kustomization.yaml").exists();
            assert_eq!(component, !alone, "{name}");
            overlays += 1;
        }
    }
    assert_eq!(overlays, page.matches("\n| `manifests/").count());
}
