//! Replicas that start at the same instant, on machines whose clocks do not agree.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DeleteParams};
use muster::certs::keeper::SECRET;

use super::Replica;
use super::bundles::{bundles, configurations, remove_bundles};
use super::load::ganged;
use crate::clock::Clock;
use crate::health::{PATIENCE, wait_for};
use crate::install::{Installed, NAMESPACE};
use crate::muster::Muster;
use crate::sandbox::Sandbox;
use crate::service::Service;
use crate::tests::replicas::leader;

/// Sooner than a replica looks by itself: nobody has missed what another one wrote.
const SOON: Duration = Duration::from_secs(30);
/// Two that undo each other's writes do so within a second of each.
const QUIET: Duration = Duration::from_secs(5);
const WEEK: i64 = 7 * 24 * 3600;

struct Stage {
    installed: Installed,
    service: Service,
    muster: Muster,
}

impl Stage {
    async fn new(sandbox: &Sandbox) -> Result<Stage> {
        let (service, port) = Service::start().await?;
        let installed = Installed::new(&sandbox.cluster.plane, &sandbox.namespace, port).await?;
        let muster = Muster::installed(&installed.plane).await?;
        Ok(Stage {
            installed,
            service,
            muster,
        })
    }

    fn secrets(&self) -> Api<Secret> {
        Api::namespaced(self.installed.plane.client.clone(), NAMESPACE)
    }

    /// As before anybody has run here.
    async fn empty(&self) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.installed.plane.client.clone(), NAMESPACE);
        let gone = DeleteParams::default();
        leases.delete_collection(&gone, &Default::default()).await?;
        let secrets = self.secrets();
        secrets
            .delete_collection(&gone, &Default::default())
            .await?;
        for configuration in configurations(&self.installed.objects).await? {
            remove_bundles(&self.installed.objects, &configuration).await?;
        }
        Ok(())
    }

    /// Both at the same instant.
    async fn start(&self, clocks: [Clock; 2]) -> Result<[Replica; 2]> {
        let begun = Instant::now();
        let plane = &self.installed.plane;
        let [first, second] = clocks.map(|clock| self.muster.clone().at(clock));
        let (first, second) = tokio::try_join!(
            Replica::start(&first, plane, "muster-1"),
            Replica::start(&second, plane, "muster-2"),
        )?;
        let took = begun.elapsed();
        println!("{clocks:?}: both are ready after {took:.1?}");
        ensure!(took < SOON, "both are ready after {took:?}");
        Ok([first, second])
    }

    /// The clock is really off, and the apiserver trusts the certificate all the same.
    async fn serves(&self, replica: &Replica, clock: Clock) -> Result<()> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let now = i64::try_from(since.as_secs())?;
        let off = replica.shown().await?.expires - WEEK - now;
        let name = &replica.name;
        ensure!((off - clock.offset()).abs() < 60, "{name} is off by {off}");
        self.service.only(&[replica.port]);
        // The apiserver may not have heard of the CA yet.
        let admitted = async || {
            let object = ganged();
            let admitted = self.installed.objects.try_create(&object, "default").await;
            admitted.with_context(|| format!("by {name}, {clock:?}"))
        };
        wait_for("the apiserver to trust it", PATIENCE, admitted).await?;
        for _ in 0..10 {
            admitted().await?;
        }
        Ok(())
    }

    /// The versions of everything that replicas could fight over.
    async fn versions(&self) -> Result<Vec<Option<String>>> {
        let secrets = self.secrets().list(&Default::default()).await?;
        let secrets = secrets.items.into_iter().map(|secret| secret.metadata);
        let configurations = configurations(&self.installed.objects).await?.into_iter();
        let all = configurations.map(|found| found.metadata).chain(secrets);
        Ok(all.map(|metadata| metadata.resource_version).collect())
    }

    async fn holds_for(&self, clocks: [Clock; 2]) -> Result<[Replica; 2]> {
        self.empty().await?;
        let replicas = self.start(clocks).await?;
        let secret = self.secrets().get(SECRET).await?;
        let keys = secret.data.context("no data")?.len();
        ensure!(keys == 2, "one CA, not {keys} keys");
        bundles(&self.installed.objects).await?;
        let objects = &self.installed.objects;
        let leads = wait_for("a leader", PATIENCE, async || leader(objects).await).await?;
        let before = self.versions().await?;
        for (replica, clock) in replicas.iter().zip(clocks) {
            self.serves(replica, clock).await?;
        }
        tokio::time::sleep(QUIET).await;
        ensure!(self.versions().await? == before, "{clocks:?}: they fight");
        ensure!(leader(objects).await? == leads, "another one leads");
        self.service.only(&replicas.each_ref().map(|one| one.port));
        Ok(replicas)
    }
}

pub async fn replicas_that_start_at_once_agree_whatever_their_clocks_say(
    sandbox: Sandbox,
) -> Result<()> {
    let stage = Stage::new(&sandbox).await?;
    let (right, ahead, behind) = (Clock::Right, Clock::HourAhead, Clock::HourBehind);
    for clocks in [
        [right, right],
        [ahead, right],
        [behind, right],
        [ahead, behind],
        // It is the apiserver's that is off, as they see it.
        [ahead, ahead],
        [behind, behind],
    ] {
        let held = stage.holds_for(clocks).await;
        held.with_context(|| format!("{clocks:?}"))?;
    }
    Ok(())
}

/// Neither too soon, which would be two leaders, nor an hour late.
pub async fn a_dead_leaders_lease_runs_out_in_time_whatever_the_clocks_say(
    sandbox: Sandbox,
) -> Result<()> {
    let stage = Stage::new(&sandbox).await?;
    let replicas = stage.start([Clock::HourAhead, Clock::HourBehind]).await?;
    let objects = &stage.installed.objects;
    let old = wait_for("a leader", PATIENCE, async || leader(objects).await).await?;
    // Long enough for one that takes the other's times for its own.
    tokio::time::sleep(QUIET).await;
    ensure!(leader(objects).await? == old, "another one leads");
    let (killed, heir): (Vec<Replica>, Vec<Replica>) = replicas
        .into_iter()
        .partition(|replica| replica.name == old);
    let (killed, heir) = (killed.first(), heir.first());
    let (killed, heir) = (
        killed.context("a stranger leads")?,
        heir.context("no heir")?,
    );
    killed.process.signal(rustix::process::Signal::KILL)?;
    let dead = Instant::now();
    wait_for("the other one to lead", PATIENCE, async || {
        let leads = leader(objects).await?;
        ensure!(leads == heir.name, "{leads} leads");
        Ok(())
    })
    .await?;
    let took = dead.elapsed();
    println!("the other one leads {took:.1?} after the leader was killed");
    // It holds for 15 seconds after a renewal, which comes every five.
    let expected = Duration::from_secs(9)..Duration::from_secs(30);
    ensure!(expected.contains(&took), "after {took:?}");
    Ok(())
}
