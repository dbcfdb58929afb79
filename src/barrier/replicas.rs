//! How `muster wait` asks the replicas of Muster: one is asked, and another one is held ready.
//!
//! A replica that dies takes the connections of thousands of pods with it. Those that would connect to
//! another one then would all do so in the same moment, and each handshake costs more than all else
//! that is said. So a pod that waits longer than a moment connects to a second replica too, and says
//! nothing there but who it is.

use std::convert::Infallible;
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::line::{Answer, LATE, Lines, Question, WAIT, When, provider};
use super::wait::{Error, over};

/// For a connection. A name server may still tell addresses that are gone.
const PATIENCE: Duration = Duration::from_secs(1);
/// For the handshake: where a replica is gone, all who waited there come to another one at once, and who
/// gives up too soon only comes again.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A replica may be gone without a word: after about so long another one is asked.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// After a replica that could not be asked: at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));
/// Before a second one is held ready: at first, so that a barrier that opens soon costs one handshake,
/// and at most.
const HOLD: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// What the replicas say in the end.
pub(super) enum Heard {
    Open,
    /// The time is over, and who is missing, where that is known.
    Missing(String),
}

/// The replicas of Muster, and by what they are known.
pub(super) struct Replicas {
    /// `host:port`, in the order in which they are tried; those of one rank are equals.
    servers: Vec<Vec<String>>,
    tls: TlsConnector,
}

/// Where a replica is, and the name that its certificate shows.
#[derive(Debug, Clone)]
pub(super) struct Place {
    address: SocketAddr,
    name: ServerName<'static>,
    rank: usize,
}

/// A connection to one of them.
pub(super) struct Line {
    address: SocketAddr,
    pub(super) lines: Lines<TlsStream<TcpStream>>,
}

impl Replicas {
    /// `servers` are `host:port`, with commas between them, and a semicolon before those that are only
    /// asked where the others cannot be reached; `ca` is PEM.
    pub(super) fn new(servers: &str, ca: &str) -> Result<Self, Error> {
        let failed = |error: String| Error::Replicas(error);
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca.as_bytes()) {
            let certificate = certificate.map_err(|error| failed(error.to_string()))?;
            roots
                .add(certificate)
                .map_err(|error| failed(error.to_string()))?;
        }
        let config = ClientConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(|error| failed(error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Self {
            servers: servers
                .split(';')
                .map(|equals| equals.split(',').map(str::to_owned).collect())
                .collect(),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Asks one replica after the other until one knows.
    pub(super) async fn ask(&self, question: &Question, late: watch::Receiver<bool>) -> Heard {
        let (mut pause, most) = RETRY;
        let mut held = None;
        loop {
            let again = ASK_AGAIN.mul_f64(0.5 + random());
            let answer = self.ask_one(question, &mut held, late.clone());
            match tokio::time::timeout(again, answer).await {
                Ok(Ok(Answer::Open)) => return Heard::Open,
                Ok(Ok(Answer::Closed(missing))) => return Heard::Missing(missing),
                Ok(Ok(Answer::Denied)) => {
                    eprintln!("Muster does not know this pod's token: waiting for the file");
                    return std::future::pending().await;
                }
                Ok(Ok(Answer::Unknown)) => {}
                Ok(Err(error)) => eprintln!("cannot ask a replica of Muster: {error}"),
                Err(_) => pause = RETRY.0,
            }
            if held.is_none() {
                tokio::time::sleep(pause.mul_f64(random())).await;
                pause = (pause * 2).min(most);
            }
        }
    }

    /// Asks the one that is held ready, or any; and holds another one meanwhile.
    async fn ask_one(
        &self,
        question: &Question,
        held: &mut Option<Line>,
        late: watch::Receiver<bool>,
    ) -> io::Result<Answer> {
        let mut line = match held.take() {
            Some(mut line) => {
                line.say(WAIT).await?;
                line
            }
            None => self.connect_first(question).await?,
        };
        let first = line.address;
        tokio::select! {
            answer = line.hear(late) => answer,
            never = self.hold(question, first, held) => match never {},
        }
    }

    /// The first that can be asked.
    async fn connect_first(&self, question: &Question) -> io::Result<Line> {
        let mut failed = io::Error::other("none is found by its name");
        for place in self.places().await? {
            match self.connect(&place, question).await {
                Ok(line) => return Ok(line),
                Err(error) => failed = io::Error::other(format!("{}: {error}", place.address)),
            }
        }
        Err(failed)
    }

    /// Keeps a connection to another one than the first.
    async fn hold(
        &self,
        question: &Question,
        first: SocketAddr,
        held: &mut Option<Line>,
    ) -> Infallible {
        let (mut pause, most) = HOLD;
        let later = Question {
            when: When::Later,
            ..question.clone()
        };
        loop {
            if let Some(line) = held {
                // It has nothing to say but that it is gone.
                let _ = line.lines.read().await;
                *held = None;
            }
            tokio::time::sleep(pause.mul_f64(0.5 + random())).await;
            pause = (pause * 2).min(most);
            // Not the two addresses of one replica in a network with two families, and not one that may
            // stand for any replica.
            let other = |place: &&Place| {
                place.rank == 0
                    && place.address != first
                    && place.address.is_ipv4() == first.is_ipv4()
            };
            let places = self.places().await.unwrap_or_default();
            if let Some(place) = places.iter().find(other) {
                *held = self.connect(place, &later).await.ok();
            }
        }
    }

    /// Where they are now, equals in any order. Behind the name of a headless Service is one address for
    /// each.
    pub(super) async fn places(&self) -> io::Result<Vec<Place>> {
        let mut places = Vec::new();
        for (rank, equals) in self.servers.iter().enumerate() {
            let mut found = Vec::new();
            for server in equals {
                found.extend(look_up(server, rank).await?);
            }
            let from = (random() * found.len() as f64) as usize;
            found.rotate_left(from);
            places.extend(found);
        }
        Ok(places)
    }

    /// Connects and asks, with the ticket that another replica gave, if any.
    pub(super) async fn connect(&self, place: &Place, question: &Question) -> io::Result<Line> {
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(place.address));
        let stream = connected.await.map_err(io::Error::from)??;
        stream.set_nodelay(true)?;
        let mut asked = Ok(());
        // Written before the handshake, the question goes out with the last message of it.
        let shaken = self.tls.connect_with(place.name.clone(), stream, |tls| {
            asked = tls.writer().write_all(format!("{question}\n").as_bytes());
        });
        let shaken = tokio::time::timeout(HANDSHAKE, shaken);
        asked?;
        Ok(Line {
            address: place.address,
            lines: Lines::new(shaken.await.map_err(io::Error::from)??),
        })
    }
}

/// Nowhere, where the name is not found.
async fn look_up(server: &str, rank: usize) -> io::Result<Vec<Place>> {
    let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let name = ServerName::try_from(host.to_owned());
    let name = name.map_err(|error: InvalidDnsNameError| io::Error::other(error))?;
    let found = tokio::time::timeout(HANDSHAKE, tokio::net::lookup_host(server));
    let Ok(Ok(found)) = found.await else {
        return Ok(Vec::new());
    };
    let place = |address| Place {
        address,
        name: name.clone(),
        rank,
    };
    Ok(found.map(place).collect())
}

impl Line {
    pub(super) async fn say(&mut self, word: &str) -> io::Result<()> {
        let stream = &mut self.lines.stream;
        stream.write_all(format!("{word}\n").as_bytes()).await?;
        stream.flush().await
    }

    /// The answer, which comes when the barrier opens or the time is over.
    pub(super) async fn hear(&mut self, mut late: watch::Receiver<bool>) -> io::Result<Answer> {
        let line = tokio::select! {
            line = self.lines.read() => Some(line?),
            () = over(&mut late) => None,
        };
        let line = match line {
            Some(line) => line,
            None => {
                self.say(LATE).await?;
                self.lines.read().await?
            }
        };
        Answer::read(&line).ok_or_else(|| io::Error::other("the answer makes no sense"))
    }
}

/// Between 0 and 1, so that pods do not all come at the same moment.
fn random() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(()) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
