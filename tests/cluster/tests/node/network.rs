//! The overlay `manifests/network-policy` on a network that enforces it: who reaches which port.
//!
//! The node's own network plugin enforces nothing. So the first packet of each connection to a pod is
//! queued, and the engine of kube-network-policies decides about it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams};
use serde_json::{Value, json};

use super::words::succeeds;
use crate::health::{PATIENCE, wait_for};
use crate::install::NAMESPACE;
use crate::manifests::render;
use crate::node::NODE;
use crate::node::images::BOX;
use crate::node::start::two_ready;
use crate::process::Process;
use crate::sandbox::Sandbox;

const OVERLAY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/manifests/network-policy");

/// What the overlay has in the place of the control plane's address.
const PLACEHOLDER: &str = "192.0.2.0/24";

const QUEUE: &str = "100";

/// The node on the network of its pods, from which the kubelet probes: those packets are let in
/// whatever a policy says, here as by every network that enforces policies.
const PROBES: &str = "POSTROUTING -s 10.245.0.1 -d 10.245.0.0/24 -j RETURN";

/// Before the address of the sender is changed for a Service, and after that of the receiver.
const FIRST_PACKETS: &str = "POSTROUTING -d 10.245.0.0/24 -p tcp -m conntrack --ctstate NEW \
                             -j NFQUEUE --queue-num 100";

/// Changes what happens to packets of the node and its pods.
pub(super) async fn iptables(how: &str, rule: &str) -> Result<()> {
    let mut command = Command::new("iptables");
    command.args(["-w", "-t", "mangle", how]);
    command.args(rule.split_whitespace());
    succeeds(command).await.map(|_| ())
}

/// A network that enforces policies, as long as this lives and until [`Enforcer::end`].
struct Enforcer {
    _engine: Process,
}

impl Enforcer {
    async fn start(sandbox: &Sandbox) -> Result<Enforcer> {
        let plane = &sandbox.cluster.plane;
        let mut command = plane.components().program("policies")?;
        command.arg(&plane.kubeconfig).args([NODE, QUEUE]);
        let engine = plane.spawn("policies", command, Vec::new())?;
        wait_for("the engine of policies", PATIENCE, async || {
            let log = fs::read_to_string(&engine.log)?;
            ensure!(log.contains("ready"), "it says {log:?}");
            ensure!(engine.exited().is_none(), "{}", engine.last_words());
            Ok(())
        })
        .await?;
        iptables("-A", PROBES).await?;
        iptables("-A", FIRST_PACKETS).await?;
        Ok(Enforcer { _engine: engine })
    }

    /// Packets that are queued for nobody would be dropped, so the rules go first.
    async fn end(self) -> Result<()> {
        iptables("-D", FIRST_PACKETS).await?;
        iptables("-D", PROBES).await
    }
}

/// The policy of the overlay, with an address of the control plane.
fn policy(sandbox: &Sandbox, address: &str) -> Result<Value> {
    let components = sandbox.cluster.plane.components();
    let objects = render(components, Path::new(OVERLAY))?;
    let mut found = objects.into_iter();
    let policy = found.find(|object| object["kind"] == "NetworkPolicy");
    let text = policy.context("the overlay has no policy")?.to_string();
    ensure!(text.contains(PLACEHOLDER), "no placeholder in {text}");
    Ok(serde_json::from_str(&text.replace(PLACEHOLDER, address))?)
}

impl Sandbox {
    /// Applies the policy, and has the apiserver connect anew: those that are connected stay so.
    async fn hold_to(&self, policy: &Value) -> Result<()> {
        self.cluster.objects.apply(policy, NAMESPACE).await?;
        let services = self.cluster.objects.api("v1", "Service", NAMESPACE).await?;
        let service = services.get("muster").await?;
        let address = service.data["spec"]["clusterIP"].as_str();
        let address = address.context("the Service has no address")?;
        let mut forget = Command::new("conntrack");
        forget.args(["-D", "-p", "tcp", "--dport", "443", "-d", address]);
        // It fails where there is nothing to forget.
        let _ = tokio::task::spawn_blocking(move || forget.output()).await??;
        Ok(())
    }

    /// Which of these ports of a replica a pod of this namespace reaches.
    async fn reached(&self, name: &str, ports: &[&str]) -> Result<Vec<String>> {
        let replicas: Api<Pod> = Api::namespaced(self.client(), NAMESPACE);
        let replicas = replicas.list(&ListParams::default()).await?;
        let address = replicas.iter().find_map(|pod| {
            let live = pod.metadata.deletion_timestamp.is_none();
            let address = pod.status.as_ref()?.pod_ip.clone()?;
            live.then_some(address)
        });
        let address = address.context("no replica has an address")?;
        let calls = ports.iter().map(|port| vec!["call", &address, port]);
        let words: Vec<&str> = calls.collect::<Vec<_>>().join(&"--");
        let pod = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name},
            "spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": BOX, "args": words}],
            },
        });
        self.apply(&pod.to_string()).await?;
        let pods = self.api("v1", "Pod").await?;
        self.wait_for("the calls to be made", async || {
            let phase = pods.get(name).await?.data["status"]["phase"].clone();
            ensure!(phase == "Succeeded", "it is {phase}");
            Ok(())
        })
        .await?;
        let log = self.log(name, "main").await?;
        let open = ports
            .iter()
            .zip(log.lines())
            .filter(|(_, line)| *line == "open");
        Ok(open.map(|(port, _)| (*port).to_owned()).collect())
    }
}

pub async fn the_network_policy_lets_only_the_control_plane_call(sandbox: Sandbox) -> Result<()> {
    let enforcer = Enforcer::start(&sandbox).await?;
    let outcome = enforced(&sandbox).await;
    let policies = "networking.k8s.io/v1";
    let policies = sandbox
        .cluster
        .objects
        .api(policies, "NetworkPolicy", NAMESPACE);
    let policies = policies.await?;
    let all = (&DeleteParams::default(), &ListParams::default());
    policies.delete_collection(all.0, all.1).await?;
    enforcer.end().await?;
    outcome
}

async fn enforced(sandbox: &Sandbox) -> Result<()> {
    const PORTS: [&str; 3] = ["8443", "8444", "8080"];
    let reached = sandbox.reached("before", &PORTS).await?;
    ensure!(reached == PORTS, "without a policy: {reached:?}");

    let endpoints = ["get", "endpointslice", "kubernetes", "--namespace=default"];
    let endpoints = [
        &endpoints[..],
        &["--output=jsonpath={.endpoints[*].addresses[*]}"],
    ]
    .concat();
    let address = format!("{}/32", sandbox.operate(&endpoints).await?);
    sandbox.hold_to(&policy(sandbox, &address)?).await?;
    let scrapes = sandbox.beside("scrapes").await?;
    let label = [
        "label",
        "namespace",
        &scrapes.namespace,
        "muster.dev/scrapes=true",
    ];
    sandbox.operate(&label).await?;

    // A policy holds a moment after it was written.
    sandbox
        .wait_for("the policy to be in force", async || {
            let name = format!("ordinary-{}", sandbox.pods().await?.len());
            let reached = sandbox.reached(&name, &PORTS).await?;
            ensure!(reached == ["8444"], "an ordinary pod reaches {reached:?}");
            Ok(())
        })
        .await?;
    let reached = scrapes.reached("scraper", &PORTS).await?;
    ensure!(reached == ["8444", "8080"], "a scraper reaches {reached:?}");
    // What the apiserver had open was made to be forgotten, so its next call may be reset once.
    sandbox
        .wait_for("Muster to be asked from the right address", async || {
            sandbox.takes_a_gang().await
        })
        .await?;

    // With another address the apiserver is cut off: it is the rule that lets it in.
    sandbox.hold_to(&policy(sandbox, PLACEHOLDER)?).await?;
    let said = sandbox
        .wait_for("the apiserver to be cut off", async || {
            let refused = sandbox.takes_a_gang().await.err();
            Ok(format!("{:#}", refused.context("Muster is asked")?))
        })
        .await?;
    ensure!(said.contains("failed calling webhook"), "{said}");
    sandbox.hold_to(&policy(sandbox, &address)?).await?;
    sandbox
        .wait_for("Muster to be asked again", async || {
            sandbox.takes_a_gang().await
        })
        .await?;
    // The kubelet's probes were let in all the time.
    two_ready(&sandbox.cluster.objects).await?;
    let replicas: Api<Pod> = Api::namespaced(sandbox.client(), NAMESPACE);
    for pod in replicas.list(&ListParams::default()).await? {
        let status = super::words::container(&pod).context("no status")?;
        ensure!(status.restart_count == 0, "{} restarted", pod.name_any());
    }
    scrapes.clear().await
}
