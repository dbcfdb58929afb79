//! How workloads and their gangs stand, in the words of the command line: of what was looked at, and of
//! what Muster says in the workload's condition where that knows better.

use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::progress::Progress;
use crate::controller::inspect::{Inspected, Sight};
use crate::workload::Life;

/// What the workload's condition says, where a look does not find the same: Muster is told more than
/// whoever looks, or it does not run and this is old.
pub(super) fn condition(found: &Inspected) -> Option<&(String, String)> {
    let causes = || found.gangs.iter().flat_map(|gang| &gang.causes);
    let same = |reason: &str| {
        let seen = found.sight != Sight::NoPods;
        let placed = reason == "GangScheduled" && causes().next().is_none() && seen;
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
            Some(queued) => queued.suspended(),
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
            if found.sight == Sight::NoPods {
                return unseen(found);
            }
            let better = found.gangs.iter().find_map(|gang| found.told_of(gang));
            let better = better.map(|(_, message)| message.to_owned());
            let cause = better.or(cause.map(ToString::to_string));
            let told = found.broken.clone().or(cause);
            told.or(found.refused.clone()).unwrap_or_else(|| {
                match found.gangs.iter().all(is_placed) {
                    true => placed(found),
                    false if found.gangs.iter().any(GangStatus::waits) => {
                        "a gang waits, and nothing says why yet".to_owned()
                    }
                    false => "a gang waits for its pods to be made".to_owned(),
                }
            })
        }
    }
}

/// What can be said to whoever may not see its pods: what Muster says of it.
fn unseen(found: &Inspected) -> String {
    let told = found.told.as_ref().map(|(_, message)| message.clone());
    told.or(found.refused.clone()).unwrap_or_else(|| {
        "how it stands shows in its pods, which you may not list, and no condition tells it"
            .to_owned()
    })
}

/// Whether it is suspended because a gang waited too long: the condition keeps why.
fn timed_out(found: &Inspected) -> bool {
    let told = found.told.as_ref();
    told.is_some_and(|(reason, _)| reason == "GangTimedOut")
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
