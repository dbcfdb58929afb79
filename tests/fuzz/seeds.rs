//! The fixtures as seeds: their objects, the children that controllers would make of them, their
//! stamps and their texts.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::OnceLock;

use muster::cli::{admit, yaml};
use muster::workload::jobset::ChildRef;
use muster::workload::lws::children::{self, ReplicaRef};
use muster::workload::{Kind, job, jobset, lws, pods};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::backends::{self, Backend};
use crate::engine::files;
use crate::script::Sent;

/// A document of a fixture.
pub struct Seed {
    pub name: String,
    kind: &'static Kind,
    object: Value,
}

/// A child of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Which {
    /// The Job of a JobSet, or the leader of a LeaderWorkerSet.
    First,
    /// A pod of that Job, or a worker.
    Second,
}

/// The files of the fixtures, by folder and name.
fn sources() -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let mut sources = Vec::new();
    for folder in ["rules", "seeds", "updates"] {
        let files = files(&root.join(folder)).into_iter();
        for (name, bytes) in files.filter(|(name, _)| name.ends_with(".yaml")) {
            let text = String::from_utf8(bytes).unwrap();
            sources.push((format!("{folder}/{name}"), text));
        }
    }
    sources
}

/// The texts of the fixtures.
pub fn texts() -> impl Iterator<Item = String> {
    sources().into_iter().map(|(_, text)| text)
}

/// The documents of the fixtures that Muster handles.
pub fn seeds() -> &'static [Seed] {
    static SEEDS: OnceLock<Vec<Seed>> = OnceLock::new();
    SEEDS.get_or_init(|| {
        let mut seeds = Vec::new();
        for (name, text) in sources() {
            for (number, document) in yaml::documents(&text).into_iter().enumerate() {
                let object = document.unwrap().value;
                if let Some(kind) = admit::kind_of(&object) {
                    let name = format!("{name}#{number}");
                    seeds.push(Seed { name, kind, object });
                }
            }
        }
        seeds
    })
}

/// Objects of a kind, to take values from.
pub fn donors(kind: &Kind) -> Vec<&'static Value> {
    let same = seeds().iter().filter(|seed| seed.kind == kind);
    let same: Vec<&Value> = same.map(|seed| &seed.object).collect();
    match same.is_empty() {
        true => seeds().iter().map(|seed| &seed.object).collect(),
        false => same,
    }
}

impl Seed {
    /// The object itself, or a child of it, where it is admitted and has one.
    pub fn base(&self, child: Option<Which>, on: &Backend) -> Option<(&'static Kind, Value)> {
        let Some(which) = child else {
            return Some((self.kind, self.object.clone()));
        };
        let name = self.object["metadata"]["name"].as_str()?;
        if *self.kind == jobset::KIND {
            let stored = on.stored(&self.name, self.kind, &self.object)?;
            let group = &stored["spec"]["replicatedJobs"][0]["name"];
            let child = ChildRef {
                namespace: "ml",
                jobset: name,
                uid: "9d3f",
                replicated_job: group.as_str()?,
                index: 0,
                attempt: 0,
            };
            let made = jobset::job(&stored, child)?;
            return Some(match which {
                Which::First => (&job::KIND, made),
                Which::Second => (&pods::KIND, jobset::pod(&made)),
            });
        }
        if *self.kind != lws::KIND {
            return None;
        }
        let stored = on.stored(&self.name, self.kind, &self.object)?;
        let replica = ReplicaRef {
            namespace: "ml",
            name,
            index: 0,
            revision: "5c5fcdf76d",
        };
        let mut made = children::leader(&stored, replica);
        if which == Which::Second {
            made["metadata"]["labels"][lws::GROUP_KEY] = json!("0a1b");
            made = children::worker(&stored, replica, &made, 1);
        }
        Some((&pods::KIND, made))
    }
}

const STAMP: &str = "muster.dev/stamp";

/// Every stamp that the fixtures lead to.
pub fn stamps() -> Vec<String> {
    let mut stamps = BTreeSet::new();
    for backend in backends::all() {
        for seed in seeds() {
            if let Some((_, child)) = seed.base(Some(Which::First), backend) {
                let stamp = child["metadata"]["annotations"][STAMP].as_str();
                stamps.extend(stamp.map(str::to_owned));
            }
        }
    }
    stamps.into_iter().collect()
}

/// Children that carry a stamp: a Job, a pod of it, a leader and a worker.
pub fn stamped(on: &Backend, stamp: &str) -> Vec<Sent> {
    let mut children = Vec::new();
    for name in ["rules/accepted-job-replicas.yaml#0", "rules/lws.yaml#0"] {
        let seed = seeds().iter().find(|seed| seed.name == name).unwrap();
        for which in [Which::First, Which::Second] {
            let Some((kind, mut object)) = seed.base(Some(which), on) else {
                continue;
            };
            object["metadata"]["annotations"][STAMP] = json!(stamp);
            let old = None;
            children.push(Sent { kind, object, old });
        }
    }
    assert!(!children.is_empty(), "no children on {}", on.name);
    children
}
