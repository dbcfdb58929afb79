//! Clients: one TLS connection each, so that a test sees exactly what happens to it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{HeaderMap, Request, Response, StatusCode, Version};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::crypto::ring::{self, sign::any_supported_type};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, RootCertStore, SupportedProtocolVersion};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::{Running, within};

pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Opens a TLS connection that offers these protocols.
pub async fn tls(
    server: &Running,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
) -> Result<TlsStream<TcpStream>, Failure> {
    let tcp = TcpStream::connect(server.webhook).await?;
    handshake(tcp, &server.roots, alpn, versions, None).await
}

/// A client's chain and key.
pub type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// The same for HTTP/1.1, with a certificate to show if there is one.
pub async fn tls_as(
    server: &Running,
    identity: Option<Identity>,
    version: &'static SupportedProtocolVersion,
) -> Result<TlsStream<TcpStream>, Failure> {
    let tcp = TcpStream::connect(server.webhook).await?;
    handshake(tcp, &server.roots, &["http/1.1"], &[version], identity).await
}

/// TLS on a connection that is already open.
pub async fn tls_over(
    tcp: TcpStream,
    roots: &RootCertStore,
) -> Result<TlsStream<TcpStream>, Failure> {
    handshake(tcp, roots, &["http/1.1"], &[&TLS13], None).await
}

async fn handshake(
    tcp: TcpStream,
    roots: &RootCertStore,
    alpn: &[&str],
    versions: &[&'static SupportedProtocolVersion],
    identity: Option<Identity>,
) -> Result<TlsStream<TcpStream>, Failure> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(versions)?
        .with_root_certificates(roots.clone());
    let mut config = match identity {
        // Not with_client_auth_cert, which would not let us show another's certificate.
        Some((chain, key)) => {
            let key = CertifiedKey::new(chain, any_supported_type(&key)?);
            config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
        }
        None => config.with_no_client_auth(),
    };
    config.alpn_protocols = alpn.iter().map(|name| name.as_bytes().to_vec()).collect();
    tcp.set_nodelay(true)?;
    // The name under which an apiserver calls.
    let name = ServerName::try_from("muster.muster-system.svc")?;
    Ok(TlsConnector::from(Arc::new(config))
        .connect(name, tcp)
        .await?)
}

/// A TLS connection for bytes written by hand.
pub async fn raw(server: &Running) -> TlsStream<TcpStream> {
    tls(server, &["http/1.1"], &[&TLS13, &TLS12])
        .await
        .expect("a TLS connection")
}

/// All that the server sends until it closes, or nothing more than an error would tell.
pub async fn read_all(stream: &mut TlsStream<TcpStream>) -> String {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8_lossy(&bytes).into_owned()
}

pub async fn write(stream: &mut TlsStream<TcpStream>, text: &str) {
    stream.write_all(text.as_bytes()).await.expect("writable");
    stream.flush().await.expect("writable");
}

#[derive(Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub version: Version,
    pub headers: HeaderMap,
    pub text: String,
}

impl Reply {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .get(name)
            .map(|value| value.to_str().expect("text"))
    }

    async fn read(response: Response<Incoming>) -> Result<Self, Failure> {
        let (head, body) = response.into_parts();
        let bytes = body.collect().await?.to_bytes();
        Ok(Self {
            status: head.status,
            version: head.version,
            headers: head.headers,
            text: String::from_utf8_lossy(&bytes).into_owned(),
        })
    }
}

/// One connection with requests on it.
pub struct Http1<B = Full<Bytes>>(http1::SendRequest<B>);

impl<B> Http1<B>
where
    B: Body<Data = Bytes> + Send + Unpin + 'static,
    B::Error: Into<Failure>,
{
    pub async fn over(stream: TlsStream<TcpStream>) -> Result<Self, Failure> {
        let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(Self(sender))
    }

    pub async fn connect(server: &Running) -> Self {
        Self::over(raw(server).await).await.expect("a connection")
    }

    pub async fn send(&mut self, request: Request<B>) -> Result<Reply, Failure> {
        self.0.ready().await?;
        Reply::read(self.0.send_request(request).await?).await
    }
}

pub struct Http2(http2::SendRequest<Full<Bytes>>);

impl Http2 {
    pub async fn connect(server: &Running) -> Self {
        let stream = tls(server, &["h2"], &[&TLS13]).await.expect("TLS");
        assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
        let (sender, connection) = http2::handshake(TokioExecutor::new(), TokioIo::new(stream))
            .await
            .expect("HTTP/2");
        tokio::spawn(connection);
        Self(sender)
    }

    pub fn send(
        &self,
        request: Request<Full<Bytes>>,
    ) -> impl Future<Output = Result<Reply, Failure>> + use<> {
        let mut sender = self.0.clone();
        async move {
            sender.ready().await?;
            Reply::read(sender.send_request(request).await?).await
        }
    }

    /// Resolves when the server has ended the connection.
    pub async fn closed(&self) {
        while !self.0.is_closed() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// A review as the apiserver posts it.
pub fn review(path: &str, body: impl Into<Bytes>) -> Request<Full<Bytes>> {
    Request::post(format!("https://muster.muster-system.svc{path}"))
        .header("host", "muster.muster-system.svc")
        .header("content-type", "application/json")
        .body(Full::new(body.into()))
        .expect("a request")
}

/// One review on a connection of its own.
pub async fn post(server: &Running, path: &str, body: impl Into<Bytes>) -> Reply {
    let mut connection = Http1::connect(server).await;
    within(10, connection.send(review(path, body)))
        .await
        .expect("an answer")
}

/// A page of the admin port.
pub async fn admin(address: SocketAddr, path: &str) -> Reply {
    let tcp = TcpStream::connect(address).await.expect("the admin port");
    let (mut sender, connection) = http1::handshake(TokioIo::new(tcp)).await.expect("HTTP");
    tokio::spawn(connection);
    let request = Request::get(path)
        .header("host", "muster")
        .body(Full::<Bytes>::default());
    let response = within(10, sender.send_request(request.expect("a request"))).await;
    Reply::read(response.expect("an answer"))
        .await
        .expect("a body")
}

/// The value of one metric, by its name and labels as printed; absent counts as 0.
pub async fn metric(address: SocketAddr, series: &str) -> f64 {
    let page = admin(address, "/metrics").await;
    let line = page
        .text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    line.map_or(0.0, |value| value.parse().expect("a number"))
}
