//! A namespace and its JobSets that are applied together: the JobSet comes before Muster has seen the
//! namespace, whose label chooses the scheduler.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};
use kube::ResourceExt as _;
use kube::api::{DynamicObject, PostParams};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use super::samples::{JOBSET, gang};
use crate::install::Installed;
use crate::manifests::parse;
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// Pairs that are created at once.
const PAIRS: usize = 20;

/// By how much Muster hears later from the apiserver than its other clients: many times what lies
/// between the two requests of a pair.
const DELAY: Duration = Duration::from_millis(700);

/// What Muster asks for in its `Retry-After`.
const RETRY: Duration = Duration::from_secs(1);

/// Muster would take Kubernetes' own scheduler where nobody names one.
pub async fn a_jobset_that_comes_with_its_namespace_goes_to_its_scheduler(
    sandbox: Sandbox,
) -> Result<()> {
    let port = Port::reserve()?;
    let installed = Installed::new(&sandbox.cluster.plane, "together", port.number).await?;
    let plane = &installed.plane;
    let apiserver = plane.server.trim_start_matches("https://").parse()?;
    let late = late(apiserver).await?;
    let muster = Muster::installed(plane).await?.through(late)?;
    let _process = muster.start_at(plane, "muster-0", port).await?;

    let pairs = (0..PAIRS).map(|number| together(&installed, format!("together-{number}")));
    let outcomes = futures::future::join_all(pairs).await;
    let (took, failed): (Vec<_>, Vec<_>) = outcomes.into_iter().partition(Result::is_ok);
    let failed: Vec<Error> = failed.into_iter().filter_map(Result::err).collect();
    ensure!(
        failed.is_empty(),
        "{} of {PAIRS}: {failed:#?}",
        failed.len()
    );
    // Otherwise Muster had seen each namespace in time, and nothing is shown.
    let again = took.iter().flatten().filter(|took| **took >= RETRY).count();
    ensure!(again > PAIRS / 2, "only {again} were asked again: {took:?}");
    Ok(())
}

/// Creates a namespace with a label and at once a JobSet in it, which must get the scheduler of the
/// label. How long the JobSet took.
async fn together(installed: &Installed, name: String) -> Result<Duration> {
    let namespace: DynamicObject = serde_json::from_value(json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"muster.dev/scheduler": "yunikorn"}},
    }))?;
    let jobset: DynamicObject = serde_json::from_value(parse(&gang("train", 2, "1"))?.remove(0))?;
    let namespaces = installed.objects.api("v1", "Namespace", "").await?;
    let jobsets = installed.objects.api(JOBSET.0, JOBSET.1, &name).await?;

    let params = PostParams::default();
    namespaces.create(&params, &namespace).await?;
    let start = Instant::now();
    let stored = jobsets.create(&params, &jobset).await;
    let stored = stored.with_context(|| format!("the JobSet of {name} is refused"))?;
    let chosen = stored.annotations().get("muster.dev/scheduler");
    ensure!(
        chosen.is_some_and(|chosen| chosen == "yunikorn"),
        "the JobSet of {name} goes to {chosen:?}"
    );
    Ok(start.elapsed())
}

/// An address at which the apiserver's words arrive late, in their order.
async fn late(apiserver: SocketAddr) -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            tokio::spawn(pass(near, apiserver));
        }
    });
    Ok(address)
}

async fn pass(near: TcpStream, apiserver: SocketAddr) -> Result<()> {
    let far = TcpStream::connect(apiserver).await?;
    let (mut from_near, mut to_near) = near.into_split();
    let (mut from_far, mut to_far) = far.into_split();
    let (sender, mut waiting) = mpsc::unbounded_channel();
    let asked = async {
        copy(&mut from_near, &mut to_far).await?;
        to_far.shutdown().await
    };
    let heard = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let read = from_far.read(&mut buffer).await?;
            let bytes = buffer[..read].to_vec();
            if read == 0 || sender.send((Instant::now() + DELAY, bytes)).is_err() {
                drop(sender);
                return Ok(());
            }
        }
    };
    let told = async {
        while let Some((due, bytes)) = waiting.recv().await {
            sleep_until(due).await;
            to_near.write_all(&bytes).await?;
        }
        to_near.shutdown().await
    };
    tokio::try_join!(asked, heard, told)?;
    Ok(())
}
