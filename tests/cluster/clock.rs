//! Processes whose clock is off, by libfaketime: their wall clock is moved, their timers are not.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, bail};

/// The one for programs with threads, in a directory named after the machine.
const LIBRARY: &str = "faketime/libfaketimeMT.so.1";

const MISSING: &str = "\
libfaketime was not found, by which these tests move a process's clock. Install it (on Debian
`apt-get update && apt-get install -y --no-install-recommends libfaketime`), and run the same
command again.";

/// What a clock shows beside the right time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    Right,
    HourAhead,
    HourBehind,
}

impl Clock {
    /// In seconds.
    pub fn offset(self) -> i64 {
        match self {
            Self::Right => 0,
            Self::HourAhead => 3600,
            Self::HourBehind => -3600,
        }
    }

    /// Gives a program this clock. It must not be a static one.
    pub fn set(self, command: &mut Command) -> Result<()> {
        if self == Self::Right {
            return Ok(());
        }
        command
            .env("LD_PRELOAD", library()?)
            .env("FAKETIME", format!("{:+}s", self.offset()))
            .env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        Ok(())
    }
}

fn library() -> Result<PathBuf> {
    for entry in fs::read_dir("/usr/lib").into_iter().flatten().flatten() {
        let path = entry.path().join(LIBRARY);
        if path.is_file() {
            return Ok(path);
        }
    }
    bail!(MISSING)
}
