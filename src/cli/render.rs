//! `muster render`: the stamped workload, one linked child per gang, and the scheduler's objects.

use std::collections::HashSet;
use std::io::Write;

use serde_json::Value;

use super::admit::{self, AdmitError, Admitted};
use super::check::Verdict;
use super::files::{self, Found};
use super::gangs;
use super::kinds::{self, Named};
use super::strict;
use super::terminal::printable;
use super::yaml;
use crate::args::Files;
use crate::gang::FieldError;
use crate::scheduler::Snapshot;
use crate::workload::object;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Output {
    /// YAML documents.
    #[default]
    #[value(alias = "yaml")]
    Text,
    /// One array for scripts.
    Json,
}

/// Renders files and prints the documents.
pub fn run(
    files: &Files,
    output: Output,
    cluster: &Snapshot,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> std::io::Result<Verdict> {
    let cluster = &admit::remembering(cluster);
    let read = files::read(&files.paths, files.stdin_name.as_deref());
    let mut verdict = Verdict::Admitted;
    for error in &read.errors {
        writeln!(err, "error: {}", printable(&error.to_string()))?;
        verdict = Verdict::Trouble;
    }
    for patch in &read.patches {
        let line = format!(
            "{}: not rendered: a kustomization uses it as a patch; render what `kubectl kustomize` prints",
            patch.display()
        );
        writeln!(err, "{}", printable(&line))?;
    }
    let mut documents = Vec::new();
    let mut seen = HashSet::new();
    for source in &read.sources {
        for found in files::objects(source) {
            match render_found(found, cluster) {
                Ok(Rendered::Documents(rendered, warnings)) => {
                    for warning in warnings {
                        let line = format!("{}: warning: {warning}", source.name);
                        writeln!(err, "{}", printable(&line))?;
                    }
                    // Pods of one gang lead to the same objects.
                    let mut rendered = rendered.into_iter();
                    documents.extend(rendered.next());
                    documents.extend(rendered.filter(|object| seen.insert(key(object))));
                }
                Ok(Rendered::Skipped) => {}
                Err(unrendered) => {
                    for message in unrendered.messages {
                        let line = format!("{}: error: {message}", source.name);
                        writeln!(err, "{}", printable(&line))?;
                    }
                    verdict = verdict.max(unrendered.verdict);
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

/// What tells an object from all others. One without a name is always another.
fn key(object: &Value) -> String {
    let meta = &object["metadata"];
    let of = [
        &object["apiVersion"],
        &object["kind"],
        &meta["namespace"],
        &meta["name"],
    ];
    match meta["name"].is_string() {
        true => of.map(Value::to_string).join(" "),
        false => object.to_string(),
    }
}

enum Rendered {
    Documents(Vec<Value>, Vec<String>),
    Skipped,
}

/// Why an object is not rendered.
struct Unrendered {
    verdict: Verdict,
    messages: Vec<String>,
}

impl Unrendered {
    fn refused(errors: &[FieldError]) -> Self {
        Self {
            verdict: Verdict::Refused,
            messages: errors.iter().map(ToString::to_string).collect(),
        }
    }
}

impl From<yaml::YamlError> for Unrendered {
    fn from(error: yaml::YamlError) -> Self {
        Self {
            verdict: Verdict::Trouble,
            messages: vec![format!("not readable: {error}")],
        }
    }
}

impl From<AdmitError> for Unrendered {
    fn from(error: AdmitError) -> Self {
        Self {
            verdict: Verdict::Refused,
            messages: vec![error.to_string()],
        }
    }
}

fn render_found(
    found: Result<Found<'_>, yaml::YamlError>,
    cluster: &Snapshot,
) -> Result<Rendered, Unrendered> {
    let found = found?;
    let kind = match kinds::named(&found.value) {
        Named::Handled(kind) => kind,
        Named::Wrong(errors) => return Err(Unrendered::refused(&errors)),
        Named::Other => return Ok(Rendered::Skipped),
    };
    let admitted = strict::create(kind, &found.value, cluster)?.admitted;
    if !admitted.errors.is_empty() {
        return Err(Unrendered::refused(&admitted.errors));
    }
    admit::remember(&admitted, cluster);
    let (rendered, gangs) = documents(&admitted, cluster)?;
    let mut warnings = admitted.warnings;
    if gangs > gangs::SHOWN as u64 {
        let shown = gangs::SHOWN;
        warnings.push(format!(
            "it has {gangs} gangs, and the first {shown} are shown"
        ));
    }
    Ok(Rendered::Documents(rendered, warnings))
}

/// The documents of one admitted object: itself, a linked child of each gang, and the scheduler's
/// objects. With how many gangs it has; of many, the first are shown.
pub fn documents(admitted: &Admitted, cluster: &Snapshot) -> Result<(Vec<Value>, u64), AdmitError> {
    let mut documents = vec![admitted.object.clone()];
    let more = gangs::with_gangs(admitted, cluster, |found| {
        let mut more = found.children;
        if let Some(backend) = found.judged.backend {
            for start in found.starts.iter().take(gangs::SHOWN) {
                let mut gangs = gangs::gangs(start);
                gangs.truncate(gangs::SHOWN);
                for object in backend.objects(&found.owner, &start.plan, &gangs) {
                    more.push(serde_json::to_value(object)?);
                }
            }
        }
        Ok::<_, AdmitError>((more, found.count))
    });
    let (more, count) = more.transpose()?.unwrap_or_default();
    documents.extend(more);
    Ok((documents, count))
}
