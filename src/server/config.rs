//! The server's limits and deadlines, with the reason for each default.

use std::net::{Ipv6Addr, SocketAddr};
use std::time::Duration;

/// Reviews in work at once, unless it is configured otherwise. Their memory is bounded by
/// `body_budget` and by how many large ones are decided at a time, not by this.
pub(crate) const MAX_IN_FLIGHT: usize = 64;

/// How the server listens and what it tolerates.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where the apiserver calls, over TLS.
    pub listen: SocketAddr,
    /// Where kubelet and Prometheus call, over plain HTTP.
    pub admin: SocketAddr,
    /// Reviews in work at once, counted from when their body is there; above it, 429.
    pub max_in_flight: usize,
    /// The largest review. An UPDATE carries two objects of up to 3 MiB each and an envelope;
    /// 7 MiB is controller-runtime's figure too.
    pub max_body: usize,
    /// Bytes of bodies in memory at once, over all connections, half-sent ones too. A peer may
    /// hold as many as are still free; above it, 429. 64 MiB are nine of the largest reviews, or
    /// four thousand ordinary ones of 16 KiB, and leave most of the 720 MiB in the manifests to
    /// the work on them.
    pub body_budget: usize,
    /// Open connections of each port. A peer may hold as many as are still free, so that one alone
    /// may have 512; further ones are closed at once. An apiserver speaks HTTP/1.1 to a Service,
    /// so that each call needs a connection: it has 200 mutating requests in flight at most
    /// (`--max-mutating-requests-inflight`) and keeps 25 connections when idle. Two busy
    /// apiservers fit behind one address, and 1024 idle connections fit in memory.
    pub max_connections: usize,
    /// For the TLS handshake. Go's client gives up after the same ten seconds.
    pub handshake_deadline: Duration,
    /// From the end of the handshake to the end of the first request's headers. Above 90 s too:
    /// Go keeps a connection that it dialled but did not need in its idle pool.
    pub first_request_deadline: Duration,
    /// How long a connection may wait for its next request. It must exceed the 90 s after which
    /// the apiserver drops an idle connection: a POST that meets our close is not retried.
    pub idle_deadline: Duration,
    /// For a request's body, once its headers are read.
    pub body_deadline: Duration,
    /// For a review, from when its body is there to its answer. Below the `timeoutSeconds` of 5 in
    /// the manifests: after that the apiserver has given up, and would not hear why.
    pub review_deadline: Duration,
    /// A connection older than this is ended after its next answer, so that the apiserver's few
    /// long-lived connections spread over the replicas again (kubernetes/kubernetes#75791).
    pub max_connection_age: Duration,
    /// After SIGTERM: how long to serve on, until every proxy has taken this replica out.
    pub lame_duck: Duration,
    /// After the lame duck: how long requests in flight may take.
    pub grace: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8443)),
            admin: SocketAddr::from((Ipv6Addr::UNSPECIFIED, 8080)),
            max_in_flight: MAX_IN_FLIGHT,
            max_body: 7 * 1024 * 1024,
            body_budget: 64 * 1024 * 1024,
            max_connections: 1024,
            handshake_deadline: Duration::from_secs(10),
            first_request_deadline: Duration::from_secs(100),
            idle_deadline: Duration::from_secs(120),
            body_deadline: Duration::from_secs(10),
            review_deadline: Duration::from_secs(4),
            max_connection_age: Duration::from_secs(10 * 60),
            lame_duck: Duration::from_secs(10),
            grace: Duration::from_secs(20),
        }
    }
}
