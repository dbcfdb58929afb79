//! What admission does not know of stamps: each question once, and each namespace in its turn, so that
//! whoever invents workloads keeps nobody else from being answered.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::gang::Carrier;

/// Questions of one namespace that wait. The apiserver calls again for those that are dropped.
const OF_ONE: usize = 8;

/// Of all namespaces.
const OF_ALL: usize = 512;

/// What admission does not know of a stamp.
#[derive(Debug)]
pub enum Question {
    /// The key of its seal; the Secret may have it.
    Key,
    /// Whether the stored workload carries it.
    Stamp(Carrier),
}

/// Takes questions of admission, which are answered for its next call.
#[derive(Debug, Clone, Default)]
pub struct Questions(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: Mutex<Waiting>,
    asked: Notify,
}

#[derive(Debug, Default)]
struct Waiting {
    key: bool,
    /// Those that wait, and those that are being answered.
    known: HashSet<Carrier>,
    by_namespace: BTreeMap<String, VecDeque<Carrier>>,
    /// The namespace that had its turn last.
    last: String,
}

impl Questions {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        let waiting = self.0.waiting.lock();
        waiting.unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks, unless it is asked already or too many questions wait.
    pub fn ask(&self, question: Question) {
        match question {
            Question::Key => self.waiting().key = true,
            Question::Stamp(carrier) => self.waiting().add(carrier),
        }
        self.0.asked.notify_one();
    }

    /// Waits until somebody asks.
    pub(super) async fn asked(&self) {
        self.0.asked.notified().await;
    }

    /// Whether somebody asked for a key since the last time.
    pub(super) fn take_key(&self) -> bool {
        std::mem::take(&mut self.waiting().key)
    }

    /// The next workload to ask.
    pub(super) fn next(&self) -> Option<Carrier> {
        self.waiting().next()
    }

    /// A workload was asked: it may be asked again.
    pub(super) fn done(&self, carrier: &Carrier) {
        self.waiting().known.remove(carrier);
    }
}

impl Waiting {
    fn add(&mut self, carrier: Carrier) {
        if self.known.len() >= OF_ALL || self.known.contains(&carrier) {
            return;
        }
        let namespace = carrier.workload.namespace().to_owned();
        let own = self.by_namespace.entry(namespace).or_default();
        if own.len() < OF_ONE {
            own.push_back(carrier.clone());
            self.known.insert(carrier);
        }
    }

    fn next(&mut self) -> Option<Carrier> {
        let after = (Bound::Excluded(self.last.clone()), Bound::Unbounded);
        let next = self.by_namespace.range(after).next();
        let next = next.or_else(|| self.by_namespace.iter().next());
        let namespace = next?.0.clone();
        let own = self.by_namespace.get_mut(&namespace)?;
        let carrier = own.pop_front();
        if own.is_empty() {
            self.by_namespace.remove(&namespace);
        }
        self.last = namespace;
        carrier
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::WorkloadRef;

    fn carrier(namespace: &str, name: &str) -> Carrier {
        Carrier {
            kind: "Thing",
            workload: WorkloadRef::new(namespace, name),
        }
    }

    #[test]
    fn whoever_invents_workloads_does_not_hold_up_another_namespace() {
        let questions = Questions::default();
        for number in 0..1000 {
            questions.ask(Question::Stamp(carrier("evil", &format!("w{number}"))));
        }
        questions.ask(Question::Stamp(carrier("ml", "train")));
        let asked: Vec<Carrier> = std::iter::from_fn(|| questions.next()).collect();
        assert_eq!(asked.len(), OF_ONE + 1);
        let place = asked.iter().position(|c| *c == carrier("ml", "train"));
        assert!(place.is_some_and(|place| place <= 1), "{place:?}");
    }

    #[test]
    fn a_workload_is_asked_once_until_it_has_answered() {
        let questions = Questions::default();
        let train = carrier("ml", "train");
        questions.ask(Question::Stamp(train.clone()));
        questions.ask(Question::Stamp(train.clone()));
        assert_eq!(questions.next(), Some(train.clone()));
        questions.ask(Question::Stamp(train.clone()));
        assert_eq!(questions.next(), None);
        questions.done(&train);
        questions.ask(Question::Stamp(train.clone()));
        assert_eq!(questions.next(), Some(train));
    }

    #[test]
    fn however_many_namespaces_ask_few_questions_wait() {
        let questions = Questions::default();
        for number in 0..10_000 {
            questions.ask(Question::Stamp(carrier(&format!("n{number}"), "w")));
        }
        let asked = std::iter::from_fn(|| questions.next()).count();
        assert_eq!(asked, OF_ALL);
    }
}
