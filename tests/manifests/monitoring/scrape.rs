//! What a replica shows at `/metrics`, read from a real server with all that registers there.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use muster::certs::{Clients, Subject};
use muster::cli::admit;
use muster::controller::Metrics;
use muster::controller::decide::{self, Seen, State};
use muster::gang::SchedulerKind;
use muster::leader::Leadership;
use muster::scheduler::{Dialect, Snapshot};
use muster::server::Server;
use muster::workload::{Object, jobset};
use serde_json::json;

use crate::documents;
use crate::support::client::{Http1, admin, review};
use crate::support::strict::Authority;
use crate::support::{config, echo, in_memory, run};

type Labels = BTreeMap<String, String>;

/// The series of a page, by name.
pub struct Page {
    /// The names as queries say them, with the type.
    families: BTreeMap<String, String>,
    series: BTreeMap<String, Vec<Labels>>,
}

/// A replica that leads, has gangs in every state and has answered a review.
pub async fn page() -> Page {
    let mut server = Server::bind(config(), Arc::new(in_memory(Subject::default())), echo())
        .await
        .unwrap();
    let (_leadership, leads) = tokio::sync::watch::channel(Leadership::Leader);
    let metrics = Metrics::register(server.registry(), leads);
    stand(&metrics);
    let server = run(server);
    let mut connection = Http1::connect(&server).await;
    connection.send(review("/mutate", "{}")).await.unwrap();
    let mut text = admin(server.admin, "/metrics").await.text;
    text.push_str(&of_client_cas().await);
    Page::read(&text)
}

/// What only a server shows that demands certificates.
async fn of_client_cas() -> String {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("ca.crt");
    std::fs::write(&file, Authority::new().pem).unwrap();
    let certificates = Arc::new(in_memory(Subject::default()));
    let mut server = Server::bind(config(), certificates, echo()).await.unwrap();
    let clients = Clients::open(&file, &["kube-apiserver".to_owned()]).unwrap();
    server.demand_certificates(clients).unwrap();
    let server = run(server);
    let page = admin(server.admin, "/metrics").await.text;
    let of_clients = page.lines().filter(|line| line.contains("_client_ca_"));
    of_clients.map(|line| format!("{line}\n")).collect()
}

/// Three gangs of a JobSet: one is empty, one waits, one is placed.
fn stand(metrics: &Metrics) {
    let cluster = Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37);
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let written = &documents(&fixtures.join("rules/accepted-job-replicas.yaml"))[0];
    let admitted = admit::create(&jobset::KIND, written, &cluster).unwrap();
    let mut stored = admitted.object;
    stored["metadata"]["uid"] = json!("4d1c");
    let json = stored.to_string();
    let object = Object::read(&jobset::KIND, &json);
    let workload = object.workload().unwrap();
    let seen = Seen {
        workload,
        namespace: "ml",
        pods: &[],
        strangers: &[],
        made: &[],
        partners: &[],
        owner: None,
        waiters: &[],
        now: Timestamp::now(),
    };
    let mut actions = decide::decide(&seen, &cluster);
    assert_eq!(actions.gangs.len(), 3);
    actions.gangs[1].state = State::Waiting;
    actions.gangs[2].state = State::Scheduled;
    metrics.of(workload.facts()).stand("4d1c", &actions, &[]);
}

impl Page {
    fn read(text: &str) -> Self {
        let (mut families, mut series) = (BTreeMap::new(), BTreeMap::new());
        for line in text.lines() {
            if let Some(typed) = line.strip_prefix("# TYPE ") {
                let (name, of_type) = typed.split_once(' ').unwrap();
                let suffix = if of_type == "counter" { "_total" } else { "" };
                families.insert(format!("{name}{suffix}"), of_type.to_owned());
            } else if !line.starts_with('#') {
                let (name, labels) = read_series(line);
                let all: &mut Vec<Labels> = series.entry(name).or_default();
                all.push(labels);
            }
        }
        Self { families, series }
    }

    /// The names of all metrics, as queries say them; a histogram's without what comes after it.
    pub fn families(&self) -> BTreeSet<String> {
        self.families.keys().cloned().collect()
    }

    /// The metric that a series belongs to.
    pub fn family_of(&self, name: &str) -> String {
        let suffixes = ["_bucket", "_sum", "_count"].iter();
        let mut bases = suffixes.filter_map(|suffix| name.strip_suffix(suffix));
        let base = bases.find(|base| self.families.get(*base).is_some_and(|t| t == "histogram"));
        base.unwrap_or(name).to_owned()
    }

    /// The labels of a metric, if there is one; those of a histogram without its buckets' bounds.
    pub fn labels(&self, name: &str) -> Option<BTreeSet<String>> {
        let histogram = self.families.get(name).is_some_and(|t| t == "histogram");
        let name = match histogram {
            true => format!("{name}_count"),
            false => name.to_owned(),
        };
        let labels = self.series.get(&name)?.iter().flat_map(|l| l.keys());
        Some(labels.filter(|label| *label != "le").cloned().collect())
    }

    /// The values that a label has.
    pub fn values(&self, name: &str, label: &str) -> BTreeSet<&str> {
        let series = self.series.get(name).into_iter().flatten();
        let values = series.filter_map(|labels| labels.get(label));
        values.map(String::as_str).collect()
    }
}

fn read_series(line: &str) -> (String, Labels) {
    let Some((name, rest)) = line.split_once('{') else {
        return (line.split(' ').next().unwrap().to_owned(), Labels::new());
    };
    let inside = rest.split('}').next().unwrap();
    let label = |text: &str| {
        let (label, value) = text.split_once('=').unwrap();
        (label.to_owned(), value.trim_matches('"').to_owned())
    };
    (name.to_owned(), inside.split(',').map(label).collect())
}
