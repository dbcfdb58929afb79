//! A release on a real apiserver: installed, tried, upgraded, gone.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::{Value, json};

use crate::health::{PATIENCE, wait_for};
use crate::helm::{CHART, Helm, RELEASE, by_name};
use crate::install::{Installed, jobset, to_loopback};
use crate::manifests::parse;
use crate::muster::Muster;
use crate::objects::Objects;
use crate::ports::Port;
use crate::sandbox::Sandbox;

/// Not the one of the kustomizations, so that whatever names that one is found.
const ELSEWHERE: &str = "gangs";

/// An apiserver of its own: a release holds for a whole cluster.
pub async fn plane(sandbox: &Sandbox, name: &str) -> Result<Installed> {
    let shared = &sandbox.cluster.plane;
    // A test that is run again finds a fresh one.
    let name = format!("{name}-{}", sandbox.namespace);
    let plane = shared.another(shared.release, &name).await?;
    let objects = Objects::new(plane.client.clone());
    Ok(Installed { plane, objects })
}

pub fn namespace(name: &str, standard: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": standard}},
    })
}

/// Everything that the cluster stores, but for events.
async fn everything(installed: &Installed) -> Result<BTreeSet<String>> {
    let client = &installed.plane.client;
    let discovery = Discovery::new(client.clone()).run().await?;
    let mut found = BTreeSet::new();
    for group in discovery.groups() {
        for (resource, abilities) in group.recommended_resources() {
            let listed = abilities.supports_operation(verbs::LIST);
            if !listed || resource.kind == "Event" || resource.kind == "ComponentStatus" {
                continue;
            }
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
            for object in api.list(&ListParams::default()).await? {
                let metadata = object.metadata;
                let deleting = metadata.deletion_timestamp.is_some();
                let namespace = match abilities.scope {
                    Scope::Cluster => String::new(),
                    Scope::Namespaced => metadata.namespace.unwrap_or_default(),
                };
                let name = metadata.name.unwrap_or_default();
                let state = if deleting { " (terminating)" } else { "" };
                found.insert(format!("{} {namespace}/{name}{state}", resource.kind));
            }
        }
    }
    Ok(found)
}

/// The pod of `helm test`, and the objects that give it its rights.
fn hooks(helm: &Helm) -> Result<(Value, Vec<Value>)> {
    let printed = helm.printed(&["get", "hooks", RELEASE, "--namespace", ELSEWHERE])?;
    let objects = by_name(parse(&printed)?)?.into_values();
    let (pods, rights): (Vec<_>, Vec<_>) = objects.partition(|object| object["kind"] == "Pod");
    ensure!(rights.len() == 3, "{rights:?}");
    let [pod] = &pods[..] else {
        anyhow::bail!("{} pods", pods.len());
    };
    Ok((pod.clone(), rights))
}

/// What the container of that pod runs, as its service account: without a kubelet no pod does.
fn run_pod(pod: &Value, kubeconfig: &Path, more: &[&str]) -> Result<Output> {
    let args = pod["spec"]["containers"][0]["args"].as_array();
    let args = args.context("the pod has no arguments")?.iter();
    let output = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(args.filter_map(Value::as_str))
        .args(more)
        .env("KUBECONFIG", kubeconfig)
        .output()?;
    Ok(output)
}

async fn verify(pod: &Value, kubeconfig: &Path, more: &'static [&'static str]) -> Result<Output> {
    let (pod, kubeconfig) = (pod.clone(), kubeconfig.to_owned());
    tokio::task::spawn_blocking(move || run_pod(&pod, &kubeconfig, more)).await?
}

fn said(output: &Output) -> String {
    let out = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&out).into_owned()
}

pub async fn a_release_is_installed_tried_upgraded_and_leaves_nothing(
    sandbox: Sandbox,
) -> Result<()> {
    let installed = plane(&sandbox, "chart").await?;
    installed.add_jobset_crd().await?;
    let (plane, objects) = (&installed.plane, &installed.objects);
    let restricted = namespace(ELSEWHERE, "restricted");
    objects.apply(&restricted, "").await?;
    let before = everything(&installed).await?;
    let helm = Helm::new(plane.components())?.of(&plane.kubeconfig);
    let here = ["--namespace", ELSEWHERE];

    let install = [&["install", RELEASE, CHART][..], &here].concat();
    let notes = helm.printed(&install)?;
    let next = format!("helm test {RELEASE} --namespace {ELSEWHERE}");
    ensure!(notes.contains(&next), "{notes}");

    // Muster fills what the release brought, and writes its CA into the configurations.
    let port = Port::reserve()?;
    let number = port.number;
    let muster = Muster::installed_in(ELSEWHERE, plane).await?;
    let replica = muster.start_at(plane, "release", port).await?;
    let secrets: Api<Secret> = Api::namespaced(plane.client.clone(), ELSEWHERE);
    let filled = async || {
        let mut data = Vec::new();
        for name in ["muster-ca", "muster-seal"] {
            let secret = secrets.get(name).await?.data.unwrap_or_default();
            ensure!(!secret.is_empty(), "{name} is empty");
            data.push(secret);
        }
        Ok(data)
    };
    let keys = filled().await?;
    let bundles = async || {
        let api = objects.api(
            "admissionregistration.k8s.io/v1",
            "MutatingWebhookConfiguration",
            "",
        );
        let found = api.await?.get("muster-mutating").await?.data;
        let hooks = found["webhooks"].as_array().context("no webhooks")?;
        let bundles = hooks
            .iter()
            .map(|hook| hook["clientConfig"]["caBundle"].clone());
        let bundles: Vec<Value> = bundles.collect();
        ensure!(bundles.iter().all(Value::is_string), "{bundles:?}");
        Ok(bundles)
    };
    let trusted = bundles().await?;

    // An upgrade changes what it says, takes nothing from Muster, and no field is fought over.
    let sets = [
        "--set",
        "replicas=3,scheduler=native,webhooks.sparedNamespaces={infra}",
    ];
    helm.printed(&[&["upgrade", RELEASE, CHART][..], &here, &sets].concat())?;
    let deployments = objects.api("apps/v1", "Deployment", ELSEWHERE).await?;
    let spec = deployments.get("muster").await?.data["spec"].clone();
    ensure!(spec["replicas"] == 3, "{}", spec["replicas"]);
    let args = &spec["template"]["spec"]["containers"][0]["args"];
    ensure!(args.to_string().contains("--scheduler=native"), "{args}");
    ensure!(filled().await? == keys, "the upgrade took Muster's keys");
    ensure!(bundles().await? == trusted, "the upgrade took the bundles");

    // A test that cannot run fails, and leaves neither its pod nor its rights.
    let failed = helm.refused(&[&["test", RELEASE, "--timeout", "3s"][..], &here].concat())?;
    ensure!(failed.contains("muster-verify"), "{failed}");
    let left = everything(&installed).await?;
    let left: Vec<_> = left.iter().filter(|name| name.contains("verify")).collect();
    ensure!(left.is_empty(), "{left:?}");

    // What its pod would do, with the rights that it would have.
    let (pod, rights) = hooks(&helm)?;
    objects.apply_all(&rights, ELSEWHERE).await?;
    // The restricted standard lets it in.
    objects.try_create(&pod, ELSEWHERE).await?;
    let account = plane
        .service_account_kubeconfig(ELSEWHERE, "muster-verify")
        .await?;
    point_to_loopback(&installed, &helm, number).await?;
    let works = verify(&pod, &account, &[]).await?;
    let words = said(&works);
    ensure!(works.status.code() == Some(0), "{words}");
    for line in [
        "Job: works (scheduler native)\n",
        "JobSet: works (scheduler native)\n",
        "LeaderWorkerSet: not served by this cluster\n",
    ] {
        ensure!(words.contains(line), "{words}");
    }
    // Muster's own namespace is spared: there it can be seen that nobody is asked.
    let mut unasked = pod.clone();
    let list = &mut unasked["spec"]["containers"][0]["args"];
    *list = json!(["verify", format!("--namespace={ELSEWHERE}")]);
    let output = verify(&unasked, &plane.kubeconfig, &[]).await?;
    ensure!(output.status.code() == Some(1), "{}", said(&output));
    ensure!(
        said(&output).contains("does not ask Muster"),
        "{}",
        said(&output)
    );
    // In a namespace that its role says nothing of.
    let mut forbidden = pod.clone();
    forbidden["spec"]["containers"][0]["args"] = json!(["verify", "--namespace=kube-public"]);
    let output = verify(&forbidden, &account, &[]).await?;
    ensure!(output.status.code() == Some(1), "{}", said(&output));
    ensure!(
        said(&output).contains("cannot create resource"),
        "{}",
        said(&output)
    );
    for object in &rights {
        delete(objects, object).await?;
    }

    // Muster still runs while the release goes, as its pods do for seconds, and puts nothing back.
    uninstall(&installed, helm).await?;
    wait_for("nothing to be left", PATIENCE, async || {
        let left: Vec<String> = everything(&installed)
            .await?
            .difference(&before)
            .cloned()
            .collect();
        ensure!(left.is_empty(), "{left:?}");
        Ok(())
    })
    .await?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let _ = replica.stop(Duration::from_secs(30)).await;
    let after = everything(&installed).await?;
    ensure!(
        after == before,
        "{:?}",
        after.symmetric_difference(&before).collect::<Vec<_>>()
    );
    // And what asks for a gang is held up by nobody.
    let mut ganged = jobset("train");
    ganged["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "Gang"});
    objects.try_create(&ganged, "default").await?;
    Ok(())
}

/// With an eye on the order: webhooks that outlive what they call would refuse every gang.
async fn uninstall(installed: &Installed, helm: Helm) -> Result<()> {
    let objects = &installed.objects;
    let group = "admissionregistration.k8s.io/v1";
    let deployments = objects.api("apps/v1", "Deployment", ELSEWHERE).await?;
    let services = objects.api("v1", "Service", ELSEWHERE).await?;
    let mutating = objects
        .api(group, "MutatingWebhookConfiguration", "")
        .await?;
    let validating = objects
        .api(group, "ValidatingWebhookConfiguration", "")
        .await?;
    let args = ["uninstall", RELEASE, "--namespace", ELSEWHERE];
    let run = tokio::task::spawn_blocking(move || helm.printed(&args));
    let mut looks = 0;
    while !run.is_finished() {
        let called = deployments.get_opt("muster").await?.is_some()
            && services.get_opt("muster").await?.is_some();
        let calls = mutating.get_opt("muster-mutating").await?.is_some()
            || validating.get_opt("muster-validating").await?.is_some();
        ensure!(called || !calls, "the webhooks outlive what they call");
        looks += 1;
    }
    run.await??;
    ensure!(looks > 2, "only {looks} looks");
    Ok(())
}

/// Nothing runs in pods here: the Service and the webhooks' references to it lead to the process.
async fn point_to_loopback(installed: &Installed, helm: &Helm, port: u16) -> Result<()> {
    let manifest = helm.printed(&["get", "manifest", RELEASE, "--namespace", ELSEWHERE])?;
    for object in by_name(parse(&manifest)?)?.into_values() {
        let kind = object["kind"].as_str().unwrap_or_default();
        if kind == "Service" || kind.ends_with("WebhookConfiguration") {
            let object = to_loopback(object, port);
            installed.objects.apply(&object, ELSEWHERE).await?;
        }
    }
    Ok(())
}

async fn delete(objects: &Objects, object: &Value) -> Result<()> {
    let word = |at: &str| {
        object
            .pointer(at)
            .and_then(Value::as_str)
            .unwrap_or_default()
    };
    let namespace = word("/metadata/namespace");
    let api = objects
        .api(word("/apiVersion"), word("/kind"), namespace)
        .await?;
    api.delete(word("/metadata/name"), &Default::default())
        .await?;
    Ok(())
}
