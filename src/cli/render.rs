//! `muster render`: the stamped workload, one linked child per gang, and the scheduler's objects.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::admit::{self, AdmitError, Admitted, STAND_IN_UID};
use super::check::{Output, Verdict};
use super::files::{self, Found};
use super::gangs::{self, Gangs};
use super::yaml;
use crate::admission::object::Kind;
use crate::scheduler::Snapshot;
use crate::workload::jobset::children::{self, ChildRef};
use crate::workload::keys;

/// Renders files and prints the documents.
pub fn run(
    paths: &[PathBuf],
    output: Output,
    cluster: &Snapshot,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> std::io::Result<Verdict> {
    let (sources, errors) = files::read(paths);
    let mut verdict = Verdict::Admitted;
    for error in &errors {
        writeln!(err, "error: {error}")?;
        verdict = Verdict::Trouble;
    }
    let mut documents = Vec::new();
    for source in &sources {
        for found in files::objects(source) {
            match render_found(found, cluster) {
                Ok(Rendered::Documents(rendered, warnings)) => {
                    for warning in warnings {
                        writeln!(err, "{}: warning: {warning}", source.name)?;
                    }
                    documents.extend(rendered);
                }
                Ok(Rendered::Skipped) => {}
                Err(messages) => {
                    for message in messages {
                        writeln!(err, "{}: error: {message}", source.name)?;
                    }
                    verdict = verdict.max(Verdict::Refused);
                }
            }
        }
    }
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &documents)?;
            writeln!(out)?;
        }
        Output::Text if documents.is_empty() => {
            writeln!(
                err,
                "nothing to render: no admitted JobSet, LeaderWorkerSet, Job or Pod found"
            )?;
        }
        Output::Text => {
            for document in &documents {
                write!(out, "---\n{}", yaml::to_string(document))?;
            }
        }
    }
    Ok(verdict)
}

enum Rendered {
    Documents(Vec<Value>, Vec<String>),
    Skipped,
}

fn render_found(
    found: Result<Found, yaml::YamlError>,
    cluster: &Snapshot,
) -> Result<Rendered, Vec<String>> {
    let found = found.map_err(|error| vec![error.to_string()])?;
    let Some(kind) = admit::kind_of(&found.value) else {
        return Ok(Rendered::Skipped);
    };
    let trouble = |error: AdmitError| vec![error.to_string()];
    let admitted = admit::create(kind, &found.value, cluster).map_err(trouble)?;
    if !admitted.errors.is_empty() {
        let messages = admitted.errors.iter().map(ToString::to_string);
        return Err(messages.collect());
    }
    let rendered = documents(&admitted, cluster).map_err(trouble)?;
    Ok(Rendered::Documents(rendered, admitted.warnings))
}

/// The documents of one admitted object.
pub fn documents(admitted: &Admitted, cluster: &Snapshot) -> Result<Vec<Value>, AdmitError> {
    let mut documents = vec![admitted.object.clone()];
    let more = gangs::with_gangs(
        admitted,
        cluster,
        |gangs| -> Result<Vec<Value>, AdmitError> {
            let mut more = linked_children(admitted, &gangs, cluster)?;
            if let Some(backend) = gangs.judged.backend {
                for start in &gangs.starts {
                    let objects = backend.objects(gangs.owner, &gangs.judged.plan, start);
                    for object in objects {
                        more.push(serde_json::to_value(object)?);
                    }
                }
            }
            Ok(more)
        },
    );
    documents.extend(more.transpose()?.unwrap_or_default());
    Ok(documents)
}

/// One child of each gang: the Job, or a pod of it where the link is written on pods; of a
/// replica its leader and a worker.
fn linked_children(
    admitted: &Admitted,
    gangs: &Gangs<'_>,
    cluster: &Snapshot,
) -> Result<Vec<Value>, AdmitError> {
    let mut linked = gangs.pods.clone();
    if admitted.kind != Kind::JobSet {
        return Ok(linked);
    }
    for gang in gangs.starts.iter().flatten() {
        let Some(role) = gang.part.roles().first() else {
            continue;
        };
        let child = ChildRef {
            namespace: &admitted.namespace,
            jobset: &gangs.owner.name,
            uid: STAND_IN_UID,
            replicated_job: &role.name,
            index: gang.identity.index.unwrap_or(0),
            attempt: gang.identity.attempt.whole,
        };
        let Some(job) = children::job(&admitted.object, child) else {
            continue;
        };
        let job = admit::create(Kind::Job, &job, cluster)?.object;
        let index = &job["spec"]["template"]["metadata"]["labels"][keys::INDEX];
        linked.push(if index.is_null() {
            admit::create(Kind::Pod, &children::pod(&job), cluster)?.object
        } else {
            job
        });
    }
    Ok(linked)
}
