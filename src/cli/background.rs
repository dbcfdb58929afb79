//! The tasks that run beside the server for as long as it serves, and the first of them that ends.
//!
//! None of them should ever end. A replica without one of them is of little use and looks healthy,
//! so whoever starts them must [watch over](Background::watch_over) them too.

use std::collections::HashMap;

use tokio::task::{Id, JoinSet};

use crate::leader::Election;

/// A task that ended although it should not have.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Ended {
    #[error("the {0} ended by itself")]
    /// A task that should go on for ever has returned.
    Returned(&'static str),
    #[error("the {0} panicked")]
    /// A task has panicked; the panic itself is logged.
    Panicked(&'static str),
}

/// Tasks by what they do. Dropping it ends them all.
#[derive(Default)]
pub struct Background {
    tasks: JoinSet<()>,
    names: HashMap<Id, &'static str>,
}

impl Background {
    /// Starts a task that is to go on as long as the server.
    pub fn spawn(&mut self, name: &'static str, task: impl Future<Output = ()> + Send + 'static) {
        let handle = self.tasks.spawn(task);
        self.names.insert(handle.id(), name);
    }

    /// Waits until one of the tasks ends; for ever when there is none. Then the Lease goes back at
    /// once: the election would renew it for ever for a reconciler that is gone.
    pub async fn watch_over(&mut self, election: &mut Option<Election>) -> Ended {
        let ended = self.first_end().await;
        tracing::error!(reason = %ended, "this replica stops");
        if let Some(election) = election.take() {
            election.release().await;
        }
        ended
    }

    async fn first_end(&mut self) -> Ended {
        let name = |id: Id| self.names.get(&id).copied().unwrap_or("task");
        match self.tasks.join_next_with_id().await {
            Some(Ok((id, ()))) => Ended::Returned(name(id)),
            Some(Err(error)) => Ended::Panicked(name(error.id())),
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn with(name: &'static str, task: impl Future<Output = ()> + Send + 'static) -> Background {
        let mut background = Background::default();
        background.spawn("watch", std::future::pending());
        background.spawn(name, task);
        background
    }

    #[tokio::test]
    async fn a_task_that_panics_is_named() {
        let mut background = with("reconciler", async { panic!("on purpose") });
        let ended = background.first_end().await;
        assert_eq!(ended, Ended::Panicked("reconciler"));
        assert_eq!(ended.to_string(), "the reconciler panicked");
    }

    #[tokio::test]
    async fn a_task_that_returns_is_named() {
        let mut background = with("reconciler", async {});
        assert_eq!(background.first_end().await, Ended::Returned("reconciler"));
    }

    #[tokio::test]
    async fn nothing_ends_where_nothing_runs_or_all_goes_on() {
        let soon = Duration::from_millis(50);
        let mut none = Background::default();
        assert!(tokio::time::timeout(soon, none.first_end()).await.is_err());
        let mut all = with("reconciler", std::future::pending());
        assert!(tokio::time::timeout(soon, all.first_end()).await.is_err());
    }
}
