//! The keys of stamps in a cluster: kept in a Secret, the same for all replicas.
//!
//! The decisions are in `ring`, and who vouches for a stamp whose key is lost is looked up in
//! `carriers`, as `questions` has them wait; here are the calls. What a seal is and covers is the
//! model's ([`crate::gang::Seals`]).

mod carriers;
mod questions;
mod ring;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::Api;
use tokio::time::Instant;

use crate::controller::Cluster;
use crate::gang::Vouched;
use crate::scheduler::Snapshot;
use crate::secret;
use carriers::Carriers;
pub use questions::{Question, Questions};
use ring::{NoRandomness, Ring};

/// The Secret's name, in Muster's own namespace.
pub const SECRET: &str = "muster-seal";

/// How often the Secret is read when nobody asks.
const POLL: Duration = Duration::from_secs(30);

/// How soon the Secret is read again because somebody asked, at the earliest.
const BREATH: Duration = Duration::from_secs(1);

/// Workloads that are asked at the same time.
const AT_ONCE: usize = 4;

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

/// Keeps the keys and the answers in the snapshot.
pub struct Keeper {
    client: Client,
    secrets: Api<Secret>,
    cluster: Cluster,
    questions: Questions,
}

impl Keeper {
    /// Reads the keys into the snapshot, and makes the first one where there is none: before the first
    /// review, since a stamp that the fixed key seals must never be stored.
    pub async fn open(
        client: Client,
        namespace: &str,
        cluster: Cluster,
    ) -> Result<(Self, Questions), Error> {
        let questions = Questions::default();
        let keeper = Self {
            secrets: Api::namespaced(client.clone(), namespace),
            client,
            cluster,
            questions: questions.clone(),
        };
        keeper.look().await?;
        keeper.cluster.rcu(|old| Snapshot {
            vouched: Vouched::Asked(Arc::default()),
            ..Snapshot::clone(old)
        });
        Ok((keeper, questions))
    }

    /// Never ends: reads the Secret now and then, and answers questions.
    pub async fn run(self) {
        let mut carriers = Carriers::default();
        let mut asking = FuturesUnordered::new();
        let mut looked = Instant::now();
        loop {
            while asking.len() < AT_ONCE
                && let Some(carrier) = self.questions.next()
            {
                asking.push(carriers::ask(self.client.clone(), carrier));
            }
            let now = Instant::now();
            let poll = looked + POLL;
            let change = carriers.changes_at(now).unwrap_or(poll);
            tokio::select! {
                () = self.questions.asked() => {}
                Some((carrier, carried)) = asking.next() => {
                    self.questions.done(&carrier);
                    if let Some(carried) = carried {
                        carriers.note(carrier, carried, Instant::now());
                        self.publish(&carriers);
                    }
                }
                () = tokio::time::sleep_until(change) => self.publish(&carriers),
                () = tokio::time::sleep_until(poll) => {}
            }
            // A stamp that is not known may be of a key that is new.
            let asked = self.questions.take_key() || !asking.is_empty();
            if looked.elapsed() >= POLL || asked && looked.elapsed() >= BREATH {
                looked = Instant::now();
                if let Err(error) = self.look().await {
                    tracing::error!(%error, "the keys of stamps are not kept");
                }
            }
        }
    }

    fn publish(&self, carriers: &Carriers) {
        let vouched = carriers.vouched(Instant::now());
        self.cluster.rcu(|old| Snapshot {
            vouched: vouched.clone(),
            ..Snapshot::clone(old)
        });
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
