//! Which barriers are open, as one replica knows it: shown by a watch on their ConfigMaps, waited for by
//! the connections of pods. No sockets and no client here.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

/// How a barrier stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) enum State {
    /// Nothing is known of it: not all have come.
    #[default]
    Closed,
    /// Somebody's time is over, and who is missing.
    Late(Arc<str>),
    Open,
}

/// A barrier's namespace and name.
pub(crate) type Key = (String, String);

/// The barriers that are shown or waited for. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Barriers(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    known: Mutex<HashMap<Key, Known>>,
    filled: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    state: watch::Sender<State>,
    /// Whether a ConfigMap says so.
    shown: bool,
}

impl Barriers {
    /// What a ConfigMap says.
    pub(crate) fn show(&self, key: Key, state: State) {
        let mut known = self.lock();
        let barrier = known.entry(key).or_default();
        barrier.shown = true;
        barrier.state.send_if_modified(|before| {
            let changed = *before != state;
            *before = state;
            changed
        });
    }

    /// A ConfigMap is gone: whoever still waits goes on waiting.
    pub(crate) fn hide(&self, key: &Key) {
        let mut known = self.lock();
        if let Some(barrier) = known.get_mut(key) {
            barrier.shown = false;
            barrier.state.send_replace(State::Closed);
            if barrier.state.is_closed() {
                known.remove(key);
            }
        }
    }

    /// All ConfigMaps are shown, and there are no others.
    pub(crate) fn filled(&self, shown: &HashSet<Key>) {
        let before: Vec<Key> = self.lock().keys().cloned().collect();
        for key in before.iter().filter(|key| !shown.contains(*key)) {
            self.hide(key);
        }
        self.0.filled.store(true, Ordering::Release);
    }

    /// Whether the ConfigMaps have been listed: before that, closed may only mean not seen.
    pub(crate) fn is_filled(&self) -> bool {
        self.0.filled.load(Ordering::Acquire)
    }

    /// One who waits. Ask only for who has shown a token, since each barrier is remembered.
    pub(crate) fn wait(&self, key: Key) -> Wait {
        let state = self
            .lock()
            .entry(key.clone())
            .or_default()
            .state
            .subscribe();
        Wait {
            barriers: self.clone(),
            key,
            state: Some(state),
        }
    }

    /// Those that are remembered.
    #[cfg(test)]
    fn count(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Known>> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One who waits at a barrier.
pub(crate) struct Wait {
    barriers: Barriers,
    key: Key,
    state: Option<watch::Receiver<State>>,
}

impl Wait {
    /// Comes back when the barrier is open.
    pub(crate) async fn open(&mut self) {
        let Some(state) = &mut self.state else {
            return std::future::pending().await;
        };
        if state.wait_for(|state| *state == State::Open).await.is_err() {
            std::future::pending().await
        }
    }

    pub(crate) fn now(&self) -> State {
        self.state
            .as_ref()
            .map(|state| state.borrow().clone())
            .unwrap_or_default()
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.state = None;
        let mut known = self.barriers.lock();
        if let Some(barrier) = known.get(&self.key)
            && !barrier.shown
            && barrier.state.is_closed()
        {
            known.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn key(name: &str) -> Key {
        ("ml".to_owned(), name.to_owned())
    }

    #[tokio::test]
    async fn all_who_wait_are_told_and_later_ones_at_once() {
        let barriers = Barriers::default();
        let mut first = barriers.wait(key("a"));
        let mut other = barriers.wait(key("b"));
        assert!(first.open().now_or_never().is_none());
        barriers.show(key("a"), State::Late("7 of 9".into()));
        assert!(first.open().now_or_never().is_none());
        assert_eq!(first.now(), State::Late("7 of 9".into()));
        barriers.show(key("a"), State::Open);
        first.open().await;
        barriers.wait(key("a")).open().await;
        assert!(other.open().now_or_never().is_none());
    }

    #[test]
    fn nothing_is_remembered_of_a_barrier_that_nobody_waits_at() {
        let barriers = Barriers::default();
        drop(barriers.wait(key("a")));
        assert_eq!(barriers.count(), 0);
        let waits = barriers.wait(key("a"));
        barriers.show(key("a"), State::Open);
        barriers.show(key("b"), State::Open);
        drop(waits);
        assert_eq!(barriers.count(), 2);
        barriers.hide(&key("a"));
        barriers.filled(&HashSet::new());
        assert_eq!(barriers.count(), 0);
    }

    #[test]
    fn a_list_that_does_not_show_a_barrier_closes_it() {
        let barriers = Barriers::default();
        barriers.show(key("a"), State::Open);
        let waits = barriers.wait(key("a"));
        assert!(!barriers.is_filled());
        barriers.filled(&HashSet::from([key("b")]));
        assert!(barriers.is_filled());
        assert_eq!(waits.now(), State::Closed);
    }
}
