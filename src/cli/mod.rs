//! The command line: what reads files and prints for people.
//!
//! Must not know the rules of a gang; it hands objects over and prints what comes back.

pub mod admit;
pub mod background;
pub mod check;
pub(crate) mod clients;
mod connect;
pub mod crd;
pub mod explain;
pub mod files;
mod gangs;
mod kinds;
mod kubeconfig;
mod machine;
mod patches;
mod proxy;
pub mod render;
mod report;
pub mod schedulers;
mod schema;
pub mod serve;
mod standing;
pub mod status;
mod strict;
pub(crate) mod target;
pub mod terminal;
pub mod verify;
pub mod wait;
pub mod yaml;

/// A list for a sentence: `a, b or c`.
fn one_of(words: &[&str]) -> String {
    match words {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [others @ .., last] => format!("{} or {last}", others.join(", ")),
    }
}
