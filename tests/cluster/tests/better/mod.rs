//! What a user of Muster does not meet, although the scheduler alone would show it.

pub mod coscheduling;
pub mod kai;
pub mod kinds;
pub mod koordinator;
pub mod native;
pub mod partners;
pub mod shared;
pub mod sizes;
pub mod volcano;
pub mod yunikorn;
