//! `muster wait`: what the injected container runs. Says why it failed where kubelet looks for it.

use std::process::ExitCode;

use crate::args::Wait;
use crate::barrier::wait::{self, Error, Told};
use crate::server::Signals;

/// Waits; the exit status says how it ended.
pub async fn run(args: &Wait) -> std::io::Result<ExitCode> {
    // As the first process of a container it would not be ended by a signal that it does not catch.
    let mut signals = Signals::install()?;
    let waited = async {
        let variable = |name: &str| std::env::var(name).ok();
        let (mount, clock) = (args.mount.clone(), args.clock.clone());
        wait::wait(&Told::read(args.timeout, mount, clock, variable)?).await
    };
    let ended = tokio::select! {
        ended = waited => ended,
        signal = signals.next() => {
            eprintln!("ended by {signal}");
            return Ok(ExitCode::from(1));
        }
    };
    let Err(error) = ended else {
        return Ok(ExitCode::SUCCESS);
    };
    eprintln!("{error}");
    if let Err(failed) = std::fs::write(&args.termination_log, error.to_string()) {
        eprintln!("cannot write {}: {failed}", args.termination_log.display());
    }
    Ok(match error {
        Error::TimedOut(_) => ExitCode::from(1),
        _ => ExitCode::from(2),
    })
}
