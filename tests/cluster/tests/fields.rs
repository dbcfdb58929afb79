//! What `muster check` knows of kinds and fields is what the components of this cluster know.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use muster::cli::yaml;
use serde_json::Value;

use crate::fields;
use crate::sandbox::Sandbox;

/// The kinds of Kubernetes' own, of whose objects an apiserver tells all that is wrong.
const OWN: [&str; 8] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "Pod",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
];

pub async fn the_table_is_that_of_the_pinned_modules(_sandbox: Sandbox) -> Result<()> {
    let table = tokio::task::spawn_blocking(fields::table).await??;
    let stored = include_str!("../../../src/cli/schema/fields.txt");
    ensure!(
        table == stored,
        "src/cli/schema/fields.txt is not that of the modules: run `cargo run --features e2e \
         --example fields` and read the change"
    );
    Ok(())
}

/// Every object of these files, field by field: neither knows one that the other does not.
pub async fn check_and_the_apiserver_refuse_the_same_fields(sandbox: Sandbox) -> Result<()> {
    let files = [
        include_str!("../../../fixtures/check/unknown-fields.yaml"),
        include_str!("../../../fixtures/check/keys-outside-of-annotations.yaml"),
    ];
    let mut compared = 0;
    for object in objects(&files, &sandbox)? {
        let Answer { accepted, said } = create(&sandbox, &object).await?;
        let known: BTreeSet<String> = said
            .split("unknown field \"")
            .skip(1)
            .filter_map(|rest| Some(rest.split_once('"')?.0.to_owned()))
            .collect();
        let errors = check(&object)?;
        let unknown = errors.iter().filter(|error| {
            let message = error["message"].as_str().unwrap_or_default();
            message.starts_with("unknown field")
        });
        let ours: BTreeSet<String> = unknown
            .filter_map(|error| error["field"].as_str())
            .map(|field| field.replace("[muster", ".muster").replace("mode]", "mode"))
            .map(|field| field.replace("queue]", "queue"))
            .collect();
        compared += ours.len();
        assert_eq!(ours, known, "{said}");
        assert_eq!(accepted, errors.is_empty(), "{said}");
    }
    ensure!(compared >= 20, "only {compared} fields were compared");
    // A key that stands twice is the one thing that passes there alone.
    for text in [
        "apiVersion: v1\nkind: Pod\nmetadata: {name: a, name: b}\n\
         spec: {containers: [{name: main, image: a}]}\n",
        r#"{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "name": "b"},
            "spec": {"containers": [{"name": "main", "image": "a"}]}}"#,
    ] {
        let answer = create_text(&sandbox, text).await?;
        ensure!(answer.accepted, "{text}: {}", answer.said);
    }
    Ok(())
}

/// In both directions: what one refuses the other does not accept. And error by error: what check says of a
/// field, the apiserver says of it too.
pub async fn check_and_the_apiserver_refuse_the_same_objects(sandbox: Sandbox) -> Result<()> {
    let files = [
        include_str!("../../../fixtures/check/accepted.yaml"),
        include_str!("../../../fixtures/check/known-fields.yaml"),
        include_str!("../../../fixtures/check/misspelt-kinds.yaml"),
        include_str!("../../../fixtures/check/missing-fields.yaml"),
        include_str!("../../../fixtures/check/names.yaml"),
        include_str!("../../../fixtures/check/negative-counts.yaml"),
        include_str!("../../../fixtures/check/wrong-types.yaml"),
        include_str!("../../../fixtures/check/wrong-values.yaml"),
    ];
    let (mut accepted, mut refused, mut unlike) = (0, 0, Vec::new());
    for mut object in objects(&files, &sandbox)? {
        without_extension(&sandbox, &mut object).await?;
        // Kinds of others, and a field that only an older Kubernetes has.
        let skipped = ["ControllerRevision", "Service"].map(Value::from);
        let foreign = object["apiVersion"] == "batch.volcano.sh/v1alpha1";
        let older = !object["spec"]["workloadRef"].is_null();
        if skipped.contains(&object["kind"]) || foreign || older {
            continue;
        }
        let answer = create(&sandbox, &object).await?;
        let errors = check(&object)?;
        let differs = match (answer.accepted, errors.is_empty()) {
            (true, true) => false,
            (true, false) => !unmade(&sandbox, &object, &errors).await?.is_empty(),
            (false, false) => errors.iter().any(|error| !answer.tells(field(error))),
            (false, true) => true,
        };
        if differs {
            let said = &answer.said;
            unlike.push(format!("{object}\napiserver: {said}\ncheck: {errors:#?}"));
        }
        match errors.is_empty() {
            true => accepted += 1,
            false => refused += 1,
        }
    }
    ensure!(unlike.is_empty(), "{}", unlike.join("\n\n"));
    ensure!(accepted >= 14, "only {accepted} objects were accepted");
    ensure!(refused >= 60, "only {refused} objects were refused");
    Ok(())
}

fn field(error: &Value) -> &str {
    error["field"].as_str().unwrap_or_default()
}

/// Takes out the fields that only an extended CRD has: that of this cluster is the stock one, and
/// refuses them, of which `muster check` warns.
async fn without_extension(sandbox: &Sandbox, object: &mut Value) -> Result<()> {
    let whole = object.clone();
    let mut removed = false;
    for place in ["/spec", "/spec/replicatedJobs/0"] {
        if let Some(Value::Object(fields)) = object.pointer_mut(place) {
            removed |= fields.remove("gangConfig").is_some();
            removed |= fields.remove("groupSchedulingConfig").is_some();
        }
    }
    if removed {
        let said = create(sandbox, &whole).await?.said;
        ensure!(said.contains("unknown field"), "{whole}: {said}");
        let warnings = report(&whole)?["warnings"].to_string();
        ensure!(
            warnings.contains("muster crd extend"),
            "{whole}: {warnings}"
        );
    }
    Ok(())
}

/// The errors of an operator's workload that is created nevertheless, and of which nothing says that what the
/// operator makes of it is refused.
async fn unmade<'e>(
    sandbox: &Sandbox,
    object: &Value,
    errors: &'e [Value],
) -> Result<Vec<&'e Value>> {
    let mut left: Vec<&Value> = errors.iter().collect();
    for (template, child) in children(&stored(sandbox, object).await?) {
        let answer = create(sandbox, &child).await?;
        left.retain(|error| match field(error).strip_prefix(&template) {
            Some(below) => answer.accepted || !answer.tells(below),
            None => true,
        });
    }
    // Of fewer than no children none is made.
    left.retain(|error| error["message"] != "must be greater than or equal to 0");
    Ok(left)
}

/// A workload as the webhooks of its operator fill it in. Without its gang: what Muster stamps on templates it
/// would not take from a stranger.
async fn stored(sandbox: &Sandbox, object: &Value) -> Result<Value> {
    let mut object = object.clone();
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.remove("annotations");
    }
    let args = [
        "create",
        "--dry-run=server",
        "--output=json",
        "--filename=-",
    ];
    let output = sandbox.kubectl(&args, &object.to_string()).await?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{object}: {said}");
    Ok(serde_json::from_slice(&output.stdout)?)
}

/// What the operators make of a workload, each with the path of its template.
fn children(object: &Value) -> Vec<(String, Value)> {
    let child = |version: &str, kind: &str, template: &Value| {
        let mut child = template.clone();
        child["apiVersion"] = version.into();
        child["kind"] = kind.into();
        child["metadata"]["name"] = "child".into();
        child["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
        child
    };
    let jobs = object["spec"]["replicatedJobs"].as_array();
    let jobs = jobs
        .into_iter()
        .flatten()
        .enumerate()
        .map(|(index, group)| {
            let path = format!("spec.replicatedJobs[{index}].template.");
            (path, child("batch/v1", "Job", &group["template"]))
        });
    let templates = &object["spec"]["leaderWorkerTemplate"];
    let names = ["leaderTemplate", "workerTemplate"].into_iter();
    let names = names.filter(|name| templates[name].is_object());
    let pods = names.map(|name| {
        let path = format!("spec.leaderWorkerTemplate.{name}.");
        (path, child("v1", "Pod", &templates[name]))
    });
    jobs.chain(pods).collect()
}

/// The objects of these files, in the namespace of the test.
fn objects(files: &[&str], sandbox: &Sandbox) -> Result<Vec<Value>> {
    let texts = files.iter();
    let documents = texts.flat_map(|text| yaml::documents(text));
    let objects = documents.map(|document| {
        let mut object = document?.value;
        object["metadata"]["namespace"] = sandbox.namespace.as_str().into();
        Ok(object)
    });
    objects.collect()
}

/// What a user gets who creates an object.
struct Answer {
    accepted: bool,
    said: String,
}

impl Answer {
    /// Whether it speaks of a field. Only the validation of Kubernetes' own kinds tells everything at once; of
    /// other answers one is as good as another.
    fn tells(&self, field: &str) -> bool {
        let said = &self.said;
        let mut kinds = OWN.iter().map(|kind| format!("The {kind} \""));
        let all = said.contains("\" is invalid: ") && kinds.any(|own| said.contains(&own));
        // Kubernetes does not name the key of a map, and of some fields only what they stand in.
        let mut keys = field.match_indices('[').map(|(at, _)| at);
        let key = keys.find(|at| !field[at + 1..].starts_with(|c: char| c.is_ascii_digit()));
        let field = &field[..key.unwrap_or(field.len())];
        let parent = field.rfind(['.', '[']).map(|at| &field[..at]);
        let whole = parent.is_some_and(|parent| said.contains(&format!("{parent}: ")));
        // A Job's name that is too long is told of the label that it becomes.
        let label = field == "metadata.name" && said.contains(" spec.template.labels: ");
        !all || said.contains(field) || whole || label
    }
}

async fn create(sandbox: &Sandbox, object: &Value) -> Result<Answer> {
    create_text(sandbox, &object.to_string()).await
}

async fn create_text(sandbox: &Sandbox, text: &str) -> Result<Answer> {
    let args = ["create", "--dry-run=server", "--filename=-"];
    let output = sandbox.kubectl(&args, text).await?;
    let said = String::from_utf8(output.stderr)?;
    Ok(Answer {
        accepted: output.status.success(),
        // kubectl prints a Go string.
        said: said.replace("\\\"", "\""),
    })
}

/// The errors that `muster check` finds.
fn check(object: &Value) -> Result<Vec<Value>> {
    let errors = report(object)?["errors"].take();
    Ok(errors.as_array().cloned().unwrap_or_default())
}

/// What `muster check` says.
fn report(object: &Value) -> Result<Value> {
    let mut child = Command::new(env!("CARGO_BIN_EXE_muster"))
        .args(["check", "-o", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().context("no input")?;
    stdin.write_all(object.to_string().as_bytes())?;
    drop(stdin);
    let output = child.wait_with_output()?;
    let reports: Vec<Value> = serde_json::from_slice(&output.stdout)?;
    reports.into_iter().next().context("it is skipped")
}
