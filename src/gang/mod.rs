//! The model: what a gang is, how large, under which name, with which resources.
//!
//! Pure data and pure functions. Nothing here knows a workload kind, a scheduler's objects,
//! HTTP or a cluster; an invalid [`Part`] cannot be built, its constructor returns field errors.

pub(crate) mod apart;
pub(crate) mod ask;
pub(crate) mod barrier;
pub(crate) mod duration;
pub(crate) mod field;
pub(crate) mod keys;
pub(crate) mod limits;
pub(crate) mod link;
pub(crate) mod member;
pub(crate) mod name;
pub(crate) mod nearest;
pub(crate) mod part;
pub(crate) mod plan;
pub(crate) mod policy;
pub(crate) mod quantity;
pub(crate) mod reference;
pub(crate) mod resources;
pub(crate) mod seal;
pub(crate) mod selector;
pub(crate) mod shape;
pub(crate) mod standing;
pub(crate) mod vouched;

pub use ask::{Ask, Unscheduled};
pub(crate) use barrier::{Barrier, BarrierStart, Target};
pub use barrier::{WaitContainer, WaitUser};
pub(crate) use field::{FieldError, FieldPath};
pub use member::Stamp;
pub(crate) use member::{Member, RoleShape, RoleStamp, Sibling, Words};
pub use name::{Attempt, Identity, PartName, Round};
pub(crate) use name::{BundleName, GangKey, GangName};
pub(crate) use part::{Level, Part, PartDraft, Role};
pub(crate) use plan::{Allies, Ally, Gang, Owner, Plan, Reference};
pub use policy::SchedulerKind;
pub(crate) use policy::{Located, Policy, Strictness, TimeoutAction};
pub(crate) use reference::Named;
pub use reference::{Circle, PartnerRef, WorkloadRef};
pub use seal::{KeyBytes, Seals, StampHash};
pub(crate) use shape::{ControllerLabels, KeptApart, Shape};
pub use standing::Standing;
pub use vouched::{Asked, Carried, Carrier, Vouched};
