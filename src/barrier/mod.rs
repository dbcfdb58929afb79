//! The start barrier: main containers wait for each other, and start within a second (KEP-498).
//!
//! ```text
//!   JobSet or Job ──(CREATE)──► its templates get an init container that runs `muster wait`
//!   pod ───────────(CREATE)──► the container is told which barrier, and gets a token for it
//!   leader: all members of this start wait? ──► one ConfigMap, "open"
//!   replicas watch it ──► `muster wait` asks one of them, and ends
//!                    └──► kubelet mounts it too: slower, and needs no replica
//! ```
//!
//! - [`container`]: what is injected, and what a pod is told. Pure.
//! - [`line`]: what is spoken between `muster wait` and the replicas.
//! - [`release`]: which barriers are open, as a replica knows it.
//! - [`port`]: where the replicas are asked, and [`tls`]: a connection there.
//! - [`tickets`]: by which a pod that comes from another replica is known.
//! - [`wait`]: `muster wait`, and [`replicas`]: how it asks.
//!
//! Who has come and when a barrier opens the reconciler decides (`controller::barriers`).

pub(crate) mod container;
pub(crate) mod line;
pub mod port;
pub mod release;
mod replicas;
#[cfg(test)]
mod tests;
mod tickets;
mod tls;
pub mod wait;
