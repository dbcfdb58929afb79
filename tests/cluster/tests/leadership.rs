//! Leader election against a real apiserver, with the rights that the manifests give.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config};
use muster::leader::{Election, Leadership, Timing};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch::Receiver;
use tokio::task::{JoinHandle, JoinSet};

use crate::install::{Installed, NAMESPACE};
use crate::sandbox::Sandbox;

/// Quick, yet with the proportions of the real one.
const QUICK: Timing = Timing {
    duration: Duration::from_secs(3),
    deadline: Duration::from_secs(2),
    renew: Duration::from_secs(1),
    retry: Duration::from_millis(200),
};

async fn becomes(
    watched: &mut Receiver<Leadership>,
    wanted: Leadership,
    within: Duration,
) -> Result<Duration> {
    let start = Instant::now();
    let change = watched.wait_for(|leadership| *leadership == wanted);
    tokio::time::timeout(within, change)
        .await
        .with_context(|| format!("not {wanted:?} within {within:?}"))??;
    Ok(start.elapsed())
}

pub async fn one_replica_leads_and_hands_over_when_it_stops(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let client = installed.client().await?;
    let start = |identity| {
        let timing = Timing::default();
        Election::start(client.clone(), NAMESPACE, identity, timing)
    };
    let (mut first, election) = start("first");
    let patience = Duration::from_secs(10);
    becomes(&mut first, Leadership::Leader, patience).await?;
    let (mut second, other) = start("second");
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(*first.borrow(), Leadership::Leader);
    assert_eq!(*second.borrow(), Leadership::Follower);

    let released = Instant::now();
    election.release().await;
    assert_eq!(*first.borrow(), Leadership::Follower);
    becomes(&mut second, Leadership::Leader, patience).await?;
    let took = released.elapsed();
    ensure!(took < Duration::from_secs(2), "hand-over took {took:?}");
    other.release().await;
    Ok(())
}

pub async fn a_dead_leaders_lease_runs_out(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let client = &installed.plane.client;
    let start = |identity| Election::start(client.clone(), "default", identity, QUICK);
    let (mut first, election) = start("first");
    let patience = QUICK.duration * 3;
    becomes(&mut first, Leadership::Leader, patience).await?;
    let (mut second, _other) = start("second");
    tokio::time::sleep(QUICK.duration * 2).await;
    assert_eq!(*second.borrow(), Leadership::Follower);

    drop(election);
    let took = becomes(&mut second, Leadership::Leader, patience).await?;
    // Counted from its last renewal, which was at most one interval ago.
    ensure!(
        took + QUICK.renew + QUICK.retry > QUICK.duration,
        "{took:?}"
    );
    Ok(())
}

pub async fn of_many_candidates_never_two_lead(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let client = &installed.plane.client;
    let start = |number: usize| {
        let identity = format!("candidate-{number}");
        Election::start(client.clone(), "kube-node-lease", &identity, QUICK)
    };
    let mut candidates: Vec<_> = (0..8).map(start).collect();
    // They all want it at once: first when there is none, then when the leader's has run out.
    for _ in 0..2 {
        let mut led = None;
        for _ in 0..250 {
            let leads = |(watched, _): &(Receiver<Leadership>, Election)| {
                *watched.borrow() == Leadership::Leader
            };
            ensure!(
                candidates.iter().filter(|c| leads(c)).count() <= 1,
                "two lead"
            );
            led = candidates.iter().position(leads).or(led);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        candidates.remove(led.context("nobody leads")?);
    }
    Ok(())
}

pub async fn a_leader_that_cannot_reach_the_api_steps_down(sandbox: Sandbox) -> Result<()> {
    let installed = Installed::get(&sandbox).await?;
    let server = installed.plane.server.clone();
    let address = server.trim_start_matches("https://").to_owned();
    let (port, wire) = wire(address).await?;
    let file = Kubeconfig::read_from(&installed.plane.kubeconfig)?;
    let mut config = Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await?;
    config.cluster_url = format!("https://127.0.0.1:{port}").parse()?;
    let client = Client::try_from(config)?;

    let (mut leadership, _election) = Election::start(client, "kube-public", "alone", QUICK);
    becomes(&mut leadership, Leadership::Leader, QUICK.duration * 3).await?;
    tokio::time::sleep(QUICK.duration).await;
    assert_eq!(*leadership.borrow(), Leadership::Leader);
    wire.abort();
    let took = becomes(&mut leadership, Leadership::Follower, QUICK.duration * 3).await?;
    // Before another could take it.
    ensure!(took < QUICK.duration, "{took:?}");
    Ok(())
}

/// Forwards a port to the apiserver until it is aborted; then all its connections end.
async fn wire(to: String) -> Result<(u16, JoinHandle<()>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let port = listener.local_addr()?.port();
    let task = tokio::spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((mut from, _)) = listener.accept().await {
            let to = to.clone();
            connections.spawn(async move {
                let mut to = TcpStream::connect(to).await?;
                tokio::io::copy_bidirectional(&mut from, &mut to).await
            });
        }
    });
    Ok((port, task))
}
