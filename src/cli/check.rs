//! `muster check`: the same rules before a cluster sees the object.

use std::collections::BTreeSet;
use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::admit::{self, Admitted};
use super::files::{self, Found, Source};
use super::gangs;
pub(crate) use super::report::Report;
use super::report::{BarrierReport, ErrorReport, GangReport};
use super::yaml::YamlError;
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::{Life, Object, Unasked, object};

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
    /// Every object is admitted.
    Admitted = 0,
    /// At least one object is refused.
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
    let cluster = &admit::remembering(cluster);
    let (sources, errors) = files::read(paths);
    let mut verdict = Verdict::Admitted;
    for error in &errors {
        writeln!(err, "error: {error}")?;
        verdict = Verdict::Trouble;
    }
    let mut reports = Vec::new();
    let mut count = Count::default();
    for source in &sources {
        for found in files::objects(source) {
            if found.is_err() {
                verdict = Verdict::Trouble;
            }
            let report = match check_found(source, found, cluster) {
                Ok(report) => report,
                Err(skipped) => {
                    count.skipped.insert(skipped);
                    continue;
                }
            };
            count.note(&report);
            match output {
                Output::Text => write!(out, "{}", report.to_text(&source.text))?,
                Output::Json => reports.push(report),
            }
        }
    }
    if count.refused > 0 {
        verdict = verdict.max(Verdict::Refused);
    }
    match output {
        Output::Json => {
            serde_json::to_writer_pretty(&mut *out, &reports)?;
            writeln!(out)?;
        }
        Output::Text => count.summary(out)?,
    }
    Ok(verdict)
}

/// What was found so far.
#[derive(Default)]
struct Count {
    admitted: usize,
    refused: usize,
    gangs: u64,
    /// The kinds that Muster does not handle.
    skipped: BTreeSet<String>,
}

impl Count {
    fn note(&mut self, report: &Report) {
        match report.allowed {
            true => self.admitted += 1,
            false => self.refused += 1,
        }
        self.gangs = self.gangs.saturating_add(report.gang_count);
    }

    fn summary(&self, out: &mut dyn Write) -> std::io::Result<()> {
        if self.admitted + self.refused == 0 {
            let skipped: Vec<&str> = self.skipped.iter().map(String::as_str).collect();
            let only = match &skipped[..] {
                [] => String::new(),
                kinds => format!(", only {}", kinds.join(", ")),
            };
            let kinds = super::one_of(&object::names());
            return writeln!(out, "nothing to check: no {kinds} found{only}");
        }
        writeln!(out, "{} admitted, {} refused", self.admitted, self.refused)?;
        if self.gangs > 0 {
            writeln!(
                out,
                "(a cluster gives each gang's name another ending: it depends on the object's uid)"
            )?;
        }
        Ok(())
    }
}

/// What an object says that it is.
fn kind(object: &Value) -> String {
    let text = |key: &str| object[key].as_str().unwrap_or_default();
    let kind = format!("{} {}", text("apiVersion"), text("kind"));
    kind.trim().to_owned()
}

/// Checks every object of one file; kinds that Muster does not handle are skipped.
pub fn check_source(source: &Source, cluster: &Snapshot) -> Vec<Report> {
    let cluster = &admit::remembering(cluster);
    let found = files::objects(source);
    found
        .filter_map(|found| check_found(source, found, cluster).ok())
        .collect()
}

/// Checks one object; an error is what it is where Muster does not handle its kind.
fn check_found(
    source: &Source,
    found: Result<Found<'_>, YamlError>,
    cluster: &Snapshot,
) -> Result<Report, String> {
    match found {
        Ok(found) => {
            let report = check_object(&source.name, &found, cluster);
            report.ok_or_else(|| kind(&found.value))
        }
        Err(error) => {
            let problem = FieldError::invalid(FieldPath::default(), Value::Null, error.to_string());
            let mut shown = ErrorReport::new(&problem, Some((error.line, error.column)));
            shown.text = format!("not readable as YAML: {error}");
            Ok(Report {
                document: error.index,
                errors: vec![shown],
                allowed: false,
                ..empty(&source.name)
            })
        }
    }
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
        gang_count: 0,
        barrier: None,
    }
}

fn check_object(file: &str, found: &Found<'_>, cluster: &Snapshot) -> Option<Report> {
    let kind = admit::kind_of(&found.value)?;
    let mut report = Report {
        document: found.document,
        kind: kind.name.to_owned(),
        ..empty(file)
    };
    match admit::create(kind, &found.value, cluster) {
        Ok(admitted) => {
            report.namespace.clone_from(&admitted.namespace);
            report.name.clone_from(&admitted.name);
            report.allowed = admitted.errors.is_empty();
            report.warnings.clone_from(&admitted.warnings);
            let shown = |error| ErrorReport::new(error, Some(found.position(error.field.as_str())));
            report.errors = admitted.errors.iter().map(shown).collect();
            if report.allowed {
                admit::remember(&admitted, cluster);
                (report.gangs, report.gang_count) = reported(&admitted, cluster);
                report.barrier = barrier(&admitted);
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

/// The start barrier of an admitted object.
fn barrier(admitted: &Admitted) -> Option<BarrierReport> {
    let text = admitted.object.to_string();
    let object = Object::read(admitted.kind, &text);
    let workload = object.workload()?;
    if workload.life() == Life::LeftAlone {
        return None;
    }
    let plan = workload.read(Unasked::NoGang).plan;
    plan.barrier.as_ref().map(BarrierReport::new)
}

/// The first gangs of an admitted object, and how many there are.
fn reported(admitted: &Admitted, cluster: &Snapshot) -> (Vec<GangReport>, u64) {
    gangs::with_gangs(admitted, cluster, |found| {
        let gangs = found.starts.iter().flat_map(gangs::gangs);
        let shown = gangs.take(gangs::SHOWN);
        let shown = shown.map(|gang| GangReport::new(found.facts, &gang));
        (shown.collect(), found.count)
    })
    .unwrap_or_default()
}
