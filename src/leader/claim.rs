//! Who may have the Lease: pure, with the time given.
//!
//! The clocks of two machines differ, so the times in a Lease are never compared with ours. As in
//! client-go, a Lease has run out when its content did not change for its duration, counted on
//! our own monotonic clock from when we first saw that content.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use tokio::time::Instant;

/// What a candidate may do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LeaseAction {
    /// It is ours: renew.
    Renew,
    /// It is free or has run out: take it.
    Take,
    /// Another holds it.
    Wait,
}

/// The Lease as last seen, and since when it looks like that.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    holder: Option<String>,
    renew_time: Option<MicroTime>,
    duration: Option<Duration>,
    since: Instant,
}

impl Observation {
    pub(super) fn of(before: Option<Self>, spec: &LeaseSpec, now: Instant) -> Self {
        let seconds = |seconds: i32| u64::try_from(seconds).ok().map(Duration::from_secs);
        let seen = Self {
            holder: spec.holder_identity.clone().filter(|h| !h.is_empty()),
            renew_time: spec.renew_time.clone(),
            duration: spec.lease_duration_seconds.and_then(seconds),
            since: now,
        };
        match before {
            Some(before)
                if before.holder == seen.holder && before.renew_time == seen.renew_time =>
            {
                let since = before.since;
                Self { since, ..seen }
            }
            _ => seen,
        }
    }

    /// `duration` is for a Lease that says none.
    pub(super) fn action(&self, identity: &str, duration: Duration, now: Instant) -> LeaseAction {
        match self.holder.as_deref() {
            None => LeaseAction::Take,
            Some(holder) if holder == identity => LeaseAction::Renew,
            Some(_) => {
                let ends = self.since + self.duration.unwrap_or(duration);
                if now >= ends {
                    LeaseAction::Take
                } else {
                    LeaseAction::Wait
                }
            }
        }
    }
}

/// The Lease as its new or old holder writes it.
pub(super) fn claim(
    spec: LeaseSpec,
    action: LeaseAction,
    identity: &str,
    duration: Duration,
    now: Timestamp,
) -> LeaseSpec {
    let transitions = spec.lease_transitions.unwrap_or(0);
    let taken = action == LeaseAction::Take;
    LeaseSpec {
        holder_identity: Some(identity.to_owned()),
        lease_duration_seconds: Some(i32::try_from(duration.as_secs()).unwrap_or(i32::MAX)),
        acquire_time: if taken {
            Some(MicroTime(now))
        } else {
            spec.acquire_time
        },
        renew_time: Some(MicroTime(now)),
        lease_transitions: Some(transitions.saturating_add(i32::from(taken))),
        ..spec
    }
}

/// The Lease as a holder leaves it that steps down. One second, as client-go writes it, for those
/// that look at the times only.
pub(super) fn released(spec: LeaseSpec, now: Timestamp) -> LeaseSpec {
    LeaseSpec {
        holder_identity: None,
        lease_duration_seconds: Some(1),
        renew_time: Some(MicroTime(now)),
        ..spec
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(15);

    fn held_by(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            lease_transitions: Some(3),
            ..LeaseSpec::default()
        }
    }

    fn action(seen: &Observation, now: Instant) -> LeaseAction {
        seen.action("us", DURATION, now)
    }

    #[test]
    fn a_lease_runs_out_by_our_own_clock_whatever_times_it_tells() {
        let start = Instant::now();
        // Long ago by any clock, yet its holder may be renewing with a wrong one.
        let seen = Observation::of(None, &held_by("them", 0), start);
        assert_eq!(action(&seen, start), LeaseAction::Wait);
        let later = start + Duration::from_secs(14);
        let seen = Observation::of(Some(seen), &held_by("them", 0), later);
        assert_eq!(action(&seen, later), LeaseAction::Wait);
        assert_eq!(action(&seen, start + DURATION), LeaseAction::Take);
    }

    #[test]
    fn a_renewal_restarts_the_wait() {
        let start = Instant::now();
        let seen = Observation::of(None, &held_by("them", 0), start);
        let later = start + Duration::from_secs(14);
        let seen = Observation::of(Some(seen), &held_by("them", 5), later);
        assert_eq!(action(&seen, start + DURATION), LeaseAction::Wait);
        assert_eq!(action(&seen, later + DURATION), LeaseAction::Take);
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let start = Instant::now();
        let now = Timestamp::from_second(9).unwrap();
        let seen = Observation::of(None, &released(held_by("them", 5), now), start);
        assert_eq!(action(&seen, start), LeaseAction::Take);
    }

    #[test]
    fn our_own_lease_is_renewed_however_old() {
        let start = Instant::now();
        let seen = Observation::of(None, &held_by("us", 0), start);
        assert_eq!(action(&seen, start + DURATION * 2), LeaseAction::Renew);
    }

    #[test]
    fn a_change_of_holder_counts_as_one_transition() {
        let now = Timestamp::from_second(9).unwrap();
        let taken = claim(held_by("them", 5), LeaseAction::Take, "us", DURATION, now);
        assert_eq!(taken.lease_transitions, Some(4));
        assert_eq!(taken.acquire_time, Some(MicroTime(now)));
        let later = Timestamp::from_second(12).unwrap();
        let renewed = claim(taken, LeaseAction::Renew, "us", DURATION, later);
        assert_eq!(renewed.lease_transitions, Some(4));
        assert_eq!(renewed.acquire_time, Some(MicroTime(now)));
        assert_eq!(renewed.renew_time, Some(MicroTime(later)));
    }
}
