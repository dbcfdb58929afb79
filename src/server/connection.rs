//! One HTTP connection, from its first byte to its end.
//!
//! It decides how long a connection lives; it knows nothing of what is asked over it.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::header::CONNECTION;
use axum::http::{HeaderValue, Version};
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, sleep_until};

use super::config::Config;
use super::lifecycle::Lifecycle;

/// An HTTP/2 client that is gone without closing is noticed because it does not answer a ping.
const PING_EVERY: Duration = Duration::from_secs(30);

/// The other end of the connection that a request came by: an extension of each request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Peer(pub IpAddr);

/// Serves connections of one listener.
#[derive(Clone)]
pub(super) struct Connections {
    builder: auto::Builder<TokioExecutor>,
    routes: TowerToHyperService<Router>,
    lifecycle: Lifecycle,
    first_request: Duration,
    idle: Duration,
    max_age: Duration,
}

/// What a connection's requests tell its keeper.
#[derive(Default)]
struct Seen {
    request: AtomicBool,
    http2: AtomicBool,
}

impl Connections {
    pub(crate) fn new(config: &Config, routes: Router, lifecycle: Lifecycle) -> Self {
        let mut builder = auto::Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            // hyper starts this clock when the connection falls idle, not at the first byte of
            // the next request, so that it must be as long as the idle time. The first request
            // has its own deadline below.
            .header_read_timeout(config.idle_deadline);
        builder
            .http2()
            .timer(TokioTimer::new())
            .keep_alive_interval(PING_EVERY)
            .keep_alive_timeout(PING_EVERY);
        Self {
            builder,
            routes: TowerToHyperService::new(routes),
            lifecycle,
            first_request: config.first_request_deadline,
            idle: config.idle_deadline,
            max_age: config.max_connection_age,
        }
    }

    pub(crate) async fn serve<I>(self, io: I, peer: IpAddr)
    where
        I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Self {
            builder,
            routes,
            mut lifecycle,
            first_request,
            idle,
            max_age,
        } = self;
        let seen = Arc::new(Seen::default());
        let old_at = Instant::now() + spread(max_age);

        let service = {
            let seen = Arc::clone(&seen);
            let lifecycle = lifecycle.clone();
            service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
                request.extensions_mut().insert(Peer(peer));
                let http2 = request.version() == Version::HTTP_2;
                seen.request.store(true, Ordering::Relaxed);
                seen.http2.store(http2, Ordering::Relaxed);
                let lifecycle = lifecycle.clone();
                let answer = routes.call(request);
                async move {
                    let mut response = answer.await?;
                    let last = lifecycle.is_draining() || Instant::now() >= old_at;
                    // HTTP/2 knows no such header; its connections end by GOAWAY.
                    if last && !http2 {
                        let close = HeaderValue::from_static("close");
                        response.headers_mut().insert(CONNECTION, close);
                    }
                    Ok::<_, std::convert::Infallible>(response)
                }
            })
        };

        let mut connection = pin!(builder.serve_connection(TokioIo::new(io), service));
        let mut first_due = pin!(sleep(first_request));
        let mut old_due = pin!(sleep_until(old_at));
        // By then an old connection has had its last answer or fallen idle; what is left is a
        // client that does not read.
        let mut hopeless_due = pin!(sleep_until(old_at + idle * 2));
        let (mut first_pending, mut old_pending, mut closing_pending) = (true, true, true);
        loop {
            tokio::select! {
                result = connection.as_mut() => {
                    if let Err(error) = result {
                        tracing::debug!(error, "connection ended");
                    }
                    return;
                }
                () = first_due.as_mut(), if first_pending => {
                    first_pending = false;
                    if !seen.request.load(Ordering::Relaxed) {
                        tracing::debug!("connection cut: no request came in time");
                        return;
                    }
                }
                () = old_due.as_mut(), if old_pending => {
                    old_pending = false;
                    // Not for HTTP/1: it would close an idle connection under a client that may
                    // be writing its next request. The `Connection: close` above is the safe way.
                    if seen.http2.load(Ordering::Relaxed) {
                        connection.as_mut().graceful_shutdown();
                    }
                }
                () = hopeless_due.as_mut() => {
                    tracing::debug!("connection cut: it outlived its age");
                    return;
                }
                () = lifecycle.closing(), if closing_pending => {
                    closing_pending = false;
                    connection.as_mut().graceful_shutdown();
                }
            }
        }
    }
}

/// An age between 90% and 100%, so that connections opened together do not end together.
fn spread(age: Duration) -> Duration {
    let tenth = age / 10;
    let random = RandomState::new().hash_one(()) % 1000;
    let less = tenth.mul_f64(random as f64 / 1000.0);
    age - less
}
