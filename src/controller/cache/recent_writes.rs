//! What Muster itself has just written, until the caches show it.
//!
//! A watch is behind by some milliseconds, and a reconcile in that time would write the same once
//! more. So the answer to each write is laid over what the cache says, for a short time only: what
//! the cache still does not show then was undone by somebody else.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::core::DynamicObject;

use super::expiring::Expiring;
use crate::controller::gang_objects;

/// Longer than a watch is behind on a busy cluster; then the cache is right.
pub(crate) const TRUST: Duration = Duration::from_secs(10);

/// An object of a workload: its kind and its name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: String,
    name: String,
}

impl Key {
    fn of(object: &DynamicObject) -> Self {
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        Self {
            kind: text(object.types.as_ref().map(|types| &types.kind)),
            name: text(object.metadata.name.as_ref()),
        }
    }
}

#[derive(Debug)]
enum Write {
    Applied(Box<DynamicObject>),
    /// The uid of what was deleted: its successor of the same name is another object.
    Deleted(Option<String>),
}

impl Write {
    /// Whether a cache that shows this object has caught up.
    fn is_shown_by(&self, shown: &DynamicObject) -> bool {
        match self {
            Self::Applied(answer) => {
                shown.metadata.uid == answer.metadata.uid
                    && gang_objects::applied(shown) == gang_objects::applied(answer)
            }
            Self::Deleted(uid) => shown.metadata.uid != *uid || is_going(shown),
        }
    }
}

fn is_going(object: &DynamicObject) -> bool {
    object.metadata.deletion_timestamp.is_some()
}

/// When each object of a workload was written, and how.
type Writes = HashMap<Key, (Instant, Write)>;

/// The writes of the last moments, by the workload's uid.
#[derive(Debug)]
pub(crate) struct RecentWrites(Mutex<Expiring<String, Writes>>);

impl Default for RecentWrites {
    fn default() -> Self {
        Self(Mutex::new(Expiring::new(TRUST)))
    }
}

impl RecentWrites {
    /// Remembers what the apiserver answered to an apply.
    pub(crate) fn applied(&self, workload: &str, mut answer: DynamicObject) {
        // What is being deleted must be recreated as soon as it is gone.
        if is_going(&answer) {
            return;
        }
        gang_objects::strip(&mut answer);
        let key = Key::of(&answer);
        self.remember(workload, key, Write::Applied(Box::new(answer)));
    }

    pub(crate) fn deleted(&self, workload: &str, object: &DynamicObject) {
        let write = Write::Deleted(object.metadata.uid.clone());
        self.remember(workload, Key::of(object), write);
    }

    /// What the caches show of a workload's objects, with Muster's own last writes laid over it.
    /// Says also when to look again, if a cache is behind.
    pub(crate) fn lay_over(
        &self,
        workload: &str,
        cached: Vec<DynamicObject>,
    ) -> (Vec<DynamicObject>, Option<Duration>) {
        self.lay_over_at(Instant::now(), workload, cached)
    }

    fn lay_over_at(
        &self,
        now: Instant,
        workload: &str,
        mut cached: Vec<DynamicObject>,
    ) -> (Vec<DynamicObject>, Option<Duration>) {
        let mut recent = self.lock();
        let Some(mut writes) = recent.remove(workload) else {
            return (cached, None);
        };
        let places: HashMap<Key, usize> = cached.iter().map(Key::of).zip(0..).collect();
        let mut behind: Option<Duration> = None;
        writes.retain(|key, (at, write)| {
            let left = TRUST.saturating_sub(now.duration_since(*at));
            let place = places.get(key).copied();
            let shown = place.is_some_and(|i| write.is_shown_by(&cached[i]));
            if left.is_zero() || shown {
                return false;
            }
            match (write, place) {
                (Write::Applied(answer), Some(i)) => cached[i] = DynamicObject::clone(answer),
                (Write::Applied(answer), None) => cached.push(DynamicObject::clone(answer)),
                // It may still exist, as long as it has finalizers.
                (Write::Deleted(_), Some(i)) => {
                    cached[i].metadata.deletion_timestamp = Some(Time(Timestamp::now()));
                }
                (Write::Deleted(_), None) => return true,
            }
            behind = Some(behind.map_or(left, |other| other.min(left)));
            true
        });
        if !writes.is_empty() {
            recent.insert(workload.to_owned(), writes, now);
        }
        (cached, behind)
    }

    fn remember(&self, workload: &str, key: Key, write: Write) {
        let (mut recent, now) = (self.lock(), Instant::now());
        let mut writes = recent.remove(workload).unwrap_or_default();
        writes.insert(key, (now, write));
        recent.insert(workload.to_owned(), writes, now);
    }

    fn lock(&self) -> MutexGuard<'_, Expiring<String, Writes>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};

    use super::*;

    fn object(name: &str, uid: &str, hash: &str) -> DynamicObject {
        let kind = GroupVersionKind::gvk("scheduling.k8s.io", "v1beta1", "PodGroup");
        let mut object = DynamicObject::new(name, &ApiResource::from_gvk(&kind)).within("ml");
        object.metadata.uid = Some(uid.to_owned());
        object.metadata.annotations =
            Some([(crate::gang::keys::APPLIED.to_owned(), hash.to_owned())].into());
        object
    }

    /// What a look shows: the hash of each object, and whether it is on its way out.
    fn look(
        recent: &RecentWrites,
        cached: &[DynamicObject],
        after: Duration,
    ) -> Vec<(String, bool)> {
        let now = Instant::now() + after;
        let (seen, behind) = recent.lay_over_at(now, UID, cached.to_vec());
        assert_eq!(behind.is_some(), !recent.lock().is_empty());
        let hash = |o: &DynamicObject| gang_objects::applied(o).unwrap_or_default().to_owned();
        seen.iter().map(|o| (hash(o), is_going(o))).collect()
    }

    const UID: &str = "4d1c";
    const AT_ONCE: Duration = Duration::ZERO;

    #[test]
    fn an_apply_counts_before_the_cache_shows_it_and_then_no_more() {
        let recent = RecentWrites::default();
        let (old, new) = (object("a", "1", "old"), object("a", "1", "new"));
        recent.applied(UID, new.clone());
        assert_eq!(look(&recent, &[], AT_ONCE), [("new".to_owned(), false)]);
        assert_eq!(look(&recent, &[old], AT_ONCE), [("new".to_owned(), false)]);
        assert_eq!(look(&recent, &[new], AT_ONCE), [("new".to_owned(), false)]);
        // Caught up: what vanishes now has really gone.
        assert!(look(&recent, &[], AT_ONCE).is_empty());
    }

    #[test]
    fn a_deletion_counts_before_the_cache_shows_it_and_a_successor_is_another_object() {
        let recent = RecentWrites::default();
        let (old, new) = (object("a", "1", "x"), object("a", "2", "x"));
        recent.deleted(UID, &old);
        assert_eq!(look(&recent, &[old], AT_ONCE), [("x".to_owned(), true)]);
        assert_eq!(look(&recent, &[new], AT_ONCE), [("x".to_owned(), false)]);
    }

    #[test]
    fn what_is_recreated_after_a_deletion_is_not_hidden_by_it() {
        let recent = RecentWrites::default();
        let (old, new) = (object("a", "1", "x"), object("a", "2", "x"));
        recent.applied(UID, old.clone());
        recent.deleted(UID, &old);
        assert!(recent.lay_over(UID, Vec::new()).0.is_empty());
        recent.applied(UID, new);
        assert_eq!(look(&recent, &[old], AT_ONCE), [("x".to_owned(), false)]);
    }

    #[test]
    fn a_write_that_never_shows_is_forgotten_and_done_again() {
        let recent = RecentWrites::default();
        recent.applied(UID, object("a", "1", "x"));
        assert!(look(&recent, &[], TRUST).is_empty());
    }

    #[test]
    fn an_apply_to_what_is_going_away_is_not_taken_for_granted() {
        let recent = RecentWrites::default();
        let mut going = object("a", "1", "x");
        going.metadata.deletion_timestamp = Some(Time(Timestamp::now()));
        recent.applied(UID, going);
        assert!(look(&recent, &[], AT_ONCE).is_empty());
    }

    #[test]
    fn other_workloads_do_not_see_it() {
        let recent = RecentWrites::default();
        recent.applied(UID, object("a", "1", "x"));
        let (seen, behind) = recent.lay_over("another", Vec::new());
        assert!(seen.is_empty() && behind.is_none());
    }
}
