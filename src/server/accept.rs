//! The accept loop: one task per connection, ended in order.
//!
//! It knows sockets, not what is spoken over them.

use std::io::ErrorKind;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use super::lifecycle::Lifecycle;

/// The pause after an accept that failed for want of something (file descriptors, memory): the
/// connection stays in the queue, so that trying again at once would spin.
const BACKOFF: Duration = Duration::from_secs(1);

/// Accepts until the server closes, then lets the open connections end within `grace`.
/// Dropping the future ends all of them at once.
pub(super) async fn accept<F>(
    listener: TcpListener,
    mut lifecycle: Lifecycle,
    grace: Duration,
    serve: impl Fn(TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = lifecycle.closing() => break,
            Some(_) = connections.join_next(), if !connections.is_empty() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Answers are small: Nagle would hold them back for the client's delayed ACK.
                    if let Err(error) = stream.set_nodelay(true) {
                        tracing::debug!(%error, "cannot set TCP_NODELAY");
                    }
                    connections.spawn(serve(stream));
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
