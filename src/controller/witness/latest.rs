//! What was told last of each, as far as it is kept: bounded, and one namespace cannot push out what is
//! known of another. While there is room, one may have all of it: a workload may have a thousand
//! controllers, and each of them may be refused.

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;

use super::events::Who;

/// So many are kept. Beyond that the namespace that has most loses its oldest.
const MOST: usize = 4_096;

/// What has a time at which it was told last.
pub(super) trait Timed {
    fn at(&self) -> Option<Timestamp>;
}

/// What was told of each.
#[derive(Debug)]
pub(super) struct Latest<T>(HashMap<Who, T>);

impl<T> Default for Latest<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Timed> Latest<T> {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    pub(super) fn get_mut(&mut self, who: &Who) -> Option<&mut T> {
        self.0.get_mut(who)
    }

    pub(super) fn remove(&mut self, who: &Who) {
        self.0.remove(who);
    }

    /// All that is known of a namespace.
    pub(super) fn of(&self, namespace: &str) -> impl Iterator<Item = (&Who, &T)> {
        self.0
            .iter()
            .filter(move |(who, _)| who.namespace == namespace)
    }

    pub(super) fn insert(&mut self, who: Who, told: T) {
        self.0.insert(who, told);
        if self.0.len() > MOST {
            let mut counts: HashMap<&str, usize> = HashMap::new();
            for who in self.0.keys() {
                *counts.entry(&who.namespace).or_default() += 1;
            }
            let most = counts.into_iter().max_by_key(|(_, count)| *count);
            let most = most.map(|(namespace, _)| namespace).unwrap_or_default();
            let oldest = self.of(most).min_by_key(|(_, told)| told.at());
            if let Some(oldest) = oldest.map(|(who, _)| who.clone()) {
                self.0.remove(&oldest);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Timed for i64 {
        fn at(&self) -> Option<Timestamp> {
            Timestamp::from_second(*self).ok()
        }
    }

    #[test]
    fn a_namespace_with_many_loses_its_own_oldest() {
        let who = |namespace: &str, name: i64| Who {
            namespace: namespace.to_owned(),
            kind: "Maker".to_owned(),
            name: name.to_string(),
        };
        let mut latest = Latest::default();
        latest.insert(who("quiet", 0), 0);
        let many = MOST as i64 + 200;
        for time in 0..many {
            latest.insert(who("busy", time), time);
            if time == 1000 {
                // A workload of a thousand controllers keeps what each of them was told.
                assert_eq!(latest.of("busy").count(), 1001);
            }
        }
        assert_eq!(latest.of("quiet").count(), 1);
        let kept = MOST - 1;
        assert_eq!(latest.of("busy").count(), kept);
        let oldest = latest.of("busy").map(|(_, time)| *time).min();
        assert_eq!(oldest, Some(many - kept as i64));
    }
}
