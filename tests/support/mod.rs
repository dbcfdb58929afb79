//! A real server on a free port of 127.0.0.1, handlers for it, and bounded waiting.

// Each test file is a crate of its own and uses a part of this.
#![allow(dead_code)]

pub mod apiserver;
pub mod client;
pub mod secret;
pub mod strict;

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, SystemTime};

use muster::admission::{Answer, Outcome, Phase, Record, Unanswerable};
use muster::certs::{Authority, Certificates, Signer, Source, Subject};
use muster::server::{Config, Error, Handler, Server, Signals};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// Fails a test that hangs. Generous: the machine may be busy.
pub async fn within<F: Future>(seconds: u64, future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(seconds), future)
        .await
        .expect("must end in time")
}

pub fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Free ports, and no lame duck: tests that want one ask for it.
pub fn config() -> Config {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        listen: any,
        admin: any,
        lame_duck: Duration::ZERO,
        grace: Duration::from_secs(5),
        ..Config::default()
    }
}

/// Where a running server is, and whom to trust when calling it.
pub struct Running {
    pub webhook: SocketAddr,
    pub admin: SocketAddr,
    pub roots: RootCertStore,
    stop: Option<oneshot::Sender<()>>,
    done: Option<Ended>,
}

type Ended = JoinHandle<Result<(), Error>>;

impl Running {
    pub fn stop(&mut self) {
        let _ = self.stop.take().expect("stopped once").send(());
    }

    pub async fn ended(self) -> Result<(), Error> {
        let done = self.done.expect("not ended by signals");
        within(20, done).await.expect("the server must not panic")
    }

    fn of(server: &Server) -> Self {
        let authority = server.certificates().authority_pem();
        Self {
            webhook: server.local_addr(),
            admin: server.admin_addr(),
            roots: roots(&authority.expect("a source that knows its CA")),
            stop: None,
            done: None,
        }
    }
}

pub fn roots(pem: &[u8]) -> RootCertStore {
    let mut roots = RootCertStore::empty();
    for der in CertificateDer::pem_slice_iter(pem) {
        roots.add(der.expect("PEM")).expect("a CA");
    }
    roots
}

pub fn in_memory(subject: Subject) -> Certificates {
    let authority = Authority::generate(SystemTime::now()).expect("a CA");
    let signer = Signer::new(authority);
    Certificates::open(Source::Memory { signer, subject }).expect("a leaf")
}

/// A server with a certificate of its own making.
pub async fn start(config: Config, handler: Handler) -> Running {
    start_with(config, in_memory(Subject::default()), handler).await
}

pub async fn start_with(config: Config, certificates: Certificates, handler: Handler) -> Running {
    let server = Server::bind(config, Arc::new(certificates), handler);
    run(server.await.expect("free ports"))
}

/// Runs a bound server until it is stopped.
pub fn run(server: Server) -> Running {
    let (stop, stopped) = oneshot::channel();
    let mut running = Running::of(&server);
    running.stop = Some(stop);
    running.done = Some(tokio::spawn(server.run(async move {
        let _ = stopped.await;
    })));
    running
}

/// Runs a bound server until this process gets a signal.
pub fn run_until_signalled(server: Server) -> (Running, Ended) {
    run_until(server, std::future::pending())
}

/// The same, or until there is trouble.
pub fn run_until(
    server: Server,
    trouble: impl Future<Output = ()> + Send + 'static,
) -> (Running, Ended) {
    let running = Running::of(&server);
    let signals = Signals::install().expect("signals");
    (running, tokio::spawn(server.run_until(signals, trouble)))
}

pub fn answer(phase: Phase, body: &[u8]) -> Answer {
    Answer {
        body: body.to_vec(),
        record: Record {
            uid: "705ab4f5".into(),
            operation: "CREATE",
            kind: "JobSet",
            namespace: "team".into(),
            name: "train".into(),
            outcome: match phase {
                Phase::Mutate => Outcome::Patched,
                Phase::Validate => Outcome::Allowed,
            },
            gang: "workers".into(),
        },
    }
}

/// Answers every body with itself.
pub fn echo() -> Handler {
    Arc::new(|phase, body| Ok(answer(phase, body)))
}

/// Does what the body says.
pub fn obedient() -> Handler {
    Arc::new(|phase, body| {
        let asked: serde_json::Value = serde_json::from_slice(body)?;
        match asked["do"].as_str() {
            Some("unsupported") => Err(Unanswerable::Unsupported("not this kind".into())),
            Some("fail") => Err(Unanswerable::Internal("the snapshot is torn".into())),
            Some("panic") => panic!("asked to panic"),
            _ => Ok(answer(phase, format!("{phase:?}").as_bytes())),
        }
    })
}

/// Holds handlers until it opens, or until the test ends: a failed test must not hang on them.
#[derive(Default)]
pub struct Gate(Arc<Latch>);

#[derive(Default)]
struct Latch {
    held: Mutex<Held>,
    changed: Condvar,
}

#[derive(Default)]
struct Held {
    waiting: usize,
    open: bool,
}

impl Gate {
    pub fn open(&self) {
        self.0.held.lock().expect("unpoisoned").open = true;
        self.0.changed.notify_all();
    }

    /// Waits until so many handlers are held.
    pub async fn holds(&self, count: usize) {
        within(10, async {
            while self.0.held.lock().expect("unpoisoned").waiting < count {
                tokio::time::sleep(millis(5)).await;
            }
        })
        .await;
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

impl Latch {
    fn pass(&self) {
        let mut held = self.held.lock().expect("unpoisoned");
        held.waiting += 1;
        while !held.open {
            held = self.changed.wait(held).expect("unpoisoned");
        }
        held.waiting -= 1;
    }
}

/// Echoes; a body of "wait" is held at the gate. Needs the multi-thread runtime.
pub fn gated(gate: &Gate) -> Handler {
    let latch = Arc::clone(&gate.0);
    Arc::new(move |phase, body| {
        if body == b"wait" {
            // Lets the runtime's other tasks move to another thread.
            tokio::task::block_in_place(|| latch.pass());
        }
        Ok(answer(phase, body))
    })
}
