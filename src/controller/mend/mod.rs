//! What Muster does for gangs that wait because of a weakness of their scheduler: it makes the scheduler
//! look again when room appears ([`nudge`]), gives a gang that was forgotten a new round ([`revive`]),
//! and says what is wrong with a queue ([`queues`]).

pub(super) mod nudge;
pub(super) mod queues;
pub(super) mod revive;
