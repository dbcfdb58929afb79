//! What was told last of each, as far as it is kept: bounded, so that one namespace cannot push out
//! what is known of another.

use std::collections::HashMap;

use k8s_openapi::jiff::Timestamp;

use super::events::Who;

/// So many are kept, the last ones, and of one namespace fewer.
const MOST: usize = 4_096;
const MOST_OF_ONE: usize = 64;

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
        let namespace = who.namespace.clone();
        self.0.insert(who, told);
        let own = self.of(&namespace).count();
        if own > MOST_OF_ONE || self.0.len() > MOST {
            let of = |who: &Who| who.namespace == namespace;
            let old = self
                .0
                .iter()
                .filter(|(who, _)| own <= MOST_OF_ONE || of(who));
            let oldest = old.min_by_key(|(_, told)| told.at());
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
        for time in 0..200 {
            latest.insert(who("busy", time), time);
        }
        assert_eq!(latest.of("quiet").count(), 1);
        assert_eq!(latest.of("busy").count(), MOST_OF_ONE);
        assert!(
            latest
                .of("busy")
                .all(|(_, time)| *time >= 200 - MOST_OF_ONE as i64)
        );
    }
}
