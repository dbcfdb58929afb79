//! Where log lines go, and how they look.

use std::any::Any;
use std::io::IsTerminal as _;
use std::panic;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

/// The shape of a log line.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For a person at a terminal.
    #[default]
    Text,
    /// One JSON object per line, for a collector.
    Json,
}

/// Sends log lines to standard error; `RUST_LOG` filters them, from `info` up by default.
/// A second call changes nothing.
pub fn init(format: LogFormat) {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(std::io::stderr().is_terminal())
        .with_writer(std::io::stderr);
    let installed = match format {
        LogFormat::Text => builder.try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    };
    if installed.is_ok() {
        // A panic is one structured line like any other trouble.
        panic::set_hook(Box::new(|panic| {
            let reason = text_of(panic.payload());
            let place = panic.location().map(ToString::to_string);
            tracing::error!(reason, place, "panic");
        }));
    }
}

/// What was given to `panic!`: a literal or a formatted text.
fn text_of(payload: &dyn Any) -> &str {
    let literal = payload.downcast_ref::<&str>().copied();
    let formatted = payload.downcast_ref::<String>().map(String::as_str);
    literal.or(formatted).unwrap_or("no message")
}
