//! Help for gangs where their scheduler does not help itself: it is woken when room appears
//! ([`nudge`]), a gang that it has forgotten gets a new round ([`revive`]), and a queue that nothing
//! starts from is named ([`queues`]).

pub mod nudge;
pub mod queues;
pub mod revive;
