//! What is watched of Muster is what Muster tells: each metric and label in the alerts, on the dashboard
//! and in the docs is one that a scrape shows.

mod promql;
mod scrape;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::{documents, list, object};
use promql::{Matching, Selector};
use scrape::{Page, page};

/// Labels that Prometheus itself gives to what it scrapes.
const OF_TARGETS: [&str; 4] = ["pod", "namespace", "job", "instance"];

fn monitoring(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("manifests/monitoring")
        .join(file)
}

fn alerts() -> Vec<Value> {
    let rules = &documents(&monitoring("rules.yaml"))[0];
    let groups = list(&rules["spec"]["groups"]);
    groups.iter().flat_map(|g| list(&g["rules"])).collect()
}

fn panels() -> Vec<Value> {
    let text = std::fs::read_to_string(monitoring("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    list(&dashboard["panels"])
}

/// Where it stands, and an expression.
fn expressions() -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut all = Vec::new();
    for alert in alerts() {
        all.push((text(&alert["alert"]), text(&alert["expr"])));
    }
    for panel in panels() {
        for target in list(&panel["targets"]) {
            all.push((text(&panel["title"]), text(&target["expr"])));
        }
    }
    all
}

fn check(page: &Page, place: &str, expr: &str) {
    let selectors = promql::selectors(expr);
    let mut known: BTreeSet<String> = OF_TARGETS.iter().map(|l| (*l).to_owned()).collect();
    for Selector { metric, matchers } in &selectors {
        let labels = page.labels(metric);
        let labels = labels.unwrap_or_else(|| panic!("{place}: there is no {metric}"));
        for (label, matching, value) in matchers {
            assert!(labels.contains(label), "{place}: {metric} has no {label}");
            let shown = page.values(metric, label);
            let values: Vec<&str> = match matching {
                Matching::Is => vec![value],
                Matching::IsOneOf => value.split('|').collect(),
                Matching::IsNot => Vec::new(),
            };
            for value in values {
                assert!(shown.contains(value), "{place}: {metric} has no {value:?}");
            }
        }
        known.extend(labels);
    }
    for label in promql::grouped_by(expr) {
        assert!(known.contains(&label), "{place}: nothing has {label}");
    }
}

#[tokio::test]
async fn every_metric_of_the_alerts_and_of_the_dashboard_is_served() {
    let page = page().await;
    let (mut checked, mut watched) = (0, BTreeSet::new());
    for (place, expr) in expressions() {
        check(&page, &place, &expr);
        let selectors = promql::selectors(&expr).into_iter();
        watched.extend(selectors.map(|selector| page.family_of(&selector.metric)));
        checked += 1;
    }
    assert!(checked >= 40, "only {checked} expressions found");
    let unwatched: Vec<_> = page.families().difference(&watched).cloned().collect();
    assert!(unwatched.is_empty(), "on no panel: {unwatched:?}");
}

#[tokio::test]
async fn every_metric_is_in_the_docs_with_its_labels() {
    let page = page().await;
    let text = std::fs::read_to_string("docs/operating.md").unwrap();
    let mut documented = BTreeSet::new();
    for row in text.lines().filter(|line| line.starts_with("| `muster_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let metric = cells[1].trim_matches('`').to_owned();
        let labels = cells[2].split(", ").map(|l| l.trim_matches('`').to_owned());
        let labels: BTreeSet<String> = labels.filter(|label| !label.is_empty()).collect();
        let shown = page.labels(&metric);
        assert_eq!(shown, Some(labels), "{metric}");
        documented.insert(metric);
    }
    assert_eq!(documented, page.families());
}

#[test]
fn every_alert_says_what_is_wrong_and_how_bad_it_is() {
    let page = std::fs::read_to_string("docs/operating.md").unwrap();
    let mut names = BTreeSet::new();
    for alert in alerts() {
        let name = alert["alert"].as_str().unwrap().to_owned();
        assert!(name.starts_with("Muster"), "{name}");
        for text in ["summary", "description", "runbook"] {
            let said = alert["annotations"][text].as_str().unwrap_or_default();
            assert!(!said.is_empty(), "{name} has no {text}");
        }
        let severity = alert["labels"]["severity"].as_str().unwrap_or_default();
        let known = ["critical", "warning", "info"].contains(&severity);
        assert!(known, "{name}: {severity}");
        let row = format!("\n| `{name}` | {severity} | ");
        assert!(page.contains(&row), "docs/operating.md has no {row}");
        // What counts over a time needs no further patience.
        let over_a_time = alert["expr"].as_str().unwrap().contains("increase(");
        assert_ne!(alert["for"].is_string(), over_a_time, "{name}");
        assert!(names.insert(name.clone()), "{name} is there twice");
    }
    assert!(names.len() >= 10, "{names:?}");
}

#[test]
fn the_monitor_leads_to_the_admin_port() {
    let monitor = &documents(&monitoring("service-monitor.yaml"))[0];
    let (service, deployment) = (object("Service"), object("Deployment"));
    let labels = &service["metadata"]["labels"];
    assert_eq!(&monitor["spec"]["selector"]["matchLabels"], labels);
    let namespace = &monitor["spec"]["namespaceSelector"]["matchNames"][0];
    assert_eq!(namespace, &service["metadata"]["namespace"]);
    let endpoint = &monitor["spec"]["endpoints"][0];
    assert_eq!(endpoint["path"], "/metrics");
    let named = |ports: &Value, name: &Value| {
        let found = list(ports).into_iter().find(|port| port["name"] == *name);
        found.unwrap_or_else(|| panic!("no port {name}"))
    };
    let port = named(&service["spec"]["ports"], &endpoint["port"]);
    let container = &deployment["spec"]["template"]["spec"]["containers"][0];
    let port = named(&container["ports"], &port["targetPort"]);
    let admin = muster::server::Config::default().admin.port();
    assert_eq!(port["containerPort"], admin);
    let policy = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("manifests/network-policy/component/policy.yaml");
    let rules = list(&documents(&policy)[0]["spec"]["ingress"]);
    let open = |rule: &Value| rule["ports"][0]["port"] == port["name"];
    assert_eq!(rules.iter().filter(|rule| open(rule)).count(), 1);
}

#[test]
fn grafana_finds_the_dashboard_and_shows_each_panel_in_its_place() {
    let kustomization = &documents(&monitoring("kustomization.yaml"))[0];
    let generated = &kustomization["configMapGenerator"][0];
    assert_eq!(generated["files"][0], "muster.json=dashboard.json");
    assert_eq!(generated["options"]["labels"]["grafana_dashboard"], "1");
    let (mut ids, mut places) = (BTreeSet::new(), BTreeSet::new());
    for panel in panels() {
        let title = &panel["title"];
        assert!(ids.insert(panel["id"].as_u64().unwrap()), "{title}");
        let at = |side: &str| panel["gridPos"][side].as_u64().unwrap();
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(x < 24 && places.insert((x, y)), "{title} is on another");
            }
        }
    }
}
