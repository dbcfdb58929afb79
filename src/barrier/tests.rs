//! `muster wait` and the port of a replica, over real sockets.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use clap::Parser as _;
use rustls::HandshakeKind;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::container::env;
use super::line::{Answer, Question, WAIT, When};
use super::port::Port;
use super::release::{Barriers, State};
use super::replicas::{Place, Replicas};
use super::wait::{Error, Told, wait};
use crate::args::{Cli, Command};
use crate::certs::{Authority, Certificates, Signer, Source, Subject};
use crate::controller::Cluster;
use crate::scheduler::Snapshot;

const BARRIER: &str = "train-barrier-0-x";

struct Replica {
    barriers: Barriers,
    cluster: Cluster,
    address: String,
    ca: String,
    task: JoinHandle<()>,
}

impl Replica {
    async fn start() -> Self {
        let signer = Signer::new(Authority::generate(SystemTime::now()).unwrap());
        let subject = Subject::default();
        let certificates = Certificates::open(Source::Memory { signer, subject }).unwrap();
        let certificates = Arc::new(certificates);
        let ca = String::from_utf8(certificates.authority_pem().unwrap()).unwrap();
        let Command::Serve(args) = Cli::parse_from(["muster", "serve"]).command else {
            panic!("serve is a command");
        };
        let snapshot = args.cluster.snapshot();
        let cluster: Cluster = Arc::new(ArcSwap::from_pointee(snapshot));
        let barriers = Barriers::default();
        barriers.filled(&Default::default());
        let any = "127.0.0.1:0".parse().unwrap();
        let port = Port::bind(any, certificates, barriers.clone(), Arc::clone(&cluster)).unwrap();
        Self {
            address: port.local_addr().unwrap().to_string(),
            task: tokio::spawn(port.run()),
            barriers,
            cluster,
            ca,
        }
    }

    fn show(&self, state: State) {
        let key = ("ml".to_owned(), BARRIER.to_owned());
        self.barriers.show(key, state);
    }

    fn token(&self, barrier: &str) -> String {
        self.cluster.load().seals.token("ml", barrier)
    }

    fn pod(&self) -> Pod {
        Pod {
            dir: tempfile::tempdir().unwrap(),
            servers: self.address.clone(),
            ca: self.ca.clone(),
            token: self.token(BARRIER),
            timeout: Duration::from_secs(60),
        }
    }
}

struct Pod {
    dir: tempfile::TempDir,
    servers: String,
    ca: String,
    token: String,
    timeout: Duration,
}

impl Pod {
    fn mount(&self) -> PathBuf {
        self.dir.path().to_owned()
    }

    async fn wait(&self) -> Result<(), Error> {
        let variable = |name: &str| {
            Some(match name {
                env::BARRIER => format!("ml/{BARRIER}"),
                env::TOKEN => self.token.clone(),
                env::SERVER => self.servers.clone(),
                env::CA => self.ca.clone(),
                _ => return None,
            })
        };
        wait(&Told::read(
            self.timeout,
            self.mount(),
            self.mount(),
            variable,
        )?)
        .await
    }

    /// Waits in the background.
    fn waits(self) -> JoinHandle<Result<(), Error>> {
        tokio::spawn(async move { self.wait().await })
    }
}

async fn still_waits<T>(task: &JoinHandle<T>) {
    tokio::time::sleep(Duration::from_millis(700)).await;
    assert!(!task.is_finished());
}

fn shows(mount: &Path) {
    std::fs::write(mount.join("started"), "true").unwrap();
}

#[tokio::test]
async fn a_pod_goes_on_when_its_barrier_opens() {
    let replica = Replica::start().await;
    let waits = replica.pod().waits();
    still_waits(&waits).await;
    let start = Instant::now();
    replica.show(State::Open);
    waits.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_secs(1));
    // And one that comes later goes straight through.
    replica.pod().wait().await.unwrap();
}

#[tokio::test]
async fn a_pod_whose_time_is_over_says_who_is_missing() {
    let replica = Replica::start().await;
    let mut pod = replica.pod();
    pod.timeout = Duration::from_millis(1500);
    replica.show(State::Late("7 of 9 members have started".into()));
    let Err(Error::TimedOut(message)) = pod.wait().await else {
        panic!("it went on");
    };
    insta::assert_snapshot!(message, @"the start barrier did not open within 1.5s: 7 of 9 members have started");
    // Restarted in place it does not wait again, but hears that the others came after all.
    let start = Instant::now();
    assert!(pod.wait().await.is_err());
    assert!(start.elapsed() < Duration::from_millis(1400));
    replica.show(State::Open);
    pod.wait().await.unwrap();
}

#[tokio::test]
async fn without_a_replica_the_file_opens_it() {
    let replica = Replica::start().await;
    let mut pod = replica.pod();
    // Nobody listens there, and the other one is not who it says it is.
    let stranger = Replica::start().await;
    pod.servers = format!("127.0.0.1:1,{}", stranger.address);
    stranger.show(State::Open);
    let mount = pod.mount();
    let waits = pod.waits();
    still_waits(&waits).await;
    shows(&mount);
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_pod_asks_another_replica_when_its_own_is_gone() {
    let (first, second) = (Replica::start().await, Replica::start().await);
    let mut pod = first.pod();
    pod.ca.push_str(&second.ca);
    pod.servers = format!("{},{}", first.address, second.address);
    let waits = pod.waits();
    still_waits(&waits).await;
    second.show(State::Open);
    first.task.abort();
    waits.await.unwrap().unwrap();
}

/// Stands before a replica and counts who comes.
async fn door(to: &Replica) -> (String, Arc<AtomicUsize>, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let came = Arc::new(AtomicUsize::new(0));
    let (count, to) = (Arc::clone(&came), to.address.clone());
    let task = tokio::spawn(async move {
        let mut open = tokio::task::JoinSet::new();
        loop {
            let (mut outside, _) = listener.accept().await.unwrap();
            count.fetch_add(1, Ordering::Relaxed);
            let mut inside = TcpStream::connect(&to).await.unwrap();
            open.spawn(async move {
                let _ = tokio::io::copy_bidirectional(&mut outside, &mut inside).await;
            });
        }
    });
    (address, came, task)
}

/// Where one of two replicas dies, thousands would shake hands with the other one at the same moment.
#[tokio::test]
async fn a_pod_has_shaken_hands_with_another_replica_before_its_own_is_gone() {
    let (first, second) = (Replica::start().await, Replica::start().await);
    let doors = [door(&first).await, door(&second).await];
    let mut pod = first.pod();
    pod.ca.push_str(&second.ca);
    pod.servers = format!("{},{}", doors[0].0, doors[1].0);
    let came = || doors.each_ref().map(|door| door.1.load(Ordering::Relaxed));
    let start = Instant::now();
    let waits = pod.waits();
    while came() != [1, 1] {
        assert!(start.elapsed() < Duration::from_secs(10), "{:?}", came());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    still_waits(&waits).await;
    // Whichever is asked, and then the other one.
    doors[0].2.abort();
    still_waits(&waits).await;
    second.show(State::Open);
    let start = Instant::now();
    waits.await.unwrap().unwrap();
    assert!(start.elapsed() < Duration::from_millis(500));
    assert_eq!(came(), [1, 1], "it came again");
}

#[tokio::test]
async fn who_is_held_ready_is_told_once_he_asks() {
    let replica = Replica::start().await;
    let replicas = Replicas::new(&replica.address, &replica.ca).unwrap();
    let place = replicas.places().await.unwrap().remove(0);
    let question = |when| Question {
        when,
        namespace: "ml".to_owned(),
        barrier: BARRIER.to_owned(),
        token: replica.token(BARRIER),
    };
    let mut held = Vec::new();
    for _ in 0..2 {
        let line = replicas.connect(&place, &question(When::Later)).await;
        held.push(line.unwrap());
    }
    replica.show(State::Open);
    let (late, is_late) = tokio::sync::watch::channel(false);
    let mut second = held.remove(1);
    let heard = tokio::time::timeout(Duration::from_millis(500), second.hear(is_late.clone()));
    assert!(heard.await.is_err(), "it was not asked");
    held[0].say(WAIT).await.unwrap();
    assert_eq!(held[0].hear(is_late.clone()).await.unwrap(), Answer::Open);
    // Who is only held hears it too when his time is over.
    late.send(true).unwrap();
    assert_eq!(second.hear(is_late).await.unwrap(), Answer::Open);
}

/// A name server tells for a while of replicas that are gone.
#[tokio::test]
async fn what_stands_behind_a_semicolon_is_asked_where_nobody_else_answers() {
    let (first, second) = (Replica::start().await, Replica::start().await);
    let doors = [door(&first).await, door(&second).await];
    let mut pod = first.pod();
    pod.ca.push_str(&second.ca);
    pod.servers = format!("127.0.0.1:1,{};{}", doors[0].0, doors[1].0);
    let came = || doors.each_ref().map(|door| door.1.load(Ordering::Relaxed));
    let waits = pod.waits();
    still_waits(&waits).await;
    assert_eq!(came(), [1, 0]);
    second.show(State::Open);
    still_waits(&waits).await;
    doors[0].2.abort();
    waits.await.unwrap().unwrap();
    assert_eq!(came(), [1, 1]);
}

#[tokio::test]
async fn a_token_of_another_barrier_opens_nothing() {
    let replica = Replica::start().await;
    replica.show(State::Open);
    let mut pod = replica.pod();
    pod.token = replica.token("train-barrier-1-y");
    let mount = pod.mount();
    let waits = pod.waits();
    still_waits(&waits).await;
    shows(&mount);
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_replica_that_does_not_know_the_key_yet_is_asked_again() {
    let replica = Replica::start().await;
    let fresh = Replica::start().await;
    let mut pod = fresh.pod();
    pod.servers = replica.address.clone();
    pod.ca = replica.ca.clone();
    let seals = crate::gang::Seals::new(&[7; 32], &[]);
    pod.token = seals.token("ml", BARRIER);
    replica.show(State::Open);
    let waits = pod.waits();
    still_waits(&waits).await;
    replica.cluster.rcu(|old| Snapshot {
        seals: Arc::new(crate::gang::Seals::new(&[7; 32], &[])),
        ..Snapshot::clone(old)
    });
    waits.await.unwrap().unwrap();
}

#[tokio::test]
async fn who_asks_for_nothing_is_sent_away() {
    let replica = Replica::start().await;
    let mut stream = TcpStream::connect(&replica.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(5), stream.read_to_end(&mut answer));
    assert!(ended.await.is_ok(), "the connection stays open");
}

#[test]
fn a_container_that_was_not_told_says_so() {
    let nowhere = PathBuf::from("/nowhere");
    let told = Told::read(Duration::ZERO, nowhere.clone(), nowhere, |_| None);
    let Err(error) = told else {
        panic!("it was told");
    };
    insta::assert_snapshot!(error, @"this pod was not told which start barrier it waits at (MUSTER_BARRIER is missing): it was created while Muster's webhooks were not called; delete the pod once they are called again, or recreate the workload if Muster was uninstalled");
}

/// Most of a handshake's cost is the certificate, and all who waited at a replica that is gone come to
/// another one at once.
#[tokio::test]
async fn a_pod_that_comes_from_another_replica_is_known_by_its_ticket() {
    let (first, second) = (Replica::start().await, Replica::start().await);
    first.show(State::Open);
    let question = Question {
        when: When::Now,
        namespace: "ml".to_owned(),
        barrier: BARRIER.to_owned(),
        token: first.token(BARRIER),
    };
    let place = async |replica: &Replica| -> Place {
        let there = Replicas::new(&replica.address, "").unwrap();
        there.places().await.unwrap().remove(0)
    };
    let replicas = Replicas::new("", &first.ca).unwrap();
    let (_late, is_late) = tokio::sync::watch::channel(false);
    let line = replicas.connect(&place(&first).await, &question).await;
    let answer = line.unwrap().hear(is_late).await;
    assert_eq!(answer.unwrap(), Answer::Open);
    let kind = async |replicas: &Replicas| {
        let line = replicas.connect(&place(&second).await, &question).await;
        line.ok()?.lines.stream.get_ref().1.handshake_kind()
    };
    assert_eq!(kind(&replicas).await, Some(HandshakeKind::Resumed));
    let other = Replicas::new("", &second.ca).unwrap();
    assert_eq!(kind(&other).await, Some(HandshakeKind::Full));
}

/// More than may shake hands at a time.
#[tokio::test]
async fn those_who_say_nothing_take_nobodys_turn() {
    let replica = Replica::start().await;
    let mut silent = Vec::new();
    for _ in 0..600 {
        silent.push(TcpStream::connect(&replica.address).await.unwrap());
    }
    replica.show(State::Open);
    let passed = tokio::time::timeout(Duration::from_secs(5), replica.pod().waits());
    passed.await.unwrap().unwrap().unwrap();
}
