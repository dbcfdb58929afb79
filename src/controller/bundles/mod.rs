//! Bundles that reach over several workloads: who names whom (`partner_index`), where the partners are
//! found ([`neighbours`]), what of a bundle may exist yet ([`partners`]), and which of its gangs lacks
//! pods ([`missing_pods`]).

pub mod missing_pods;
pub mod neighbours;
mod partner_index;
pub mod partners;
