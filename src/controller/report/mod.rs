//! What users are told of their gangs: events ([`events`], with what was told of each gang before in
//! [`gang_history`]) and a condition in the workload's status ([`condition`]). Decides nothing.

pub(super) mod condition;
pub(super) mod events;
pub(super) mod few;
mod gang_history;
