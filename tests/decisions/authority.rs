//! Muster's own CA in the webhook configurations: written whoever else writes, and ready when those
//! that exist carry it. The apiserver's part is played in memory; `tests/cluster` has the real one.

use crate::support;

use std::time::{Duration, SystemTime};

use hyper::Method;
use muster::certs::keeper::{GROUP_KEYS, Keeper, MUTATING, Trust, VALIDATING};
use serde_json::{Value, json};
use support::apiserver::{Apiserver, Objects, Twist};
use support::within;

/// So slow that only a conflict or the watch can have led to another look.
const NEVER: Duration = Duration::from_secs(3600);

const ALL: [(&str, &str); 3] = [
    ("mutating", MUTATING),
    ("validating", VALIDATING),
    ("mutating", GROUP_KEYS),
];

fn path((kind, name): (&str, &str)) -> String {
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations/{name}")
}

/// These configurations, as the manifests install them: without a CA.
fn installed(configurations: &[(&str, &str)]) -> Objects {
    let mut objects = Objects::default();
    for &(kind, name) in configurations {
        let kind = if kind == "mutating" {
            "Mutating"
        } else {
            "Validating"
        };
        let object = json!({
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": format!("{kind}WebhookConfiguration"),
            "metadata": {"name": name},
            "webhooks": [{"name": "a.muster.dev", "clientConfig": {}}],
        });
        objects.put(&path((&kind.to_lowercase(), name)), object);
    }
    objects
}

fn nothing() -> Twist {
    Box::new(|_, _, _| {})
}

/// Runs a keeper until every webhook is trusted.
async fn is_soon_trusted(keeper: Keeper) {
    let mut trust = keeper.trust();
    let running = tokio::spawn(keeper.run(NEVER));
    within(4, trust.wait_for(|trust| *trust == Trust::Carried))
        .await
        .unwrap();
    running.abort();
}

#[tokio::test]
async fn a_conflict_means_another_look_at_once() {
    let mut writes = 0;
    // Another replica is faster: what this one read is out of date when it writes.
    let twist: Twist = Box::new(move |method, uri, objects| {
        if method == Method::PATCH {
            writes += 1;
            if writes == 1 {
                objects.change(uri.path(), |_| {});
            }
        }
    });
    let (_server, client) = Apiserver::start(installed(&ALL), twist).await;
    let mut keeper = Keeper::open(client, "muster-system").await.unwrap();
    keeper.look(SystemTime::now()).await.expect("no error");
    assert_eq!(*keeper.trust().borrow(), Trust::Carried);
}

#[tokio::test]
async fn an_object_that_always_conflicts_is_an_error_in_the_end() {
    let twist: Twist = Box::new(|method, uri, objects| {
        if method == Method::PATCH {
            objects.change(uri.path(), |_| {});
        }
    });
    let (_server, client) = Apiserver::start(installed(&ALL), twist).await;
    let mut keeper = Keeper::open(client, "muster-system").await.unwrap();
    let error = keeper.look(SystemTime::now()).await.unwrap_err();
    assert!(error.to_string().contains(MUTATING), "{error}");
    assert_eq!(*keeper.trust().borrow(), Trust::Missing);
}

#[tokio::test]
async fn a_change_between_the_first_look_and_the_first_list_is_seen() {
    let carries = |objects: &Objects| {
        let object = objects.get(&path(ALL[0])).unwrap();
        object["webhooks"][0]["clientConfig"]["caBundle"].is_string()
    };
    // Noted when it happens: it is mended sooner than another task may look.
    let (taken, mut seen) = tokio::sync::watch::channel(None);
    let twist: Twist = Box::new(move |_, uri, objects| {
        let query = uri.query().unwrap_or_default();
        let list = query.contains("fieldSelector") && !query.contains("watch=true");
        if list && taken.borrow().is_none() {
            taken.send_replace(Some(carries(objects)));
            objects.change(&path(ALL[0]), |object| {
                object["webhooks"][0]["clientConfig"] = json!({});
            });
        }
    });
    let (server, client) = Apiserver::start(installed(&ALL), twist).await;
    let keeper = Keeper::open(client, "muster-system").await.unwrap();
    let running = tokio::spawn(keeper.run(NEVER));
    within(20, async {
        let written = *seen.wait_for(Option::is_some).await.unwrap();
        assert_eq!(written, Some(true), "the first look wrote nothing");
        while !carries(&server.objects.lock().unwrap()) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    running.abort();
}

#[tokio::test]
async fn a_configuration_that_does_not_exist_keeps_nobody_unready() {
    for count in 1..=3 {
        let (_server, client) = Apiserver::start(installed(&ALL[..count]), nothing()).await;
        let keeper = Keeper::open(client, "muster-system").await.unwrap();
        is_soon_trusted(keeper).await;
    }
}

#[tokio::test]
async fn without_any_configuration_nobody_is_ready() {
    let (_server, client) = Apiserver::start(Objects::default(), nothing()).await;
    let mut keeper = Keeper::open(client, "muster-system").await.unwrap();
    keeper.look(SystemTime::now()).await.unwrap();
    assert_eq!(*keeper.trust().borrow(), Trust::Missing);
}

#[tokio::test]
async fn a_deleted_configuration_leaves_a_replica_ready() {
    let (server, client) = Apiserver::start(installed(&ALL), nothing()).await;
    let mut keeper = Keeper::open(client, "muster-system").await.unwrap();
    keeper.look(SystemTime::now()).await.unwrap();
    server.objects.lock().unwrap().remove(&path(ALL[2]));
    keeper.look(SystemTime::now()).await.unwrap();
    assert_eq!(*keeper.trust().borrow(), Trust::Carried);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_that_start_at_the_same_instant_are_all_trusted() {
    for _ in 0..20 {
        let (server, client) = Apiserver::start(installed(&ALL), nothing()).await;
        let opened = futures::future::try_join_all(
            (0..2).map(|_| Keeper::open(client.clone(), "muster-system")),
        );
        let keepers = within(20, opened).await.unwrap();
        futures::future::join_all(keepers.into_iter().map(is_soon_trusted)).await;
        let objects = server.objects.lock().unwrap();
        for configuration in ALL {
            let object: &Value = objects.get(&path(configuration)).unwrap();
            assert!(object["webhooks"][0]["clientConfig"]["caBundle"].is_string());
        }
    }
}
