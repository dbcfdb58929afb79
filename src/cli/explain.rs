//! `muster explain`: why a workload's gangs wait, with the evidence and what to type next.

use std::io::Write;
use std::process::ExitCode;

use kube::Client;
use serde_json::{Value, json};

use super::connect::{self, ConnectError, Failed};
use super::machine;
use super::target::{self, Target, Wrong};
use super::terminal::{Lines, printable};
use crate::args::{Explain, ExplainOutput};
use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::progress::Progress;
use crate::controller::inspect::{Answer, Inspected, Inspector};
use crate::gang::nearest::nearest;
use crate::workload::Life;

/// More gangs of a workload are counted and not printed.
const MOST_GANGS: usize = 20;

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
    let cluster = connect::user(args.target.kubeconfig.as_deref()).await?;
    let failed = |error: kube::Error| cluster.failed(&error);
    let client = cluster.client.clone();
    let namespace = namespace(args.namespace.as_deref(), &client);
    let inspector = Inspector::new(client, Some(&namespace)).await;
    let mut inspector = inspector.map_err(failed)?;
    let answer = match target {
        Target::Object(kind) => {
            let answer = inspector.object(kind, &namespace, &name).await;
            let answer = answer.map_err(failed)?;
            let (kind, plural) = (kind.name, kind.plural);
            match answer {
                Answer::Absent => Err(format!(
                    "there is no {kind} {name} in the namespace {namespace}"
                )),
                Answer::NotServed => Err(format!("the cluster serves no {plural}")),
                answer => Ok(answer),
            }
        }
        Target::Gang => match inspector.gang(&namespace, &name).await.map_err(failed)? {
            Ok(answer) => Ok(answer),
            Err(names) => Err(no_gang(&namespace, &name, &names)),
        },
    };
    let answer = answer.map_err(Error::NotFound)?;
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
            "missing: {missing}; Muster makes it, if it runs and nothing is in the way"
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
            standing(gang)
        ));
        if let Some((reason, message)) = found.told_of(gang) {
            text.add(format_args!("  its condition says: {reason}: {message}"));
            text.add(format_args!(
                "  you may not look at everything; what you may look at shows:"
            ));
        }
        for (number, cause) in gang.causes.iter().enumerate() {
            text.add(format_args!(
                "  {}. {}: {cause}",
                number + 1,
                cause.reason()
            ));
            if let Some(step) = cause.next_step(namespace) {
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

/// What the workload's condition says, where a look does not find the same: Muster is told more than
/// whoever looks, or it does not run and this is old.
pub(super) fn condition(found: &Inspected) -> Option<&(String, String)> {
    let causes = || found.gangs.iter().flat_map(|gang| &gang.causes);
    let same = |reason: &str| {
        let placed = reason == "GangScheduled" && causes().next().is_none();
        placed || causes().any(|cause| cause.reason() == reason)
    };
    let better = found.gangs.iter().any(|gang| found.told_of(gang).is_some());
    found
        .told
        .as_ref()
        .filter(|(reason, _)| better || !same(reason))
}

/// The first cause of the first gang that waits, before those that only wait for it, or what the
/// workload's condition knows better; or how the workload stands.
pub(super) fn headline(found: &Inspected) -> String {
    let causes = found.gangs.iter().filter_map(|gang| gang.causes.first());
    let cause = causes.min_by_key(|cause| cause.follows_another());
    match (found.life, cause) {
        (Life::Suspended, _) => match &found.kueue {
            Some(queue) => format!("suspended: Kueue has not admitted it from the queue {queue:?}"),
            None if timed_out(found) => {
                "timed out: Muster has suspended it, because a gang waited too long".to_owned()
            }
            None => "suspended".to_owned(),
        },
        (Life::Finished, _) => match found.failed.as_deref() {
            Some("") => "it has failed".to_owned(),
            Some(why) => format!("it has failed: {why}"),
            None => "it has ended".to_owned(),
        },
        (Life::Deleting, _) => "it is being deleted".to_owned(),
        (Life::LeftAlone, _) => match &found.manager {
            Some(manager) => format!(
                "{manager} runs it (spec.managedBy), so Muster leaves it alone: ask there why it waits"
            ),
            None => "another controller runs it: Muster leaves it alone".to_owned(),
        },
        (Life::Live, cause) => {
            let is_placed = |gang: &GangStatus| gang.state == State::Scheduled;
            let better = found.gangs.iter().find_map(|gang| found.told_of(gang));
            let better = better.map(|(_, message)| message.to_owned());
            let cause = better.or(cause.map(ToString::to_string));
            let told = found.broken.clone().or(cause);
            told.or(found.refused.clone()).unwrap_or_else(|| {
                match found.gangs.iter().all(is_placed) {
                    true => placed(found),
                    false => "a gang waits for its pods to be made".to_owned(),
                }
            })
        }
    }
}

/// Whether it is suspended because a gang waited too long: the condition keeps why.
fn timed_out(found: &Inspected) -> bool {
    let told = found.told.as_ref();
    told.is_some_and(|(reason, _)| reason == "GangTimedOut")
}

/// How a gang stands, in one word.
pub(super) fn stands(gang: &GangStatus, progress: Progress) -> &'static str {
    let quorum = gang.quorum as usize;
    match gang.state {
        State::Empty => "Empty",
        State::Waiting => "Waiting",
        State::Scheduled if progress.done >= quorum => "Done",
        State::Scheduled if progress.running + progress.done >= quorum => "Running",
        State::Scheduled => "Placed",
    }
}

/// What may still keep pods from running, which no scheduler can mend.
fn placed(found: &Inspected) -> String {
    let imageless: usize = found.gangs.iter().map(|gang| gang.imageless).sum();
    let mut text = "all gangs are placed".to_owned();
    if imageless > 0 {
        let of = format!("kubectl describe pods -n {}", found.namespace);
        let pods = if imageless == 1 { "pod" } else { "pods" };
        text += &format!(
            "; {imageless} {pods} cannot pull an image, which is not a matter of scheduling: {of}"
        );
    }
    if let Some(waits) = &found.barrier {
        text += &format!("; at the start barrier {waits}");
    }
    text
}

fn standing(gang: &GangStatus) -> String {
    let GangStatus {
        bound,
        size,
        quorum,
        live,
        ..
    } = gang;
    let waited = gang
        .waited
        .map(|waited| format!(", for {} s", waited.as_secs()));
    let waited = waited.filter(|_| gang.waits()).unwrap_or_default();
    let word = match gang.state {
        State::Empty => "no pod yet",
        State::Waiting => "waits",
        State::Scheduled => "placed",
    };
    let exist = match size {
        1 => "pod exists",
        _ => "pods exist",
    };
    let are = |count: usize| if count == 1 { "is" } else { "are" };
    let (placed, needed) = (are(*bound), are(*quorum as usize));
    format!(
        "{word}{waited}; {live} of {size} {exist}, {bound} {placed} placed, {quorum} {needed} needed"
    )
}

#[cfg(test)]
mod tests;
