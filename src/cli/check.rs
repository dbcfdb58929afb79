//! `muster check`: the same rules before a cluster sees the object.

use std::io::Write;
use std::path::PathBuf;

use serde_json::Value;

use super::admit::{self, Admitted, STAND_IN_UID};
use super::files::{self, Found, Source};
pub use super::report::Report;
use super::report::{ErrorReport, GangReport};
use crate::admission::judge::Judged;
use crate::admission::object::{self, Kind, Object};
use crate::admission::{jobsets, lws as lws_admission};
use crate::gang::{Attempt, FieldError, FieldPath, Gang, Owner, Part, Round};
use crate::scheduler::Snapshot;
use crate::workload::lws::children::{self, ReplicaRef};
use crate::workload::lws::replica;
use crate::workload::lws::view::LeaderWorkerSet;
use crate::workload::view::Meta;
use crate::workload::{jobset, lws};

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
        return writeln!(
            out,
            "nothing to check: no JobSet, LeaderWorkerSet, Job or Pod found"
        );
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
        let gangs = gangs.starts.iter().flatten();
        gangs.map(GangReport::new).collect()
    })
    .unwrap_or_default()
}

/// The gangs of an admitted workload, with what is needed to make their objects.
pub struct Gangs<'p> {
    pub owner: &'p Owner,
    pub judged: &'p Judged,
    /// Those of each start: of the workload, or of a replica that starts by itself.
    pub starts: Vec<Vec<Gang<'p>>>,
    /// A pod of each start's roles, as it would be stored; none where pods come from Jobs.
    pub pods: Vec<Value>,
}

/// Plans an admitted workload and hands its gangs to `use_them`; `None` for other kinds and for
/// workloads that Muster leaves alone.
pub fn with_gangs<T>(
    admitted: &Admitted,
    cluster: &Snapshot,
    use_them: impl FnOnce(Gangs<'_>) -> T,
) -> Option<T> {
    let json = admitted.object.to_string();
    let owner = |api_version, kind, meta: &Meta<'_>| Owner {
        api_version,
        kind,
        namespace: admitted.namespace.clone(),
        name: stored_name(meta),
        uid: STAND_IN_UID.to_owned(),
    };
    match object::read(admitted.kind, &json).ok()? {
        Object::JobSet(jobset) if !jobset.managed_by_other() => {
            let judged = jobsets::judge_stored(&jobset, &admitted.namespace, cluster);
            let owner = owner(
                jobset::view::API_VERSION,
                jobset::view::KIND,
                &jobset.metadata,
            );
            let (attempt, round) = (Attempt::default(), Round::default());
            let starts = vec![judged.plan.gangs(&owner, attempt, round)];
            Some(use_them(Gangs {
                owner: &owner,
                judged: &judged,
                starts,
                pods: Vec::new(),
            }))
        }
        Object::LeaderWorkerSet(lws) => {
            let judged = lws_admission::judge_stored(&lws, &admitted.namespace, cluster);
            let owner = owner(lws::view::API_VERSION, lws::view::KIND, &lws.metadata);
            let (starts, pods) = replicas(admitted, &lws, &judged, &owner, cluster)?;
            Some(use_them(Gangs {
                owner: &owner,
                judged: &judged,
                starts,
                pods,
            }))
        }
        _ => None,
    }
}

/// The gangs of each replica, and its leader and first worker as they would be stored.
fn replicas<'p>(
    admitted: &Admitted,
    lws: &LeaderWorkerSet<'_>,
    judged: &'p Judged,
    owner: &Owner,
    cluster: &Snapshot,
) -> Option<(Vec<Vec<Gang<'p>>>, Vec<Value>)> {
    let (mut starts, mut pods) = (Vec::new(), Vec::new());
    if judged.plan.parts.is_empty() {
        return Some((starts, pods));
    }
    for index in 0..lws.replicas() {
        let replica = ReplicaRef {
            namespace: &admitted.namespace,
            name: &owner.name,
            index,
            revision: children::STAND_IN_REVISION,
        };
        let leader = children::leader(&admitted.object, replica);
        let leader = admit::create(Kind::Pod, &leader, cluster).ok()?.object;
        let life = replica::Life {
            namespace: replica.namespace,
            name: replica.name,
            index: &index.to_string(),
            revision: replica.revision,
            key: leader["metadata"]["labels"][replica::GROUP_KEY].as_str()?,
        };
        let gang = |part: &'p Part| {
            let identity = replica::identity(&life, part.name().as_str());
            Gang::new(part, identity)
        };
        starts.push(judged.plan.parts.iter().map(gang).collect());
        let worker = children::worker(&admitted.object, replica, &leader, 1);
        pods.push(leader);
        if lws.size() > 1 {
            pods.push(admit::create(Kind::Pod, &worker, cluster).ok()?.object);
        }
    }
    Some((starts, pods))
}

/// The name that the object would be stored under; a generated one gets a stand-in ending.
fn stored_name(meta: &Meta<'_>) -> String {
    let name = meta.display_name();
    let generated = meta.name.as_deref().unwrap_or_default().is_empty();
    if generated && !name.is_empty() {
        format!("{name}xxxxx")
    } else {
        name.to_owned()
    }
}
