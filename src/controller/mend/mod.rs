//! What Muster does for gangs that wait because of a weakness of their scheduler: it makes the scheduler
//! look again when room appears ([`nudge`]), and gives a gang that was forgotten a new round
//! ([`revive`]).

pub(super) mod nudge;
pub(super) mod revive;
