//! `muster wait`: the init container of a start barrier. It ends when all members have started, or
//! fails when its time is over.
//!
//! It asks the replicas of Muster, and looks for the file that kubelet mounts once the barrier is open.
//! The first word that comes counts: without a replica it is slower, and never wrong. The pod's
//! service account needs no right and no token.

use std::fmt;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, InvalidDnsNameError, ServerName};
use rustls::version::TLS13;
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio_rustls::TlsConnector;

use super::container::{MISSING, OPEN, env};
use super::line::{Answer, LATE, Lines, Question, provider};

/// How often the file is looked for.
const LOOK: Duration = Duration::from_millis(500);
/// For a connection, and for the last answer when the time is over.
const PATIENCE: Duration = Duration::from_secs(2);
/// For the handshake: where a replica is gone, all who waited there come to another one at once, and who
/// gives up too soon only comes again.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// A replica may be gone without a word: after about so long another one is asked.
const ASK_AGAIN: Duration = Duration::from_secs(300);
/// After a replica that could not be asked: at first and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// Why it did not wait to the end, or waited in vain.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The container was not told where it belongs.
    #[error(
        "this pod was not told which start barrier it waits at ({0} is missing): it was created \
         while Muster's webhooks were not called; delete the pod, so that it is made again"
    )]
    NotTold(&'static str),
    /// Not all came in time.
    #[error("{0}")]
    TimedOut(String),
    /// The CA or the address of the replicas makes no sense.
    #[error("cannot ask the replicas of Muster: {0}")]
    Replicas(String),
    /// The volume that keeps the time cannot be used.
    #[error("cannot remember since when this pod waits, in {}: {source}", path.display())]
    Clock {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// What a pod was told.
pub struct Told {
    /// How long it waits.
    pub timeout: Duration,
    /// Where the ConfigMap is mounted.
    pub mount: PathBuf,
    /// Where it remembers since when it waits.
    pub clock: PathBuf,
    question: Question,
    replicas: Option<Replicas>,
}

impl Told {
    /// By the variables of the container.
    pub fn read(
        timeout: Duration,
        mount: PathBuf,
        clock: PathBuf,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, Error> {
        let needed = |name| variable(name).ok_or(Error::NotTold(name));
        let place = needed(env::BARRIER)?;
        let (namespace, barrier) = place.split_once('/').ok_or(Error::NotTold(env::BARRIER))?;
        let question = Question {
            namespace: namespace.to_owned(),
            barrier: barrier.to_owned(),
            token: needed(env::TOKEN)?,
        };
        let replicas = match variable(env::SERVER).zip(variable(env::CA)) {
            // Slower without them, and never wrong.
            Some((servers, ca)) => Replicas::new(&servers, &ca)
                .inspect_err(|error| eprintln!("{error}: waiting for the file"))
                .ok(),
            None => None,
        };
        Ok(Self {
            timeout,
            mount,
            clock,
            question,
            replicas,
        })
    }
}

/// Waits until the barrier is open.
pub async fn wait(told: &Told) -> Result<(), Error> {
    let left = told.timeout.saturating_sub(waited(&told.clock)?);
    // One that was restarted after its time still hears it when the others have come meanwhile.
    let left = left.max(PATIENCE / 2);
    let (late, mut is_late) = watch::channel(false);
    let asked = async {
        match &told.replicas {
            Some(replicas) => replicas.ask(&told.question, is_late.clone()).await,
            None => {
                over(&mut is_late).await;
                Heard::Missing(String::new())
            }
        }
    };
    let timed = async {
        tokio::time::sleep(left).await;
        let _ = late.send(true);
        tokio::time::sleep(PATIENCE).await;
    };
    let missing = tokio::select! {
        () = shown(&told.mount) => return Ok(()),
        heard = asked => match heard {
            Heard::Open => return Ok(()),
            Heard::Missing(missing) => missing,
        },
        () = timed => String::new(),
    };
    if is_shown(&told.mount) {
        return Ok(());
    }
    let missing = match missing.is_empty() {
        true => std::fs::read_to_string(told.mount.join(MISSING)).unwrap_or_default(),
        false => missing,
    };
    Err(Error::TimedOut(timed_out(told.timeout, missing.trim())))
}

/// Comes back when the time is over.
async fn over(late: &mut watch::Receiver<bool>) {
    let _ = late.wait_for(|late| *late).await;
}

/// What the replicas say in the end.
enum Heard {
    Open,
    /// The time is over, and who is missing, where that is known.
    Missing(String),
}

fn timed_out(timeout: Duration, missing: &str) -> String {
    let timeout = Seconds(timeout);
    match missing {
        "" => format!(
            "the start barrier did not open within {timeout}: not all members have started, and no \
             replica of Muster says which"
        ),
        missing => format!("the start barrier did not open within {timeout}: {missing}"),
    }
}

/// A time as people write it.
pub(crate) struct Seconds(pub(crate) Duration);

impl fmt::Display for Seconds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// How long this pod has waited already. Kubelet restarts an init container in place.
fn waited(clock: &Path) -> Result<Duration, Error> {
    let path = clock.join("since");
    let failed = |source| Error::Clock {
        path: path.clone(),
        source,
    };
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    match std::fs::read_to_string(&path) {
        // A clock that was put back counts as if it had just begun.
        Ok(text) => {
            let since = text.trim().parse().map(Duration::from_millis);
            Ok(now.saturating_sub(since.unwrap_or(now)))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let text = now.as_millis().to_string();
            std::fs::write(&path, text).map_err(failed)?;
            Ok(Duration::ZERO)
        }
        Err(error) => Err(failed(error)),
    }
}

fn is_shown(mount: &Path) -> bool {
    mount.join(OPEN).exists()
}

async fn shown(mount: &Path) {
    while !is_shown(mount) {
        tokio::time::sleep(LOOK).await;
    }
}

/// The replicas of Muster, and by what they are known.
pub struct Replicas {
    servers: Vec<String>,
    tls: TlsConnector,
}

impl Replicas {
    /// `servers` are `host:port`, with commas between them; `ca` is PEM.
    pub fn new(servers: &str, ca: &str) -> Result<Self, Error> {
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
            servers: servers.split(',').map(str::to_owned).collect(),
            tls: TlsConnector::from(Arc::new(config)),
        })
    }

    /// Asks one replica after the other until one knows.
    async fn ask(&self, question: &Question, late: watch::Receiver<bool>) -> Heard {
        let (mut pause, most) = RETRY;
        let mut turn = usize::from(random() < 0.5);
        loop {
            let server = &self.servers[turn % self.servers.len()];
            turn += 1;
            let again = ASK_AGAIN.mul_f64(0.5 + random());
            let answer = self.ask_one(server, question, late.clone());
            match tokio::time::timeout(again, answer).await {
                Ok(Ok(Answer::Open)) => return Heard::Open,
                Ok(Ok(Answer::Closed(missing))) => return Heard::Missing(missing),
                Ok(Ok(Answer::Denied)) => {
                    eprintln!("{server} does not know this pod's token: waiting for the file");
                    return std::future::pending().await;
                }
                Ok(Ok(Answer::Unknown)) => {}
                Ok(Err(error)) => eprintln!("{server} cannot be asked: {error}"),
                Err(_) => {
                    pause = RETRY.0;
                    continue;
                }
            }
            tokio::time::sleep(pause.mul_f64(random())).await;
            pause = (pause * 2).min(most);
        }
    }

    /// Asks one replica, and waits with it.
    pub(crate) async fn ask_one(
        &self,
        server: &str,
        question: &Question,
        mut late: watch::Receiver<bool>,
    ) -> io::Result<Answer> {
        let mut lines = Lines::new(self.connect(server, question).await?);
        let line = tokio::select! {
            line = lines.read() => Some(line?),
            () = over(&mut late) => None,
        };
        let line = match line {
            Some(line) => line,
            None => {
                say(&mut lines.stream, &LATE).await?;
                lines.read().await?
            }
        };
        Answer::read(&line).ok_or_else(|| io::Error::other("the answer makes no sense"))
    }

    /// Connects and asks, with the ticket that another replica gave, if any.
    pub(super) async fn connect(
        &self,
        server: &str,
        question: &Question,
    ) -> io::Result<tokio_rustls::client::TlsStream<TcpStream>> {
        let host = server.rsplit_once(':').map_or(server, |(host, _)| host);
        let host = host
            .trim_start_matches('[')
            .trim_end_matches(']')
            .to_owned();
        let name = ServerName::try_from(host);
        let name = name.map_err(|error: InvalidDnsNameError| io::Error::other(error))?;
        let connected = tokio::time::timeout(PATIENCE, TcpStream::connect(server));
        let stream = connected.await.map_err(io::Error::from)??;
        stream.set_nodelay(true)?;
        let mut asked = Ok(());
        // Written before the handshake, the question goes out with the last message of it.
        let shaken = self.tls.connect_with(name, stream, |tls| {
            asked = tls.writer().write_all(format!("{question}\n").as_bytes());
        });
        let shaken = tokio::time::timeout(HANDSHAKE, shaken);
        asked?;
        shaken.await.map_err(io::Error::from)?
    }
}

async fn say(
    stream: &mut (impl AsyncWrite + Unpin),
    word: &(impl fmt::Display + Sync),
) -> io::Result<()> {
    stream.write_all(format!("{word}\n").as_bytes()).await?;
    stream.flush().await
}

/// Between 0 and 1, so that pods do not all come at the same moment.
fn random() -> f64 {
    use std::hash::{BuildHasher as _, RandomState};
    let bits = RandomState::new().hash_one(()) >> 11;
    bits as f64 / (1u64 << 53) as f64
}
