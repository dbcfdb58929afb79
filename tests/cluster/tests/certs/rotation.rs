//! Muster's own CA and leaf, new every five seconds while they are used.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::Api;
use muster::certs::keeper::SECRET;

use super::bundles::{bundles, configurations, remove_bundles};
use super::load::{Load, ganged};
use super::{Replica, Shown};
use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, NAMESPACE};
use crate::long::Length;
use crate::muster::Muster;
use crate::sandbox::Sandbox;
use crate::service::Service;

const INTERVAL: &str = "5s";
/// How soon a bundle that was taken away must be back.
const BACK: Duration = Duration::from_secs(10);

pub async fn a_ca_and_a_leaf_every_5_seconds_fail_no_admission(sandbox: Sandbox) -> Result<()> {
    let lasts = Duration::from_secs(Length::of_this_run().pick(45, 600));
    let (service, port) = Service::start().await?;
    let installed = Installed::new(&sandbox.cluster.plane, &sandbox.namespace, port).await?;
    let plane = &installed.plane;
    let muster = Muster::installed(plane).await?;
    let muster = muster.with("rotate-every", INTERVAL);
    let (first, second) = tokio::try_join!(
        Replica::start(&muster, plane, "muster-1"),
        Replica::start(&muster, plane, "muster-2"),
    )?;
    let replicas = [first, second];
    service.only(&replicas.each_ref().map(|replica| replica.port));
    wait_for("the first admission", PATIENCE, async || {
        installed.objects.try_create(&ganged(), "default").await
    })
    .await?;

    let load = Load::start(&installed.objects).await?;
    let start = Instant::now();
    let mut seen = BTreeSet::new();
    let mut wiped = Vec::new();
    for part in 1..=3 {
        while start.elapsed() < lasts * part / 3 {
            seen.extend(authorities(&installed).await?);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        if part < 3 {
            wiped.push(wipe(&installed).await?);
        }
    }
    let calls = load.end().await?;
    let (own, theirs) = calls.failures(&wiped);
    let seconds = start.elapsed().as_secs();
    println!(
        "{seconds} s of rotation: {calls}, over {} connections; {} CAs; {} failed, and {} beside \
         them while the bundle was gone, which took {:?}",
        service.connections(),
        seen.len(),
        own.len(),
        theirs.len(),
        wiped
            .iter()
            .map(|(from, to)| *to - *from)
            .collect::<Vec<_>>(),
    );
    ensure!(own.is_empty(), "{} failed: {}", own.len(), own[0]);
    ensure!(calls.len() as u64 > seconds * 5, "{} calls", calls.len());

    // A bit less than every five seconds: a machine may be busy.
    let turns = seconds / 10;
    ensure!(seen.len() as u64 >= turns, "{} CAs", seen.len());
    for replica in &replicas {
        let Shown { taken, refused, .. } = replica.shown().await?;
        let name = &replica.name;
        println!("{name}: {taken} leaves");
        ensure!(taken >= turns && refused == 0, "{name}: {taken}, {refused}");
        let log = std::fs::read_to_string(&replica.process.log)?;
        let trouble = log.lines().find(|line| line.contains("ERROR"));
        ensure!(trouble.is_none(), "{name}: {trouble:?}");
    }
    Ok(())
}

/// The names of the CAs that the Secret holds.
async fn authorities(installed: &Installed) -> Result<Vec<String>> {
    let secrets: Api<Secret> = Api::namespaced(installed.plane.client.clone(), NAMESPACE);
    let data = secrets.get(SECRET).await?.data.unwrap_or_default();
    let names = data.into_keys().filter(|key| key.ends_with(".crt"));
    Ok(names.collect())
}

/// Takes the bundle away from every webhook; from when until when it was gone.
async fn wipe(installed: &Installed) -> Result<(Instant, Instant)> {
    let from = Instant::now();
    for configuration in configurations(&installed.objects).await? {
        remove_bundles(&installed.objects, &configuration).await?;
    }
    wait_for("the bundles to be back", BACK, async || {
        bundles(&installed.objects).await
    })
    .await?;
    Ok((from, Instant::now()))
}
