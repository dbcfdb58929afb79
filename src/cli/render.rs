//! `muster render`: the stamped workload, one linked child per gang, and the scheduler's objects.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::admit::{self, AdmitError, Admitted};
use super::check::{Output, Verdict};
use super::files::{self, Found};
use super::gangs;
use super::yaml;
use crate::scheduler::Snapshot;
use crate::workload::object;

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
            let kinds = super::one_of(&object::names());
            writeln!(err, "nothing to render: no admitted {kinds} found")?;
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

/// The documents of one admitted object: itself, a linked child of each gang, and the scheduler's
/// objects.
pub fn documents(admitted: &Admitted, cluster: &Snapshot) -> Result<Vec<Value>, AdmitError> {
    let mut documents = vec![admitted.object.clone()];
    let more = gangs::with_gangs(admitted, cluster, |found| {
        let mut more = found.children;
        if let Some(backend) = found.judged.backend {
            for start in &found.starts {
                let gangs = gangs::gangs(start);
                for object in backend.objects(&found.owner, &start.plan, &gangs) {
                    more.push(serde_json::to_value(object)?);
                }
            }
        }
        Ok::<_, AdmitError>(more)
    });
    documents.extend(more.transpose()?.unwrap_or_default());
    Ok(documents)
}
