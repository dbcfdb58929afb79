//! What a member of a gang knows of it: the stamp that it carries, and its identity.
//!
//! A child's admission is a function of the child alone, so whatever its link needs later is
//! stamped on the template when the workload is created. A stamp holds only what follows from the
//! spec; identity (uid, index, attempt, round) is known when the child is made.

use std::collections::HashMap;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::limits::MAX_STAMP;
use super::name::{GangName, Identity};
use super::part::{Level, Part};
use super::policy::SchedulerKind;

/// Roles whose pods a stamp does not describe: its own, which may be two of one template.
const MAX_UNDESCRIBED: usize = 2;

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
    /// The name of the object that the gang shares with those of other workloads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) shared: Option<String>,
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
    /// Shapes that several roles have, each once.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) shapes: Vec<Value>,
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
    /// What a user wrote, to be read when it is needed.
    pub(crate) fn unread(text: &RawValue) -> Self {
        Self(text.to_owned())
    }

    /// How long it is.
    pub(crate) fn len(&self) -> usize {
        self.0.get().len()
    }

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
    pub(crate) shape: Option<RoleShape>,
}

/// The shape of a role's pods on a stamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(crate) enum RoleShape {
    /// The position among the stamp's shapes: several roles have it.
    Shared(usize),
    /// The shape itself.
    Own(Value),
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
        let one = self.replicas.is_none().then_some(None);
        let several = (0..self.replicas.unwrap_or(0)).map(Some);
        let indexes = one.into_iter().chain(several);
        indexes.map(|index| (self.part.as_str(), index))
    }

    /// How many gangs these are.
    pub(crate) fn count(&self) -> u64 {
        self.replicas.map_or(1, u64::from)
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
            shared: None,
            variant: None,
            siblings: Vec::new(),
            roles: Vec::new(),
            shapes: Vec::new(),
            workload: None,
            scheduler_name: None,
        }
    }

    /// Reads a stamp. One that Muster would not write is an error, however it came there.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        if text.len() > MAX_STAMP {
            let bytes = text.len();
            let why = format!("it has {bytes} bytes, and Muster writes at most {MAX_STAMP}");
            return Err(serde_json::Error::custom(why));
        }
        let stamp: Self = serde_json::from_str(text)?;
        let undescribed = stamp.roles.iter().filter(|role| role.shape.is_none());
        if undescribed.count() > MAX_UNDESCRIBED {
            return Err(serde_json::Error::custom(
                "it describes no pods of roles that are not its own",
            ));
        }
        Ok(stamp)
    }

    /// Takes down the roles that start together, with what describes their pods: alike shapes once.
    pub fn describe(&mut self, roles: impl Iterator<Item = (String, u64, Value)>) {
        let mut positions: HashMap<String, usize> = HashMap::new();
        for (name, members, shape) in roles {
            let position = positions.entry(shape.to_string()).or_insert_with(|| {
                self.shapes.push(shape);
                self.shapes.len() - 1
            });
            self.roles.push(RoleStamp {
                name,
                members,
                shape: Some(RoleShape::Shared(*position)),
            });
        }
    }

    /// Takes over what another stamp says of all that start together. The pods of the role `own`
    /// speak for themselves, and a shape that is left to one role stands there.
    pub fn take_over(&mut self, common: &Self, own: &str) {
        self.variant.clone_from(&common.variant);
        self.shared.clone_from(&common.shared);
        self.siblings.clone_from(&common.siblings);
        let mut uses = vec![0_usize; common.shapes.len()];
        let others = common.roles.iter().filter(|role| role.name != own);
        for role in others {
            if let Some(RoleShape::Shared(position)) = role.shape {
                uses[position] += 1;
            }
        }
        let mut moved: HashMap<usize, usize> = HashMap::new();
        for role in &common.roles {
            let shape = match &role.shape {
                _ if role.name == own => None,
                Some(RoleShape::Shared(position)) if uses[*position] > 1 => {
                    let place = moved.entry(*position).or_insert_with(|| {
                        self.shapes.push(common.shapes[*position].clone());
                        self.shapes.len() - 1
                    });
                    Some(RoleShape::Shared(*place))
                }
                Some(RoleShape::Shared(position)) => {
                    Some(RoleShape::Own(common.shapes[*position].clone()))
                }
                other => other.clone(),
            };
            self.roles.push(RoleStamp {
                name: role.name.clone(),
                members: role.members,
                shape,
            });
        }
    }

    /// What a stamp says of a role's pods.
    pub(crate) fn shape_of<'s>(&'s self, role: &'s RoleStamp) -> Option<&'s Value> {
        match role.shape.as_ref()? {
            RoleShape::Shared(position) => self.shapes.get(*position),
            RoleShape::Own(shape) => Some(shape),
        }
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
    use serde_json::json;

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
            shared: None,
            variant: None,
            siblings: Vec::new(),
            roles: Vec::new(),
            shapes: Vec::new(),
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
        stamp.shared = Some("ring-bcdf".into());
        stamp.variant = Some("other".into());
        stamp.siblings = vec![Sibling {
            part: "workers".into(),
            replicas: Some(2),
        }];
        stamp.roles = vec![RoleStamp {
            name: "workers".into(),
            members: 8,
            shape: Some(RoleShape::Own(
                serde_json::json!({"minResource": {"cpu": "1"}}),
            )),
        }];
        assert_eq!(Stamp::parse(&stamp.to_json()).unwrap(), stamp);
    }

    fn with_roles(shapes: &[Value]) -> Stamp {
        let text = r#"{"scheduler":"some","level":"Whole","size":4,"quorum":3}"#;
        let mut common = Stamp::parse(text).unwrap();
        let roles = shapes.iter().enumerate();
        common.describe(roles.map(|(i, shape)| (format!("r{i}"), 1, shape.clone())));
        let mut stamp = Stamp::parse(text).unwrap();
        stamp.take_over(&common, "r0");
        stamp
    }

    #[test]
    fn what_several_roles_have_alike_stands_once_on_a_stamp() {
        let (a, b) = (json!({"cpu": "1"}), json!({"cpu": "2"}));
        let stamp = with_roles(&[a.clone(), a.clone(), b.clone()]);
        assert!(stamp.shapes.is_empty(), "nothing repeats: {stamp:?}");
        let stamp = with_roles(&[a.clone(), b.clone(), a.clone(), b.clone()]);
        assert_eq!(stamp.shapes, std::slice::from_ref(&b));
        let read = Stamp::parse(&stamp.to_json()).unwrap();
        assert_eq!(read, stamp);
        let shapes: Vec<_> = read.roles.iter().map(|role| read.shape_of(role)).collect();
        assert_eq!(shapes, [None, Some(&b), Some(&a), Some(&b)]);
    }

    #[test]
    fn a_stamp_that_muster_would_not_write_is_an_error() {
        let stamp = |roles: &str| {
            let head = r#"{"scheduler":"some","level":"Whole","size":1,"quorum":1,"roles":"#;
            Stamp::parse(&format!("{head}{roles}}}")).is_ok()
        };
        let role = r#"{"name":"a","members":1}"#;
        assert!(stamp(&format!("[{role},{role}]")));
        assert!(!stamp(&format!("[{role},{role},{role}]")));
        let long = format!(r#"[{{"name":"{}","members":1}}]"#, "x".repeat(MAX_STAMP));
        assert!(!stamp(&long));
        // A position that is not there says nothing.
        let text = r#"{"scheduler":"s","level":"Whole","size":1,"quorum":1,"roles":[{"name":"a","members":1,"shape":7}]}"#;
        let stamp = Stamp::parse(text).unwrap();
        assert_eq!(stamp.shape_of(&stamp.roles[0]), None);
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
