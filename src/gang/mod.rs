//! The model: what a gang is, how large, under which name, with which resources.
//!
//! Pure data and pure functions. Nothing here knows a workload kind, a scheduler's objects,
//! HTTP or a cluster; an invalid [`Part`] cannot be built, its constructor returns field errors.

pub mod duration;
pub mod field;
pub mod labels;
pub mod link;
pub mod member;
pub mod name;
pub mod part;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod reference;
pub mod resources;

pub use field::{FieldError, FieldPath};
pub use labels::Written;
pub use member::{Member, Need, Order, RevisionStamp, RoleStamp, Sibling, Stamp};
pub use name::{Attempt, BundleName, GangName, Identity, PartName, Round};
pub use part::{Apart, Level, Part, PartDraft, Role, Shape};
pub use plan::{Barrier, Gang, Owner, Plan};
pub use policy::Unasked;
pub use policy::{KoordinatorWay, Located, Policy, SchedulerKind, Strictness, TimeoutAction};
pub use reference::WorkloadRef;
