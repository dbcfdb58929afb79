//! Two replicas behind one port: either one serves admission, exactly one leads.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::samples::{gang, made};
use crate::cluster::Cluster;
use crate::health::{PATIENCE, wait_for};
use crate::install::NAMESPACE;
use crate::muster::{self, Muster};
use crate::objects::Objects;
use crate::ports::Port;
use crate::process::Process;
use crate::sandbox::Sandbox;
use crate::service::Service;

/// Who leads, by the Lease.
pub async fn leader(objects: &Objects) -> Result<String> {
    let leases = objects.api("coordination.k8s.io/v1", "Lease", NAMESPACE);
    let leases = leases.await?.list(&Default::default()).await?;
    assert_eq!(leases.items.len(), 1, "one Lease");
    let holder = leases.items[0].data["spec"]["holderIdentity"].as_str();
    let holder = holder.filter(|holder| !holder.is_empty());
    Ok(holder.context("nobody leads")?.to_owned())
}

/// What of leading a replica's metrics show: that it does, and how gangs stand.
async fn shown(admin: u16) -> Result<(bool, bool)> {
    let page = muster::metrics(admin).await?;
    let leads = page.contains("\nmuster_leader 1\n");
    Ok((leads, page.contains("\nmuster_gangs{")))
}

/// Somebody else holds the Lease: the replica at that admin port must not go on as if it led.
async fn depose(cluster: &Cluster, admin: u16) -> Result<()> {
    let leases = cluster
        .objects
        .api("coordination.k8s.io/v1", "Lease", NAMESPACE)
        .await?;
    let taken = Patch::Merge(json!({"spec": {"holderIdentity": "somebody"}}));
    let params = PatchParams::default();
    leases.patch("muster", &params, &taken).await?;
    wait_for("the leader to step down", PATIENCE, async || {
        let shown = shown(admin).await?;
        ensure!(shown == (false, false), "{shown:?}");
        Ok(())
    })
    .await
}

pub async fn either_replica_serves_and_one_leads(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("replicas").await?;
    let (service, port) = Service::start().await?;
    let muster = Muster::install(&cluster, port).await?;
    let mut replicas: Vec<(String, u16, Process)> = Vec::new();
    let mut admins = HashMap::new();
    for number in 1..=2 {
        let name = format!("muster-{number}");
        let (port, admin) = (Port::reserve()?, Port::reserve()?);
        let at = port.number;
        admins.insert(name.clone(), admin.number);
        let process = muster.start_on(&cluster.plane, &name, port, admin).await?;
        replicas.push((name, at, process));
    }
    let sandbox = Sandbox::new(cluster.clone(), "replicas").await?;
    sandbox.nodes(1, 16).await?;

    // With either one out of reach, ten times: a connection that was kept open shows.
    for (name, at, _) in &replicas {
        service.only(&[*at]);
        for _ in 0..10 {
            let text = gang("probe", 2, "1");
            let args = ["apply", "--dry-run=server", "--filename=-"];
            let output = sandbox.kubectl(&args, &text).await?;
            let said = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "with {name} alone: {said}");
        }
    }
    service.only(&[replicas[0].1, replicas[1].1]);
    sandbox.apply(&gang("first", 2, "1")).await?;
    sandbox.all_bound(2).await?;

    let old = wait_for("a leader", PATIENCE, async || {
        leader(&cluster.objects).await
    })
    .await?;
    let says = |process: &Process| -> Result<bool> {
        Ok(std::fs::read_to_string(&process.log)?.contains("leading: this replica"))
    };
    for (name, _, process) in &replicas {
        let leads = *name == old;
        assert_eq!(says(process)?, leads, "{name}; {old} leads");
        assert_eq!(shown(admins[name]).await?, (leads, leads), "{name}");
    }

    let stopped = replicas.iter().position(|(name, ..)| *name == old);
    let (_, _, process) = replicas.remove(stopped.context("a stranger leads")?);
    let (heir, at, _) = &replicas[0];
    service.only(&[*at]);
    process.signal(rustix::process::Signal::TERM)?;
    let start = Instant::now();
    sandbox.apply(&gang("second", 2, "1")).await?;
    wait_for(
        "the objects of a new gang",
        Duration::from_secs(5),
        async || {
            let made = made(&sandbox).await?.len();
            ensure!(made == 4, "{made} of 4 objects exist");
            Ok(())
        },
    )
    .await?;
    println!(
        "objects of a new gang {:?} after the leader's SIGTERM",
        start.elapsed()
    );
    sandbox.all_bound(4).await?;
    assert_eq!(leader(&cluster.objects).await?, *heir);
    assert_eq!(shown(admins[heir]).await?, (true, true), "{heir}");
    ensure!(process.stop(Duration::from_secs(10)).await?.success());
    depose(&cluster, admins[heir]).await
}
