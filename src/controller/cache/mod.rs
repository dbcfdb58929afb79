//! What the watches show, kept so that a look at one workload reads only what belongs to it:
//! workloads as text ([`stored`]), their pods and objects by owner ([`by_owner`]), and what Muster
//! wrote before the watches show it ([`recent_writes`]). Decides nothing.

pub(super) mod by_owner;
pub(super) mod expiring;
pub(super) mod recent_writes;
pub(super) mod stored;
