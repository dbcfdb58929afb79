//! `muster check`: what a cluster would say, before it sees the object.

mod count;

use std::io::Write;

use serde_json::Value;

use super::admit::{self, Admitted};
use super::files::{self, Found, Source};
use super::gangs;
use super::kinds::{self, Named};
pub(crate) use super::report::Report;
use super::report::{BarrierReport, ErrorReport, GangReport, WarningReport, github, sarif};
use super::strict;
use super::terminal::printable;
use super::yaml::YamlError;
use crate::args::Files;
use crate::gang::{FieldError, FieldPath};
use crate::scheduler::Snapshot;
use crate::workload::Kind;
use count::Count;

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// One array for scripts.
    Json,
    /// Workflow commands: GitHub shows them at their lines.
    Github,
    /// SARIF 2.1.0, for code scanning.
    Sarif,
}

/// What becomes of an object that has no gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Gangless {
    /// It is admitted.
    #[default]
    Admitted,
    /// It is an error.
    Refused,
}

/// How a run ended; the process exits with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// Every object is admitted.
    Admitted = 0,
    /// At least one object is refused.
    Refused = 1,
    /// A file could not be read, or there was nothing to check where gangs are required.
    Trouble = 2,
}

/// Checks files and directories and prints what was found.
pub fn run(
    files: &Files,
    format: Format,
    gangless: Gangless,
    cluster: &Snapshot,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> std::io::Result<Verdict> {
    let cluster = &admit::remembering(cluster);
    let read = files::read(&files.paths, files.stdin_name.as_deref());
    let unread: Vec<String> = read.errors.iter().map(ToString::to_string).collect();
    let mut verdict = Verdict::Admitted;
    for error in &unread {
        match format {
            Format::Github => write!(out, "{}", github::trouble(error))?,
            _ => writeln!(err, "error: {}", printable(error))?,
        }
        verdict = Verdict::Trouble;
    }
    let mut reports = Vec::new();
    let mut count = Count::default();
    for patch in &read.patches {
        let report = unchecked_patch(&patch.display().to_string());
        match format {
            Format::Text => write!(out, "{}", report.to_text(""))?,
            Format::Github => write!(out, "{}", github::commands(&report))?,
            Format::Json | Format::Sarif => reports.push(report),
        }
    }
    for source in &read.sources {
        for found in files::objects(source) {
            if found.is_err() {
                verdict = Verdict::Trouble;
            }
            let report = match check_found(source, found, gangless, cluster) {
                Ok(report) => report,
                Err(skipped) => {
                    count.skip(&skipped);
                    continue;
                }
            };
            count.note(&report);
            match format {
                Format::Text => write!(out, "{}", report.to_text(&source.text))?,
                Format::Github => write!(out, "{}", github::commands(&report))?,
                Format::Json | Format::Sarif => reports.push(report),
            }
        }
    }
    if count.refused > 0 {
        verdict = verdict.max(Verdict::Refused);
    }
    // What was to be checked is missing, as when the program before it in a pipe has failed.
    if count.is_empty() && gangless == Gangless::Refused {
        verdict = Verdict::Trouble;
        if matches!(format, Format::Json | Format::Sarif) {
            count.summary(err)?;
        }
    }
    match format {
        Format::Text => {
            count.summary(out)?;
            count.about_names(out)?;
        }
        Format::Github => count.summary(out)?,
        Format::Json => print_json(&reports, out)?,
        Format::Sarif => print_json(&sarif::log(&reports, &unread), out)?,
    }
    Ok(verdict)
}

fn print_json(value: &impl serde::Serialize, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Checks every object of one file; kinds that Muster does not handle are skipped.
pub fn check_source(source: &Source, cluster: &Snapshot) -> Vec<Report> {
    let cluster = &admit::remembering(cluster);
    let found = files::objects(source);
    found
        .filter_map(|found| check_found(source, found, Gangless::Admitted, cluster).ok())
        .collect()
}

/// Checks one object; one of a kind that Muster does not handle comes back.
fn check_found(
    source: &Source,
    found: Result<Found<'_>, YamlError>,
    gangless: Gangless,
    cluster: &Snapshot,
) -> Result<Report, Value> {
    let found = match found {
        Ok(found) => found,
        Err(error) => return Ok(unreadable(&source.name, &error)),
    };
    match kinds::named(&found.value) {
        Named::Handled(kind) => {
            let mut report = check_object(&source.name, kind, &found, cluster);
            if gangless == Gangless::Refused && report.allowed && !report.ganged {
                refuse(&mut report, &found, &[no_gang()]);
            }
            Ok(report)
        }
        Named::Wrong(errors) => Ok(misnamed(&source.name, &found, &errors)),
        Named::Other if count::asks(&found.value) => Ok(unchecked(&source.name, &found)),
        Named::Other => Err(found.value),
    }
}

/// A part of an object.
fn unchecked_patch(file: &str) -> Report {
    let warning = WarningReport {
        text: "not checked: a kustomization uses it as a patch; check what `kubectl kustomize` \
               prints"
            .to_owned(),
        position: (1, 1).into(),
    };
    Report {
        checked: false,
        warnings: vec![warning],
        ..empty(file)
    }
}

/// An object of another kind that asks Muster for something.
fn unchecked(file: &str, found: &Found<'_>) -> Report {
    let warning = WarningReport {
        text: "not checked: it is of no kind that Muster reads, and what its templates declare is \
               judged when its pods are created"
            .to_owned(),
        position: found.position("").into(),
    };
    Report {
        checked: false,
        warnings: vec![warning],
        ..named(file, found)
    }
}

fn unreadable(file: &str, error: &YamlError) -> Report {
    let problem = FieldError::invalid(FieldPath::default(), Value::Null, error.to_string());
    let mut shown = ErrorReport::new(&problem, Some((error.line, error.column).into()));
    shown.text = format!("not readable: {error}");
    Report {
        document: error.index,
        errors: vec![shown],
        allowed: false,
        ..empty(file)
    }
}

/// An object of a kind that there is not.
fn misnamed(file: &str, found: &Found<'_>, errors: &[FieldError]) -> Report {
    let mut report = named(file, found);
    refuse(&mut report, found, errors);
    report
}

/// A report with what an object calls itself.
fn named(file: &str, found: &Found<'_>) -> Report {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let metadata = &found.value["metadata"];
    Report {
        document: found.document,
        kind: text(&found.value["kind"]).unwrap_or_else(|| "object".to_owned()),
        namespace: text(&metadata["namespace"]).unwrap_or_else(|| "default".to_owned()),
        name: text(&metadata["name"]).unwrap_or_default(),
        ..empty(file)
    }
}

fn no_gang() -> FieldError {
    let detail = "it has no gang, and --require-gang is set: ask for one, or leave the object out";
    FieldError::required(FieldPath::new("metadata").child("annotations"), detail)
}

/// Adds errors at their places.
fn refuse(report: &mut Report, found: &Found<'_>, errors: &[FieldError]) {
    let shown = errors.iter().map(|error| {
        let position = found.position(error.field.as_str());
        ErrorReport::new(error, Some(position.into()))
    });
    report.errors.extend(shown);
    report.allowed = report.errors.is_empty();
}

fn empty(file: &str) -> Report {
    Report {
        file: file.to_owned(),
        document: 0,
        kind: String::new(),
        namespace: String::new(),
        name: String::new(),
        checked: true,
        allowed: true,
        errors: Vec::new(),
        warnings: Vec::new(),
        gangs: Vec::new(),
        gang_count: 0,
        barrier: None,
        ganged: false,
    }
}

fn check_object(file: &str, kind: &'static Kind, found: &Found<'_>, cluster: &Snapshot) -> Report {
    let mut report = Report {
        document: found.document,
        kind: kind.name.to_owned(),
        ..empty(file)
    };
    match strict::create(kind, &found.value, cluster) {
        Ok(checked) => {
            let extension = checked.extension();
            let admitted = checked.admitted;
            report.namespace.clone_from(&admitted.namespace);
            report.name.clone_from(&admitted.name);
            let warnings = extension.iter().chain(&admitted.warnings);
            report.warnings = warnings.map(|text| warning(text, found)).collect();
            refuse(&mut report, found, &admitted.errors);
            if report.allowed {
                admit::remember(&admitted, cluster);
                fill_in(&mut report, &admitted, cluster);
            }
        }
        Err(error) => {
            report.allowed = false;
            let error = FieldError::invalid(FieldPath::default(), Value::Null, error.to_string());
            report.errors = vec![ErrorReport::new(&error, None)];
        }
    }
    report
}

/// Fills in the gangs and the start barrier of an admitted object.
fn fill_in(report: &mut Report, admitted: &Admitted, cluster: &Snapshot) {
    gangs::with_gangs(admitted, cluster, |found| {
        let gangs = found.starts.iter().flat_map(gangs::gangs);
        let shown = gangs.take(gangs::SHOWN);
        let shown = shown.map(|gang| GangReport::new(found.facts, &gang));
        report.gangs = shown.collect();
        report.gang_count = found.count;
        report.ganged = !found.judged.plan.parts.is_empty();
        let barrier = found.judged.plan.barrier.as_ref();
        report.barrier = barrier.map(|barrier| BarrierReport::new(barrier, &cluster.wait));
    });
}

/// A warning, at the field that it begins with; most do.
fn warning(text: &str, found: &Found<'_>) -> WarningReport {
    let field = text.split(' ').next().unwrap_or_default();
    WarningReport {
        text: text.to_owned(),
        position: found.position(field.trim_end_matches(':')).into(),
    }
}
