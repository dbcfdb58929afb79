//! What is kept of the events of some reasons while somebody needs it: listed once by a command, or
//! watched. What they mean is the business of whoever keeps them.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use kube::Client;
use tokio::sync::Notify;

use super::events::{self, Told};
use super::latest::{Latest, Timed};

/// What one kind of events is kept as.
pub(super) trait Kept: Timed + Sized {
    /// The reasons of these events.
    fn reasons() -> BTreeSet<&'static str>;

    /// Takes one event in.
    fn note(known: &mut Latest<Self>, event: Told);
}

pub(super) struct Heard<T> {
    known: Mutex<Latest<T>>,
    filled: AtomicBool,
}

impl<T> Default for Heard<T> {
    fn default() -> Self {
        Self {
            known: Mutex::default(),
            filled: AtomicBool::new(false),
        }
    }
}

impl<T: Kept> Heard<T> {
    pub(super) fn is_filled(&self) -> bool {
        self.filled.load(Ordering::Acquire)
    }

    pub(super) fn clear(&self) {
        self.filled.store(false, Ordering::Release);
        self.lock().clear();
    }

    /// Looks once, at one namespace or at all.
    pub(super) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<(), kube::Error> {
        events::list(client, namespace, T::reasons(), |told| self.note(told)).await?;
        self.filled.store(true, Ordering::Release);
        Ok(())
    }

    /// Watches until dropped.
    pub(super) async fn watch(&self, client: Client, changed: &Notify) {
        let note = |told| self.note(told);
        events::watch(&client, T::reasons(), note, &self.filled, changed).await;
    }

    pub(super) fn note(&self, event: Told) {
        T::note(&mut self.lock(), event);
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Latest<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
