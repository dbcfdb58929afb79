//! A thousand ordinary objects in a cluster with Muster: not one of them reaches it.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use hyper::Request;
use kube::{Client, Config};
use serde_json::{Value, json};

use crate::health::wait_for;
use crate::install::pod_template;
use crate::muster::Muster;
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// What is created: kind, how many, and how many of them have a pod.
const CROWD: [(&str, usize, usize); 7] = [
    ("Pod", 300, 300),
    ("Job", 200, 150),
    ("Deployment", 150, 100),
    ("StatefulSet", 100, 25),
    ("ReplicaSet", 100, 50),
    ("CronJob", 75, 0),
    ("DaemonSet", 75, 0),
];
const OBJECTS: usize = 1000;
const PODS: usize = 625;

/// Requests at a time: more would only wait for the apiserver's own limits.
const AT_ONCE: usize = 16;

/// For hundreds of pods on a machine that compiles beside.
const PATIENCE: Duration = Duration::from_secs(120);

/// An object as a user of Kubernetes who never heard of Muster writes it.
fn ordinary(kind: &str, name: &str, has_pod: bool) -> Value {
    let mut template = pod_template();
    template["metadata"] = json!({"labels": {"app": name}});
    let selector = json!({"matchLabels": {"app": name}});
    let replicas = usize::from(has_pod);
    let (version, spec) = match kind {
        "Pod" => ("v1", template["spec"].take()),
        "Job" => (
            "batch/v1",
            json!({"suspend": !has_pod, "template": template}),
        ),
        "CronJob" => {
            let job = json!({"spec": {"template": template}});
            (
                "batch/v1",
                json!({"schedule": "0 3 1 1 *", "jobTemplate": job}),
            )
        }
        _ => {
            template["spec"]["restartPolicy"] = json!("Always");
            let mut spec = json!({"selector": selector, "template": template});
            if kind != "DaemonSet" {
                spec["replicas"] = json!(replicas);
            }
            ("apps/v1", spec)
        }
    };
    json!({
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": spec,
    })
}

fn crowd() -> Vec<Value> {
    let objects = |(kind, count, with_pod): (&'static str, usize, usize)| {
        let name = move |number| format!("{}-{number}", kind.to_lowercase());
        (0..count).map(move |number| ordinary(kind, &name(number), number < with_pod))
    };
    CROWD.into_iter().flat_map(objects).collect()
}

/// Where calls to Muster are counted.
struct Calls {
    muster: Client,
    apiserver: Client,
}

impl Calls {
    /// As Muster counts them, and as the apiserver does: it also knows of calls that got lost.
    async fn count(&self) -> Result<(u64, u64)> {
        let answered = sum(&self.muster, "muster_admission_requests_total{", "").await?;
        let lost = sum(&self.muster, "muster_tls_handshake_failures_total{", "").await?;
        let sent = "apiserver_admission_webhook_request_total{";
        let sent = sum(&self.apiserver, sent, ".muster.dev\"").await?;
        Ok((answered + lost, sent))
    }

    /// Whether both counted something since.
    async fn rose(&self, since: (u64, u64)) -> Result<bool> {
        let now = self.count().await?;
        Ok(now.0 > since.0 && now.1 > since.1)
    }
}

/// The sum of the series that begin so and have that text in them.
async fn sum(client: &Client, series: &str, with: &str) -> Result<u64> {
    let request = Request::get("/metrics").body(Vec::new())?;
    let page = client.request_text(request).await?;
    let mut sum = 0.0;
    for line in page.lines() {
        if line.starts_with(series) && line.contains(with) {
            sum += line.rsplit(' ').next().unwrap_or_default().parse::<f64>()?;
        }
    }
    Ok(sum as u64)
}

/// Applies all of them, several at a time.
async fn apply(sandbox: &Sandbox, objects: &[Value]) -> Result<()> {
    let apply = |object| sandbox.cluster.objects.apply(object, &sandbox.namespace);
    let applied = stream::iter(objects).map(apply).buffer_unordered(AT_ONCE);
    applied.try_for_each(async |_| Ok(())).await
}

fn with_gang(mut object: Value) -> Value {
    object["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    object
}

pub async fn a_thousand_objects_without_a_gang_never_reach_muster(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("ordinary").await?;
    let (port, admin) = (Port::reserve()?, Port::reserve()?);
    let metrics = Config::new(format!("http://127.0.0.1:{}", admin.number).parse()?);
    let calls = Calls {
        muster: Client::try_from(metrics)?,
        apiserver: cluster.plane.client.clone(),
    };
    let muster = Muster::install(&cluster, port.number).await?;
    let _process = muster
        .start_on(&cluster.plane, "muster-0", port, admin)
        .await?;
    let sandbox = Sandbox::new(cluster.clone(), "ordinary").await?;
    sandbox.nodes(2, 64).await?;

    // With a gang, every one of the kinds is called for: what counts as nothing below could have
    // been counted. By dry runs, and whatever the answer.
    for (kind, ..) in CROWD {
        let object = with_gang(ordinary(kind, "asks", true));
        sandbox
            .wait_for(&format!("a {kind} with a gang to be counted"), async || {
                let before = calls.count().await?;
                let _ = cluster.objects.try_create(&object, "ordinary").await;
                ensure!(calls.rose(before).await?, "it was not");
                Ok(())
            })
            .await?;
    }

    let before = calls.count().await?;
    let start = Instant::now();
    let mut crowd = crowd();
    assert_eq!(crowd.len(), OBJECTS);
    apply(&sandbox, &crowd).await?;
    wait_for("the pods of the crowd", PATIENCE, async || {
        let bound = sandbox.bound().await?.len();
        ensure!(bound == PODS, "{bound} of {PODS} are bound");
        Ok(())
    })
    .await?;
    // A change is as ordinary.
    for object in &mut crowd {
        object["metadata"]["labels"]["example.com/changed"] = json!("true");
    }
    apply(&sandbox, &crowd).await?;
    let seconds = start.elapsed().as_secs_f64();
    println!("{OBJECTS} ordinary objects with {PODS} pods, created and changed: {seconds:.1} s");
    assert_eq!(calls.count().await?, before, "calls for ordinary objects");

    let gang = with_gang(ordinary("Job", "gang", true));
    cluster.objects.apply(&gang, "ordinary").await?;
    ensure!(calls.rose(before).await?, "a gang was not counted");
    Ok(())
}
