//! Bundles that reach over several workloads: who names whom (`partner_index`), where the partners are
//! found ([`neighbours`]), what is seen of them ([`partners`]), what of a bundle may exist yet ([`start`],
//! and [`shared`] where one object is for all), and which of its gangs lacks pods ([`missing_pods`]).

pub mod missing_pods;
pub mod neighbours;
mod partner_index;
pub mod partners;
pub mod shared;
pub mod start;
