//! The clusters that cases are sent to: one for each backend, dialect and way.

use std::collections::HashMap;
use std::sync::{Mutex, OnceLock};

use muster::cli::admit;
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, JobTemplates, Snapshot};
use muster::workload::{Kind, lws};
use serde_json::Value;

/// A backend, by the name that cases call it.
pub struct Backend {
    pub name: String,
    pub cluster: Snapshot,
    /// Fixtures as they are stored there; none where they are refused.
    stored: Mutex<HashMap<String, Option<Value>>>,
}

impl Backend {
    fn new(name: impl Into<String>, cluster: Snapshot) -> Self {
        let own_user = Some("system:serviceaccount:muster-system:muster".to_owned());
        Self {
            name: name.into(),
            cluster: Snapshot {
                own_user,
                ..cluster
            },
            stored: Mutex::default(),
        }
    }

    /// A fixture as it is stored, with its stamps.
    pub fn stored(&self, name: &str, kind: &'static Kind, object: &Value) -> Option<Value> {
        let mut stored = self.stored.lock().unwrap();
        let admitted = stored.entry(name.to_owned()).or_insert_with(|| {
            let admitted = admit::create(kind, object, &self.cluster).ok()?;
            admitted.errors.is_empty().then_some(admitted.object)
        });
        admitted.clone()
    }
}

/// Every backend that there is.
pub fn all() -> &'static [Backend] {
    static ALL: OnceLock<Vec<Backend>> = OnceLock::new();
    ALL.get_or_init(|| {
        let on = |kind| Snapshot::assumed(kind, Dialect::V1_37);
        let native = |dialect| Snapshot::assumed(SchedulerKind::NATIVE, dialect);
        let mut all: Vec<Backend> = Dialect::ALL
            .into_iter()
            .map(|dialect| Backend::new(format!("native-{dialect}"), native(dialect)))
            .collect();
        for kind in [
            SchedulerKind::VOLCANO,
            SchedulerKind::COSCHEDULING,
            SchedulerKind::KOORDINATOR,
            SchedulerKind::YUNIKORN,
            SchedulerKind::KAI,
        ] {
            all.push(Backend::new(kind.as_str(), on(kind)));
        }
        let annotations =
            on(SchedulerKind::KOORDINATOR).with_variant(SchedulerKind::KOORDINATOR, "annotations");
        all.push(Backend::new("koordinator-annotations", annotations));
        let losing = Snapshot {
            job_templates: JobTemplates::LoseLinks,
            ganged_unasked: vec![lws::KIND.name],
            ..native(Dialect::V1_37)
        };
        all.push(Backend::new("native-links-on-pods", losing));
        all
    })
}

/// One of them, chosen by what is sent.
pub fn by(bytes: &[u8]) -> &'static Backend {
    let mixed = bytes.iter().fold(0_usize, |sum, byte| {
        sum.wrapping_mul(31) + usize::from(*byte)
    });
    &all()[mixed % all().len()]
}
