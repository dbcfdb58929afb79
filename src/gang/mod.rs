//! The model: what a gang is, how large, under which name, with which resources.
//!
//! Pure data and pure functions. Nothing here knows a workload kind, a scheduler's objects,
//! HTTP or a cluster; an invalid [`Part`] cannot be built, its constructor returns field errors.

pub mod duration;
pub mod field;
pub mod keys;
pub mod limits;
pub mod link;
pub mod member;
pub mod name;
pub mod part;
pub mod plan;
pub mod policy;
pub mod quantity;
pub mod reference;
pub mod resources;
pub mod shape;

pub use field::{FieldError, FieldPath};
pub use member::{Member, RoleShape, RoleStamp, Sibling, Stamp, Words};
pub use name::{Attempt, BundleName, GangKey, GangName, Identity, PartName, Round};
pub use part::{Level, Part, PartDraft, Role};
pub use plan::{Barrier, Gang, Owner, Plan};
pub use policy::{Located, Policy, SchedulerKind, Strictness, TimeoutAction};
pub use reference::WorkloadRef;
pub use shape::{Apart, Shape, Written};
