//! What was written to the apiserver, by its own count.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use hyper::Request;
use kube::Client;

use crate::muster::sum;

/// So long nothing was written, where nobody does any more; and how often that is looked for.
const REST: Duration = Duration::from_secs(5);
const LOOKS: u32 = 120;

/// Whatever writes an object, as the apiserver names it in its metrics.
const VERBS: [&str; 5] = ["APPLY", "PATCH", "POST", "PUT", "DELETE"];

/// Writes of all who speak to the apiserver since it started. On the cluster of a benchmark nobody but Muster
/// writes ConfigMaps. What KWOK, the scheduler and this program write of pods is their status or binding,
/// which are subresources and not counted here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Writes {
    config_maps: u64,
    pods: u64,
}

impl Writes {
    pub async fn of(client: &Client) -> Result<Writes> {
        let request = Request::get("/metrics").body(Vec::new())?;
        let page = client.request_text(request).await?;
        Ok(Writes {
            config_maps: count(&page, "configmaps")?,
            pods: count(&page, "pods")?,
        })
    }

    /// The same once nobody writes any more: the garbage collector and the Job controller are busy with the pods
    /// of the scenario before for long after the last one is gone, on a slow machine for minutes.
    pub async fn at_rest(client: &Client) -> Result<Writes> {
        let mut last = Writes::of(client).await?;
        for _ in 0..LOOKS {
            tokio::time::sleep(REST).await;
            let now = Writes::of(client).await?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
        bail!("pods are still written to after {:?}", REST * LOOKS)
    }

    /// One ConfigMap was written since then, once, and no pod.
    pub fn are_one_more_than(self, before: Writes) -> Result<()> {
        let since = Writes {
            config_maps: self.config_maps - before.config_maps,
            pods: self.pods - before.pods,
        };
        let (config_maps, pods) = (1, 0);
        ensure!(since == Writes { config_maps, pods }, "{since}");
        Ok(())
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { config_maps, pods } = self;
        write!(f, "{config_maps} writes of ConfigMaps and {pods} of pods")
    }
}

fn count(page: &str, resource: &str) -> Result<u64> {
    let ours = |line: &&str| {
        let has = |label: &str, value: &str| line.contains(&format!("{label}=\"{value}\""));
        has("resource", resource)
            && has("subresource", "")
            && VERBS.iter().any(|verb| has("verb", verb))
    };
    let lines = page.lines().filter(ours).map(|line| format!("{line}\n"));
    Ok(sum(&lines.collect::<String>(), "apiserver_request_total{")? as u64)
}
