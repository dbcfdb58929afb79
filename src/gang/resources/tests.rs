use std::fs;
use std::path::Path;

use super::*;

#[derive(Deserialize)]
struct Known<'a> {
    #[serde(borrow)]
    spec: PodResources<'a>,
    requests: BTreeMap<String, String>,
}

fn printed(list: &ResourceList) -> BTreeMap<String, String> {
    list.iter()
        .map(|(resource, quantity)| (resource.to_owned(), quantity.to_string()))
        .collect()
}

fn list(json: &str) -> ResourceList {
    serde_json::from_str(json).expect("a resource list")
}

#[test]
fn every_pod_is_counted_as_kubernetes_counts_it() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/resources");
    let mut cases = 0;
    for entry in fs::read_dir(folder).expect("the fixtures") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().expect("a name").to_string_lossy();
        let text = fs::read_to_string(&path).expect("a text");
        let known: Known<'_> = serde_json::from_str(&text).expect(&name);
        let requests = pod_requests(&known.spec).expect("a sum");
        assert_eq!(printed(&requests), known.requests, "{name}");
        cases += 1;
    }
    assert!(cases >= 25, "{cases}");
}

#[test]
fn names_are_borrowed_from_the_text() {
    let text = r#"{"containers":[{"name":"a","restartPolicy":"Always","image":"x"}]}"#;
    let pod: PodResources<'_> = serde_json::from_str(text).expect("a pod");
    assert!(matches!(pod.containers[0].name, Cow::Borrowed("a")));
    assert!(matches!(
        pod.containers[0].restart_policy,
        Some(Cow::Borrowed("Always"))
    ));
}

#[test]
fn a_broken_quantity_is_named_with_its_path() {
    let text = r#"{"containers":[{"resources":{"limits":{"cpu":"1x"}}}]}"#;
    let mut json = serde_json::Deserializer::from_str(text);
    let error = serde_path_to_error::deserialize::<_, PodResources<'_>>(&mut json)
        .expect_err("no quantity");
    assert_eq!(
        error.path().to_string(),
        "containers[0].resources.limits.cpu"
    );
    let reason = error.inner().to_string();
    assert!(reason.starts_with(r#"quantity "1x": "#), "{reason}");
}

#[test]
fn a_merge_keeps_the_greater_and_what_only_one_side_names() {
    let mut left = list(r#"{"a":"1","b":"1Ki","c":"3"}"#);
    left.max_merge(&list(r#"{"a":"2","b":"1024","d":"4"}"#));
    let printed = serde_json::to_string(&left).expect("json");
    assert_eq!(printed, r#"{"a":"2","b":"1Ki","c":"3","d":"4"}"#);
}

#[test]
fn an_overflow_names_the_resource() {
    let mut large = list(r#"{"example.com/x":"1e29"}"#);
    let expected = OverflowError {
        resource: "example.com/x".to_owned(),
    };
    assert_eq!(large.clone().checked_add(&large), Err(expected.clone()));
    large.insert("cpu", Quantity::from_units(1));
    let container = Container {
        resources: Some(Requirements {
            requests: large,
            ..Requirements::default()
        }),
        ..Container::default()
    };
    let pod = PodResources {
        containers: vec![container.clone(), container].into(),
        ..PodResources::default()
    };
    assert_eq!(pod_requests(&pod), Err(expected));
}
