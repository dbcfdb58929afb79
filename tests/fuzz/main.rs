//! Fuzzing: whatever is sent, there is no panic, the bounds hold, and what Muster promises of its
//! answers is true. One target is one test, and each prints its executions.
//!
//! ```text
//! cargo test --test fuzz                          # the corpus, and some seconds of new cases
//! MUSTER_FUZZ_SECONDS=60 cargo test --test fuzz   # longer; MUSTER_FUZZ_SEED=1 tries other cases
//! cargo +nightly bolero test review               # led by coverage, until it is stopped
//! ```
//!
//! `corpus/<target>` holds the cases that are run always. A case that fails is written to a file
//! that the message names: it belongs there, under a name that says what it found.

mod backends;
mod body;
mod bounds;
mod choices;
mod duration;
mod edit;
mod engine;
mod patch;
mod quantity;
mod render;
mod review;
mod script;
mod seeds;
mod stamp;
mod text;
mod words;
mod yaml;

use std::process::ExitCode;

use libtest_mimic::Arguments;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads = Some(1);
    let trials = vec![
        engine::trial(body::Body::new),
        engine::trial(|| review::Review),
        engine::trial(stamp::Stamps::new),
        engine::trial(|| patch::Patches),
        engine::trial(|| render::Render),
        engine::trial(quantity::Quantities::new),
        engine::trial(duration::Durations::new),
        engine::trial(yaml::Yaml::new),
    ];
    let conclusion = libtest_mimic::run(&arguments, trials);
    engine::print_results();
    conclusion.exit_code()
}
