//! Operators of other projects on fake nodes. Muster knows none of their workloads: their pods declare
//! a gang themselves, with what stands in their templates.

pub mod mpi;
pub mod ray;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::DynamicObject;

use crate::sandbox::Sandbox;

/// The mark on a template that every pod of it must bear.
const MARK: &str = "example.com/role";

/// What the templates of one gang declare, behind other annotations.
fn gang(quorum: u32) -> String {
    format!(", muster.dev/gang-name: ring, muster.dev/min-count: '{quorum}'")
}

/// The mark of each pod, and the kind of object that controls it.
fn origins(pods: &[Pod]) -> Result<Vec<String>> {
    let origin = |pod: &Pod| {
        let mark = pod.annotations().get(MARK);
        let mark = mark.with_context(|| format!("{} bears no mark", pod.name_any()))?;
        let mut owners = pod.owner_references().iter();
        let controller = owners.find(|owner| owner.controller == Some(true));
        let kind = &controller.context("a pod of nobody")?.kind;
        Ok(format!("{mark} of {kind}"))
    };
    let mut origins: Vec<String> = pods.iter().map(origin).collect::<Result<_>>()?;
    origins.sort();
    Ok(origins)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod
        .status
        .as_ref()
        .and_then(|status| status.conditions.as_ref());
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// As they stand, but for the GPUs of fake nodes.
pub async fn the_samples_of_operators_are_gangs(sandbox: Sandbox) -> Result<()> {
    let mpijob = include_str!("../../../../manifests/samples/mpijob.yaml");
    let raycluster = include_str!("../../../../manifests/samples/raycluster.yaml");
    for (sample, pods, cpu) in [(mpijob, 5, 33), (raycluster, 4, 25)] {
        let name = format!("{}-{pods}", sandbox.namespace);
        let sandbox = Sandbox::new(sandbox.cluster.clone(), &name).await?;
        sandbox.nodes(1, cpu - 1).await?;
        let sample = sample.replace("            limits: {nvidia.com/gpu: \"8\"}\n", "");
        let workload = sandbox.apply(&sample).await?.remove(0);
        sandbox.none_bound(pods).await?;
        sandbox.one_gang(pods as u32, &workload).await?;
        sandbox.nodes(1, cpu).await?;
        sandbox.all_ready(pods).await?;
        sandbox.clear().await?;
    }
    Ok(())
}

impl Sandbox {
    /// Waits until so many pods run and are ready, and returns them.
    async fn all_ready(&self, count: usize) -> Result<Vec<Pod>> {
        self.wait_for(&format!("{count} pods that are ready"), async || {
            let pods = self.pods().await?;
            let ready = pods.iter().filter(|pod| is_ready(pod)).count();
            ensure!(
                ready == count && pods.len() == count,
                "{ready} of {}",
                pods.len()
            );
            Ok(pods)
        })
        .await
    }

    /// Waits until there is one PodGroup, of that quorum, and sees that it has that one owner.
    async fn one_gang(&self, quorum: u32, owner: &DynamicObject) -> Result<DynamicObject> {
        self.gangs(1).await?;
        self.quorum(quorum).await?;
        let group = self.made("PodGroup").await?.remove(0);
        let owners = group.owner_references();
        let expected = (owner.types.as_ref().map(|t| &t.kind), owner.uid());
        let found: Vec<_> = owners
            .iter()
            .map(|o| (Some(&o.kind), Some(o.uid.clone())))
            .collect();
        ensure!(found == [expected], "it is owned by {owners:?}");
        Ok(group)
    }

    /// Deletes a workload, and waits until nothing of it or of its gang is left.
    async fn leaves_nothing(&self, kind: &str, name: &str) -> Result<()> {
        let deleted = self.kubectl(&["delete", kind, name, "--wait"], "").await?;
        let said = String::from_utf8_lossy(&deleted.stderr);
        ensure!(deleted.status.success(), "{said}");
        self.left_nothing().await
    }
}
