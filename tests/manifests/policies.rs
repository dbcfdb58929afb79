//! The policies in CEL, as far as their texts tell: who is looked at, and that what is written twice
//! says the same.

use std::collections::BTreeMap;
use std::path::Path;

use muster::gang::SchedulerKind;
use muster::scheduler::links;
use serde_json::{Value, json};

use crate::{documents, list, words};

const FOLDER: &str = "manifests/policies";

fn policies() -> Vec<(Value, Value)> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(FOLDER);
    let files = words(&documents(&dir.join("kustomization.yaml"))[0]["resources"]);
    let found = std::fs::read_dir(&dir).unwrap().count();
    assert_eq!(files.len() + 1, found, "a file that is not installed");
    let pair = |name: &String| match &documents(&dir.join(name))[..] {
        [policy, binding] => (policy.clone(), binding.clone()),
        others => panic!("{name} has {} documents", others.len()),
    };
    files.iter().map(pair).collect()
}

/// The variables of a policy, by their names.
fn variables(policy: &Value) -> BTreeMap<String, String> {
    let variables = list(&policy["spec"]["variables"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let named = variables.iter();
    named
        .map(|variable| (text(&variable["name"]), text(&variable["expression"])))
        .collect()
}

#[test]
fn every_policy_has_a_binding_that_denies() {
    for (policy, binding) in policies() {
        assert_eq!(policy["kind"], "ValidatingAdmissionPolicy");
        assert_eq!(binding["kind"], "ValidatingAdmissionPolicyBinding");
        let name = &policy["metadata"]["name"];
        assert_eq!(binding["metadata"]["name"], *name);
        assert_eq!(binding["spec"]["policyName"], *name);
        assert_eq!(words(&binding["spec"]["validationActions"]), ["Deny"]);
        // It binds all that the policy matches.
        assert_eq!(binding["spec"].as_object().unwrap().len(), 2, "{name}");
        assert_eq!(policy["spec"]["failurePolicy"], "Fail", "{name}");
    }
}

#[test]
fn policies_look_at_gangs_only_and_spare_the_system_and_what_is_deleted() {
    let spared = json!({"matchExpressions": [{
        "key": "kubernetes.io/metadata.name",
        "operator": "NotIn",
        "values": ["kube-system", "muster-system"],
    }]});
    for (policy, _) in policies() {
        let name = &policy["metadata"]["name"];
        let matched = &policy["spec"]["matchConstraints"];
        assert_eq!(matched["namespaceSelector"], spared, "{name}");
        for rule in list(&matched["resourceRules"]) {
            assert_eq!(words(&rule["operations"]), ["CREATE", "UPDATE"], "{name}");
            assert_eq!(rule["scope"], "Namespaced", "{name}");
        }
        let conditions = list(&policy["spec"]["matchConditions"]);
        let of = |name: &str| {
            let found = conditions
                .iter()
                .find(|condition| condition["name"] == name);
            found.unwrap()["expression"].as_str().unwrap()
        };
        assert!(of("gang").contains("k.startsWith('muster.dev/')"), "{name}");
        assert_eq!(of("alive"), "!has(object.metadata.deletionTimestamp)");
    }
}

/// CEL has no functions: what several policies need stands in each of them.
#[test]
fn what_has_the_same_name_says_the_same() {
    let shared = [
        "written",
        "writtenLabels",
        "mutable",
        "links",
        "words",
        "values",
        "named",
        "partners",
    ];
    for name in shared {
        let policies = policies();
        let texts = policies.iter().filter_map(|(policy, _)| {
            let text = variables(policy).remove(name)?;
            // But for the kind, and the other kind of an example.
            let kind = |text: String| text.replace("JobSet:", "Job:").replace("'JobSet'", "'Job'");
            Some(kind(text))
        });
        let texts: Vec<String> = texts.collect();
        assert!(texts.len() > 1, "{name} is in one policy only");
        assert!(texts.iter().all(|text| *text == texts[0]), "{name}");
    }
    for (policy, _) in policies() {
        let [validation] = &list(&policy["spec"]["validations"])[..] else {
            panic!("one validation gives all errors");
        };
        assert_eq!(validation["expression"], "variables.errors == []");
    }
}

/// A rule that is not listed is never looked at.
#[test]
fn every_rule_counts() {
    for (policy, _) in policies() {
        let all = variables(&policy);
        for name in all.keys().filter(|name| *name != "errors") {
            let used = all
                .values()
                .any(|text| text.contains(&format!("variables.{name}")));
            assert!(used, "{}: {name}", policy["metadata"]["name"]);
        }
    }
}

#[test]
fn the_links_and_the_schedulers_are_those_of_musters_tables() {
    let mut known = 0;
    for (policy, _) in policies() {
        let variables = variables(&policy);
        let Some(listed) = variables.get("links") else {
            continue;
        };
        for link in links() {
            let field = ["schedulingGroup", "workloadRef"].contains(&link.key);
            let quoted = format!("'{}'", link.key);
            let found = match field {
                true => variables["views"].contains(&format!(".?{}.hasValue()", link.key)),
                false => listed.contains(&quoted),
            };
            assert!(found, "{}", link.key);
        }
        let keys = links().filter(|link| link.scheduler != SchedulerKind::NATIVE);
        assert_eq!(listed.matches('\'').count() / 2, keys.count());
        let schedulers = muster::scheduler::names();
        let schedulers = format!("['{}']", schedulers.join("', '"));
        assert!(variables["words"].contains(&schedulers), "{schedulers}");
        known += 1;
    }
    assert_eq!(known, 3);
}
