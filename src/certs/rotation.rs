//! How long certificates live, when the next one takes over, and how often Muster looks.
//!
//! Pure numbers: those of a cluster, and those of a test that has seconds where a cluster has months.

use std::time::{Duration, SystemTime};

use super::pair::Validity;
use super::reload::POLL;

/// Certificates count from a day before they were made: the clocks of an apiserver and of a node
/// differ, by hours where one of them takes its hardware clock for local time, and "not yet valid"
/// stops every admission (kubernetes/kubectl#1307).
pub const BACKDATE: Duration = DAY;

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// How long a certificate lives, and for which share of that it is used before the next one is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    pub(crate) whole: Duration,
    used: (u32, u32),
}

impl Lifetime {
    /// Of a CA.
    pub const AUTHORITY: Self = Self::of(DAY.saturating_mul(365));
    /// Of a leaf.
    pub const LEAF: Self = Self::of(DAY.saturating_mul(7));

    const fn of(whole: Duration) -> Self {
        let used = (2, 3);
        Self { whole, used }
    }

    /// The moment at which a certificate of ours has been used for long enough, the backdated day not
    /// counted. By the life that it has: a leaf ends with its CA.
    pub fn renewal_due(&self, validity: &Validity) -> SystemTime {
        let made = validity.not_before + BACKDATE;
        let life = validity.not_after.duration_since(made).unwrap_or_default();
        let (used, parts) = self.used;
        made + life * used / parts
    }
}

impl From<Duration> for Lifetime {
    /// Two thirds of it are used.
    fn from(whole: Duration) -> Self {
        Self::of(whole)
    }
}

/// How Muster's own certificates are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rotation {
    pub(crate) authority: Lifetime,
    pub(crate) leaf: Lifetime,
    /// How long every webhook must have carried a CA before it signs: the apiservers of a cluster
    /// hear of a change one after the other, and one that has not heard of the CA refuses its leaf.
    pub(crate) settling: Duration,
    /// How often the CA is looked at when nothing changes.
    pub(crate) authority_poll: Duration,
    /// How often the leaf is looked at.
    pub(crate) leaf_poll: Duration,
}

impl Default for Rotation {
    fn default() -> Self {
        Self {
            authority: Lifetime::AUTHORITY,
            leaf: Lifetime::LEAF,
            settling: Duration::from_secs(30),
            authority_poll: Duration::from_secs(30),
            leaf_poll: POLL,
        }
    }
}

impl Rotation {
    /// A new CA and a new leaf that often. Each lives four times as long: an apiserver that is busy
    /// for half a minute is as slow in a test as in a cluster, which has months for it.
    pub fn every(interval: Duration) -> Self {
        // Times in certificates are whole seconds.
        let interval = interval.max(Duration::from_secs(1));
        let lifetime = Lifetime {
            whole: interval * 4,
            used: (1, 4),
        };
        Self {
            authority: lifetime,
            leaf: lifetime,
            settling: interval / 5,
            authority_poll: interval / 10,
            leaf_poll: interval / 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(now: SystemTime, life: Duration) -> Validity {
        Validity {
            not_before: now - BACKDATE,
            not_after: now + life,
        }
    }

    #[test]
    fn a_cluster_uses_two_thirds_of_a_life() {
        let now = SystemTime::now();
        let due = Lifetime::LEAF.renewal_due(&made(now, DAY * 7));
        assert_eq!(due, now + DAY * 14 / 3);
        let due = Lifetime::AUTHORITY.renewal_due(&made(now, DAY * 365));
        assert_eq!(due, now + DAY * 730 / 3);
    }

    #[test]
    fn a_leaf_that_ends_with_its_ca_is_used_for_the_same_share() {
        let now = SystemTime::now();
        let due = Lifetime::LEAF.renewal_due(&made(now, DAY * 3));
        assert_eq!(due, now + DAY * 2);
    }

    #[test]
    fn a_rotation_comes_as_often_as_it_says() {
        let (now, five) = (SystemTime::now(), Duration::from_secs(5));
        let rotation = Rotation::every(five);
        for lifetime in [rotation.authority, rotation.leaf] {
            let due = lifetime.renewal_due(&made(now, lifetime.whole));
            assert_eq!(due, now + five);
        }
    }
}
