//! A part of Muster that dies takes the replica along: the Lease goes back, and another one leads.

use crate::support;

use std::time::Duration;

use muster::cli::background::{Background, Ended};
use muster::leader::{self, Election, Leadership, Timing};
use support::apiserver::{Apiserver, Objects};
use support::within;

#[tokio::test]
async fn a_reconciler_that_panics_gives_the_lease_back() {
    let (server, client) = Apiserver::start(Objects::default(), Box::new(|_, _, _| {})).await;
    let timing = Timing::default();
    let (mut leadership, election) = Election::start(client, "muster-system", "us", timing);
    let mut watched = leadership.clone();
    let mut background = Background::default();
    background.spawn("keeper of the CA", std::future::pending());
    background.spawn("reconciler", async move {
        let leads = leadership.wait_for(|l| *l == Leadership::Leader).await;
        assert!(leads.is_err(), "this panics once it leads");
    });
    let path = format!(
        "/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/{}",
        leader::NAME
    );
    let holder = || {
        let objects = server.objects.lock().unwrap();
        let lease = objects.get(&path).expect("a Lease");
        lease["spec"]["holderIdentity"].clone()
    };

    let mut election = Some(election);
    let ended = within(10, background.watch_over(&mut election)).await;
    assert_eq!(ended, Ended::Panicked("reconciler"));
    assert!(holder().is_null(), "{}", holder());
    // Nobody takes it again here.
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(holder().is_null(), "{}", holder());
    assert_eq!(*watched.borrow_and_update(), Leadership::Follower);
}
