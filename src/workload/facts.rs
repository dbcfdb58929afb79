//! Facts: what holds for every object of a kind, as data.

use std::collections::BTreeMap;

use super::child::Marked;
use super::keys::Place;
use super::seen::LinkState;
use crate::gang::{ControllerLabels, FieldError, Level, Member, Round, Stamp};

/// A kind of objects in the API.
#[derive(Debug, PartialEq, Eq)]
pub struct Kind {
    /// The API group; empty for Kubernetes' core.
    pub group: &'static str,
    pub(crate) version: &'static str,
    /// As `kind` says it.
    pub name: &'static str,
    pub(crate) plural: &'static str,
    /// As kubectl knows it too.
    pub(crate) short: &'static [&'static str],
}

impl Kind {
    /// As `apiVersion` says it.
    pub(crate) fn api_version(&self) -> String {
        match self.group {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }
}

/// What holds for every workload of a kind.
#[derive(Debug)]
pub struct Facts {
    pub(crate) kind: &'static Kind,
    /// Where on the workload itself which `muster.dev/` keys may stand.
    pub(crate) keys: &'static Place,
    /// What `muster check` calls the levels of its gangs.
    pub(crate) level: fn(Level) -> &'static str,
    pub(crate) suspension: Suspension,
    pub(crate) gang_fields: GangFields,
    pub(crate) watched: Watched,
    pub(crate) conditions: ConditionList,
    pub(crate) members: Members,
    /// The kind's CRD, where its controller writes Jobs with types of its own: links that those
    /// types lack are lost when it updates a Job.
    pub(crate) job_types: Option<&'static str>,
    /// A small workload that asks for a gang, as JSON: `serve` prints a request with it to try, and
    /// `verify` sends it to a cluster.
    pub(crate) example: &'static str,
}

impl PartialEq for Facts {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for Facts {}

/// Whether a kind can be suspended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Suspension {
    /// By `spec.suspend`.
    Field,
    /// It has no such field.
    None,
}

/// Which workloads of a kind the reconciler watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Watched {
    /// All: most ask for gangs, or may.
    All,
    /// Those with the label `muster.dev/workload`, which Muster writes on them: of this kind a cluster
    /// has many that have nothing to do with gangs.
    Labelled,
    /// None is an object: what its members say stands for it.
    ByMembers,
}

/// What kind of list the conditions in a workload's status are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConditionList {
    /// By type: each condition can be applied by itself.
    Map,
    /// A whole to server-side apply; a strategic merge patch, which only Kubernetes' own kinds take,
    /// still merges it by type.
    Atomic,
    /// There is no object that could have conditions.
    None,
}

/// When the gang fields of a kind may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GangFields {
    /// Never: its templates are immutable, or its gangs span its whole life.
    Fixed,
    /// Together with its template, which replaces every replica anyway; so stamps are written only
    /// with a change of the user's own. What to do to change them.
    WithTemplate(&'static str),
}

/// How the children of a kind are told: by the labels that its controller writes.
#[derive(Debug)]
pub(crate) struct Members {
    /// The label of a child that holds its workload's name; no child of another kind has it.
    pub(crate) name: &'static str,
    /// The label that holds its workload's uid, where there is one.
    pub(crate) uid: Option<&'static str>,
    /// The labels that its controllers write on pods.
    pub(crate) controller_labels: ControllerLabels,
    /// What a child needs before its gang can be told.
    pub(crate) prepare: fn(&Arrival<'_>) -> Prepared,
    /// Who a stamped child is, in the given round of its gang.
    pub(crate) identify: Identify,
    /// Whether Muster has linked a pod that exists.
    pub(crate) link: fn(&dyn Marked) -> LinkState,
    pub(crate) links: Links,
    /// The stamp of a child of this role says what its gang's objects are made of.
    pub(crate) plans: Option<&'static str>,
    /// Which attempt of its workload a pod belongs to, for the start barrier; none where the kind has no
    /// barrier.
    pub(crate) attempt: Option<fn(&dyn Marked) -> Option<u32>>,
    /// The label of a ControllerRevision that holds its workload's name, where the controller keeps
    /// some.
    pub(crate) revisions: Option<&'static str>,
    /// The reasons of the events by which those that make its pods, or what makes them, tell that
    /// they were refused.
    pub(crate) failures: &'static [&'static str],
}

/// The same of Kubernetes' own controllers, and of most others.
pub(crate) const FAILED_CREATE: &str = "FailedCreate";

/// From a child's labels, its namespace, its stamp and its round to who it is.
pub(crate) type Identify = fn(&dyn Marked, &str, Stamp, Round) -> Result<Member, Vec<FieldError>>;

/// Where the link of a member stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// In the template of a Job, where the scheduler allows it: some of it can never change.
    InTemplates,
    /// Always on the pod itself, and so it is written anew for each pod.
    OnPods,
}

/// A child that is created.
#[derive(Clone, Copy)]
pub(crate) struct Arrival<'a> {
    pub(crate) meta: &'a dyn Marked,
    /// Its name, or what it will be made from.
    pub(crate) name: &'a str,
    /// The uid of the request, which never comes twice.
    pub(crate) request: &'a str,
    /// The scheduler that its stamp names, where it can be read.
    pub(crate) scheduler: Option<&'a str>,
}

/// What comes before the link of a child.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Prepared {
    /// Its gang is known from its labels.
    Known,
    /// These labels are to be written, and then its gang is known.
    Labelled(BTreeMap<&'static str, String>),
    /// These labels are to be written; its controller's webhook must see it before its gang is
    /// known.
    TooEarly(BTreeMap<&'static str, String>),
    /// Its controller gangs it itself, and Muster leaves it alone: the warning.
    LeftAlone(&'static str),
}
