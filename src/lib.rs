//! Muster: gang scheduling for any Kubernetes workload on any scheduler.
//!
//! ```text
//!    user's object              the model               a scheduler's words
//!       JobSet          ──►  Plan { parts }  ──►  native · Volcano · coscheduling
//!   LeaderWorkerSet               (gang/)         Koordinator · YuniKorn · KAI
//!     (workload/)                                        (scheduler/)
//! ```
//!
//! A workload adapter reads an object and returns a plan or field errors; it knows no scheduler. A
//! scheduler backend takes a plan and says what a pod must carry and which objects must exist; it
//! knows no workload. Both are pure, and the rest calls them:
//!
//! - [`gang`]: the model. Plan, part, gang, quorum, names, resources, field errors.
//! - [`workload`]: an object to a plan.
//! - [`scheduler`]: a plan to marks and objects, and what a scheduler cannot do.
//! - [`admission`]: an AdmissionReview to a decision and a JSON patch. Start at
//!   [`admission::decide`].
//! - [`server`], [`certs`]: the HTTPS server around admission, and its CA. Know nothing of gangs.
//! - [`leader`]: which replica of Muster writes. Knows nothing of gangs.
//! - [`controller`]: what runs beside admission in a cluster: makes a plan's objects and follows
//!   them.
//! - [`cli`], [`args`]: `check`, `render`, `serve`, `certs`.
//!
//! Dependencies point from the bottom of this list to its top, and never back.

#![forbid(unsafe_code)]
// Here and not in Cargo.toml, since tests may unwrap.
#![warn(clippy::unwrap_used, clippy::expect_used)]

pub mod admission;
pub mod args;
pub mod certs;
pub mod cli;
pub mod controller;
pub mod gang;
pub mod leader;
pub mod scheduler;
pub mod server;
pub mod workload;
