//! Bundles that reach over several workloads: who the partners are ([`partner_index`]), what of a
//! bundle may exist yet ([`partners`]), and which of its gangs lacks pods ([`missing_pods`]).

pub mod missing_pods;
pub mod partner_index;
pub mod partners;
