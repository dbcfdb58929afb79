//! The namespaces and their labels, kept in the snapshot for admission.

use std::collections::HashMap;
use std::sync::Arc;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};

use super::Cluster;
use crate::scheduler::{Namespaces, Snapshot};
use crate::workload::keys;

type Seen = PartialObjectMeta<Namespace>;
type Labels = HashMap<String, Option<String>>;

/// Fails until the namespaces of the cluster are listed: a readiness check.
pub fn listed(cluster: Cluster) -> impl Fn() -> Result<(), String> {
    move || match cluster.load().namespaces.is_filled() {
        true => Ok(()),
        false => Err("the labels of the namespaces are not known yet".to_owned()),
    }
}

/// Keeps the namespaces in the snapshot, until dropped.
pub(super) async fn keep(client: Client, cluster: Cluster) {
    let api: Api<Seen> = Api::all(client);
    // Not by label selector: a namespace without the label must be told from one that was not seen.
    let events = watcher::watcher(api, watcher::Config::default()).default_backoff();
    let mut events = std::pin::pin!(events);
    let mut follower = Follower::default();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => follower.follow(event, &cluster),
            Err(error) => tracing::warn!(%error, "cannot watch namespaces"),
        }
    }
}

/// Takes over what the watch shows; a list when it is complete.
#[derive(Default)]
struct Follower {
    listing: Labels,
}

impl Follower {
    fn follow(&mut self, event: Event<Seen>, cluster: &Cluster) {
        match event {
            Event::Init => self.listing.clear(),
            Event::InitApply(namespace) => {
                self.listing.insert(namespace.name_any(), label(&namespace));
            }
            Event::InitDone => {
                let listed = Arc::new(std::mem::take(&mut self.listing));
                cluster.rcu(|old| Snapshot {
                    namespaces: Namespaces::Seen(Arc::clone(&listed)),
                    ..Snapshot::clone(old)
                });
            }
            Event::Apply(namespace) => {
                let (name, label) = (namespace.name_any(), label(&namespace));
                // Most changes of a namespace are not of its label.
                if cluster.load().namespaces.label(&name) != Ok(label.as_deref()) {
                    change(cluster, |seen| {
                        seen.insert(name.clone(), label.clone());
                    });
                }
            }
            Event::Delete(namespace) => change(cluster, |seen| {
                seen.remove(&namespace.name_any());
            }),
        }
    }
}

fn label(namespace: &Seen) -> Option<String> {
    namespace.labels().get(keys::SCHEDULER).cloned()
}

fn change(cluster: &Cluster, change: impl Fn(&mut Labels)) {
    cluster.rcu(|old| {
        let mut new = Snapshot::clone(old);
        if let Namespaces::Seen(seen) = &mut new.namespaces {
            change(Arc::make_mut(seen));
        }
        new
    });
}

#[cfg(test)]
mod tests {
    use arc_swap::ArcSwap;
    use serde_json::json;

    use super::*;
    use crate::scheduler::{Dialect, NotSeen, TABLE};

    fn namespace(name: &str, scheduler: Option<&str>) -> Seen {
        let mut meta = json!({"metadata": {"name": name}});
        if let Some(scheduler) = scheduler {
            meta["metadata"]["labels"] = json!({keys::SCHEDULER: scheduler});
        }
        serde_json::from_value(meta).unwrap()
    }

    fn cluster() -> Cluster {
        let mut snapshot = Snapshot::assumed(TABLE[0].kind, Dialect::V1_37);
        snapshot.namespaces = snapshot.namespaces.watched();
        Arc::new(ArcSwap::from_pointee(snapshot))
    }

    #[test]
    fn a_label_is_known_when_all_are_listed_and_not_before() {
        let (cluster, mut follower) = (cluster(), Follower::default());
        let ready = listed(Arc::clone(&cluster));
        let label = |name: &str| {
            let snapshot = cluster.load();
            snapshot
                .namespaces
                .label(name)
                .map(|label| label.map(str::to_owned))
        };
        follower.follow(Event::Init, &cluster);
        follower.follow(Event::InitApply(namespace("ml", Some("one"))), &cluster);
        assert_eq!(label("ml"), Err(NotSeen));
        assert!(ready().is_err());
        follower.follow(Event::InitApply(namespace("web", None)), &cluster);
        follower.follow(Event::InitDone, &cluster);
        assert!(ready().is_ok());
        assert_eq!(label("ml"), Ok(Some("one".to_owned())));
        assert_eq!(label("web"), Ok(None));
        assert_eq!(
            label("new"),
            Err(NotSeen),
            "not seen is not without a label"
        );
        follower.follow(Event::Apply(namespace("new", Some("other"))), &cluster);
        assert_eq!(label("new"), Ok(Some("other".to_owned())));
        follower.follow(Event::Apply(namespace("new", None)), &cluster);
        assert_eq!(label("new"), Ok(None));
        follower.follow(Event::Delete(namespace("new", None)), &cluster);
        assert_eq!(label("new"), Err(NotSeen));
    }

    #[test]
    fn a_list_drops_what_is_gone_and_what_was_known_counts_until_it_is_complete() {
        let (cluster, mut follower) = (cluster(), Follower::default());
        for name in ["ml", "web"] {
            follower.follow(Event::Init, &cluster);
            follower.follow(Event::InitApply(namespace(name, None)), &cluster);
            assert_eq!(cluster.load().namespaces.knows("ml"), name == "web");
            follower.follow(Event::InitDone, &cluster);
        }
        assert!(!cluster.load().namespaces.knows("ml"));
        assert!(cluster.load().namespaces.knows("web"));
    }
}
