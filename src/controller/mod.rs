//! The reconciler: makes the objects of gangs, keeps them in order, and says how gangs stand.
//!
//! Read it in this order: `run` (the watches), `look` (one look at a workload), [`decide`] (pure:
//! what to write, from the workload, its pods and the objects that exist for it), `write`.
//!
//! - What is looked at: [`observe`] (pods), `gang_members` (pods by gang), `gang_objects` (what
//!   Muster has made), `gang_status` (how a gang stands).
//! - `cache`: what the watches show, by workload. `revisions`: what templates a workload had before.
//! - [`watched_kind`]: how the members and objects of a kind of workload are found.
//! - `pod_gangs`: gangs that pods declare themselves, `owners`: who owns what is made for them, and
//!   `standing`: what they agreed on, for admission.
//! - [`bundles`]: gangs that start together with gangs of other workloads.
//! - [`barriers`]: start barriers: who has come, and what opens them.
//! - `causes`: why gangs wait, `witness`: what is watched only while one does, and `needs`: for whom;
//!   `wanted`: since when.
//! - [`inspect`]: a look from outside, for the command line.
//! - `report`: events and the condition.
//! - `metrics`: what is counted of all this.
//! - `mend`: what helps gangs that wait because of a weakness of their scheduler.
//! - [`discovery`]: what the cluster serves, and `namespaces`: their labels; for admission too.
//!
//! It calls the same workload adapters and scheduler backends as admission does, and knows no HTTP.

mod backoff;
pub mod barriers;
pub mod bundles;
mod cache;
mod causes;
pub mod decide;
pub mod discovery;
mod gang_members;
mod gang_objects;
mod gang_status;
pub mod inspect;
mod look;
mod mend;
mod metrics;
mod namespaces;
mod needs;
pub mod observe;
mod owners;
mod pages;
mod pod_gangs;
pub(crate) mod queued;
mod report;
pub(crate) mod revisions;
mod run;
mod standing;
mod wanted;
mod watched_kind;
mod witness;
mod write;

use std::sync::Arc;

use arc_swap::ArcSwap;
use kube::Client;

use crate::gang::SchedulerKind;
use crate::leader::Leadership;
use crate::scheduler::Snapshot;
use crate::workload::Facts;
pub use barriers::show as show_barriers;
use bundles::neighbours::Neighbours;
use discovery::Found;
pub use metrics::Metrics;
pub use namespaces::listed as namespaces_listed;
pub use standing::listed as pods_listed;
use witness::{Pace, Witnesses};

/// What a running reconciler shares with admission.
pub type Cluster = Arc<ArcSwap<Snapshot>>;

/// Keeps the snapshot fresh for admission: what is served, the labels of namespaces, and the pods that
/// declare gangs. Every replica does this.
pub async fn keep_snapshot(client: Client, default: Option<SchedulerKind>, cluster: Cluster) {
    tokio::join!(
        keep_found(client.clone(), default, Arc::clone(&cluster)),
        namespaces::keep(client.clone(), Arc::clone(&cluster)),
        standing::keep(client, cluster)
    );
}

async fn keep_found(client: Client, default: Option<SchedulerKind>, cluster: Cluster) {
    loop {
        match discovery::discover(&client).await {
            Ok(found) => update(&cluster, &found, default),
            Err(error) => tracing::warn!(%error, "cannot look at what the cluster serves"),
        }
        tokio::time::sleep(discovery::REFRESH).await;
    }
}

/// Takes what was found over into the snapshot.
pub fn update(cluster: &Cluster, found: &Found, default: Option<SchedulerKind>) {
    cluster.rcu(|old| found.snapshot(default, old));
}

/// Reconciles while this replica leads.
pub async fn lead(
    client: Client,
    cluster: Cluster,
    mut leadership: tokio::sync::watch::Receiver<Leadership>,
    metrics: Metrics,
) {
    loop {
        let leads = leadership.wait_for(|l| *l == Leadership::Leader);
        if leads.await.is_err() {
            return;
        }
        tracing::info!("leading: this replica makes the gangs' objects");
        tokio::select! {
            () = reconcile(client.clone(), Arc::clone(&cluster), metrics.clone()) => {}
            lost = leadership.wait_for(|l| *l == Leadership::Follower) => {
                metrics.clear();
                tracing::info!("following: another replica makes the gangs' objects");
                if lost.is_err() {
                    return;
                }
            }
        }
    }
}

/// Reconciles until dropped. Restarts when the cluster serves other kinds than before.
pub async fn reconcile(client: Client, cluster: Cluster, metrics: Metrics) {
    loop {
        metrics.clear();
        let found = match discovery::discover(&client).await {
            Ok(found) => found,
            Err(error) => {
                tracing::warn!(%error, "cannot look at what the cluster serves");
                tokio::time::sleep(std::time::Duration::from_secs(2)).await;
                continue;
            }
        };
        let neighbours = Arc::new(Neighbours::default());
        let witnesses = Arc::new(Witnesses::new(Pace::Rationed));
        let follow = async |facts: &'static Facts| {
            watched_kind::appear(facts, &client, &found.resources()).await;
            let shared = run::Shared {
                client: client.clone(),
                cluster: Arc::clone(&cluster),
                neighbours: Arc::clone(&neighbours),
                witnesses: Arc::clone(&witnesses),
                metrics: metrics.of(facts),
            };
            run::run(shared, &found, facts).await;
        };
        let following = futures::future::join_all(found.workloads.iter().copied().map(follow));
        tokio::select! {
            _ = following => {}
            () = witnesses.run(client.clone(), &neighbours) => {}
            () = changed(&client, &found) => {
                tracing::info!("the cluster now serves other kinds: the watches are restarted");
            }
        }
    }
}

async fn changed(client: &Client, before: &Found) {
    loop {
        tokio::time::sleep(discovery::REFRESH).await;
        if discovery::discover(client)
            .await
            .is_ok_and(|now| now != *before)
        {
            return;
        }
    }
}
