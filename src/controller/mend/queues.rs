//! What is wrong with the queue of a gang that waits.
//!
//! Volcano (1.14) and KAI (0.12) do not say that a queue does not exist, and when a queue is closed,
//! Volcano says that there is too little room. So the queue is looked up, but only while a gang waits
//! and only to say why.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use kube::Client;
use kube::api::Api;
use kube::core::DynamicObject;

use crate::controller::cache::expiring::Expiring;
use crate::controller::write::resource;
use crate::scheduler::Queue;

/// A queue is not looked up more often than this, however many gangs wait in it.
const REST: Duration = Duration::from_secs(60);

/// Why nothing starts from a queue, if so; else why that is not known.
pub(crate) type Trouble = Result<Option<String>, String>;

pub(crate) struct Queues {
    client: Client,
    /// What was wrong with each queue.
    troubles: Mutex<Expiring<Queue, Trouble>>,
}

impl Queues {
    pub(crate) fn new(client: Client) -> Self {
        let troubles = Mutex::new(Expiring::new(REST));
        Self { client, troubles }
    }

    /// Why nothing starts from a queue.
    pub(crate) async fn trouble(&self, queue: &Queue) -> Trouble {
        if let Some((trouble, _)) = self.lock().get(queue, Instant::now()) {
            return trouble.clone();
        }
        let trouble = self.look_up(queue).await;
        self.lock()
            .insert(queue.clone(), trouble.clone(), Instant::now());
        trouble
    }

    fn lock(&self) -> MutexGuard<'_, Expiring<Queue, Trouble>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn look_up(&self, queue: &Queue) -> Trouble {
        let name = &queue.name;
        let Some((group, version)) = queue.api_version.split_once('/') else {
            return Ok(None);
        };
        let kind = resource(group, version, "Queue");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        match api.get(name).await {
            Ok(found) => Ok(queue.trouble(&found)),
            // When the API is not served, the answer names no object.
            Err(kube::Error::Api(status)) if status.is_not_found() => Ok(status
                .details
                .filter(|details| details.name == *name)
                .map(|_| format!("queue {name:?} does not exist"))),
            Err(error) => {
                tracing::warn!(queue = name, %error, "cannot look at a queue");
                Err(error.to_string())
            }
        }
    }
}
