//! `muster explain` and `muster status` as a user types them: every kind that can be named, every form
//! of output, and who may look.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use super::super::lws::lws;
use super::super::samples::JOBSET;
use super::super::words::{group, jobset};
use super::{Scheduler, Seed};
use crate::fleet::Home;
use crate::manifests::parse;
use crate::muster::Muster;
use crate::ports::Port;
use crate::runner::{Test, test, test_in};
use crate::sandbox::Sandbox;

const ENOUGH: Duration = Duration::from_secs(10);

pub fn all() -> Vec<Test> {
    vec![
        test(whatever_is_named_leads_to_the_gang),
        test(a_gang_of_which_no_pod_exists_is_explained),
        test(what_has_no_gang_is_told_so),
        test(who_is_missing_at_a_start_barrier_is_named),
        test(a_job_leads_to_its_jobset_and_a_cronjob_to_its_jobs),
        test(of_several_gangs_the_one_of_the_pod_is_explained),
        test(an_object_that_is_refused_is_missed),
        test(with_few_rights_it_says_what_it_could_not_see),
        test(who_may_not_list_pods_is_told_what_muster_says),
        test(status_is_watched_until_it_is_interrupted),
        test(on_a_terminal_status_fits_the_screen),
        test(kubectl_runs_them_as_a_plugin),
        test(both_work_without_muster),
        test_in(Home::Schedulers, queues_and_partners_are_looked_at),
    ]
}

/// Three pods of one CPU each that start together.
fn ring(kind: &str) -> String {
    let more = match kind {
        "StatefulSet" => "  podManagementPolicy: Parallel\n",
        _ => "",
    };
    format!(
        "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: serve}}
spec:
{more}  replicas: 3
  selector: {{matchLabels: {{app: serve}}}}
  template:
    metadata:
      labels: {{app: serve}}
      annotations: {{muster.dev/gang-name: ring, muster.dev/min-count: '3'}}
    spec:
      containers: [{{name: main, image: serve, resources: {{requests: {{cpu: '1'}}}}}}]
"
    )
}

/// The command, with the rights of whoever the kubeconfig is.
fn muster(kubeconfig: &Path, namespace: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command
        .args(args)
        .args(["--namespace", namespace])
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .stdin(Stdio::null());
    command
}

struct Said {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Said {
    fn has(&self, words: &str) -> Result<()> {
        let Self { out, err, .. } = self;
        ensure!(out.contains(words), "{words:?} is not in:\n{out}{err}");
        Ok(())
    }

    fn lacks(&self, words: &str) -> Result<()> {
        let Self { out, .. } = self;
        ensure!(!out.contains(words), "{words:?} is in:\n{out}");
        Ok(())
    }
}

async fn run(mut command: Command) -> Result<Said> {
    let output = tokio::task::spawn_blocking(move || command.output()).await??;
    let Output {
        status,
        stdout,
        stderr,
    } = output;
    Ok(Said {
        code: status.code(),
        out: String::from_utf8(stdout)?,
        err: String::from_utf8(stderr)?,
    })
}

impl Sandbox {
    async fn muster(&self, args: &[&str]) -> Result<Said> {
        let kubeconfig: &PathBuf = &self.cluster.plane.kubeconfig;
        run(muster(kubeconfig, &self.namespace, args)).await
    }

    /// Explains something; it must have a gang.
    async fn explain(&self, args: &[&str]) -> Result<Said> {
        let said = self.muster(&[&["explain"], args].concat()).await?;
        let Said { code, out, err } = &said;
        ensure!(*code == Some(0), "{args:?}: {code:?}: {out}{err}");
        Ok(said)
    }

    /// Its words once the scheduler has looked at the pods.
    async fn explained(&self, args: &[&str], words: &str) -> Result<Said> {
        let what = format!("{args:?} to say {words:?}");
        self.wait_for(&what, async || {
            let said = self.explain(args).await?;
            said.has(words)?;
            Ok(said)
        })
        .await
    }
}

const SHORT: &str = "1. InsufficientResources: 2 of 3 pods fit; 1 more CPU is needed";

pub async fn whatever_is_named_leads_to_the_gang(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("Deployment")).await?;
    sandbox.none_bound(3).await?;
    let said = sandbox.explained(&["deployment/serve"], SHORT).await?;
    said.has("Deployment ")?;
    said.has("next: kubectl describe nodes")?;
    said.has("looked at: the gang, its pods and the objects of its gangs; nodes and the pods on")?;
    said.has("still unknown:\n  whether the scheduler preempts other pods, and which")?;
    said.lacks("missing: ")?;
    let pod = sandbox.pods().await?.remove(0).name_any();
    let sets = sandbox.api("apps/v1", "ReplicaSet").await?;
    let set = sets.list(&Default::default()).await?.items.remove(0);
    let group = sandbox.names("PodGroup").await?.remove(0);
    for args in [
        &["deploy", "serve"][..],
        &["deployments.apps/serve"],
        &[&format!("rs/{}", set.name_any())],
        &[&format!("pod/{pod}")],
        &["gang/ring"],
        &[&format!("gangs/{group}")],
    ] {
        sandbox.explain(args).await?.has(SHORT)?;
    }
    let said = sandbox.explain(&[&format!("po/{pod}")]).await?;
    said.has(&format!(
        "the pod {pod} waits for a node; it is a member of the gang {group}\n"
    ))?;
    let said = sandbox.explain(&["deploy/serve", "-o", "json"]).await?;
    let json: Value = serde_json::from_str(&said.out)?;
    let yaml = sandbox.explain(&["deploy/serve", "-o", "yaml"]).await?;
    let yaml = parse(&yaml.out)?.remove(0);
    for said in [&json, &yaml] {
        let workload = &said["workloads"][0];
        assert_eq!(workload["kind"], "Deployment");
        assert_eq!(workload["declaredGang"], "ring");
        let gang = &workload["gangs"][0];
        assert_eq!(gang["causes"][0]["reason"], "InsufficientResources");
        assert_eq!((&gang["created"], &gang["placed"]), (&json!(3), &json!(0)));
        assert_eq!(gang["causes"][0]["waitingFor"], "1 CPU");
    }
    // Once it fits, it says so.
    sandbox.nodes(1, 1).await?;
    sandbox.all_bound(3).await?;
    sandbox
        .explain(&["gang", "ring"])
        .await?
        .has("all gangs are placed")?;
    let said = sandbox.muster(&["status"]).await?;
    let line = said.out.lines().nth(1).context("no line")?;
    let cells: Vec<&str> = line.split_whitespace().collect();
    assert_eq!(cells[0], "deployment/serve", "{line}");
    assert_eq!((cells[1], cells[2]), (group.as_str(), "native"), "{line}");
    // Created and placed, of a quorum of three.
    assert_eq!((cells[3], cells[4], cells[7]), ("3", "3", "3"), "{line}");
    Ok(())
}

/// The reconciler knows of such a gang only by its pods.
pub async fn a_gang_of_which_no_pod_exists_is_explained(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    let limits = "{apiVersion: v1, kind: LimitRange, metadata: {name: small}, spec: {limits: \
                  [{type: Pod, max: {cpu: 500m}}]}}";
    sandbox.apply(limits).await?;
    for (kind, name) in [("StatefulSet", "sts/serve"), ("Deployment", "deploy/serve")] {
        sandbox.apply(&ring(kind)).await?;
        let words = "1. LimitRangeViolated: 0 of 3 pods exist";
        let said = sandbox.explained(&[name], words).await?;
        said.has(&format!("{kind} "))?;
        said.has("next: kubectl describe limitrange")?;
    }
    let sets = sandbox.api("apps/v1", "ReplicaSet").await?;
    let set = sets.list(&Default::default()).await?.items.remove(0);
    let set = set.name_any();
    let said = sandbox.explain(&["rs", &set]).await?;
    said.has(&format!(
        "the ReplicaSet {set} belongs to the Deployment serve\n"
    ))?;
    said.has("1. LimitRangeViolated: 0 of 3 pods exist")?;
    Ok(())
}

/// Without any gang, by the command and by Muster.
pub async fn who_is_missing_at_a_start_barrier_is_named(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    let annotations = "muster.dev/start-barrier: 120s";
    let workers = group("workers", 1, 3, "").replace("backoffLimit: 0", "backoffLimit: 6");
    sandbox.apply(&jobset(annotations, "", &[workers])).await?;
    let words = "main containers wait until all members have started: 2 of 3 members have started; \
                 train-workers-0-";
    let said = sandbox.explained(&["jobset/train"], words).await?;
    said.has(": at the start barrier main containers wait")?;
    said.has(" is not placed: 0/")?;
    let told = sandbox.barrier_is(JOBSET, "BarrierWaiting").await?;
    ensure!(
        told.starts_with("main containers wait until all members have started: "),
        "{told}"
    );
    let pod = sandbox.pods().await?.remove(0).name_any();
    let said = sandbox.explain(&[&format!("pod/{pod}")]).await?;
    said.has(&format!("the pod {pod} is of the JobSet train\n"))?;
    said.has(words)?;
    let said = sandbox.muster(&["status", "-o", "json"]).await?;
    let json: Value = serde_json::from_str(&said.out)?;
    assert_eq!(json[0]["startBarrier"]["reason"], "BarrierWaiting");
    let line = async || -> Result<String> {
        let said = sandbox.muster(&["status"]).await?;
        Ok(said.out.lines().nth(1).context("no line")?.to_owned())
    };
    let waits = line().await?;
    ensure!(waits.contains("  Waiting  all members"), "{waits}");
    sandbox.nodes(1, 1).await?;
    let open = "at the start barrier 3 of 3 members have started";
    sandbox.explained(&["jobset/train"], open).await?;
    let started = line().await?;
    ensure!(started.contains("  Started  "), "{started}");
    // By its pods alone it would be closed: it is the ConfigMap that says it.
    let made = "request.operation == 'UPDATE'";
    sandbox.deny(("", "v1", "pods"), made).await?;
    let pods: Api<Pod> = Api::namespaced(sandbox.client(), &sandbox.namespace);
    pods.delete(&pod, &DeleteParams::default()).await?;
    sandbox
        .wait_for("the pod to be gone", async || {
            let left = sandbox.pods().await?.len();
            ensure!(left == 2, "there are {left}");
            Ok(())
        })
        .await?;
    let said = sandbox.explain(&["jobset/train"]).await?;
    said.has(open)?;
    Ok(())
}

pub async fn what_has_no_gang_is_told_so(sandbox: Sandbox) -> Result<()> {
    let plain = ring("Deployment").replace(
        "annotations: {muster.dev/gang-name: ring, muster.dev/min-count: '3'}",
        "annotations: {}",
    );
    sandbox.apply(&plain).await?;
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: alone}, spec: {containers: [{name: \
               main, image: train}]}}";
    sandbox.apply(pod).await?;
    for (named, code, out, err) in [
        (
            "pod/alone",
            1,
            "the pod belongs to no gang: neither the pod",
            "",
        ),
        (
            "deploy/serve",
            1,
            "the pods of the Deployment serve are no gang",
            "",
        ),
        (
            "pod/nobody",
            2,
            "",
            "there is no Pod nobody in the namespace",
        ),
        (
            "sts/serve",
            2,
            "",
            "there is no StatefulSet serve in the namespace",
        ),
        ("gang/ring", 2, "", "there is no gang ring in the namespace"),
        ("sts/..", 2, "", "names nothing"),
    ] {
        let said = sandbox.muster(&["explain", named]).await?;
        assert_eq!(said.code, Some(code), "{named}: {}{}", said.out, said.err);
        said.has(out)?;
        ensure!(said.err.contains(err), "{named}: {}", said.err);
    }
    let said = sandbox.muster(&["status"]).await?;
    assert_eq!(said.out, "no gangs\n");
    Ok(())
}

pub async fn a_job_leads_to_its_jobset_and_a_cronjob_to_its_jobs(sandbox: Sandbox) -> Result<()> {
    Seed::CpuShort
        .bring_about(&sandbox, Scheduler::Native)
        .await?;
    sandbox.none_bound(3).await?;
    let said = sandbox
        .explained(&["job/train-workers-0"], "2 of 3 pods fit")
        .await?;
    said.has("the Job train-workers-0 belongs to the JobSet train\n")?;
    let pod = sandbox.pods().await?.remove(0).name_any();
    let said = sandbox.explain(&["pod", &pod]).await?;
    said.has(&format!("the pod {pod} waits for a node"))?;
    said.has("2 of 3 pods fit")?;
    let cron = "
apiVersion: batch/v1
kind: CronJob
metadata: {name: nightly}
spec:
  schedule: '0 3 1 1 *'
  jobTemplate:
    metadata: {annotations: {muster.dev/gang-mode: Gang}}
    spec:
      parallelism: 3
      completions: 3
      template:
        spec:
          restartPolicy: Never
          containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";
    sandbox.apply(cron).await?;
    let said = sandbox.muster(&["explain", "cj/nightly"]).await?;
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    said.has("has no Job now whose pods are a gang")?;
    let args = ["create", "job", "--from=cronjob/nightly", "tonight"];
    let made = sandbox.kubectl(&args, "").await?;
    ensure!(made.status.success(), "{made:?}");
    let said = sandbox
        .explained(&["cj/nightly"], "2 of 3 pods fit")
        .await?;
    said.has("/tonight: ")?;
    Ok(())
}

/// One replica runs and the other waits.
pub async fn of_several_gangs_the_one_of_the_pod_is_explained(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 4).await?;
    sandbox.apply(&lws("", "replicas: 2", 3)).await?;
    sandbox.all_bound(3).await?;
    let words = "1. InsufficientResources: 1 of 3 pods fit; 2 more CPU are needed";
    let said = sandbox.explained(&["lws/serve"], words).await?;
    said.lacks("missing: ")?;
    assert_eq!(said.out.matches("\ngang serve-").count(), 2, "{}", said.out);
    let bound = sandbox.bound().await?;
    let runs = bound.contains_key("serve-0");
    let (running, waiting) = match runs {
        true => ("serve-0", "serve-1"),
        false => ("serve-1", "serve-0"),
    };
    let said = sandbox.explain(&["pod", waiting]).await?;
    said.has(&format!("the pod {waiting} waits for a node"))?;
    said.has(words)?;
    assert_eq!(said.out.matches("\ngang serve-").count(), 1, "{}", said.out);
    let said = sandbox.explain(&["pod", running]).await?;
    said.has(&format!("the pod {running} is on a node"))?;
    said.has("all gangs are placed")?;
    // Its controller keeps the leaders in one.
    let said = sandbox.explain(&["sts/serve"]).await?;
    said.has("the StatefulSet serve belongs to the LeaderWorkerSet serve\n")?;
    let said = sandbox.muster(&["status", "-o", "json"]).await?;
    let listed: Value = serde_json::from_str(&said.out)?;
    let gangs = listed[0]["gangs"].as_array().context("no gangs")?;
    let mut placed: Vec<&Value> = gangs.iter().map(|gang| &gang["placed"]).collect();
    placed.sort_by_key(|placed| placed.as_u64());
    assert_eq!(placed, [0, 3], "{listed}");
    Ok(())
}

pub async fn an_object_that_is_refused_is_missed(sandbox: Sandbox) -> Result<()> {
    Seed::PodGroupQuota
        .bring_about(&sandbox, Scheduler::Native)
        .await?;
    let words = "its condition says: GangRefused: ";
    let said = sandbox.explained(&["jobset/train"], words).await?;
    said.has("\nmissing: PodGroup train-")?;
    Ok(())
}

/// Somebody who may get and list these resources of the namespace; his kubeconfig.
async fn reader(sandbox: &Sandbox, groups: &str, resources: &str) -> Result<PathBuf> {
    let rights = format!(
        "
apiVersion: v1
kind: ServiceAccount
metadata: {{name: reader}}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {{name: reader}}
rules: [{{apiGroups: {groups}, resources: {resources}, verbs: [get, list]}}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {{name: reader}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}}
subjects: [{{kind: ServiceAccount, name: reader}}]
"
    );
    sandbox.apply(&rights).await?;
    let plane = &sandbox.cluster.plane;
    plane
        .service_account_kubeconfig(&sandbox.namespace, "reader")
        .await
}

/// Its workloads and what Muster says of them, and nothing else.
pub async fn who_may_not_list_pods_is_told_what_muster_says(sandbox: Sandbox) -> Result<()> {
    Seed::CpuShort
        .bring_about(&sandbox, Scheduler::Native)
        .await?;
    sandbox.condition("InsufficientResources").await?;
    let groups = "[apps, batch, jobset.x-k8s.io, leaderworkerset.x-k8s.io]";
    let reader = reader(&sandbox, groups, "['*']").await?;
    let ask = async |args: &[&str]| run(muster(&reader, &sandbox.namespace, args)).await;
    let said = ask(&["explain", "jobset/train"]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.has("2 of 3 pods fit; 1 more CPU is needed")?;
    said.has("you may not list its pods")?;
    said.has("  its condition says: InsufficientResources: ")?;
    said.has("still unknown:\n  nodes: nodes is forbidden")?;
    said.has("  pods: pods is forbidden")?;
    said.lacks("pods exist")?;
    let said = ask(&["status"]).await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.has("jobset/train")?;
    said.has("Unknown")?;
    said.has("InsufficientResources")?;
    // One whose gang only its pods know.
    sandbox.apply(&ring("Deployment")).await?;
    let said = ask(&["explain", "deployment/serve"]).await?;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    said.has("you may not list its pods")?;
    Ok(())
}

/// A person who may read one namespace, and nothing of the cluster.
pub async fn with_few_rights_it_says_what_it_could_not_see(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("StatefulSet")).await?;
    let groups = "['', apps, batch, jobset.x-k8s.io, leaderworkerset.x-k8s.io]";
    let reader = reader(&sandbox, groups, "['*']").await?;
    sandbox.none_bound(3).await?;
    let ask = async |args: &[&str]| run(muster(&reader, &sandbox.namespace, args)).await;
    let said = sandbox
        .wait_for("the scheduler's words", async || {
            let said = ask(&["explain", "sts/serve"]).await?;
            said.has("the scheduler says: ")?;
            Ok(said)
        })
        .await?;
    assert_eq!(said.code, Some(0), "{}", said.err);
    said.has("still unknown:\n  nodes: nodes is forbidden")?;
    said.has("  the pods on nodes: pods is forbidden")?;
    said.lacks("nodes and the pods on them")?;
    said.has("podgroups.scheduling.k8s.io is forbidden")?;
    // What may not be looked at is not missed.
    said.lacks("missing: ")?;
    let said = ask(&["status"]).await?;
    said.has("statefulset/serve")?;
    let unseen = "could not look at nodes: nodes is forbidden";
    ensure!(said.err.contains(unseen), "{}", said.err);
    Ok(())
}

pub async fn status_is_watched_until_it_is_interrupted(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("Deployment")).await?;
    sandbox.none_bound(3).await?;
    let kubeconfig = &sandbox.cluster.plane.kubeconfig;
    let mut command = muster(kubeconfig, &sandbox.namespace, &["status", "--watch"]);
    let mut watching = command.stdout(Stdio::piped()).spawn()?;
    let mut out = watching.stdout.take().context("no output")?;
    let twice = tokio::task::spawn_blocking(move || {
        let (mut text, mut bytes) = (String::new(), [0; 4096]);
        while text.matches("deployment/serve").count() < 2 {
            let read = std::io::Read::read(&mut out, &mut bytes)?;
            ensure!(read > 0, "it has ended: {text}");
            text.push_str(&String::from_utf8_lossy(&bytes[..read]));
        }
        Ok(text)
    });
    let twice = tokio::time::timeout(4 * ENOUGH, twice).await;
    watching.kill()?;
    watching.wait()?;
    let text = twice???;
    assert_eq!(text.matches("WORKLOAD  ").count(), 2, "{text}");
    ensure!(!text.contains('\x1b'), "nobody looks at it: {text:?}");
    Ok(())
}

/// A pseudo-terminal of that size, made by `script` of util-linux.
async fn on_a_terminal(
    sandbox: &Sandbox,
    (columns, rows): (usize, usize),
    args: &str,
) -> Result<String> {
    let program = env!("CARGO_BIN_EXE_muster");
    let kubeconfig = sandbox.cluster.plane.kubeconfig.display();
    let namespace = &sandbox.namespace;
    let typed = format!(
        "stty cols {columns} rows {rows}; timeout 20 {program} status {args} --namespace {namespace} \
         --kubeconfig {kubeconfig}"
    );
    let mut command = Command::new("script");
    command
        .args(["--quiet", "--command", &typed, "/dev/null"])
        .env("TERM", "xterm-256color")
        .env("LC_ALL", "C.UTF-8")
        .env_remove("NO_COLOR")
        .stdin(Stdio::null());
    Ok(run(command).await?.out.replace("\r\n", "\n"))
}

/// Bars and whole lines, and with `--watch` no more of them than there is room for.
pub async fn on_a_terminal_status_fits_the_screen(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("Deployment")).await?;
    sandbox.none_bound(3).await?;
    let once = on_a_terminal(&sandbox, (80, 24), "").await?;
    ensure!(
        once.contains("▒▒▒▒▒▒▒▒▒▒"),
        "no bar of pods that wait: {once}"
    );
    ensure!(once.contains("WAITING FOR"), "{once}");
    let longest = once.lines().map(|line| line.chars().count()).max();
    ensure!(longest <= Some(80), "a line of {longest:?}: {once}");
    let wide = on_a_terminal(&sandbox, (250, 24), "").await?;
    ensure!(wide.contains("QUORUM"), "columns are missing: {wide}");
    // Three gangs on a screen of three lines, painted every five seconds.
    for name in ["two", "three"] {
        let more = ring("Deployment")
            .replace("serve", name)
            .replace("ring", name);
        sandbox.apply(&more).await?;
    }
    sandbox.none_bound(9).await?;
    let watched = on_a_terminal(&sandbox, (80, 4), "--watch").await?;
    println!("on a terminal:\n{once}{wide}");
    let screens: Vec<&str> = watched.split("\x1b[H").skip(1).collect();
    ensure!(
        screens.len() >= 2,
        "painted {} times: {watched:?}",
        screens.len()
    );
    for screen in screens {
        ensure!(screen.lines().count() <= 4, "too much at once: {screen:?}");
        ensure!(screen.contains("and 2 more lines"), "{screen:?}");
        ensure!(!screen.contains("\x1b[2J"), "it flickers: {screen:?}");
    }
    Ok(())
}

pub async fn kubectl_runs_them_as_a_plugin(sandbox: Sandbox) -> Result<()> {
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("Deployment")).await?;
    sandbox.none_bound(3).await?;
    let dir = tempfile::tempdir()?;
    let plugin = dir.path().join("kubectl-muster");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muster"), plugin)?;
    let path = std::env::var("PATH")?;
    let path = format!("{}:{path}", dir.path().display());
    let kubectl = async |args: &[&str]| {
        let mut command = sandbox.cluster.kubectl()?;
        command.arg("muster").args(args).env("PATH", &path);
        run(command).await
    };
    let namespace = sandbox.namespace.as_str();
    let said = kubectl(&["explain", "deploy/serve", "-n", namespace]).await?;
    assert_eq!(said.code, Some(0), "{}{}", said.out, said.err);
    said.has("gang ring-")?;
    let said = kubectl(&["status", "-n", namespace]).await?;
    said.has("deployment/serve")?;
    let said = kubectl(&["explain"]).await?;
    assert_eq!(said.code, Some(2));
    let usage = "Usage: kubectl muster explain ";
    ensure!(said.err.contains(usage), "{}", said.err);
    Ok(())
}

/// A Job that nobody has stamped if Muster is not there: its gang is refused.
const UNSTAMPED: &str = "
apiVersion: batch/v1
kind: Job
metadata: {name: train, annotations: {muster.dev/gang-mode: Gang}}
spec:
  parallelism: 1
  completions: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: train}]
";

/// What it says comes from the cluster alone.
pub async fn both_work_without_muster(sandbox: Sandbox) -> Result<()> {
    let cluster = sandbox.cluster.another("explained").await?;
    // Before Muster is installed.
    let early = Sandbox::new(cluster.clone(), "early").await?;
    early.apply(&ring("StatefulSet")).await?;
    early
        .explained(&["sts/serve"], "1. LinkLost: 3 pods are not linked")
        .await?;
    let said = early.muster(&["explain", "pod/serve-0"]).await?;
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    said.has("the pod declares the gang \"ring\", and was created while Muster's webhooks")?;
    early.apply(UNSTAMPED).await?;
    let pod = early
        .wait_for("a pod of the Job", async || {
            let mut pods = early.pods().await?;
            pods.retain(|pod| pod.name_any().starts_with("train-"));
            Ok(pods.first().context("there is none")?.name_any())
        })
        .await?;
    let said = early.muster(&["explain", &format!("pod/{pod}")]).await?;
    assert_eq!(said.code, Some(1), "{}{}", said.out, said.err);
    said.has("the pod belongs to no gang, although its Job train asks for one: it was created")?;

    let port = Port::reserve()?;
    let muster = Muster::install(&cluster, port.number).await?;
    let process = muster.start_at(&cluster.plane, "muster-0", port).await?;
    let sandbox = Sandbox::new(cluster.clone(), "explained").await?;
    sandbox.nodes(1, 2).await?;
    sandbox.apply(&ring("StatefulSet")).await?;
    sandbox.none_bound(3).await?;
    sandbox.gangs(1).await?;
    process.signal(rustix::process::Signal::KILL)?;
    process.stop(ENOUGH).await?;

    let group = sandbox.names("PodGroup").await?.remove(0);
    for args in [
        &["sts/serve"][..],
        &["pod/serve-0"],
        &["gang/ring"],
        &["gang", &group],
    ] {
        sandbox.explained(args, SHORT).await?.lacks("missing: ")?;
    }
    let said = sandbox.muster(&["status", "-o", "wide"]).await?;
    said.has("statefulset/serve")?;
    said.has("InsufficientResources")?;
    said.has("2 of 3 pods fit; 1 more CPU is needed")?;
    let said = sandbox.muster(&["status", "-o", "yaml"]).await?;
    let listed = parse(&said.out)?.remove(0);
    assert_eq!(listed[0]["kind"], "StatefulSet");
    let gang = &listed[0]["gangs"][0];
    assert_eq!(
        (&gang["state"], &gang["quorum"]),
        (&json!("Waiting"), &json!(3))
    );
    // Nobody admits its pods now.
    let pod = sandbox.pods().await?.remove(0).name_any();
    let deleted = sandbox.kubectl(&["delete", "pod", &pod], "").await?;
    ensure!(deleted.status.success(), "{deleted:?}");
    let words = "1. WebhookUnreachable: 2 of 3 pods exist";
    sandbox.explained(&["sts/serve"], words).await?;
    Ok(())
}

pub async fn queues_and_partners_are_looked_at(sandbox: Sandbox) -> Result<()> {
    Seed::UnknownQueue
        .bring_about(&sandbox, Scheduler::Volcano)
        .await?;
    let words = "1. QueueUnusable: queue \"nowhere\" does not exist";
    let said = sandbox.explained(&["jobset/train"], words).await?;
    said.has("the queue \"nowhere\"")?;
    said.lacks("missing: ")?;
    let partner = "
apiVersion: batch/v1
kind: Job
metadata:
  name: prep
  annotations:
    muster.dev/gang-mode: Gang
    muster.dev/scheduler: koordinator
    muster.dev/bundle: ring
    muster.dev/bundle-with: later
spec:
  parallelism: 1
  completions: 1
  template:
    spec:
      restartPolicy: Never
      containers: [{name: main, image: train, resources: {requests: {cpu: '1'}}}]
";
    sandbox.apply(partner).await?;
    let said = sandbox
        .explained(&["job/prep"], "1. BundleIncomplete: ")
        .await?;
    said.has("later")?;
    said.has("the other workloads of its bundle")?;
    Ok(())
}
