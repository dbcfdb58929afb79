//! Gangs as the lines of a table. Pure.

use std::time::Duration;

use crate::cli::standing::{headline, stands};
use crate::cli::terminal::{Screen, bar, clip, printable};
use crate::controller::decide::{GangStatus, State};
use crate::controller::inspect::progress::Progress;
use crate::controller::inspect::{Inspected, Sight};
use crate::workload::Life;

/// A cell of which there is nothing to say.
const NOTHING: &str = "-";

/// Whose gangs are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// Those of one namespace.
    One,
    /// Those of all: it is a column.
    All,
}

/// How much is said of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Narrow,
    /// How long it has waited, and sentences.
    Wide,
}

/// Which columns a table has.
#[derive(Debug, Clone, Copy)]
pub(super) struct Columns {
    pub(super) reach: Reach,
    pub(super) screen: Screen,
    pub(super) depth: Depth,
    /// How wide a line may be, where a terminal would break it.
    pub(super) width: Option<usize>,
}

/// What is left out where a terminal is too narrow, in this order: first what the bar shows too.
const LEFT_OUT: [&str; 8] = [
    "QUORUM",
    "DONE",
    "RUNNING",
    "CREATED",
    "SCHEDULER",
    "GANG",
    "AGE",
    "PLACED",
];

/// What is said of one gang, or of a workload that has none now.
struct Line {
    namespace: String,
    workload: String,
    gang: Option<String>,
    scheduler: Option<String>,
    counts: Option<(Progress, u32)>,
    state: String,
    waits_for: Option<String>,
    age: Option<Duration>,
    cause: Option<String>,
    waited: Option<Duration>,
    message: Option<String>,
}

impl Columns {
    /// One line for each gang.
    pub(super) fn table(self, all: &[Inspected]) -> String {
        let lines: Vec<Line> = all.iter().flat_map(lines).collect();
        if lines.is_empty() {
            return "no gangs\n".to_owned();
        }
        let mut rows: Vec<Vec<String>> = std::iter::once(self.header())
            .chain(lines.into_iter().map(|line| self.row(line)))
            .map(|row| row.iter().map(|cell| printable(cell)).collect())
            .collect();
        let mut widths = vec![0; rows[0].len()];
        for row in &rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        if let (Some(width), Depth::Narrow) = (self.width, self.depth) {
            narrow(&mut rows, &mut widths, width);
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths);
            let cells: Vec<String> = cells
                .map(|(cell, &width)| format!("{cell:width$}"))
                .collect();
            let line = cells.join("  ");
            let line = line.trim_end();
            match (self.width, self.depth) {
                (Some(width), Depth::Narrow) => format!("{}\n", clip(line, width)),
                _ => format!("{line}\n"),
            }
        };
        rows.iter().map(line).collect()
    }

    fn header(self) -> Vec<String> {
        let mut header = vec!["WORKLOAD", "GANG", "SCHEDULER"];
        if self.reach == Reach::All {
            header.insert(0, "NAMESPACE");
        }
        if self.screen == Screen::Drawn {
            header.push("PROGRESS");
        }
        header.extend(["CREATED", "PLACED", "RUNNING", "DONE", "QUORUM"]);
        header.extend(["STATE", "WAITING FOR", "AGE", "CAUSE"]);
        if self.depth == Depth::Wide {
            header.extend(["WAITED", "MESSAGE"]);
        }
        header.into_iter().map(str::to_owned).collect()
    }

    fn row(self, line: Line) -> Vec<String> {
        let or_nothing = |text: Option<String>| text.unwrap_or_else(|| NOTHING.to_owned());
        let mut row = Vec::new();
        if self.reach == Reach::All {
            row.push(line.namespace);
        }
        row.extend([
            line.workload,
            or_nothing(line.gang),
            or_nothing(line.scheduler),
        ]);
        if self.screen == Screen::Drawn {
            let drawn = line.counts.map(|(progress, quorum)| bar(progress, quorum));
            row.push(or_nothing(drawn));
        }
        let counts = line.counts.map(|(progress, quorum)| {
            let Progress {
                created,
                placed,
                running,
                done,
            } = progress;
            [created, placed, running, done, quorum as usize].map(|count| count.to_string())
        });
        row.extend(counts.unwrap_or_else(|| [NOTHING; 5].map(str::to_owned)));
        row.extend([
            line.state,
            or_nothing(line.waits_for),
            or_nothing(line.age.map(ago)),
            or_nothing(line.cause),
        ]);
        if self.depth == Depth::Wide {
            row.push(or_nothing(line.waited.map(ago)));
            row.push(or_nothing(line.message));
        }
        row
    }
}

/// Leaves columns out until a line fits.
fn narrow(rows: &mut [Vec<String>], widths: &mut Vec<usize>, most: usize) {
    for column in LEFT_OUT {
        let line = widths.iter().sum::<usize>() + 2 * (widths.len() - 1);
        if line <= most {
            return;
        }
        if let Some(at) = rows[0].iter().position(|title| title == column) {
            widths.remove(at);
            rows.iter_mut().for_each(|row| {
                row.remove(at);
            });
        }
    }
}

fn lines(workload: &Inspected) -> Vec<Line> {
    if workload.gangs.is_empty() || workload.life != Life::Live {
        return vec![gangless(workload)];
    }
    let line = |(gang, progress): (&GangStatus, Progress)| {
        let cause = gang.causes.first();
        let waits = gang.state != State::Scheduled;
        let refusal = workload.refusal();
        let refused = refusal.as_ref().map(|_| "GangRefused".to_owned());
        let broken = workload.broken.as_ref().filter(|_| waits);
        let told = workload.told_of(gang);
        let reason = told.map(|(reason, _)| reason);
        let reason = reason.or(cause.map(crate::explain::Cause::reason));
        let message = told.map(|(_, message)| message.to_owned());
        let message = message.or(cause.map(ToString::to_string));
        // Of one that is placed: why it does not run.
        let barrier = workload.at_barrier().filter(|_| !waits);
        let reason = reason.or(barrier.map(|(reason, _)| reason));
        let message = message.or(barrier.map(|(_, message)| message.to_owned()));
        // A few words only of what is the cause.
        let few = cause.filter(|cause| reason == Some(cause.reason()));
        Line {
            gang: Some(gang.name.clone()),
            scheduler: Some(gang.scheduler.to_string()),
            counts: Some((progress, gang.quorum)).filter(|_| workload.sight != Sight::NoPods),
            state: stands(gang, progress, workload.sight).to_owned(),
            waits_for: few.map(crate::explain::Cause::waits_for),
            age: gang.age,
            cause: refused
                .or(broken.map(|_| "GangBroken".to_owned()))
                .or(reason.map(str::to_owned)),
            waited: gang.waited.filter(|_| gang.waits()),
            message: refusal.or(broken.cloned()).or(message),
            ..named(workload)
        }
    };
    workload.gangs().map(line).collect()
}

/// A workload that asks for gangs and has none now.
fn gangless(workload: &Inspected) -> Line {
    let told = workload.told.as_ref();
    let state = match workload.life {
        Life::Suspended => "Suspended",
        Life::Finished => "Ended",
        Life::Deleting => "Deleting",
        Life::LeftAlone => "LeftAlone",
        Life::Live if workload.refusal().is_some() => "Refused",
        Life::Live => match &workload.barrier {
            Some(_) if workload.at_barrier().is_some() => "Waiting",
            Some(_) => "Started",
            None => "Empty",
        },
    };
    let told = told.or(workload.barrier.as_ref());
    let kueue = workload.kueue.as_ref();
    let kueue = kueue.filter(|_| workload.life == Life::Suspended);
    let refused = workload.refusal().map(|_| "GangRefused".to_owned());
    Line {
        state: state.to_owned(),
        waits_for: kueue
            .map(|queued| format!("Kueue's queue {}", queued.queue))
            .or(workload.at_barrier().map(|_| "all members".to_owned())),
        cause: refused.or(told.map(|(reason, _)| reason.clone())),
        message: Some(match (workload.refusal(), told) {
            (None, Some((_, message))) if !message.is_empty() => message.clone(),
            _ => headline(workload),
        }),
        ..named(workload)
    }
}

/// As `muster explain` takes it.
fn named(workload: &Inspected) -> Line {
    let kind = workload.kind.to_lowercase();
    Line {
        namespace: workload.namespace.clone(),
        workload: format!("{kind}/{}", workload.name),
        gang: None,
        scheduler: None,
        counts: None,
        state: String::new(),
        waits_for: None,
        age: None,
        cause: None,
        waited: None,
        message: None,
    }
}

/// As kubectl prints ages.
fn ago(time: Duration) -> String {
    let seconds = time.as_secs();
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (seconds, seconds % 60, minutes % 60) {
        (0..120, ..) => format!("{seconds}s"),
        (120..600, rest @ 1.., _) => format!("{minutes}m{rest}s"),
        (120..10_800, ..) => format!("{minutes}m"),
        (10_800..28_800, _, rest @ 1..) => format!("{hours}h{rest}m"),
        (10_800..172_800, ..) => format!("{hours}h"),
        _ => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_as_kubectl_prints_them() {
        let ago = |seconds| ago(Duration::from_secs(seconds));
        assert_eq!(ago(0), "0s");
        assert_eq!(ago(119), "119s");
        assert_eq!(ago(120), "2m");
        assert_eq!(ago(310), "5m10s");
        assert_eq!(ago(3_700), "61m");
        assert_eq!(ago(11_000), "3h3m");
        assert_eq!(ago(90_000), "25h");
        assert_eq!(ago(864_000), "10d");
    }
}
