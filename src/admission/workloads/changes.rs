//! What an update changes although it must not change while gangs live.
//!
//! Gang fields and every `muster.dev/` key but the timeouts are immutable, on the workload and on its
//! templates. Kubernetes' own transition rules miss a field that is added or removed as a whole, so
//! this compares presence too.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use crate::admission::patch::PatchBuilder;
use crate::gang::{FieldError, FieldPath};
use crate::scheduler;
use crate::workload::view::{Entries, Meta};
use crate::workload::{GangField, Workload, keys, site};

/// An immutable value that differs between the stored workload and the new one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Change {
    /// For the message.
    pub(crate) field: FieldPath,
    /// Where the old value would be put back.
    place: Place,
    pub(crate) old: Option<Value>,
    pub(crate) new: Option<Value>,
}

#[derive(Debug, Clone, PartialEq)]
enum Place {
    /// A field, as unescaped tokens.
    Field(Vec<String>),
    /// Nowhere: what held the field was dropped as a whole, which is no accident.
    Nowhere,
    /// An entry of the metadata of the object at a path.
    Entry {
        base: Vec<String>,
        map: Map,
        key: String,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Map {
    Annotations,
    Labels,
}

impl Change {
    /// Whether the update only dropped it: what Go clients do with fields that their types lack.
    pub(crate) fn is_drop(&self) -> bool {
        self.old.is_some() && self.new.is_none() && self.place != Place::Nowhere
    }

    /// Whether Muster wrote it, and no user did. A client-side `kubectl apply` drops such a key
    /// whenever it replaces the list of templates that holds it.
    pub(crate) fn is_stamp(&self) -> bool {
        let own = [
            keys::STAMP,
            keys::GANG,
            keys::WORKLOAD,
            keys::BARRIER,
            keys::BARRIER_STAMP,
        ];
        self.key().is_some_and(|key| own.contains(&key))
    }

    /// Whether Muster writes it where the user did not. `kubectl replace` drops it.
    pub(crate) fn is_choice(&self) -> bool {
        self.key() == Some(keys::SCHEDULER)
    }

    /// The annotation of the workload itself that it is, if so.
    pub(crate) fn own_annotation(&self) -> Option<&str> {
        match &self.place {
            Place::Entry {
                base,
                map: Map::Annotations,
                key,
            } if base.is_empty() => Some(key),
            _ => None,
        }
    }

    fn key(&self) -> Option<&str> {
        match &self.place {
            Place::Entry { key, .. } => Some(key),
            Place::Field(_) | Place::Nowhere => None,
        }
    }

    /// Why the change is refused; `remedy` is what to do instead.
    pub(crate) fn error(&self, remedy: &str) -> FieldError {
        let detail = match (&self.old, &self.new) {
            (None, _) => format!("field is immutable and was not set before; {remedy}"),
            (Some(old), _) => format!("field is immutable, it was {old}; {remedy}"),
        };
        let new = self.new.clone().unwrap_or(Value::Null);
        FieldError::invalid(self.field.clone(), new, detail)
    }

    /// Puts the dropped value back. Its parents may have been dropped with it.
    pub(crate) fn restore(&self, patch: &mut PatchBuilder, new: &dyn Workload) {
        let Some(value) = self.old.clone() else {
            return;
        };
        match &self.place {
            Place::Nowhere => {}
            Place::Field(tokens) => patch.set(tokens.iter().map(String::as_str), value),
            Place::Entry { base, map, key } => {
                let sites = new.sites();
                let site = sites.iter().find(|site| site.path == *base);
                let meta = match base.is_empty() {
                    true => Some(new.meta()),
                    false => site.and_then(|site| site.meta),
                };
                patch.create(site.map_or(&[], |site| &site.missing));
                let text = value.as_str().unwrap_or_default().to_owned();
                let entry = BTreeMap::from([(key.as_str(), text)]);
                let none = BTreeMap::new();
                let base: Vec<&str> = base.iter().map(String::as_str).collect();
                match map {
                    Map::Labels => patch.metadata(&base, meta, &entry, &none),
                    Map::Annotations => patch.metadata(&base, meta, &none, &entry),
                }
            }
        }
    }
}

/// Whether links that users wrote are immutable too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// A link that comes or goes changes who is in the gang.
    Fixed,
    /// There is no gang.
    Free,
}

/// Everything immutable that `new` changes. Templates are matched by their role.
pub(crate) fn changes(old: &dyn Workload, new: &dyn Workload, links: Links) -> Vec<Change> {
    let mut changes = fields(&old.gang_fields(), &new.gang_fields());
    let (fields_of_groups, own) = {
        let own = changes.iter().filter(|(group, _)| group.is_empty()).count();
        (changes.split_off(own), changes)
    };
    let mut changes: Vec<Change> = own.into_iter().map(|(_, change)| change).collect();
    let metadata = FieldPath::new("metadata");
    let whole = (Some(old.meta()), Some(new.meta()));
    metas(whole, &[], &metadata, Keys::Own, &mut changes);
    let mut of_groups: HashMap<String, Change> = fields_of_groups.into_iter().collect();
    let before = old.sites();
    let before = site::by_key(&before);
    for site in new.sites() {
        let Some(was) = before.get(&site.key()) else {
            continue;
        };
        // Beside the templates of their group.
        changes.extend(of_groups.remove(site.role));
        let which = match (site.pods, links) {
            (Some(_), Links::Fixed) => Keys::OwnAndLinks,
            _ => Keys::Own,
        };
        let at = site.at.child("metadata");
        metas((was.meta, site.meta), &site.path, &at, which, &mut changes);
    }
    changes
}

/// The gang fields that differ, each with its group; those of the workload itself come first.
fn fields(old: &[GangField], new: &[GangField]) -> Vec<(String, Change)> {
    let key = |field: &GangField| (field.group.clone(), field.tokens.last().cloned());
    let before: HashMap<_, _> = old.iter().map(|field| (key(field), field)).collect();
    let changed = new.iter().filter_map(|is| {
        let was = before.get(&key(is))?;
        let (at, old, new) = match (&was.inner, &is.inner) {
            (Some((name, was)), Some((_, is_))) => {
                (is.at.child(name), Some(was.clone()), Some(is_.clone()))
            }
            _ => (is.at.clone(), was.value.clone(), is.value.clone()),
        };
        let change = Change {
            field: at,
            place: match is.has_parent {
                true => Place::Field(is.tokens.clone()),
                false => Place::Nowhere,
            },
            old,
            new,
        };
        (change.old != change.new).then(|| (is.group.clone(), change))
    });
    changed.collect()
}

/// Which keys of a metadata are immutable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keys {
    /// Muster's own.
    Own,
    /// Muster's, and every link.
    OwnAndLinks,
}

impl Keys {
    fn covers(self, key: &str) -> bool {
        let own = key.starts_with(keys::PREFIX) && !keys::is_mutable(key);
        own || self == Self::OwnAndLinks && scheduler::links().any(|link| link.key == key)
    }
}

fn metas<'m>(
    (old, new): (Option<&'m Meta<'m>>, Option<&'m Meta<'m>>),
    base: &[String],
    at: &FieldPath,
    which: Keys,
    changes: &mut Vec<Change>,
) {
    let none = Entries::default();
    let annotations = |m: Option<&'m Meta<'m>>| m.and_then(|m| m.annotations.as_ref());
    let labels = |m: Option<&'m Meta<'m>>| m.and_then(|m| m.labels.as_ref());
    for (map, name, old, new) in [
        (
            Map::Annotations,
            "annotations",
            annotations(old),
            annotations(new),
        ),
        (Map::Labels, "labels", labels(old), labels(new)),
    ] {
        let (old, new) = (old.unwrap_or(&none), new.unwrap_or(&none));
        let keys = old.iter().chain(new.iter()).map(|(key, _)| key);
        let keys: BTreeSet<&str> = keys.filter(|key| which.covers(key)).collect();
        for key in keys {
            let value = |entries: &Entries<'_>| entries.get(key).map(|v| v.to_value());
            let (old, new) = (value(old), value(new));
            if old == new {
                continue;
            }
            changes.push(Change {
                field: at.child(name).key(key),
                place: Place::Entry {
                    base: base.to_vec(),
                    map,
                    key: key.to_owned(),
                },
                old,
                new,
            });
        }
    }
}
