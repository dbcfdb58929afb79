//! Workloads: an object in, a [`Plan`] or field errors out.
//!
//! An adapter knows one kind of workload and no scheduler, no HTTP and no cluster. It reads a slim,
//! borrowed view of the object as it was sent: what a view does not list is skipped by the parser.
//! Of the schedulers this module uses the table's data only (their names, and the keys that link a
//! pod to a gang), never a backend.
//!
//! # Adding a kind of workload
//!
//! One folder and one line:
//!
//! 1. `workload/<kind>/`: a view of the object with `impl Workload` and `impl Reviewed`, and a
//!    `static` [`Facts`] (kind and API, which `muster.dev/` keys may stand where, which labels its
//!    controller writes, how its children tell who they are).
//! 2. Its line in the table below ([`object::kinds!`]).
//! 3. Its fields in the command line's table; `tests/cluster/fields.rs` makes it.
//! 4. Outside of `src/`: the webhook entries and the role in `manifests/`, and fixtures.
//!
//! Admission, the reconciler, `check` and `render` call it without a change of their own.

pub(crate) mod child;
pub mod controllers;
pub mod cronjob;
pub(crate) mod declaration;
pub(crate) mod facts;
mod given;
pub mod job;
pub mod jobset;
pub mod keys;
pub mod lws;
mod mapped;
pub(crate) mod object;
pub mod pods;
pub mod seen;
pub(crate) mod site;
pub(crate) mod template;
pub(crate) mod view;

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::Value;

use crate::gang::{FieldError, FieldPath, Identity, Part, Plan, Stamp};

pub(crate) use child::{holder, identify};
pub use facts::Kind;
pub(crate) use facts::{Facts, GangFields, Suspension};
pub(crate) use object::Reviewed;
pub use seen::SeenPod;
pub(crate) use site::Site;
use view::Meta;

object::kinds! {
    JobSet: jobset::JobSet<'a>,
    LeaderWorkerSet: lws::LeaderWorkerSet<'a>,
    Job: job::Job<'a>,
    CronJob: cronjob::CronJob<'a>,
    Deployment: controllers::Deployment<'a>,
    StatefulSet: controllers::StatefulSet<'a>,
    ReplicaSet: controllers::ReplicaSet<'a>,
    DaemonSet: controllers::DaemonSet<'a>,
    ReplicationController: controllers::ReplicationController<'a>,
    Pod: pods::Pod<'a>,
}

/// The flags of the kinds that have some.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkloadArgs {
    #[command(flatten)]
    lws: lws::LwsArgs,
}

impl WorkloadArgs {
    /// The kinds whose workloads are gangs although they say nothing of it.
    pub(crate) fn ganged_unasked(&self) -> Vec<&'static str> {
        self.lws.ganged_unasked().into_iter().collect()
    }
}

/// A workload: one parsed view of one object.
pub trait Workload: Sync {
    /// What holds for every object of its kind.
    fn facts(&self) -> &'static Facts;

    /// Its metadata.
    fn meta(&self) -> &Meta<'_>;

    /// Whether its gangs are to live now.
    fn life(&self) -> Life;

    /// Who runs it in place of the kind's own controller, as it says itself.
    fn manager(&self) -> Option<&str> {
        None
    }

    /// What it asks for, with everything that is wrong with it.
    fn read(&self, unasked: Unasked) -> Reading;

    /// The places where stamps stand. Those of one role follow each other. None where it has no
    /// templates of its own.
    fn sites(&self) -> Vec<Site<'_>> {
        Vec::new()
    }

    /// Adds to the stamp what its children need beyond the part's numbers and the scheduler's data.
    fn extend_stamp(&self, _plan: &Plan, _stamp: &mut Stamp) {}

    /// The value of the label `muster.dev/gang` on the templates of a part.
    fn label<'p>(&self, part: &'p Part) -> Cow<'p, str> {
        Cow::Borrowed(part.name().as_str())
    }

    /// The fields outside of annotations that declare its gangs.
    fn gang_fields(&self) -> Vec<GangField> {
        Vec::new()
    }

    /// Its template alone, at its place in the object; only for kinds whose gang fields change with
    /// it.
    fn template(&self) -> Value {
        Value::Null
    }

    /// What an update of a stamped workload breaks or changes for its replicas that live; only for
    /// kinds whose gang fields change with their template.
    fn transition(&self, _old: &dyn Workload, _stamp: &Stamp, _template: Template) -> Transition {
        Transition::default()
    }

    /// Whether a resume may write the next round into its templates. Else its gangs go on under their
    /// names.
    fn may_begin_a_round(&self) -> bool {
        true
    }

    /// How often the whole workload was restarted.
    fn attempt(&self) -> u32 {
        0
    }

    /// Why its controller has not made all pods of a part yet, of which so many live, where it waits for
    /// something of its own.
    fn awaits(&self, _part: &Part, _live: usize) -> Option<String> {
        None
    }

    /// Whether pods of a part have ended: those may be gone, and none is made in their place.
    fn has_ended(&self, _part: &Part) -> bool {
        false
    }

    /// Which of its pods an object of this kind and name makes, or makes what makes them: its events tell
    /// why those are missing. Nothing where it makes none of them.
    fn made_by(&self, kind: &str, name: &str) -> Option<Makes> {
        self.is(kind, name).then_some(Makes::Any)
    }

    /// Whether it is the object of this kind and name itself.
    fn is(&self, kind: &str, name: &str) -> bool {
        kind == self.facts().kind.name && self.meta().name.as_deref() == Some(name)
    }

    /// The gangs that live now.
    fn outlook<'p>(&self, plan: &'p Plan, of: &Origin<'_>, pods: &[SeenPod]) -> Outlook<'p>;

    /// How many gangs a start of the whole workload has.
    fn gang_count(&self, plan: &Plan) -> u64 {
        plan.parts
            .iter()
            .map(|part| u64::from(part.replicas()))
            .sum()
    }

    /// One child of each of the first `most` gangs as its controller would make it, for `render` and
    /// for tests. `stored` is the workload's JSON; `admit` creates a child and returns it as it would
    /// be stored.
    fn children(
        &self,
        _stored: &Value,
        _of: &Origin<'_>,
        _plan: &Plan,
        _most: usize,
        _admit: &mut Admit<'_>,
    ) -> Vec<Value> {
        Vec::new()
    }
}

/// The number at the end of a child's name, as controllers write it.
pub(crate) fn numbered(end: &str) -> Option<u32> {
    let digits = end.bytes().all(|byte| byte.is_ascii_digit());
    end.parse().ok().filter(|_| digits)
}

/// Creates a child: its kind and its JSON in, the stored object out.
pub(crate) type Admit<'a> = dyn FnMut(&'static Kind, Value) -> Option<Value> + 'a;

/// Which pods of a workload somebody makes, as far as his name tells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Makes {
    /// Those of any gang.
    Any,
    /// The first pod of each gang: of one that has pods it makes no more.
    First,
    /// Those of one role, and of one replica.
    Of {
        /// The role.
        role: String,
        /// The replica.
        replica: u32,
    },
}

/// Which object in the cluster a workload is.
#[derive(Debug, Clone, Copy)]
pub struct Origin<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    pub(crate) uid: &'a str,
}

/// Whether a workload's gangs are to live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Life {
    /// Another controller than the kind's own runs it: Muster does nothing about it.
    LeftAlone,
    /// It is being deleted, and the garbage collector takes what was made for it.
    Deleting,
    /// It has ended, well or not.
    Finished,
    /// It is suspended, and has no pods.
    Suspended,
    /// Its pods exist or are about to.
    Live,
}

/// What becomes of a workload that says nothing of gangs, where its kind can be configured so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unasked {
    /// It runs without gangs.
    #[default]
    NoGang,
    /// It is ganged as if it had asked.
    Gang,
}

/// What reading a workload found. With errors the plan is incomplete and only good for finding
/// more.
#[derive(Debug, Default)]
pub struct Reading {
    pub(crate) plan: Plan,
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
    /// Where a gang is asked for first.
    pub(crate) asked: Option<FieldPath>,
    /// `gangMode` fields that hold YAML's unquoted `Off`, to be normalised: path, warning.
    pub(crate) unquoted_off: Vec<(Vec<String>, String)>,
    /// The mode to write down on a workload that is ganged unasked: it holds when the
    /// configuration changes.
    pub(crate) mode: Option<&'static str>,
}

/// A field that declares gangs, as far as an update must not change it.
#[derive(Debug, Clone, PartialEq)]
pub struct GangField {
    /// The group that it is a field of; empty for the workload's own.
    pub(crate) group: String,
    pub(crate) at: FieldPath,
    /// Where it stands, as unescaped tokens.
    pub(crate) tokens: Vec<String>,
    /// Whether the object that it is a field of is there.
    pub(crate) has_parent: bool,
    pub(crate) value: Option<Value>,
    /// The only member of it that counts, where not all do: its name, and its normalised value.
    pub(crate) inner: Option<(&'static str, Value)>,
}

/// Whether an update leaves a workload's templates as they are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Template {
    /// The templates stay, and so do the replicas.
    Kept,
    /// The templates change, and every replica is replaced.
    Replaced,
}

/// What an update does to replicas that live.
#[derive(Debug, Default)]
pub struct Transition {
    /// They replace other errors of the same field.
    pub(crate) errors: Vec<FieldError>,
    pub(crate) warnings: Vec<String>,
}

/// The gangs of a workload that live now, and what can be said of those that do not.
#[derive(Debug, Default)]
pub struct Outlook<'p> {
    pub(crate) starts: Vec<Start<'p>>,
    /// The workload goes on and has no gang now: none is asked for any more, or no replica.
    pub(crate) idle: bool,
    /// A gang that is asked for has no pod yet, and so is in no start.
    pub(crate) unmade: bool,
    /// Why there is no gang, although one is asked for.
    pub(crate) refused: Option<String>,
    /// Why its pods cannot start together, although they are linked.
    pub(crate) broken: Option<String>,
}

/// The gangs of one beginning of a workload, or of a replica that begins by itself.
#[derive(Debug)]
pub struct Start<'p> {
    pub(crate) plan: Cow<'p, Plan>,
    /// What its gangs were made from, where that is not the workload's spec.
    pub(crate) stamp: Option<Arc<Stamp>>,
    /// The position of each gang's part in the plan, and its identity.
    pub(crate) gangs: Vec<(usize, Identity)>,
}
