//! The tests on a real node, since only a kubelet runs containers: kubelet, containerd, CNI,
//! kube-proxy and DNS beside the control plane, Muster from its own image and manifests.
//!
//! ```sh
//! cargo test --test e2e -- node            # or node FILTER
//! ```
//!
//! All of it, the tests included, runs in private namespaces (mount, net, pid, uts, ipc), so that
//! no address, mount or firewall rule can touch the machine, and so that it ends when the first
//! process in them ends. Four processes, all of them this program:
//!
//! 1. what the user starts ([`outside`]) builds, waits, and looks whether anything is left;
//! 2. the [`guard`] starts the namespaces and cleans up after them, however the first one ends;
//! 3. the first process inside ([`init`]) prepares them and reaps orphans;
//! 4. the tests, like any others, in a cluster whose [`machine`] is real.
//!
//! There is no way out to the network inside: everything is built before.

pub mod archive;
pub mod endings;
pub mod guard;
pub mod images;
pub mod init;
pub mod leftovers;
pub mod machine;
pub mod needs;
pub mod outside;
pub mod settings;
pub mod start;

/// The only node.
pub const NODE: &str = "node1";
