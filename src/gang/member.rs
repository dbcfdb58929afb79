//! What a member of a gang knows of it: the stamp that it carries, and its identity.
//!
//! A child's admission is a function of the child alone, so whatever its link needs later is
//! stamped on the template when the workload is created. A stamp holds only what follows from the
//! spec; identity (uid, index, attempt, round) is known when the child is made.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::name::{GangName, Identity};
use super::part::{Level, Part};
use super::policy::SchedulerKind;

/// The value of the annotation `muster.dev/stamp`: compact JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Stamp {
    /// The scheduler's name, which `scheduler::stamped` resolves.
    pub(crate) scheduler: String,
    #[serde(serialize_with = "write_level", deserialize_with = "read_level")]
    pub(crate) level: Level,
    pub(crate) size: u32,
    pub(crate) quorum: u32,
    /// The part's position in the plan: Kubernetes 1.35 takes eight gangs to a Workload object.
    #[serde(default, skip_serializing_if = "is_default")]
    pub(crate) ordinal: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) bundle: Option<String>,
    /// Which of its backend's variants made the gang, where it has several and this is not the
    /// default one: a gang keeps it when the configuration changes.
    #[serde(default, rename = "way", skip_serializing_if = "Option::is_none")]
    pub(crate) variant: Option<String>,
    /// All parts of the bundle, where a member must name its siblings' gangs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) siblings: Vec<Sibling>,
    /// All roles of the gang or bundle, where a member must describe the others' pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<RoleStamp>,
    /// What the workload's own adapter needs of it later.
    #[serde(default, rename = "revision", skip_serializing_if = "Option::is_none")]
    pub(crate) workload: Option<Words>,
    /// The scheduler's name, where Muster wrote it into the template: not the user's own, and
    /// removed when the template is stamped again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) scheduler_name: Option<String>,
}

/// What one side alone writes and reads of a stamp, as JSON in its own words.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Words(Box<RawValue>);

impl Words {
    /// Takes down a value; `None` if it cannot be written as JSON.
    pub(crate) fn of(value: &impl Serialize) -> Option<Self> {
        serde_json::value::to_raw_value(value).ok().map(Self)
    }

    /// Reads it back; `None` where it says something else.
    pub(crate) fn read<'w, T: Deserialize<'w>>(&'w self) -> Option<T> {
        serde_json::from_str(self.0.get()).ok()
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Self) -> bool {
        self.0.get() == other.0.get()
    }
}

impl Eq for Words {}

/// A role, as far as the members of other roles speak of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RoleStamp {
    pub(crate) name: String,
    pub(crate) members: u64,
    /// Its pods in the scheduler's words; absent for the stamped role itself, whose pods speak
    /// for themselves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shape: Option<Value>,
}

/// A part of a bundle, as far as its gangs' names go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Sibling {
    pub(crate) part: String,
    /// How many gangs, where each replica is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<u32>,
}

impl Sibling {
    /// Part and index of each of its gangs.
    pub(crate) fn gangs(&self) -> impl Iterator<Item = (&str, Option<u32>)> {
        let indexes = match self.replicas {
            Some(replicas) => (0..replicas).map(Some).collect(),
            None => vec![None],
        };
        indexes.into_iter().map(|index| (self.part.as_str(), index))
    }
}

impl Stamp {
    pub(crate) fn new(scheduler: SchedulerKind, ordinal: usize, part: &Part) -> Self {
        Self {
            scheduler: scheduler.as_str().to_owned(),
            level: part.level(),
            size: part.size(),
            quorum: part.quorum(),
            ordinal: u32::try_from(ordinal).unwrap_or(u32::MAX),
            bundle: part.bundle().map(|b| b.value.as_str().to_owned()),
            variant: None,
            siblings: Vec::new(),
            roles: Vec::new(),
            workload: None,
            scheduler_name: None,
        }
    }

    /// Reads the value of the annotation.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    pub(crate) fn to_json(&self) -> String {
        // A struct of plain numbers and strings: serialising it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// A pod, or a template of pods, that belongs to a gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    identity: Identity,
    name: GangName,
    /// Its role, where the template does not say it.
    pub(crate) role: Option<&'static str>,
    /// Its whole replica, where the replica is several gangs because its pods start in an order.
    pub(crate) replica: Option<Identity>,
    pub(crate) stamp: Stamp,
}

impl Member {
    pub(crate) fn new(identity: Identity, stamp: Stamp) -> Self {
        let name = identity.name();
        Self {
            identity,
            name,
            role: None,
            replica: None,
            stamp,
        }
    }

    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The gang's name, hashed once.
    pub(crate) fn name(&self) -> &GangName {
        &self.name
    }

    /// The gang's index in its part, as the label `muster.dev/index` carries it.
    pub(crate) fn index(&self) -> u32 {
        self.identity.index.unwrap_or(0)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn write_level<S: Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.as_str())
}

fn read_level<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
    match <&str>::deserialize(deserializer)? {
        "Whole" => Ok(Level::Whole),
        "Group" => Ok(Level::Group),
        "Replica" => Ok(Level::Replica),
        other => Err(D::Error::custom(format!("unknown level {other:?}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_read_as_it_was_written() {
        let mut stamp = Stamp {
            scheduler: "some".into(),
            level: Level::Replica,
            size: 4,
            quorum: 3,
            ordinal: 0,
            bundle: None,
            variant: None,
            siblings: Vec::new(),
            roles: Vec::new(),
            workload: None,
            scheduler_name: None,
        };
        assert_eq!(
            stamp.to_json(),
            r#"{"scheduler":"some","level":"Replica","size":4,"quorum":3}"#
        );
        assert_eq!(Stamp::parse(&stamp.to_json()).unwrap(), stamp);
        stamp.ordinal = 9;
        stamp.bundle = Some("ring".into());
        stamp.variant = Some("other".into());
        stamp.siblings = vec![Sibling {
            part: "workers".into(),
            replicas: Some(2),
        }];
        stamp.roles = vec![RoleStamp {
            name: "workers".into(),
            members: 8,
            shape: Some(serde_json::json!({"minResource": {"cpu": "1"}})),
        }];
        assert_eq!(Stamp::parse(&stamp.to_json()).unwrap(), stamp);
    }

    #[test]
    fn a_broken_stamp_is_an_error() {
        for text in [
            "",
            "{}",
            "null",
            r#"{"scheduler":"some","level":"x","size":1,"quorum":1}"#,
        ] {
            assert!(Stamp::parse(text).is_err(), "{text}");
        }
    }
}
