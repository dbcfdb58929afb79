//! Every value of the chart: what it changes, and what it refuses.

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::rows::ROWS;
use crate::helm::{CHART, Helm, Rendered};
use crate::install::NAMESPACE;
use crate::manifests::parse;
use crate::sandbox::Sandbox;

/// `values.yaml`, as it is.
fn defaults() -> Result<Value> {
    let text = fs::read_to_string(format!("{CHART}/values.yaml"))?;
    parse(&text)?.pop().context("no values")
}

/// The values that hold no others, by their paths; and the maps that do.
fn paths(value: &Value, at: &str, leaves: &mut Vec<String>, maps: &mut Vec<String>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => {
            maps.push(at.to_owned());
            for (key, value) in map {
                let at = match at {
                    "" => key.clone(),
                    at => format!("{at}.{key}"),
                };
                paths(value, &at, leaves, maps);
            }
        }
        None => leaves.push(at.to_owned()),
    }
}

/// What is different, a line each: the object, the field, and what it is now.
fn differences(before: &Rendered, after: &Rendered) -> BTreeSet<String> {
    let mut lines = BTreeSet::new();
    for ((kind, _, name), object) in before {
        // A hook is named like the others of its kind.
        let id = (kind.clone(), namespace(object), name.clone());
        match after.get(&id) {
            Some(now) => compare(object, now, &format!("{kind} {name} "), &mut lines),
            None => {
                lines.insert(format!("{kind} {name} is gone"));
            }
        }
    }
    for id in after.keys().filter(|id| !before.contains_key(id)) {
        lines.insert(format!("{} {} is new", id.0, id.2));
    }
    lines
}

fn namespace(object: &Value) -> String {
    let namespace = object["metadata"]["namespace"].as_str();
    namespace.unwrap_or_default().to_owned()
}

fn compare(before: &Value, now: &Value, at: &str, lines: &mut BTreeSet<String>) {
    match (before, now) {
        (Value::Object(old), Value::Object(new)) => {
            let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
            for key in keys {
                compare(&before[key], &now[key], &format!("{at}/{key}"), lines);
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                // All webhooks of a configuration are changed alike.
                let place = match at.ends_with("/webhooks") {
                    true => "*".to_owned(),
                    false => index.to_string(),
                };
                let of = |list: &[Value]| list.get(index).cloned().unwrap_or_default();
                compare(&of(old), &of(new), &format!("{at}/{place}"), lines);
            }
        }
        (_, Value::Null) if !before.is_null() => {
            lines.insert(format!("{at} is gone"));
        }
        _ if before != now => {
            lines.insert(format!("{at}: {now}"));
        }
        _ => {}
    }
}

/// A value without a row is a value that nobody has tried.
pub async fn each_value_changes_what_its_row_says(sandbox: Sandbox) -> Result<()> {
    let (mut leaves, mut maps) = (Vec::new(), Vec::new());
    paths(&defaults()?, "", &mut leaves, &mut maps);
    let leaves: BTreeSet<&str> = leaves.iter().map(String::as_str).collect();
    let rows: BTreeSet<&str> = ROWS.iter().map(|row| row.value).collect();
    ensure!(
        leaves == rows,
        "values without a row or rows without a value: {:?}",
        leaves.symmetric_difference(&rows).collect::<Vec<_>>()
    );
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let mut wrong = Vec::new();
    for row in ROWS {
        let args = |sets: &[&'static str]| -> Vec<&str> {
            sets.iter().flat_map(|set| ["--set-json", set]).collect()
        };
        let before = helm.template(CHART, NAMESPACE, &args(row.given))?;
        let sets = [row.given, &[row.set]].concat();
        let after = helm.template(CHART, NAMESPACE, &args(&sets))?;
        let found = differences(&before, &after);
        let expected: BTreeSet<String> = row.changes.iter().map(|&line| line.to_owned()).collect();
        if found != expected {
            let found: Vec<String> = found.into_iter().collect();
            wrong.push(format!("{}:\n  {}", row.set, found.join("\n  ")));
        }
        ensure!(row.set.starts_with(row.value), "{}", row.set);
        tokio::task::yield_now().await;
    }
    ensure!(wrong.is_empty(), "other changes:\n{}", wrong.join("\n"));
    Ok(())
}

/// Every value and every map of values, each with something that it cannot be.
pub async fn the_schema_refuses_wrong_types_and_unknown_values(sandbox: Sandbox) -> Result<()> {
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let lint = helm.printed(&["lint", "--strict", CHART])?;
    ensure!(lint.contains("0 chart(s) failed"), "{lint}");
    // Where this chart is a dependency of another, Helm adds its own.
    helm.template(CHART, NAMESPACE, &["--set", "global.any=1"])?;

    let defaults = defaults()?;
    let (mut leaves, mut maps) = (Vec::new(), Vec::new());
    paths(&defaults, "", &mut leaves, &mut maps);
    for leaf in &leaves {
        let pointer = format!("/{}", leaf.replace('.', "/"));
        let value = defaults.pointer(&pointer).context("it is there")?;
        let wrong = match value {
            Value::Object(_) | Value::Array(_) => "\"words\"",
            _ => "{\"a\": [1]}",
        };
        // Kubernetes knows what a quantity is.
        let set = match leaf.strip_prefix("resources.") {
            Some(rest) => {
                let map = rest.split('.').next().unwrap_or_default();
                format!("resources.{map}=[1]")
            }
            None => format!("{leaf}={wrong}"),
        };
        let said = helm.refused(&["template", "muster", CHART, "--set-json", &set])?;
        ensure!(said.contains("schema"), "{set}: {said}");
        tokio::task::yield_now().await;
    }
    for map in maps.iter().filter(|map| !map.starts_with("resources.")) {
        let set = match map.as_str() {
            "" => "unknown=1".to_owned(),
            map => format!("{map}.unknown=1"),
        };
        let said = helm.refused(&["template", "muster", CHART, "--set", &set])?;
        ensure!(said.contains("'unknown' not allowed"), "{set}: {said}");
    }
    for set in [
        "scheduler=vulcano",
        "leaderWorkerSets=none",
        "replicas=0",
        "ports.webhook=65536",
        "image.digest=sha256:abc",
        "monitoring.interval=often",
        "test.timeout=1",
        "test.namespace=Default",
        "networkPolicy.controlPlane={10.0.0.1}",
        "extraArgs={serve}",
        "certManager.issuerRef.kind=ClusterIssuer",
    ] {
        let said = helm.refused(&["template", "muster", CHART, "--set", set])?;
        ensure!(said.contains("schema"), "{set}: {said}");
    }
    Ok(())
}

pub async fn values_that_cannot_hold_together_are_refused(sandbox: Sandbox) -> Result<()> {
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    for (set, why) in [
        ("replicas=1", "it would hold up every drain"),
        ("lameDuckSeconds=5", "/lameDuckSeconds"),
        (
            "networkPolicy.enabled=true",
            "networkPolicy.controlPlane must have the addresses",
        ),
        (
            "hostNetwork=true,networkPolicy.enabled=true,networkPolicy.controlPlane={192.0.2.0/24}",
            "exclude each other",
        ),
    ] {
        let said = helm.refused(&["template", "muster", CHART, "--set", set])?;
        ensure!(said.contains(why), "{set}: {said}");
    }
    let old = ["template", "muster", CHART, "--kube-version", "1.29.9"];
    let said = helm.refused(&old)?;
    ensure!(said.contains(">=1.30.0"), "{said}");
    let alone = ["--set", "replicas=1,podDisruptionBudget.enabled=false"];
    helm.template(CHART, NAMESPACE, &alone)?;
    Ok(())
}

const NOTES: &str = "\
Muster VERSION is installed in gangs. Wait for it, and try it:

  kubectl --namespace gangs rollout status deployment/muster
  helm test scheduling --namespace gangs

Then a workload with the annotation muster.dev/gang-mode is a gang: muster status lists them.

Its pods need no more than the Pod Security standard STANDARD, which the namespace may enforce:

  kubectl label namespace gangs pod-security.kubernetes.io/enforce=STANDARD
";

/// Where no image is named.
const NO_IMAGE: &str = "
WARNING: the image is muster:dev, which no registry has. Nodes that were not given it
cannot start it: build and push it, and name it with

  helm upgrade scheduling CHART --namespace gangs --reset-then-reuse-values \\
    --set image.repository=REGISTRY/muster,image.tag=TAG
";

pub async fn the_notes_say_the_next_command(sandbox: Sandbox) -> Result<()> {
    let helm = Helm::new(sandbox.cluster.plane.components())?;
    let named = "image.repository=registry.example.com/muster";
    let mirrored = "image.registry=registry.example.com";
    for (set, standard, image) in [
        (named.to_owned(), "restricted", ""),
        (mirrored.to_owned(), "restricted", ""),
        (format!("hostNetwork=true,{named}"), "privileged", ""),
        ("hostNetwork=false".to_owned(), "restricted", NO_IMAGE),
    ] {
        let install = ["install", "scheduling", CHART, "--namespace", "gangs"];
        let dry = ["--dry-run=client", "--set", &set];
        let printed = helm.printed(&[&install[..], &dry].concat())?;
        let (_, notes) = printed.split_once("\nNOTES:\n").context("no notes")?;
        let expected = NOTES.replace("STANDARD", standard) + image;
        let expected = expected.replace("VERSION", env!("CARGO_PKG_VERSION"));
        ensure!(notes.trim_end() == expected.trim_end(), "{notes}");
    }
    Ok(())
}
