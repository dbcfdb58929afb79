//! The cluster for a person to look at: a gang waits, a node comes, the gang starts.

use std::sync::Arc;

use anyhow::{Result, ensure};

use crate::cluster::Cluster;
use crate::sandbox::Sandbox;

const SAMPLE: &str = "
apiVersion: jobset.x-k8s.io/v1alpha2
kind: JobSet
metadata:
  name: train
  annotations: {muster.dev/gang-mode: Gang}
spec:
  replicatedJobs:
  - name: workers
    replicas: 2
    template:
      spec:
        parallelism: 2
        completions: 2
        template:
          spec:
            containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";

/// Plays the scene, then stays until Ctrl-C ends the run.
pub async fn run(cluster: Arc<Cluster>) -> Result<()> {
    let sandbox = Sandbox::new(cluster, "demo").await?;
    println!("\n# Three CPUs, and a JobSet whose four one-CPU pods are one gang:\n{SAMPLE}");
    sandbox.nodes(1, 3).await?;
    sandbox.apply(SAMPLE).await?;
    sandbox.none_bound(4).await?;
    println!("# Four pods, three of which would fit, and none is bound:");
    show(&sandbox, &["get", "pods", "-o", "wide"]).await?;
    show(&sandbox, &["get", "podgroups.scheduling.k8s.io"]).await?;
    println!("# One more CPU:");
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(4).await?;
    show(&sandbox, &["get", "pods", "-o", "wide"]).await?;
    show(
        &sandbox,
        &[
            "get",
            "events",
            "--field-selector",
            "involvedObject.kind=JobSet",
        ],
    )
    .await?;
    let kubeconfig = &sandbox.cluster.plane.kubeconfig;
    println!("# The cluster stays up until Ctrl-C. In another terminal:");
    println!("export KUBECONFIG={}", kubeconfig.display());
    println!("kubectl --namespace demo get pods   # the namespace whose pods can use these nodes");
    std::future::pending().await
}

async fn show(sandbox: &Sandbox, args: &[&str]) -> Result<()> {
    println!("$ kubectl {}", args.join(" "));
    let output = sandbox.kubectl(args, "").await?;
    print!("{}", String::from_utf8_lossy(&output.stdout));
    println!("{}", String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "kubectl failed");
    Ok(())
}
