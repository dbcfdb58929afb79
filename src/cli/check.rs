//! `muster check`: the same rules before a cluster sees the object.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::admit::{self, Admitted};
use super::files::{self, Found, Source};
use super::gangs;
pub use super::report::Report;
use super::report::{ErrorReport, GangReport};
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::object;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Output {
    /// For people; `render` writes YAML documents.
    #[default]
    #[value(alias = "yaml")]
    Text,
    /// One array for scripts.
    Json,
}

/// How a run ended; the process exits with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Admitted = 0,
    Refused = 1,
    /// A file could not be read.
    Trouble = 2,
}

/// Checks files and directories and prints what was found.
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
    let mut reports = Vec::new();
    let mut skipped = BTreeSet::new();
    for source in &sources {
        for found in files::objects(source) {
            match found {
                Ok(found) if admit::kind_of(&found.value).is_none() => {
                    skipped.insert(kind(&found.value));
                }
                Ok(_) => {}
                Err(_) => verdict = Verdict::Trouble,
            }
        }
        for report in check_source(source, cluster) {
            if output == Output::Text {
                write!(out, "{}", report.to_text(&source.text))?;
            }
            reports.push(report);
        }
    }
    let refused = reports.iter().filter(|report| !report.allowed).count();
    if refused > 0 {
        verdict = verdict.max(Verdict::Refused);
    }
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &reports)?;
            writeln!(out)?;
        }
        Output::Text => summary(&reports, refused, &skipped, out)?,
    }
    Ok(verdict)
}

/// What an object says that it is.
fn kind(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    kind.trim().to_owned()
}

fn summary(
    reports: &[Report],
    refused: usize,
    skipped: &BTreeSet<String>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    if reports.is_empty() {
        let skipped: Vec<&str> = skipped.iter().map(String::as_str).collect();
        let only = match &skipped[..] {
            [] => String::new(),
            kinds => format!(", only {}", kinds.join(", ")),
        };
        let kinds = super::one_of(&object::names());
        return writeln!(out, "nothing to check: no {kinds} found{only}");
    }
    let admitted = reports.len() - refused;
    writeln!(out, "{admitted} admitted, {refused} refused")?;
    if reports.iter().any(|report| !report.gangs.is_empty()) {
        writeln!(
            out,
            "(a cluster gives each gang's name another ending: it depends on the object's uid)"
        )?;
    }
    Ok(())
}

/// Checks every object of one file; kinds that Muster does not handle are skipped.
pub fn check_source(source: &Source, cluster: &Snapshot) -> Vec<Report> {
    let found = files::objects(source).into_iter();
    found
        .filter_map(|found| match found {
            Ok(found) => check_object(&source.name, &found, cluster),
            Err(error) => {
                let problem = FieldError::invalid(
                    FieldPath::default(),
                    serde_json::Value::Null,
                    error.to_string(),
                );
                let mut shown = ErrorReport::new(&problem, Some((error.line, error.column)));
                shown.text = format!("not readable as YAML: {error}");
                Some(Report {
                    document: error.index,
                    errors: vec![shown],
                    allowed: false,
                    ..empty(&source.name)
                })
            }
        })
        .collect()
}

fn empty(file: &str) -> Report {
    Report {
        file: file.to_owned(),
        document: 0,
        kind: String::new(),
        namespace: String::new(),
        name: String::new(),
        allowed: true,
        errors: Vec::new(),
        warnings: Vec::new(),
        gangs: Vec::new(),
    }
}

fn check_object(file: &str, found: &Found, cluster: &Snapshot) -> Option<Report> {
    let kind = admit::kind_of(&found.value)?;
    let mut report = Report {
        document: found.document.index,
        kind: kind.name.to_owned(),
        ..empty(file)
    };
    match admit::create(kind, &found.value, cluster) {
        Ok(admitted) => {
            report.namespace.clone_from(&admitted.namespace);
            report.name.clone_from(&admitted.name);
            report.allowed = admitted.errors.is_empty();
            report.warnings.clone_from(&admitted.warnings);
            let shown = |error| ErrorReport::new(error, Some(position(found, error)));
            report.errors = admitted.errors.iter().map(shown).collect();
            if report.allowed {
                report.gangs = reported(&admitted, cluster);
            }
        }
        Err(error) => {
            report.allowed = false;
            let error = FieldError::invalid(
                FieldPath::default(),
                serde_json::Value::Null,
                error.to_string(),
            );
            report.errors = vec![ErrorReport::new(&error, None)];
        }
    }
    Some(report)
}

fn position(found: &Found, error: &FieldError) -> (usize, usize) {
    let path = error.field.as_str();
    let path = match found.prefix.as_str() {
        "" => path.to_owned(),
        prefix => format!("{prefix}.{path}"),
    };
    found.document.position(&path)
}

fn reported(admitted: &Admitted, cluster: &Snapshot) -> Vec<GangReport> {
    gangs::with_gangs(admitted, cluster, |found| {
        let gangs = found.starts.iter().flat_map(gangs::gangs);
        gangs
            .map(|gang| GangReport::new(found.facts, &gang))
            .collect()
    })
    .unwrap_or_default()
}
