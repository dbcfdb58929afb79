//! TLS: what is offered, and the handshake under its deadline.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::server::NoServerSessionStorage;
use rustls::version::{TLS12, TLS13};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::metrics::{HandshakeFailure, Metrics};
use crate::certs::Certificates;

pub(super) fn acceptor(certificates: Arc<Certificates>) -> Result<TlsAcceptor, rustls::Error> {
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13, &TLS12])?
        .with_no_client_auth()
        .with_cert_resolver(certificates);
    // The apiserver speaks HTTP/1.1 to a Service and HTTP/2 only to a loopback URL. rustls refuses
    // a client with no protocol in common, so both must be listed.
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    // The apiserver's transport has no session cache, so nobody would use the tickets.
    config.send_tls13_tickets = 0;
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(TlsAcceptor::from(Arc::new(config)))
}

/// A connection's TLS stream, unless the client fails or is too slow.
pub(super) async fn handshake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    deadline: Duration,
    metrics: &Metrics,
) -> Option<TlsStream<TcpStream>> {
    let peer = stream.peer_addr().ok();
    let failure = match tokio::time::timeout(deadline, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) if is_goodbye(error.kind()) => {
            // Load balancers probe a port by opening and closing it.
            tracing::debug!(?peer, %error, "client left during the TLS handshake");
            HandshakeFailure::Closed
        }
        Ok(Err(error)) => {
            tracing::warn!(?peer, %error, "TLS handshake failed");
            HandshakeFailure::Refused
        }
        Err(_) => {
            tracing::warn!(?peer, "TLS handshake not finished in time");
            HandshakeFailure::Timeout
        }
    };
    metrics.handshake_failed(failure);
    None
}

fn is_goodbye(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}
