//! `muster check`: the same rules before a cluster sees the object.

use std::io::Write;
use std::path::PathBuf;

use super::admit::{self, Admitted, STAND_IN_UID};
use super::files::{self, Found, Source};
pub use super::report::Report;
use super::report::{ErrorReport, GangReport};
use crate::admission::jobsets;
use crate::admission::object::{self, Kind, Object};
use crate::gang::{Attempt, FieldError, FieldPath, Owner, Round};
use crate::scheduler::Snapshot;
use crate::workload::jobset::view::{API_VERSION, JobSet, KIND};

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
    for source in &sources {
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
        Output::Text => summary(&reports, refused, out)?,
    }
    Ok(verdict)
}

fn summary(reports: &[Report], refused: usize, out: &mut dyn Write) -> std::io::Result<()> {
    if reports.is_empty() {
        return writeln!(out, "nothing to check: no JobSet, Job or Pod found");
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
        kind: kind.as_str().to_owned(),
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
                report.gangs = gangs(&admitted, cluster);
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

fn gangs(admitted: &Admitted, cluster: &Snapshot) -> Vec<GangReport> {
    with_gangs(admitted, cluster, |gangs| {
        gangs.gangs.iter().map(GangReport::new).collect()
    })
    .unwrap_or_default()
}

/// The gangs of an admitted JobSet, with what is needed to make their objects.
pub struct Gangs<'p> {
    pub owner: &'p Owner,
    pub judged: &'p jobsets::Judged,
    pub gangs: Vec<crate::gang::Gang<'p>>,
}

/// Plans an admitted JobSet and hands its gangs to `use_them`; `None` for other kinds and for
/// JobSets that Muster leaves alone.
pub fn with_gangs<T>(
    admitted: &Admitted,
    cluster: &Snapshot,
    use_them: impl FnOnce(Gangs<'_>) -> T,
) -> Option<T> {
    if admitted.kind != Kind::JobSet {
        return None;
    }
    let json = admitted.object.to_string();
    let Ok(Object::JobSet(jobset)) = object::read(Kind::JobSet, &json) else {
        return None;
    };
    if jobset.managed_by_other() {
        return None;
    }
    let judged = jobsets::judge_stored(&jobset, &admitted.namespace, cluster);
    let owner = Owner {
        api_version: API_VERSION,
        kind: KIND,
        namespace: admitted.namespace.clone(),
        name: stored_name(&jobset),
        uid: STAND_IN_UID.to_owned(),
    };
    let gangs = judged
        .plan
        .gangs(&owner, Attempt::default(), Round::default());
    Some(use_them(Gangs {
        owner: &owner,
        judged: &judged,
        gangs,
    }))
}

/// The name that the object would be stored under; a generated one gets a stand-in ending.
fn stored_name(jobset: &JobSet<'_>) -> String {
    let name = jobset.metadata.display_name();
    let generated = jobset
        .metadata
        .name
        .as_deref()
        .unwrap_or_default()
        .is_empty();
    if generated && !name.is_empty() {
        format!("{name}xxxxx")
    } else {
        name.to_owned()
    }
}
