//! Values that count for some time only. Expired ones are dropped now and then, and not by walking all
//! at each use.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Below this, nothing is dropped.
const FEW: usize = 64;

#[derive(Debug)]
pub(crate) struct Expiring<K, V> {
    lifetime: Duration,
    entries: HashMap<K, (Instant, V)>,
    /// Expired ones are dropped when there are so many entries.
    sweep_at: usize,
}

impl<K: Eq + Hash, V> Expiring<K, V> {
    pub(crate) fn new(lifetime: Duration) -> Self {
        Self {
            lifetime,
            entries: HashMap::new(),
            sweep_at: FEW,
        }
    }

    /// A value that still counts, and for how long.
    pub(crate) fn get<Q>(&self, key: &Q, now: Instant) -> Option<(&V, Duration)>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (since, value) = self.entries.get(key)?;
        let left = self.lifetime.saturating_sub(now.duration_since(*since));
        (!left.is_zero()).then_some((value, left))
    }

    /// The same, to change it: it counts for no longer than before.
    pub(crate) fn get_mut<Q>(&mut self, key: &Q, now: Instant) -> Option<&mut V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        let (since, value) = self.entries.get_mut(key)?;
        (now.duration_since(*since) < self.lifetime).then_some(value)
    }

    pub(crate) fn insert(&mut self, key: K, value: V, now: Instant) {
        if self.entries.len() >= self.sweep_at {
            let lifetime = self.lifetime;
            self.entries
                .retain(|_, (since, _)| now.duration_since(*since) < lifetime);
            // Twice what is left: then a walk over all has been paid for by as many insertions.
            self.sweep_at = FEW.max(2 * self.entries.len());
        }
        self.entries.insert(key, (now, value));
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(crate) fn remove<Q>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
        Q: Eq + Hash + ?Sized,
    {
        self.entries.remove(key).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_value_counts_for_its_time() {
        let (mut values, start) = (Expiring::new(10 * SECOND), Instant::now());
        values.insert("a", 1, start);
        assert_eq!(values.get("a", start + SECOND), Some((&1, 9 * SECOND)));
        assert_eq!(values.get("a", start + 10 * SECOND), None);
        assert_eq!(values.get("b", start), None);
    }

    #[test]
    fn what_has_expired_is_not_kept_for_ever() {
        let (mut values, start) = (Expiring::new(SECOND), Instant::now());
        for number in 0..100 * FEW {
            let now = start + SECOND * u32::try_from(number).unwrap();
            values.insert(number, (), now);
            assert!(values.entries.len() <= FEW);
        }
    }

    #[test]
    fn what_still_counts_is_kept_however_much_it_is() {
        let (mut values, now) = (Expiring::new(SECOND), Instant::now());
        (0..100 * FEW).for_each(|number| values.insert(number, (), now));
        assert_eq!(values.entries.len(), 100 * FEW);
    }
}
