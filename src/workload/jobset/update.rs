//! What may not change in a JobSet while its gangs live, and what a resume stamps.
//!
//! Gang fields and every `muster.dev/` key but the timeouts are immutable, at both levels and in
//! both forms. Kubernetes' own transition rules miss a field that is added or removed as a whole,
//! so this compares presence too.

use serde_json::Value;
use serde_json::value::RawValue;

use crate::gang::{FieldError, FieldPath, Round};
use crate::scheduler;
use crate::workload::keys;
use crate::workload::view::{Entries, Meta};

use super::view::{GangConfig, JobSet, ReplicatedJob};
use super::{group_path, modes};
use crate::workload::Reading;

/// An immutable thing that differs between the stored JobSet and the new one.
#[derive(Debug, Clone, PartialEq)]
pub struct Change {
    /// For the message.
    pub field: FieldPath,
    /// For the patch: where the old value would be put back, as unescaped tokens.
    pub tokens: Vec<String>,
    pub old: Option<Value>,
    pub new: Option<Value>,
}

impl Change {
    /// Whether the update only dropped it: what Go clients do with fields that their types lack.
    pub fn is_drop(&self) -> bool {
        self.old.is_some() && self.new.is_none()
    }

    /// Whether Muster wrote it, and no user did. A client-side `kubectl apply` drops such a key
    /// whenever it writes the list of ReplicatedJobs anew.
    pub fn is_stamp(&self) -> bool {
        [keys::STAMP, keys::GANG].contains(&self.key())
    }

    /// Whether Muster writes it where the user did not. `kubectl replace` drops it.
    pub fn is_choice(&self) -> bool {
        self.key() == keys::SCHEDULER
    }

    fn key(&self) -> &str {
        self.tokens.last().map_or("", String::as_str)
    }

    pub fn error(&self) -> FieldError {
        let remedy = if self.is_drop() && self.is_stamp() {
            "Muster wrote it when the JobSet was created, and needs it"
        } else {
            "delete the JobSet and create it anew to change it"
        };
        let detail = match (&self.old, &self.new) {
            (None, _) => format!("field is immutable and was not set before; {remedy}"),
            (Some(old), _) => format!("field is immutable, it was {old}; {remedy}"),
        };
        let new = self.new.clone().unwrap_or(Value::Null);
        FieldError::invalid(self.field.clone(), new, detail)
    }
}

/// Everything immutable that `new` changes. ReplicatedJobs are matched by name; JobSet's own
/// webhook refuses to add or remove one.
pub fn changes(old: &JobSet<'_>, new: &JobSet<'_>) -> Vec<Change> {
    let mut changes = Vec::new();
    let spec = FieldPath::new("spec");
    gang_config(
        old.spec.gang_config,
        new.spec.gang_config,
        spec.child("gangConfig"),
        &["spec", "gangConfig"],
        &mut changes,
    );
    let barrier = |jobset: &JobSet<'_>| {
        let raw = jobset.spec.group_scheduling_config?;
        serde_json::from_str::<Value>(raw.get()).ok()
    };
    push(
        barrier(old),
        barrier(new),
        spec.child("groupSchedulingConfig"),
        tokens(&["spec", "groupSchedulingConfig"]),
        &mut changes,
    );
    metas(
        Some(&old.metadata),
        Some(&new.metadata),
        &FieldPath::new("metadata"),
        &["metadata"],
        Keys::Own,
        &mut changes,
    );
    let links = if asks_for_gang(old) || asks_for_gang(new) {
        Keys::OwnAndLinks
    } else {
        Keys::Own
    };
    for (i, job) in new.spec.replicated_jobs.iter().enumerate() {
        let same = |other: &&ReplicatedJob<'_>| other.name == job.name;
        let Some(before) = old.spec.replicated_jobs.iter().find(same) else {
            continue;
        };
        let at = group_path(i);
        let index = i.to_string();
        gang_config(
            before.gang_config,
            job.gang_config,
            at.child("gangConfig"),
            &["spec", "replicatedJobs", &index, "gangConfig"],
            &mut changes,
        );
        let group = ["spec", "replicatedJobs", &index, "template", "metadata"];
        metas(
            before.template.metadata.as_ref(),
            job.template.metadata.as_ref(),
            &at.child("template").child("metadata"),
            &group,
            Keys::Own,
            &mut changes,
        );
        let pods = [
            "spec",
            "replicatedJobs",
            &index,
            "template",
            "spec",
            "template",
            "metadata",
        ];
        let pods_at = at.child("template").child("spec").child("template");
        metas(
            before.template.spec.template.metadata.as_ref(),
            job.template.spec.template.metadata.as_ref(),
            &pods_at.child("metadata"),
            &pods,
            links,
            &mut changes,
        );
    }
    changes
}

fn asks_for_gang(jobset: &JobSet<'_>) -> bool {
    modes::read(jobset, &mut Reading::default()).any_gang()
}

fn gang_config(
    old: Option<&RawValue>,
    new: Option<&RawValue>,
    at: FieldPath,
    path: &[&str],
    changes: &mut Vec<Change>,
) {
    if mode(old) == mode(new) {
        return;
    }
    let parse = |raw: &RawValue| serde_json::from_str(raw.get()).unwrap_or(Value::Null);
    let (field, old, new) = match (old, new) {
        // Both are there: the mode inside differs.
        (Some(_), Some(_)) => (at.child("gangMode"), mode(old), mode(new)),
        _ => (at, old.map(parse), new.map(parse)),
    };
    changes.push(Change {
        field,
        tokens: tokens(path),
        old,
        new,
    });
}

/// The mode inside a `gangConfig`, with YAML's unquoted `Off` understood; `null` when there is none.
fn mode(raw: Option<&RawValue>) -> Option<Value> {
    let config: GangConfig<'_> = serde_json::from_str(raw?.get()).unwrap_or_default();
    Some(match config.gang_mode.map(|mode| mode.to_value()) {
        Some(Value::Bool(false)) => "Off".into(),
        Some(mode) => mode,
        None => Value::Null,
    })
}

fn metas<'m>(
    old: Option<&'m Meta<'m>>,
    new: Option<&'m Meta<'m>>,
    at: &FieldPath,
    path: &[&str],
    which: Keys,
    changes: &mut Vec<Change>,
) {
    let none = Entries::default();
    let maps = |m: Option<&'m Meta<'m>>| {
        let annotations = m.and_then(|m| m.annotations.as_ref());
        (annotations, m.and_then(|m| m.labels.as_ref()))
    };
    let ((old_annotations, old_labels), (new_annotations, new_labels)) = (maps(old), maps(new));
    for (name, old, new) in [
        ("annotations", old_annotations, new_annotations),
        ("labels", old_labels, new_labels),
    ] {
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        for key in immutable_keys(old, new, which) {
            let mut tokens = tokens(path);
            tokens.extend([name.to_owned(), key.to_owned()]);
            let value = |entries: &Entries<'_>| entries.get(key).map(|v| v.to_value());
            let field = at.child(name).key(key);
            push(value(old), value(new), field, tokens, changes);
        }
    }
}

/// Which keys of a metadata are immutable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Muster's own.
    Own,
    /// Muster's, and every link: a link that comes or goes changes who is in the gang.
    OwnAndLinks,
}

impl Keys {
    fn covers(self, key: &str) -> bool {
        let own = key.starts_with(keys::PREFIX) && !keys::is_mutable(key);
        own || self == Self::OwnAndLinks && scheduler::links().any(|link| link.key == key)
    }
}

fn immutable_keys<'e>(old: &'e Entries<'_>, new: &'e Entries<'_>, which: Keys) -> Vec<&'e str> {
    let mut found: Vec<&str> = old
        .iter()
        .chain(new.iter())
        .map(|(key, _)| key)
        .filter(|key| which.covers(key))
        .collect();
    found.sort_unstable();
    found.dedup();
    found
}

fn push(
    old: Option<Value>,
    new: Option<Value>,
    field: FieldPath,
    tokens: Vec<String>,
    changes: &mut Vec<Change>,
) {
    if old != new {
        changes.push(Change {
            field,
            tokens,
            old,
            new,
        });
    }
}

fn tokens(path: &[&str]) -> Vec<String> {
    path.iter().map(|&token| token.to_owned()).collect()
}

/// The round that an update leaves the JobSet in: one more when it resumes.
pub fn round_after(old: &JobSet<'_>, new: &JobSet<'_>) -> Round {
    let before = round(&old.metadata);
    if old.suspended() && !new.suspended() {
        before.next()
    } else {
        before
    }
}

/// The round written on an object; none is round zero.
pub fn round(meta: &Meta<'_>) -> Round {
    let text = meta.annotation(keys::ROUND);
    Round(text.and_then(|t| t.parse().ok()).unwrap_or(0))
}
