//! The port that `muster wait` asks: lines over TLS, one task for each pod that waits.
//!
//! A port of its own, so that the webhook's can stay closed to pods. Whoever connects must say at once
//! what he wants and show a token for it; only then may he wait, and he hears nothing but whether his
//! barrier is open, or at the end of his time who is missing.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::ServerConfig;
use rustls::server::NoServerSessionStorage;
use rustls::version::TLS13;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::line::{Answer, LATE, Question, WAIT, When, provider};
use super::release::{Barriers, Key, State};
use super::tickets::Tickets;
use super::tls::Secured;
use crate::certs::Certificates;
use crate::controller::Cluster;
use crate::gang::seal::Verdict;
use crate::server::{Part, Share, listen};

/// From the connection to the question, with the wait for a turn. A pod's processor is slow: it may have a twentieth of a core.
const DEADLINE: Duration = Duration::from_secs(10);

/// After an accept that failed for want of something.
const BACKOFF: Duration = Duration::from_secs(1);

/// Connections at one replica, of one peer at most half of them: of each pod that waits one, whether it
/// is asked or held ready. Each costs about 6 KiB (see `just bench-barrier`), and one that means harm
/// 4 KiB more, and what it sends and nobody reads.
pub const MAX_WAITING: usize = 24_576;

/// Open files that are left to everything else.
const OTHER_FILES: u64 = 2_048;

/// Handshakes at a time: more would only wait for the processor, with all that they need. Peers are spread
/// over lanes by their address, so that one that never ends its handshakes holds up only those of its own
/// lane, who then ask another replica.
const HANDSHAKES: usize = 32;
const LANES: usize = 16;

/// Connections that wait to be accepted; the system takes its own bound (`somaxconn`) where that is
/// lower. Where a replica dies, all who waited there come at once, and one that is dropped here tries
/// again only after a second.
const BACKLOG: u32 = 16_384;

/// So many bytes of one connection wait to be read: a pod never says as much. The system
/// takes up to 6 MiB otherwise, which count as memory of this container (kubernetes#134194).
const UNREAD: u32 = 4_096;

/// A pod asks again by then, and one whose node has died never does.
const LONGEST_WAIT: Duration = Duration::from_secs(15 * 60);

/// The port, taken and not served yet.
pub struct Port {
    listener: TcpListener,
    places: Arc<Share>,
    served: Arc<Served>,
}

/// What all connections share.
struct Served {
    tls: Arc<ServerConfig>,
    barriers: Barriers,
    cluster: Cluster,
    handshakes: [Semaphore; LANES],
    lanes: RandomState,
}

impl Port {
    /// Takes the port. Clients that connect now wait until it is served.
    pub fn bind(
        address: SocketAddr,
        certificates: Arc<Certificates>,
        barriers: Barriers,
        cluster: Cluster,
    ) -> io::Result<Self> {
        let most = usize::try_from(files().saturating_sub(OTHER_FILES)).unwrap_or(MAX_WAITING);
        let mut config = ServerConfig::builder_with_provider(Arc::new(provider()))
            .with_protocol_versions(&[&TLS13])
            .map_err(io::Error::other)?
            .with_no_client_auth()
            .with_cert_resolver(certificates);
        config.send_tls13_tickets = 1;
        config.ticketer = Arc::new(Tickets(Arc::clone(&cluster)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(Self {
            listener: listen(address, BACKLOG, Some(UNREAD))?,
            places: Share::of(most.min(MAX_WAITING)),
            served: Arc::new(Served {
                tls: Arc::new(config),
                barriers,
                cluster,
                handshakes: std::array::from_fn(|_| Semaphore::new(HANDSHAKES)),
                lanes: RandomState::new(),
            }),
        })
    }

    /// Its address, with the port that a configured 0 became.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until dropped. That cuts all who wait: they ask another replica.
    pub async fn run(self) {
        let mut waiting = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                accepted = self.listener.accept() => accepted,
                Some(_) = waiting.join_next(), if !waiting.is_empty() => continue,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a pod that waits");
                    tokio::time::sleep(BACKOFF).await;
                    continue;
                }
            };
            let Some(place) = place(&self.places, peer.ip()) else {
                continue;
            };
            let served = Arc::clone(&self.served);
            waiting.spawn(async move {
                // Boxed: what the handshake needed is given back while the pod waits.
                let asked = Box::pin(served.asked(stream, peer.ip())).await;
                if let Some((stream, question)) = asked {
                    answer(stream, question, &served).await;
                }
                drop(place);
            });
        }
    }
}

/// As many open files as the system allows: each pod that waits is one, and containerd 2 gives a
/// process 1,024 of them unless it asks.
fn files() -> u64 {
    let limit = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    if let Err(error) = setrlimit(Resource::Nofile, most) {
        tracing::warn!(%error, "the limit of open files stays as it is");
        return limit.current.unwrap_or(u64::MAX);
    }
    limit.maximum.unwrap_or(u64::MAX)
}

fn place(places: &Arc<Share>, peer: IpAddr) -> Option<Part> {
    let mut place = places.part(peer);
    if place.grow(1).is_err() {
        tracing::debug!(%peer, "too many pods wait");
        return None;
    }
    Some(place)
}

async fn answer(mut stream: Secured, question: Question, served: &Served) {
    let answer = match served.check(&question) {
        Err(answer) => answer,
        Ok(key) => match wait(&mut stream, served, question.when, key).await {
            Some(answer) => answer,
            None => return,
        },
    };
    if let Err(error) = stream.end_with(&format!("{answer}\n")).await {
        tracing::debug!(%error, "a pod left before it was answered");
    }
}

impl Served {
    /// Shakes hands in its turn, and hears what is asked.
    async fn asked(&self, stream: TcpStream, peer: IpAddr) -> Option<(Secured, Question)> {
        let asked = async {
            // One that says nothing takes nobody's turn.
            stream.peek(&mut [0]).await.ok().filter(|said| *said > 0)?;
            let lane = self.lanes.hash_one(peer.to_canonical()) as usize % LANES;
            let _turn = self.handshakes[lane].acquire().await.ok()?;
            let mut stream = Secured::new(&self.tls, stream).ok()?;
            let line = stream.line().await.ok()?;
            Some((stream, Question::read(&line)?))
        };
        tokio::time::timeout(DEADLINE, asked).await.ok()?
    }

    fn check(&self, question: &Question) -> Result<Key, Answer> {
        let Question {
            namespace,
            barrier,
            token,
            ..
        } = question;
        let seals = &self.cluster.load().seals;
        match seals.check_token(namespace, barrier, token) {
            Verdict::Good if self.barriers.is_filled() => Ok((namespace.clone(), barrier.clone())),
            Verdict::Good | Verdict::Unknown => Err(Answer::Unknown),
            Verdict::Unsealed | Verdict::Broken => Err(Answer::Denied),
        }
    }
}

/// Waits with a pod until its barrier opens or its time is over; nothing when it is gone.
async fn wait(stream: &mut Secured, served: &Served, when: When, key: Key) -> Option<Answer> {
    let mut longest = pin!(tokio::time::sleep(LONGEST_WAIT));
    let mut said = match when {
        When::Now => WAIT.to_owned(),
        When::Later => tokio::select! {
            () = &mut longest => return Some(Answer::Unknown),
            line = stream.line() => line.ok()?,
        },
    };
    let mut wait = served.barriers.wait(key);
    if said == WAIT {
        said = tokio::select! {
            () = wait.open() => return Some(Answer::Open),
            () = &mut longest => return Some(Answer::Unknown),
            line = stream.line() => line.ok()?,
        };
    }
    if said != LATE {
        return None;
    }
    Some(match wait.now() {
        State::Open => Answer::Open,
        State::Late(missing) => Answer::Closed(missing.to_string()),
        State::Closed => Answer::Closed(String::new()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The usual backlog is 1,024: whoever comes then waits a second for nothing.
    #[tokio::test]
    async fn two_thousand_pods_that_come_at_once_are_let_in() {
        files();
        let listener = listen("127.0.0.1:0".parse().unwrap(), BACKLOG, Some(UNREAD)).unwrap();
        let address = listener.local_addr().unwrap();
        let mut streams = Vec::new();
        for _ in 0..2_000 {
            let stream = tokio::time::timeout(DEADLINE / 20, TcpStream::connect(address));
            streams.push(stream.await.unwrap().unwrap());
        }
    }
}
