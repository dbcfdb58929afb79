//! `muster status`: the gangs of a namespace or of the cluster, a line each.

mod table;
#[cfg(test)]
mod tests;

use std::io::{IsTerminal as _, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};

use self::table::{Columns, Depth, Reach};
use super::explain::{Error, namespace};
use super::terminal::{Screen, Sink, Size, paint, printable};
use super::{connect, machine};
use crate::args::{Status, StatusOutput};
use crate::controller::inspect::{Inspected, Inspector};

/// Between two looks of `--watch`.
const AGAIN: Duration = Duration::from_secs(5);

/// Prints how gangs stand, once or again and again. What is kept from look to look does not grow.
///
/// Where nothing was found because nobody let it look, this is no answer: the exit status says so.
pub async fn run(args: &Status, out: &mut dyn Write) -> Result<ExitCode, Error> {
    let cluster = connect::user(&args.target).await?;
    let client = cluster.client.clone();
    let namespace = match args.all_namespaces {
        true => None,
        false => Some(namespace(args.namespace.as_deref(), &client)),
    };
    let sink = match std::io::stdout().is_terminal() {
        true => Sink::Terminal,
        false => Sink::Elsewhere,
    };
    let screen = Screen::of(sink, |name| std::env::var(name).ok());
    let inspector = Inspector::new(client, namespace.as_deref()).await;
    let mut inspector = inspector.map_err(|error| cluster.failed(&error))?;
    let text = matches!(args.output, StatusOutput::Text | StatusOutput::Wide);
    let painted = args.watch && text && screen == Screen::Drawn;
    loop {
        let all = inspector.all(namespace.as_deref()).await;
        let answer = Answer::of(&all, inspector.unlisted_kinds());
        let mut unseen = Vec::new();
        if answer == Answer::None {
            unseen.push("there may be gangs that could not be looked at".to_owned());
        }
        let what = inspector.unseen().iter();
        unseen.extend(what.map(|what| format!("could not look at {}", printable(what))));
        if painted {
            paint_until(AGAIN, || written(&all, answer, args, screen, &unseen), out).await?;
        } else {
            print(&all, answer, args, screen, out)?;
            unseen.iter().for_each(|what| eprintln!("{what}"));
            out.flush()?;
        }
        if !args.watch {
            return Ok(match answer {
                Answer::Listed => ExitCode::SUCCESS,
                Answer::None => ExitCode::from(2),
            });
        }
        if !painted {
            tokio::time::sleep(AGAIN).await;
        }
        inspector.look_again(namespace.as_deref()).await;
        if let (Screen::Plain, true) = (screen, text) {
            writeln!(out)?;
        }
    }
}

/// All that is to be on the screen.
fn written(
    all: &[Inspected],
    answer: Answer,
    args: &Status,
    screen: Screen,
    unseen: &[String],
) -> std::io::Result<String> {
    let mut text = Vec::new();
    print(all, answer, args, screen, &mut text)?;
    for what in unseen {
        writeln!(text, "{what}")?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// Paints a screen, and again when its size changes, for so long.
async fn paint_until(
    after: Duration,
    written: impl Fn() -> std::io::Result<String>,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let mut resized = signal(SignalKind::window_change())?;
    let mut due = std::pin::pin!(tokio::time::sleep(after));
    loop {
        write!(out, "{}", paint(&written()?, Size::of_output()))?;
        out.flush()?;
        tokio::select! {
            () = &mut due => return Ok(()),
            _ = resized.recv() => {}
        }
    }
}

/// Whether what was found answers the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    /// Gangs, or that there are none.
    Listed,
    /// No gangs, but there may be some that could not be listed.
    None,
}

impl Answer {
    fn of(all: &[Inspected], unlisted_kinds: usize) -> Self {
        match all.is_empty() && unlisted_kinds > 0 {
            true => Self::None,
            false => Self::Listed,
        }
    }
}

fn print(
    all: &[Inspected],
    answer: Answer,
    args: &Status,
    screen: Screen,
    out: &mut dyn Write,
) -> std::io::Result<()> {
    let reach = match args.all_namespaces {
        true => Reach::All,
        false => Reach::One,
    };
    let table = |depth| {
        let size = Size::of_output().filter(|_| screen == Screen::Drawn);
        let columns = Columns {
            reach,
            screen,
            depth,
            width: size.map(|size| size.columns),
        };
        columns.table(all)
    };
    match args.output {
        StatusOutput::Text | StatusOutput::Wide if answer == Answer::None => Ok(()),
        StatusOutput::Text => write!(out, "{}", table(Depth::Narrow)),
        StatusOutput::Wide => write!(out, "{}", table(Depth::Wide)),
        StatusOutput::Json => machine::write_json(&value(all), out),
        StatusOutput::Yaml => {
            if args.watch {
                writeln!(out, "---")?;
            }
            machine::write_yaml(&value(all), out)
        }
    }
}

/// For scripts.
fn value(all: &[Inspected]) -> Value {
    all.iter().map(machine::workload).collect()
}
