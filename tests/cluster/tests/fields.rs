//! What `muster check` knows of kinds and fields is what the components of this cluster know.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use muster::cli::yaml;
use serde_json::Value;

use crate::fields;
use crate::sandbox::Sandbox;

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
        let (code, said) = create(&sandbox, &object).await?;
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
        assert_eq!(code == Some(0), errors.is_empty(), "{said}");
    }
    ensure!(compared >= 20, "only {compared} fields were compared");
    Ok(())
}

/// In both directions: what one refuses the other does not accept.
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
        let (code, said) = create(&sandbox, &object).await?;
        let errors = check(&object)?;
        match (code == Some(0), errors.is_empty()) {
            (true, true) => accepted += 1,
            (false, false) => refused += 1,
            // The operators' own kinds may be created so: what they make is refused.
            (true, false) if makes_what_is_refused(&sandbox, &object, &errors).await? => {
                refused += 1
            }
            _ => unlike.push(format!("{object}\napiserver: {said}\ncheck: {errors:?}")),
        }
    }
    ensure!(unlike.is_empty(), "{}", unlike.join("\n\n"));
    ensure!(accepted >= 8, "only {accepted} objects were accepted");
    ensure!(refused >= 50, "only {refused} objects were refused");
    Ok(())
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
        let (_, said) = create(sandbox, &whole).await?;
        ensure!(said.contains("unknown field"), "{whole}: {said}");
        let warnings = report(&whole)?["warnings"].to_string();
        ensure!(
            warnings.contains("muster crd extend"),
            "{whole}: {warnings}"
        );
    }
    Ok(())
}

/// Whether a child of an operator's workload is refused, or there are fewer of them than none.
async fn makes_what_is_refused(
    sandbox: &Sandbox,
    object: &Value,
    errors: &[Value],
) -> Result<bool> {
    let negative = |error: &Value| error["message"] == "must be greater than or equal to 0";
    if object["kind"] == "JobSet" || object["kind"] == "LeaderWorkerSet" {
        if errors.iter().all(negative) {
            return Ok(true);
        }
        for child in children(object) {
            let (code, _) = create(sandbox, &child).await?;
            if code != Some(0) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// What the operators make of a workload, with what they fill in.
fn children(object: &Value) -> Vec<Value> {
    let child = |version: &str, kind: &str, template: &Value| {
        let mut child = template.clone();
        child["apiVersion"] = version.into();
        child["kind"] = kind.into();
        child["metadata"]["name"] = "child".into();
        child["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
        child
    };
    let jobs = object["spec"]["replicatedJobs"].as_array();
    let jobs = jobs.into_iter().flatten().map(|group| {
        let mut job = child("batch/v1", "Job", &group["template"]);
        let pod = &mut job["spec"]["template"]["spec"];
        if pod["restartPolicy"].is_null() {
            pod["restartPolicy"] = "OnFailure".into();
        }
        job
    });
    let templates = &object["spec"]["leaderWorkerTemplate"];
    let templates = ["leaderTemplate", "workerTemplate"].map(|name| &templates[name]);
    let templates = templates
        .into_iter()
        .filter(|template| template.is_object());
    let pods = templates.map(|template| child("v1", "Pod", template));
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

/// What a user gets who creates it.
async fn create(sandbox: &Sandbox, object: &Value) -> Result<(Option<i32>, String)> {
    let args = ["create", "--dry-run=server", "--filename=-"];
    let output = sandbox.kubectl(&args, &object.to_string()).await?;
    let said = String::from_utf8(output.stderr)?;
    // kubectl prints a Go string.
    Ok((output.status.code(), said.replace("\\\"", "\"")))
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
