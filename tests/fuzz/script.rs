//! Cases that are objects: which fixture, or which child of it, with which edits, sent to Muster on
//! which backend. A case of the corpus is such a script as JSON.

use muster::workload::Kind;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::backends::{self, Backend};
use crate::choices::Choices;
use crate::edit::{self, Edit};
use crate::seeds::{Seed, Which, donors, seeds};

/// How an object is made and sent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The fixture: its folder and file, and which document of it.
    of: String,
    /// The child of it, as its controller would make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    child: Option<Which>,
    /// The backend; without one, each of them in turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on: Option<String>,
    pub edits: Vec<Edit>,
    /// What the stored object lacks of them, where it is an update: so many of the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    update: Option<usize>,
}

/// What is sent.
#[derive(Debug)]
pub struct Sent {
    pub kind: &'static Kind,
    pub object: Value,
    pub old: Option<Value>,
}

/// Which cases a target wants.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// Workloads alone, and what else is a fixture.
    Workloads,
    /// Workloads and their children.
    Any,
}

impl Script {
    pub fn read(file: &[u8]) -> Self {
        serde_json::from_slice(file).expect("a script")
    }

    pub fn write(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).unwrap();
        text.push(b'\n');
        text
    }

    pub fn make(choices: &mut Choices<'_>, of: Of) -> Self {
        let child = match of {
            Of::Workloads => false,
            Of::Any => choices.once_in(3),
        };
        let backend = choices.pick(backends::all());
        let mut script = Self {
            of: String::new(),
            child: child.then(|| *choices.pick(&[Which::First, Which::Second])),
            on: Some(backend.name.clone()),
            edits: Vec::new(),
            update: None,
        };
        // Not every fixture has children: the next one that has.
        let first = choices.below(seeds().len());
        let (before, after) = seeds().split_at(first);
        let fits = |seed: &&Seed| seed.base(script.child, backend).is_some();
        let seed = after.iter().chain(before).find(fits);
        let seed = seed.expect("a fixture with children");
        script.of.clone_from(&seed.name);
        let (kind, mut object) = seed.base(script.child, backend).expect("it fits");
        let donors = donors(kind);
        for _ in 0..choices.below(6) {
            let edit = edit::make(choices, &mut object, &donors);
            script.edits.push(edit);
        }
        script.update = choices.once_in(4).then(|| choices.below(3));
        script
    }

    /// The backends that it is for.
    pub fn backends(&self) -> impl Iterator<Item = &'static Backend> {
        let wanted = self.on.clone();
        let all = backends::all().iter();
        all.filter(move |backend| wanted.as_ref().is_none_or(|name| *name == backend.name))
    }

    /// What is sent to Muster on a backend; nothing where the workload is refused there.
    pub fn sent(&self, backend: &Backend) -> Option<Sent> {
        let seed = seeds().iter().find(|seed| seed.name == self.of);
        let seed = seed.unwrap_or_else(|| panic!("there is no fixture {}", self.of));
        let (kind, base) = seed.base(self.child, backend)?;
        let edited = |edits: &[Edit]| {
            let mut object = base.clone();
            edits.iter().for_each(|edit| edit.apply(&mut object));
            object
        };
        let all = self.edits.len();
        Some(Sent {
            kind,
            object: edited(&self.edits),
            old: self
                .update
                .map(|last| edited(&self.edits[..all - last.min(all)])),
        })
    }
}
