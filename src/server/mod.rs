//! The HTTPS server around an admission handler: sockets, TLS, limits, drain, health, metrics.
//!
//! Pure plumbing. It hands bytes to a [`Handler`] and sends back what it says; it knows nothing of
//! gangs, workloads or schedulers, and the handler knows nothing of HTTP.

mod accept;
pub(crate) mod admin;
mod body;
mod config;
mod connection;
mod lifecycle;
mod listen;
pub mod log;
mod metrics;
mod refusal;
mod review;
mod share;
mod signals;
mod sparing;
mod tls;
mod work;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::net::TcpListener;
use tokio::task::JoinSet;

pub use config::Config;
pub(crate) use config::MAX_IN_FLIGHT;
pub(crate) use log::LogFormat;
pub use signals::Signals;
pub use work::LARGE_AT_ONCE;

use crate::admission::{Answer, Phase, Unanswerable};
use crate::certs::{Certificates, Clients};
use accept::Door;
use admin::{Check, Readiness};
use connection::Connections;
use lifecycle::{Lifecycle, Stage};
use listen::BACKLOG;
pub(crate) use listen::listen;
use metrics::{Metrics, Port};
use review::Reviews;
pub(crate) use share::{Part, Share};
use tls::Tls;

/// A review's bytes in, its answer out. For a small body it runs on the thread that serves the
/// connection, so its time must be bounded by the body's size.
pub type Handler = Arc<dyn Fn(Phase, &[u8]) -> Result<Answer, Unanswerable> + Send + Sync>;

/// Why the server could not start, or ended otherwise than in order.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port cannot be taken.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// The port.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The TLS library refuses the settings.
    #[error("cannot set up TLS: {0}")]
    Tls(#[from] rustls::Error),
    /// This signal arrived a second time, and open requests were dropped.
    #[error("ended at once by a second {0}")]
    Aborted(&'static str),
    /// A task of the server ended, which none should before a signal.
    #[error("a part of the server stopped by itself")]
    Stopped,
}

/// A server that has its ports and does not serve yet.
pub struct Server {
    config: Config,
    listener: TcpListener,
    admin: TcpListener,
    addresses: (SocketAddr, SocketAddr),
    tls: Tls,
    certificates: Arc<Certificates>,
    clients: Option<Arc<Clients>>,
    handler: Handler,
    registry: Registry,
    metrics: Metrics,
    checks: Vec<(&'static str, Check)>,
}

impl Server {
    /// Takes both ports. Clients that connect now wait until it runs.
    pub async fn bind(
        config: Config,
        certificates: Arc<Certificates>,
        handler: Handler,
    ) -> Result<Self, Error> {
        let (listener, local) = take(config.listen)?;
        let (admin, admin_local) = take(config.admin)?;
        let mut registry = Registry::default();
        let metrics = Metrics::register(&mut registry, Arc::clone(&certificates));
        Ok(Self {
            tls: Tls::open(Arc::clone(&certificates))?,
            clients: None,
            addresses: (local, admin_local),
            config,
            listener,
            admin,
            certificates,
            handler,
            registry,
            metrics,
            checks: Vec::new(),
        })
    }

    /// The webhook's address, with the port that a configured 0 became.
    pub fn local_addr(&self) -> SocketAddr {
        self.addresses.0
    }

    /// The address of health and metrics, in the same way.
    pub fn admin_addr(&self) -> SocketAddr {
        self.addresses.1
    }

    /// The certificate that is served, for clients that must trust its CA.
    pub fn certificates(&self) -> &Arc<Certificates> {
        &self.certificates
    }

    /// Lets only these clients call the webhook. Health and metrics stay open: kubelet has no such
    /// certificate.
    pub fn demand_certificates(&mut self, clients: Clients) -> Result<(), Error> {
        let clients = Arc::new(clients);
        self.tls = Tls::only_for(Arc::clone(&clients), Arc::clone(&self.certificates))?;
        metrics::register_clients(&mut self.registry, Arc::clone(&clients));
        self.clients = Some(clients);
        Ok(())
    }

    /// Where others show what they count, beside what the server counts itself.
    pub fn registry(&mut self) -> &mut Registry {
        &mut self.registry
    }

    /// Adds a condition to `/readyz`, for what else must be up before calls should come.
    pub fn ready_when(&mut self, name: &'static str, check: Check) {
        self.checks.push((name, check));
    }

    /// Serves until `shutdown`, then drains. Dropping the future ends everything at once.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> Result<(), Error> {
        let (stage, lifecycle) = Lifecycle::start();
        let (lame_duck, grace) = (self.config.lame_duck, self.config.grace);
        tracing::info!(webhook = %self.local_addr(), admin = %self.admin_addr(), "serving");

        // Health and certificates go on until the last review is answered, so they have a
        // lifecycle that never closes; the end of this function ends them.
        let (_forever, undying) = Lifecycle::start();
        let readiness = Readiness {
            lifecycle: lifecycle.clone(),
            certificates: Arc::clone(&self.certificates),
            checks: self.checks,
        };
        let admin_routes = admin::routes(readiness, self.registry);
        let admin = Connections::new(&self.config, admin_routes, undying.clone());
        let mut background = JoinSet::new();
        background.spawn(self.certificates.keep_fresh());
        if let Some(clients) = self.clients {
            background.spawn(clients.keep_fresh());
        }
        let door = |port| Door {
            port,
            connections: Share::of(self.config.max_connections),
            metrics: self.metrics.clone(),
        };
        background.spawn(accept::accept(
            self.admin,
            undying,
            grace,
            door(Port::Admin),
            move |stream, peer| admin.clone().serve(stream, peer),
        ));
        let door = door(Port::Webhook);

        let reviews = Reviews::new(&self.config, self.handler, self.metrics.clone());
        let webhook = Connections::new(&self.config, reviews.routes(), lifecycle.clone());
        let (tls, metrics) = (self.tls, self.metrics);
        let deadline = self.config.handshake_deadline;
        let stage_of_handshake = lifecycle.clone();
        let mut serving = JoinSet::new();
        serving.spawn(accept::accept(
            self.listener,
            lifecycle,
            grace,
            door,
            move |tcp, peer| {
                let (tls, metrics, webhook) = (tls.clone(), metrics.clone(), webhook.clone());
                let mut lifecycle = stage_of_handshake.clone();
                async move {
                    // A client that has not said hello by the time we close has no request to lose.
                    let stream = tokio::select! {
                        stream = tls.handshake(tcp, deadline, &metrics) => stream,
                        () = lifecycle.closing() => None,
                    };
                    if let Some(stream) = stream {
                        webhook.serve(stream, peer).await;
                    }
                }
            },
        ));

        tokio::select! {
            () = shutdown => {}
            _ = serving.join_next() => return Err(Error::Stopped),
            _ = background.join_next() => return Err(Error::Stopped),
        }
        tracing::info!(seconds = lame_duck.as_secs_f64(), "draining");
        stage.send_replace(Stage::LameDuck);
        tokio::time::sleep(lame_duck).await;
        stage.send_replace(Stage::Closing);
        serving.join_next().await;
        tracing::info!("stopped");
        Ok(())
    }

    /// Serves until a signal, or until `trouble` is there, then drains: not ready from then on. A
    /// further signal ends the drain.
    pub async fn run_until(
        self,
        mut signals: Signals,
        trouble: impl Future<Output = ()>,
    ) -> Result<(), Error> {
        let (drain, drained) = tokio::sync::oneshot::channel::<()>();
        let mut run = std::pin::pin!(self.run(async move {
            let _ = drained.await;
        }));
        tokio::select! {
            ended = run.as_mut() => return ended,
            signal = signals.next() => tracing::info!(signal, "asked to stop"),
            () = trouble => {}
        }
        let _ = drain.send(());
        tokio::select! {
            ended = run => ended,
            signal = signals.next() => Err(Error::Aborted(signal)),
        }
    }
}

/// A port of this server, and its address with the number that a configured 0 became.
fn take(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Error> {
    let taken = listen(address, BACKLOG, None).and_then(|listener| {
        let local = listener.local_addr()?;
        Ok((listener, local))
    });
    taken.map_err(|source| Error::Listen { address, source })
}
