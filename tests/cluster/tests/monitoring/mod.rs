//! How Muster is watched: what it counts in a cluster, and whether Prometheus understands the alerts.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::words::{WHOLE, group, jobset};
use crate::manifests::render;
use crate::muster;
use crate::sandbox::Sandbox;

const MANIFESTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/monitoring");

/// Series that come in, and the alerts that must follow.
const EXAMPLES: &str = include_str!("alerts.yaml");

/// By Prometheus's own code, on what `kubectl apply -k` would install; and the queries of the dashboard.
pub async fn the_alerts_are_valid(sandbox: Sandbox) -> Result<()> {
    let components = sandbox.cluster.plane.components();
    let objects = render(components, Path::new(MANIFESTS))?;
    let of_kind = |kind: &str| {
        let found = objects.iter().find(|object| object["kind"] == kind);
        found.with_context(|| format!("there is no {kind}"))
    };
    ensure!(of_kind("ServiceMonitor")?["metadata"]["namespace"] == "muster-system");
    let rules = &of_kind("PrometheusRule")?["spec"];
    let queries = queries(of_kind("ConfigMap")?)?;
    ensure!(queries.len() > 20, "{queries:?}");

    let dir = tempfile::tempdir()?;
    let write = |name: &str, text: &[u8]| fs::write(dir.path().join(name), text);
    write("rules.json", &serde_json::to_vec(rules)?)?;
    write("alerts.yaml", EXAMPLES.as_bytes())?;
    write("queries.json", &serde_json::to_vec(&queries)?)?;
    let output = components
        .program("prometheus-alerts")?
        .args(["rules.json", "alerts.yaml", "queries.json"])
        .current_dir(dir.path())
        .output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

/// What the dashboard of a ConfigMap asks Prometheus for.
fn queries(map: &Value) -> Result<Vec<String>> {
    let found = &map["metadata"]["labels"]["grafana_dashboard"];
    ensure!(found == "1", "{found}");
    let text = map["data"]["muster.json"].as_str();
    let dashboard: Value = serde_json::from_str(text.context("it has no dashboard")?)?;
    let panels = dashboard["panels"].as_array().into_iter().flatten();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().into_iter().flatten());
    // Grafana puts in the span between two scrapes, and more.
    let queries = targets.filter_map(|target| target["expr"].as_str());
    let queries = queries.map(|query| query.replace("$__rate_interval", "5m"));
    Ok(queries.collect())
}

/// The sum of the series that begin so.
async fn sum(sandbox: &Sandbox, series: &str) -> Result<f64> {
    muster::sum(&sandbox.cluster.metrics().await?, series)
}

impl Sandbox {
    /// Muster has counted something of which series begin so.
    pub async fn counted(&self, series: &str) -> Result<()> {
        self.wait_for(&format!("{series} to rise"), async || {
            let counted = sum(self, series).await?;
            ensure!(counted >= 1.0, "it is {counted}");
            Ok(())
        })
        .await
    }
}

/// Others use the same Muster: what rises may rise by more.
pub async fn a_gang_that_waits_is_counted_until_it_is_placed(sandbox: Sandbox) -> Result<()> {
    const WAITING: &str = r#"muster_gangs{state="waiting",scheduler="native","#;
    const PLACED: &str = r#"muster_gang_wait_seconds_count{scheduler="native"}"#;
    const LOOKS: &str = r#"muster_looks_total{kind="JobSet"}"#;
    ensure!(sum(&sandbox, "muster_leader ").await? == 1.0);
    ensure!(sum(&sandbox, "muster_ready ").await? == 1.0);
    sandbox.nodes(1, 2).await?;
    let text = jobset(WHOLE, "", &[group("workers", 1, 3, "")]);
    sandbox.apply(&text).await?;
    sandbox.told("GangWaiting").await?;
    sandbox
        .wait_for("the gang to be counted", async || {
            let (waiting, looks) = (sum(&sandbox, WAITING).await?, sum(&sandbox, LOOKS).await?);
            ensure!(waiting >= 1.0 && looks >= 1.0, "{waiting}, {looks}");
            let oldest = sum(&sandbox, "muster_gang_oldest_wait_seconds").await?;
            ensure!(oldest >= 1.0, "{oldest} s");
            Ok(())
        })
        .await?;
    let before = sum(&sandbox, PLACED).await?;
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(3).await?;
    sandbox
        .wait_for("its wait to be counted", async || {
            let placed = sum(&sandbox, PLACED).await?;
            ensure!(placed > before, "{placed}");
            Ok(())
        })
        .await
}
