//! `muster explain`: why a workload's gangs wait, with the evidence and what to type next.

use std::io::Write;
use std::process::ExitCode;
use std::time::Duration;

use kube::Client;
use serde_json::{Value, json};

use super::connect::{self, ConnectError, Failed};
use super::machine;
use super::standing::{condition, headline, standing};
use super::target::{self, Target, Wrong};
use super::terminal::{Lines, printable};
use crate::args::{Explain, ExplainOutput};
use crate::controller::decide::GangStatus;
use crate::controller::inspect::{Answer, Inspected, Inspector};
use crate::explain::{Cause, Place};
use crate::gang::nearest::nearest;

/// More gangs of a workload are counted and not printed.
const MOST_GANGS: usize = 20;

/// A gang of which no pod says why is looked at so often. Coscheduling (0.34.7) tries a gang again and
/// again, and between two tries each of its pods only says that it was rejected with the others.
const LOOKS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(600);

/// Why nothing could be explained.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No cluster was found.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The apiserver refused a request.
    #[error("cannot look at the cluster: {0}")]
    Api(#[from] Failed),
    /// Nothing is named that can be looked for.
    #[error(transparent)]
    Wrong(#[from] Wrong),
    /// What was named is not there.
    #[error("{0}")]
    NotFound(String),
    /// The output cannot be written.
    #[error(transparent)]
    Write(#[from] std::io::Error),
}

/// Explains what is named; the exit status says whether it has a gang.
pub async fn run(args: &Explain, out: &mut dyn Write) -> Result<ExitCode, Error> {
    let (target, name) = target::parse(&args.workload, args.name.as_deref())?;
    let cluster = connect::user(&args.target).await?;
    let failed = |error: kube::Error| cluster.failed(&error);
    let client = cluster.client.clone();
    let namespace = namespace(args.namespace.as_deref(), &client);
    let inspector = Inspector::new(client, Some(&namespace)).await;
    let mut inspector = inspector.map_err(failed)?;
    let answer = look(&mut inspector, &target, &namespace, &name).await;
    let mut answer = answer.map_err(failed)?.map_err(Error::NotFound)?;
    for _ in 1..LOOKS {
        if !is_vague(&answer) {
            break;
        }
        tokio::time::sleep(BETWEEN).await;
        // What was found once stays an answer.
        match look(&mut inspector, &target, &namespace, &name).await {
            Ok(Ok(found)) => answer = found,
            Ok(Err(_)) | Err(_) => break,
        }
    }
    let unseen = inspector.unseen();
    match args.output {
        ExplainOutput::Text => out.write_all(text(&answer, unseen).as_bytes())?,
        ExplainOutput::Json => machine::write_json(&value(&answer, unseen), out)?,
        ExplainOutput::Yaml => machine::write_yaml(&value(&answer, unseen), out)?,
    }
    out.flush()?;
    Ok(match answer {
        Answer::Found { .. } => ExitCode::SUCCESS,
        _ => ExitCode::from(1),
    })
}

/// What is found of what is named, or why it is not there.
async fn look(
    inspector: &mut Inspector,
    target: &Target,
    namespace: &str,
    name: &str,
) -> Result<Result<Answer, String>, kube::Error> {
    let kind = match target {
        Target::Object(kind) => kind,
        Target::Gang => {
            let found = inspector.gang(namespace, name).await?;
            return Ok(found.map_err(|names| no_gang(namespace, name, &names)));
        }
    };
    let (single, plural) = (kind.name, kind.plural);
    Ok(match inspector.object(kind, namespace, name).await? {
        Answer::Absent => Err(format!(
            "there is no {single} {name} in the namespace {namespace}"
        )),
        Answer::NotServed => Err(format!("the cluster serves no {plural}")),
        answer => Ok(answer),
    })
}

/// Whether a gang waits of which only the scheduler knows why.
fn is_vague(answer: &Answer) -> bool {
    let Answer::Found { workloads, .. } = answer else {
        return false;
    };
    let mut gangs = workloads.iter().flat_map(|workload| &workload.gangs);
    gangs.any(|gang| matches!(gang.causes[..], [Cause::SchedulerSays(_)]))
}

/// The namespace that is named, else the one of the kubeconfig's context.
pub(super) fn namespace(named: Option<&str>, client: &Client) -> String {
    named.unwrap_or(client.default_namespace()).to_owned()
}

/// With the gang that is probably meant, or the first few.
fn no_gang(namespace: &str, name: &str, names: &[String]) -> String {
    let known = names.iter().map(String::as_str);
    let hint = match nearest(name, known.clone()) {
        Some(near) => format!(": did you mean {near}?"),
        None if names.is_empty() => ", nor any other".to_owned(),
        None => {
            let few: Vec<&str> = known.take(5).collect();
            let more = names.len() - few.len();
            let more = if more > 0 {
                format!(" and {more} more")
            } else {
                String::new()
            };
            format!("; there are {}{more}", few.join(", "))
        }
    };
    format!("there is no gang {name} in the namespace {namespace}{hint}")
}

/// For people.
pub fn text(answer: &Answer, unseen: &[String]) -> String {
    match answer {
        Answer::Found { workloads, note } => {
            let mut text = Lines::default();
            if let Some(note) = note {
                text.add(note);
                text.space();
            }
            for (number, found) in workloads.iter().enumerate() {
                if number > 0 {
                    text.space();
                }
                tell(found, &mut text);
            }
            let looked = merged(workloads, |found| &found.looked);
            text.space();
            text.add(format_args!("looked at: {}", looked.join("; ")));
            let unknown = merged(workloads, |found| &found.unknown);
            let mut unknown = unseen.iter().chain(&unknown).peekable();
            if unknown.peek().is_some() {
                text.add("still unknown:");
            }
            for what in unknown {
                text.add(format_args!("  {what}"));
            }
            text.into_text()
        }
        Answer::NoGang(why) => format!("{}\n", printable(why)),
        Answer::Absent | Answer::NotServed => String::new(),
    }
}

/// For scripts.
pub fn value(answer: &Answer, unseen: &[String]) -> Value {
    match answer {
        Answer::Found { workloads, note } => {
            let unknown = merged(workloads, |found| &found.unknown);
            let unknown = unseen.iter().cloned().chain(unknown);
            json!({
                "workloads": workloads.iter().map(machine::workload).collect::<Vec<_>>(),
                "note": note,
                "lookedAt": merged(workloads, |found| &found.looked),
                "unknown": unknown.collect::<Vec<_>>(),
            })
        }
        Answer::NoGang(why) => json!({"workloads": [], "note": why}),
        Answer::Absent | Answer::NotServed => Value::Null,
    }
}

/// What is said of all, each once.
fn merged(workloads: &[Inspected], of: impl Fn(&Inspected) -> &Vec<String>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for what in workloads.iter().flat_map(of) {
        if !all.contains(what) {
            all.push(what.clone());
        }
    }
    all
}

fn tell(found: &Inspected, text: &mut Lines) {
    let Inspected {
        kind,
        namespace,
        name,
        ..
    } = found;
    text.add(format_args!(
        "{kind} {namespace}/{name}: {}",
        headline(found)
    ));
    if !found.missing.is_empty() {
        let missing = found.missing.join(", ");
        text.add(format_args!(
            "missing: {missing}; Muster creates it when it runs and nothing blocks it"
        ));
    }
    let by_gang = found.gangs.iter().any(|gang| found.told_of(gang).is_some());
    if let Some((reason, message)) = condition(found).filter(|_| !by_gang) {
        text.add(format_args!("its condition says: {reason}: {message}"));
    }
    if let Some(step) = &found.resume {
        text.add(format_args!("next: {step}"));
    }
    // Those that wait are what is asked about.
    let waits = |gang: &&GangStatus| gang.waits();
    let others = found.gangs.iter().filter(|gang| !gang.waits());
    let gangs = found.gangs.iter().filter(waits).chain(others);
    for gang in gangs.take(MOST_GANGS) {
        let (name, scheduler) = (&gang.name, gang.scheduler);
        text.space();
        text.add(format_args!(
            "gang {name} ({scheduler}): {}",
            standing(gang, found.sight)
        ));
        if let Some((reason, message)) = found.told_of(gang) {
            text.add(format_args!("  its condition says: {reason}: {message}"));
            if !gang.causes.is_empty() {
                text.add(format_args!(
                    "  you may not read everything; what you may read shows:"
                ));
            }
        }
        for (number, cause) in gang.causes.iter().enumerate() {
            text.add(format_args!(
                "  {}. {}: {cause}",
                number + 1,
                cause.reason()
            ));
            let pods = found.pods_of(gang);
            let place = Place {
                namespace,
                pods: &pods,
            };
            if let Some(step) = cause.next_step(place) {
                text.add(format_args!("     next: {step}"));
            }
        }
        if let Some(words) = gang.evidence.quotation().filter(|_| gang.waits()) {
            // Between quotes as they are: escaped, its own quotes would not read well.
            let words: Vec<&str> = words.split_whitespace().collect();
            text.add(format_args!(
                "  the scheduler says: \"{}\"",
                words.join(" ")
            ));
        }
    }
    if let Some(more) = found.gangs.len().checked_sub(MOST_GANGS + 1) {
        let gangs = if more == 0 { "gang" } else { "gangs" };
        text.space();
        text.add(format_args!("and {} more {gangs}", more + 1));
    }
}

#[cfg(test)]
mod tests;
