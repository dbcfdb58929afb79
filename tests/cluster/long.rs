//! Tests that have a long form: `MUSTER_E2E_LONG=1` makes them as long as their promise says, and
//! without it they are long enough to fail where something is broken.

use std::time::Duration;

/// How much of a test is to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Length {
    Short,
    Long,
}

impl Length {
    pub fn of_this_run() -> Length {
        match is_on("MUSTER_E2E_LONG") {
            true => Length::Long,
            false => Length::Short,
        }
    }

    pub fn pick<T>(self, short: T, long: T) -> T {
        match self {
            Length::Short => short,
            Length::Long => long,
        }
    }

    /// No test may hang the run. The longest short one is silent for a minute by intent.
    pub fn limit(self) -> Duration {
        self.pick(Duration::from_secs(300), Duration::from_secs(3600))
    }
}

/// Whether somebody has set that variable, and not to nothing or zero.
pub fn is_on(variable: &str) -> bool {
    let set = std::env::var_os(variable);
    set.is_some_and(|value| !value.is_empty() && value != "0")
}
