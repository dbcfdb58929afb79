//! The keys of stamps in a cluster: kept in a Secret, the same for all replicas.
//!
//! The decisions are in `ring`, and who vouches for a stamp whose key is lost is looked up in
//! `carriers`; here are the calls. What a seal is and covers is the model's ([`crate::gang::Seals`]).

mod carriers;
mod ring;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use tokio::sync::mpsc;

use crate::controller::Cluster;
use crate::gang::{Carrier, Vouched};
use crate::scheduler::Snapshot;
use crate::secret;
use carriers::Carriers;
use ring::{NoRandomness, Ring};

/// The Secret's name, in Muster's own namespace.
pub const SECRET: &str = "muster-seal";

/// How often the Secret is read when nobody asks.
const POLL: Duration = Duration::from_secs(30);

/// How soon the Secret is read again because somebody asked, at the earliest.
const BREATH: Duration = Duration::from_secs(1);

/// Questions that wait. Who asks more is called again by the apiserver.
const WAITING: usize = 64;

/// Why the keys could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The Secret cannot be kept.
    #[error(transparent)]
    Secret(#[from] secret::Error),
    /// A key cannot be made.
    #[error(transparent)]
    Random(#[from] NoRandomness),
}

/// What admission does not know of a stamp.
#[derive(Debug)]
pub enum Question {
    /// The key of its seal; the Secret may have it.
    Key,
    /// Whether the stored workload carries it.
    Stamp(Carrier),
}

/// Takes questions of admission, which are answered for its next call.
#[derive(Debug, Clone)]
pub struct Questions(mpsc::Sender<Question>);

impl Questions {
    /// Asks, unless too many questions wait already.
    pub fn ask(&self, question: Question) {
        let _ = self.0.try_send(question);
    }
}

/// Keeps the keys and the answers in the snapshot.
pub struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    cluster: Cluster,
    questions: mpsc::Receiver<Question>,
}

impl Keeper {
    /// Reads the keys into the snapshot, and makes the first one where there is none: before the first
    /// review, since a stamp that the fixed key seals must never be stored.
    pub async fn open(
        client: Client,
        namespace: &str,
        cluster: Cluster,
    ) -> Result<(Self, Questions), Error> {
        let (sender, questions) = mpsc::channel(WAITING);
        let keeper = Self {
            secrets: Api::namespaced(client.clone(), namespace),
            client,
            cluster,
            questions,
        };
        keeper.look().await?;
        keeper.cluster.rcu(|old| Snapshot {
            vouched: Vouched::Asked(Arc::default()),
            ..Snapshot::clone(old)
        });
        Ok((keeper, Questions(sender)))
    }

    /// Never ends: reads the Secret now and then, and answers questions.
    pub async fn run(mut self) {
        let mut carriers = Carriers::default();
        let mut looked = tokio::time::Instant::now();
        loop {
            let question = tokio::select! {
                question = self.questions.recv() => question,
                () = tokio::time::sleep_until(looked + POLL) => Some(Question::Key),
            };
            match question {
                Some(Question::Stamp(carrier)) => {
                    let vouched = carriers.ask(&self.client, carrier).await;
                    self.cluster.rcu(|old| Snapshot {
                        vouched: vouched.clone(),
                        ..Snapshot::clone(old)
                    });
                }
                // The sender lives as long as the server.
                None => return,
                Some(Question::Key) => {}
            }
            // A stamp that is not known may be of a key that is new.
            if looked.elapsed() >= BREATH {
                looked = tokio::time::Instant::now();
                if let Err(error) = self.look().await {
                    tracing::error!(%error, "the keys of stamps are not kept");
                }
            }
        }
    }

    async fn look(&self) -> Result<(), Error> {
        let now = SystemTime::now();
        let renew = |data: &secret::Data| Ok::<_, Error>(Ring::renewed(data, now)?);
        let ring = secret::keep(&self.secrets, SECRET, renew, Ring::write).await?;
        let seals = Arc::new(ring.seals(now));
        self.cluster.rcu(|old| Snapshot {
            seals: Arc::clone(&seals),
            ..Snapshot::clone(old)
        });
        Ok(())
    }
}
