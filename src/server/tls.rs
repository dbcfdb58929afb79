//! TLS: what is offered, whom it is offered to, and the handshake under its deadline.
//!
//! It knows what failed; which CAs and names count is for [`Clients`] to say.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use rustls::{CertificateError, ServerConfig};
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::metrics::{HandshakeFailure, Metrics};
use super::sparing::Sparing;
use crate::certs::{Certificates, Clients};

/// The TLS side of a port. Clones share it.
#[derive(Clone)]
pub(super) struct Tls {
    acceptor: TlsAcceptor,
    lines: Arc<Lines>,
}

/// One of each kind, so that a flood of one does not hide another.
#[derive(Default)]
struct Lines {
    refused: Sparing,
    client_certificate: Sparing,
    timeout: Sparing,
}

impl Tls {
    /// For every client.
    pub(super) fn open(certificates: Arc<Certificates>) -> Result<Self, rustls::Error> {
        Self::new(certificates, WebPkiClientVerifier::no_client_auth())
    }

    /// Only for these clients.
    pub(super) fn only_for(
        clients: Arc<Clients>,
        certificates: Arc<Certificates>,
    ) -> Result<Self, rustls::Error> {
        Self::new(certificates, clients)
    }

    fn new(
        certificates: Arc<Certificates>,
        clients: Arc<dyn ClientCertVerifier>,
    ) -> Result<Self, rustls::Error> {
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13, &TLS12])?
            .with_client_cert_verifier(clients)
            .with_cert_resolver(certificates);
        // The apiserver speaks HTTP/1.1 to a Service and HTTP/2 only to a loopback URL. rustls
        // refuses a client with no protocol in common, so both must be listed.
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        // The apiserver's transport has no session cache, so nobody would use the tickets. And a
        // session that is resumed shows no certificate: it would outlive a change of the client CA.
        config.send_tls13_tickets = 0;
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            lines: Arc::default(),
        })
    }

    /// A connection's TLS stream, unless the client fails or is too slow. In TLS 1.3 a client counts
    /// the handshake as done before its certificate is looked at; here it ends after that.
    pub(super) async fn handshake(
        self,
        stream: TcpStream,
        deadline: Duration,
        metrics: &Metrics,
    ) -> Option<TlsStream<TcpStream>> {
        let peer = stream.peer_addr().ok();
        let failure = match tokio::time::timeout(deadline, self.acceptor.accept(stream)).await {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) if is_goodbye(error.kind()) => {
                // Load balancers probe a port by opening and closing it.
                tracing::debug!(?peer, %error, "client left during the TLS handshake");
                HandshakeFailure::Closed
            }
            Ok(Err(error)) => match about_certificate(&error) {
                Some(error) => {
                    if let Some(left_out) = self.lines.client_certificate.turn(Instant::now()) {
                        tracing::warn!(?peer, error, left_out, "client certificate refused");
                    }
                    HandshakeFailure::ClientCertificate
                }
                None => {
                    if let Some(left_out) = self.lines.refused.turn(Instant::now()) {
                        tracing::warn!(?peer, %error, left_out, "TLS handshake failed");
                    }
                    HandshakeFailure::Refused
                }
            },
            Err(_) => {
                if let Some(left_out) = self.lines.timeout.turn(Instant::now()) {
                    tracing::warn!(?peer, left_out, "TLS handshake not finished in time");
                }
                HandshakeFailure::Timeout
            }
        };
        metrics.handshake_failed(failure);
        None
    }
}

fn is_goodbye(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
    )
}

/// What is wrong with the client's certificate, if it is that. What the client thinks of ours comes as
/// an alert.
fn about_certificate(error: &io::Error) -> Option<String> {
    match error.get_ref()?.downcast_ref()? {
        rustls::Error::NoCertificatesPresented => Some("there is none".to_owned()),
        rustls::Error::InvalidCertificate(reason) => Some(match reason {
            CertificateError::UnknownIssuer => "it is of another CA".to_owned(),
            // The library would print how the reason is built.
            CertificateError::Other(reason) => reason.0.to_string(),
            reason => reason.to_string(),
        }),
        _ => None,
    }
}
