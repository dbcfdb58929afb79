//! How workloads and their gangs stand, in the words of the command line: of what was looked at, and of
//! what Muster says in the workload's condition where that knows better.

use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::progress::Progress;
use crate::controller::inspect::{Inspected, Sight};
use crate::workload::Life;

/// The reason of a condition: a gang waited too long. Its message says why, and how to resume it.
const TIMED_OUT: &str = "GangTimedOut";

/// What the workload's condition says, where a look does not find the same: Muster is told more than
/// whoever looks, or it does not run and this is old.
pub(super) fn condition(found: &Inspected) -> Option<&(String, String)> {
    let causes = || found.gangs.iter().flat_map(|gang| &gang.causes);
    let same = |reason: &str| {
        let seen = found.sight != Sight::NoPods;
        let placed = reason == "GangScheduled" && causes().next().is_none() && seen;
        let suspended = reason == TIMED_OUT && found.life == Life::Suspended;
        let refused = reason == "GangRefused" && found.refusal().is_some();
        placed || suspended || refused || causes().any(|cause| cause.reason() == reason)
    };
    let better = found.gangs.iter().any(|gang| found.told_of(gang).is_some());
    found
        .told
        .as_ref()
        .filter(|(reason, _)| better || !same(reason))
}

/// How a workload stands, in the order in which its condition tells it: why no gang is made, then that
/// nothing waits, then what is broken, then the first cause of the first gang that waits, before those
/// that only wait for it, or what the condition knows better.
pub(super) fn headline(found: &Inspected) -> String {
    match found.life {
        Life::Deleting => "it is being deleted".to_owned(),
        Life::LeftAlone => match &found.manager {
            Some(manager) => format!(
                "{manager} runs it (spec.managedBy), so Muster leaves it alone: ask there why it waits"
            ),
            None => "another controller runs it: Muster leaves it alone".to_owned(),
        },
        life => found.refusal().unwrap_or_else(|| match life {
            Life::Suspended => suspended(found),
            Life::Finished => match found.failed.as_deref() {
                Some("") => "it has failed".to_owned(),
                Some(why) => format!("it has failed: {why}"),
                None => "it has ended".to_owned(),
            },
            _ if found.sight == Sight::NoPods => unseen(found),
            _ => live(found),
        }),
    }
}

/// By whom, and for what.
fn suspended(found: &Inspected) -> String {
    let told = found.told.as_ref();
    match (&found.kueue, told.filter(|(reason, _)| reason == TIMED_OUT)) {
        (Some(queued), _) => queued.suspended(),
        (None, Some((_, message))) => format!("timed out: {message}"),
        (None, None) => "suspended".to_owned(),
    }
}

fn live(found: &Inspected) -> String {
    let gangs = &found.gangs;
    if let (true, Some((_, message))) = (gangs.is_empty(), &found.barrier) {
        return at_barrier(message);
    }
    let is_placed = gangs.iter().all(|gang| gang.state == State::Scheduled);
    if is_placed && !gangs.is_empty() && found.missing.is_empty() {
        return placed(found);
    }
    let better = gangs.iter().find_map(|gang| found.told_of(gang));
    let better = better.map(|(_, message)| message.to_owned());
    let causes = gangs.iter().filter_map(|gang| gang.causes.first());
    let cause = causes.min_by_key(|cause| cause.follows_another());
    let cause = better.or(cause.map(ToString::to_string));
    found
        .broken
        .clone()
        .or(cause)
        .unwrap_or_else(|| match gangs.iter().any(GangStatus::waits) {
            _ if is_placed => placed(found),
            true => "a gang is waiting, and nothing says why yet".to_owned(),
            false => "a gang is waiting for its pods to be created".to_owned(),
        })
}

/// What can be said to whoever may not see its pods: what Muster says of it.
fn unseen(found: &Inspected) -> String {
    let told = found.told.as_ref().or(found.barrier.as_ref());
    let told = told.map(|(_, message)| message.clone());
    told.unwrap_or_else(|| {
        "its state is unknown: you may not list its pods, and it has no condition that says more"
            .to_owned()
    })
}

/// How a gang stands, in one word.
pub(super) fn stands(gang: &GangStatus, progress: Progress, sight: Sight) -> &'static str {
    let quorum = gang.quorum as usize;
    match gang.state {
        _ if sight == Sight::NoPods => "Unknown",
        State::Empty => "Empty",
        State::Waiting => "Waiting",
        State::Scheduled if progress.done >= quorum => "Done",
        State::Scheduled if progress.running + progress.done >= quorum => "Running",
        State::Scheduled => "Placed",
    }
}

/// What may still keep pods from running, which no scheduler can fix.
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
    if let Some((_, message)) = found.at_barrier() {
        text += "; ";
        text += &at_barrier(message);
    }
    text
}

/// What its condition says of a start barrier, which names it where it does not open.
fn at_barrier(message: &str) -> String {
    match message.starts_with("the start barrier ") {
        true => message.to_owned(),
        false => format!("at the start barrier {message}"),
    }
}

/// How a gang stands, in a sentence.
pub(super) fn standing(gang: &GangStatus, sight: Sight) -> String {
    if sight == Sight::NoPods {
        return "you may not list its pods".to_owned();
    }
    let GangStatus {
        bound,
        size,
        quorum,
        live,
        ..
    } = gang;
    let waited = gang
        .waited
        .map(|waited| format!(" for {} s", waited.as_secs()));
    let waited = waited.filter(|_| gang.waits()).unwrap_or_default();
    let word = match gang.state {
        State::Empty => "no pod yet",
        State::Waiting => "waiting",
        State::Scheduled => "placed",
    };
    let pods = if *size == 1 { "pod" } else { "pods" };
    format!(
        "{word}{waited}; {live} of {size} {pods} created, {bound} placed, {quorum} needed to start"
    )
}
