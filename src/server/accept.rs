//! The accept loop: one task per connection, ended in order.
//!
//! It knows sockets, not what is spoken over them.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::lifecycle::Lifecycle;
use super::metrics::{Metrics, Port};
use super::share::{Part, Share};

/// The pause after an accept that failed for want of something (file descriptors, memory): the
/// connection stays in the queue, so that trying again at once would spin.
const BACKOFF: Duration = Duration::from_secs(1);

/// Who may connect to a port.
pub(super) struct Door {
    pub port: Port,
    pub connections: Arc<Share>,
    pub metrics: Metrics,
}

impl Door {
    /// The place of one more connection, or none. A line per connection that is closed would add
    /// load at the worst moment; the metric counts them.
    fn admit(&self, peer: IpAddr) -> Option<Part> {
        let mut place = self.connections.part(peer);
        if place.grow(1).is_err() {
            tracing::debug!(%peer, "connection closed: too many are open");
            self.metrics.connection_refused(self.port);
            return None;
        }
        Some(place)
    }
}

/// Accepts until the server closes, then lets the open connections end within `grace`.
/// Dropping the future ends all of them at once.
pub(super) async fn accept<F>(
    listener: TcpListener,
    mut lifecycle: Lifecycle,
    grace: Duration,
    door: Door,
    serve: impl Fn(TcpStream, IpAddr) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = lifecycle.closing() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    let Some(place) = door.admit(peer.ip()) else {
                        continue;
                    };
                    // Answers are small: Nagle would hold them back for the client's delayed ACK.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set TCP_NODELAY");
                    }
                    let serving = serve(stream, peer.ip());
                    connections.spawn(async move {
                        serving.await;
                        drop(place);
                    });
                }
                Err(error) if concerns_one_connection(error.kind()) => {
                    tracing::debug!(%error, "a connection ended before it was accepted");
                }
                Err(error) => {
                    tracing::error!(%error, "cannot accept connections");
                    tokio::time::sleep(BACKOFF).await;
                }
            },
        }
    }
    drop(listener);
    let all_ended = async { while connections.join_next().await.is_some() {} };
    if tokio::time::timeout(grace, all_ended).await.is_err() {
        tracing::warn!(
            open = connections.len(),
            "connections cut: they did not end within the grace time"
        );
    }
}

fn concerns_one_connection(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::ConnectionAborted
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionRefused
            | ErrorKind::Interrupted
    )
}
