//! The command line: what reads files and prints for people.
//!
//! Must not know the rules of a gang; it hands objects over and prints what comes back.

pub mod admit;
pub mod check;
mod connect;
pub mod crd;
pub mod files;
mod gangs;
pub mod render;
mod report;
pub mod schedulers;
pub mod serve;
pub mod yaml;
