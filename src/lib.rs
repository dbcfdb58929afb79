//! Muster: gang scheduling for any Kubernetes workload on any scheduler.
//!
//! ```text
//!    user's object              the model               a scheduler's words
//!    Job · JobSet       ──►  Plan { parts }  ──►  native · Volcano · coscheduling
//!   LeaderWorkerSet               (gang/)         Koordinator · YuniKorn · KAI
//!     (workload/)                                        (scheduler/)
//! ```
//!
//! A workload adapter reads an object and returns a plan or field errors; it knows no scheduler. A
//! scheduler backend takes a plan and says what a pod must carry and which objects must exist; it
//! knows no workload. Both are pure, and the rest calls them.
//!
//! # The map
//!
//! - [`gang`]: the model. Plan, part, gang, quorum, names, resources, field errors, and the
//!   `muster.dev/` keys.
//! - [`scheduler`]: a plan to marks and objects, and what a scheduler cannot do. Its `mod.rs` says
//!   how a scheduler is added.
//! - [`workload`]: an object to a plan. Its `mod.rs` says how a kind of workload is added. Of
//!   [`scheduler`] it uses the table's data only: names, and the keys that link pods.
//! - [`judge`]: a plan held against the scheduler that it goes to.
//! - [`barrier`]: the start barrier: what is injected, how pods wait, who tells them to go on.
//! - [`admission`]: an AdmissionReview to a decision and a JSON patch. Start at
//!   [`admission::decide`].
//! - [`controller`]: the reconciler: makes a plan's objects, follows them, reports on them.
//! - [`leader`]: the Lease, by which one replica reconciles.
//! - [`seals`]: the keys by which Muster knows its own stamps, and [`secret`], which keeps them.
//! - [`server`], [`certs`]: the HTTPS server around admission, its certificate and its CA. They know
//!   nothing of gangs.
//! - [`cli`], [`args`], [`called`]: `serve`, `check`, `render`, `schedulers`, `explain`, `status`,
//!   `verify`, `crd`, `certs`, `wait`.
//!
//! Dependencies point from the bottom of this list to its top, and never back.
//!
//! # The words
//!
//! | word | meaning |
//! |---|---|
//! | gang | pods that are bound together or not at all |
//! | plan | what one workload object asks for, made from its spec alone |
//! | part | a group of pods of a plan before it has an identity; a part with an identity is a gang |
//! | role | the pods of a part that come from one template |
//! | quorum | how many members must fit before any is bound; all by default |
//! | attempt | counts the restarts of a workload: a new attempt is a new gang, with a new name |
//! | round | counts suspend-and-resume within one attempt, and the lives of a gang that its pods declare: each is a new gang |
//! | bundle | several gangs that are bound together or not at all, each with its own quorum |
//! | circle | the workloads that start together because each of them names all others |
//! | ally | a gang of another workload of the circle that starts together with this one |
//! | stamp | what Muster writes on templates when the workload is created, so that the admission of a child needs nothing but the child |
//! | seal | a keyed hash on a stamp, by which Muster knows that it wrote it, and for whom |
//! | site | a place in a workload where a stamp stands |
//! | link | what ties a pod to its gang: a field, a label or an annotation, per scheduler |
//! | life | whether a workload's gangs are to live: left alone, deleting, finished, suspended, live |
//! | start | the gangs of one beginning of a workload, or of one replica that begins by itself |
//! | barrier | main containers wait until every member has started |

#![forbid(unsafe_code)]
// Here and not in Cargo.toml, since tests may unwrap.
#![warn(clippy::unwrap_used, clippy::expect_used)]
// `pub` is what `main.rs`, the tests and the benches use. The rest is `pub(crate)` or private, so that
// the compiler finds what nothing uses.
#![warn(unreachable_pub)]
#![deny(missing_docs)]
// The documentation is for people who work on Muster: it names private modules too.
#![allow(rustdoc::private_intra_doc_links)]

pub mod admission;
pub mod args;
pub mod barrier;
pub mod called;
pub mod certs;
pub mod cli;
pub mod controller;
pub mod explain;
pub mod gang;
mod judge;
pub mod leader;
pub mod scheduler;
pub mod seals;
pub mod secret;
pub mod server;
pub mod workload;
