//! Entry point: parse the command line, run one command, exit with its status.

#![warn(clippy::unwrap_used, clippy::expect_used)]

use std::io::{ErrorKind, Write};
use std::process::ExitCode;

use muster::args::{Certs, Command, Crd};
use muster::called;
use muster::cli::check::{Gangless, Verdict};
use muster::cli::crd::{InUse, Mode, Wish};
use muster::cli::terminal::printable;
use muster::cli::{check, crd, explain, render, schedulers, serve, status, verify, wait};
use muster::{certs, server};

fn main() -> ExitCode {
    let command = called::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    match run(command.command) {
        Ok(code) => code,
        // `muster explain x | head` closes the pipe early, which is not an error.
        Err(error) if is_broken_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {}", printable(&error.to_string()));
            ExitCode::from(2)
        }
    }
}

/// Whether the output was closed. Only what wraps an error of writing is transparent: a connection to
/// the apiserver that breaks is told.
fn is_broken_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    let written = error.downcast_ref::<std::io::Error>();
    let explained = || match error.downcast_ref()? {
        explain::Error::Write(error) => Some(error),
        _ => None,
    };
    let changed = || match error.downcast_ref()? {
        crd::Error::Io(error) => Some(error),
        _ => None,
    };
    let verified = || match error.downcast_ref()? {
        verify::Error::Io(error) => Some(error),
        _ => None,
    };
    let written = written
        .or_else(explained)
        .or_else(changed)
        .or_else(verified);
    written.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

fn run(command: Command) -> Result<ExitCode, Box<dyn std::error::Error>> {
    match command {
        Command::Check(args) => with_output(|out, err| {
            let cluster = &args.cluster.snapshot();
            let gangless = match args.require_gang {
                true => Gangless::Refused,
                false => Gangless::Admitted,
            };
            check::run(&args.files, args.output, gangless, cluster, out, err)
        }),
        Command::Render(args) => with_output(|out, err| {
            let cluster = &args.cluster.snapshot();
            render::run(&args.files, args.output, cluster, out, err)
        }),
        Command::Schedulers => {
            write!(std::io::stdout(), "{}", schedulers::table())?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Certs(args) => write_certs(&args),
        Command::Crd(args) => change_crd(args),
        Command::Explain(args) => {
            Ok(one_thread()?.block_on(explain::run(&args, &mut std::io::stdout()))?)
        }
        Command::Status(args) => {
            Ok(one_thread()?.block_on(status::run(&args, &mut std::io::stdout()))?)
        }
        Command::Verify(args) => {
            let verdict = one_thread()?.block_on(verify::run(&args, &mut std::io::stdout()))?;
            Ok(ExitCode::from(verdict as u8))
        }
        Command::Wait(args) => {
            let runtime = one_thread()?;
            let ended = runtime.block_on(wait::run(&args));
            // A name that nobody answers for must not hold up a pod whose barrier is open: a lookup cannot
            // be cancelled, and dropping the runtime would wait for it.
            runtime.shutdown_background();
            Ok(ended?)
        }
        Command::Serve(args) => {
            server::log::init(args.log_format);
            let runtime = runtime()?;
            let ended = runtime.block_on(serve::run(*args));
            // A review that nobody waits for any more must not hold up the end.
            runtime.shutdown_background();
            ended?;
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// Runs a command that reads files, with buffered output.
fn with_output(
    command: impl FnOnce(&mut dyn Write, &mut dyn Write) -> std::io::Result<Verdict>,
) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let mut out = std::io::BufWriter::new(Closable(std::io::stdout().lock()));
    let verdict = command(&mut out, &mut Closable(std::io::stderr().lock()))?;
    out.flush()?;
    Ok(ExitCode::from(verdict as u8))
}

/// An output that somebody may close early: the rest of the text is lost then, and the verdict is not.
/// `muster check . | head` must not pass what is refused further down.
struct Closable<W>(W);

impl<W: Write> Write for Closable<W> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self.0.write(bytes) {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(bytes.len()),
            written => written,
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        match self.0.flush() {
            Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
            flushed => flushed,
        }
    }
}

/// More threads would only cost memory on a large node: a decision takes microseconds, and each
/// thread gets a heap of its own from the C library.
const MAX_THREADS: usize = 4;

/// For what asks one thing after another.
fn one_thread() -> std::io::Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build()
}

fn runtime() -> std::io::Result<tokio::runtime::Runtime> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(threads.min(MAX_THREADS));
    builder.enable_all().build()
}

fn change_crd(args: Crd) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let (wish, dry_run, watch, target) = match args {
        Crd::Extend {
            dry_run,
            watch,
            target,
        } => (Wish::Extend, dry_run, watch, target),
        Crd::Revert {
            dry_run,
            force,
            target,
        } => {
            let in_use = if force { InUse::Lose } else { InUse::Refuse };
            (Wish::Revert(in_use), dry_run, false, target)
        }
    };
    let mode = match (dry_run, watch) {
        (true, _) => Mode::DryRun,
        (_, true) => Mode::Watch,
        _ => Mode::Once,
    };
    runtime()?.block_on(crd::run(wish, mode, &target, &mut std::io::stdout()))?;
    Ok(ExitCode::SUCCESS)
}

fn write_certs(args: &Certs) -> Result<ExitCode, Box<dyn std::error::Error>> {
    let written = certs::files::write_development(&args.dir, &args.names)?;
    println!("{written}");
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_output_is_no_error_whichever_command_writes() {
        let broken = || std::io::Error::from(std::io::ErrorKind::BrokenPipe);
        assert!(is_broken_pipe(&broken()));
        assert!(is_broken_pipe(&explain::Error::Write(broken())));
        assert!(is_broken_pipe(&verify::Error::Io(broken())));
        assert!(is_broken_pipe(&crd::Error::Io(broken())));
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert!(!is_broken_pipe(&explain::Error::Write(full)));
    }
}
