//! The port that pods at a start barrier ask, over real sockets: who says nothing, too much or the wrong
//! thing is cut, and no peer takes all of its places.

mod support;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use muster::barrier::port::Port;
use muster::barrier::release::Barriers;
use muster::certs::Subject;
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, Snapshot};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustls::RootCertStore;
use support::client::{read_all, tls_over, write};
use support::{in_memory, roots, within};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinHandle;
use tokio_rustls::client::TlsStream;

/// Places at the port in these tests. It has as many as the process may open files, without those that
/// are left to everything else.
const PLACES: usize = 80;
const OTHER_FILES: u64 = 2_048;

/// From the connection to the question, as `src/barrier/port.rs` has it.
const DEADLINE: Duration = Duration::from_secs(10);

/// Whoever has a turn has shaken hands by then.
const SOON: Duration = Duration::from_secs(2);

/// What a pod of `fixtures/rules/barrier-with-a-gang.yaml` is told, with the key of a server without a
/// cluster.
const BARRIER: &str = "train-barrier-0-9qfxjj4r86";
const TOKEN: &str = "c914ec48.HnoQsXVMq_jCRxpXd8X7BQ";

struct Replica {
    address: SocketAddr,
    roots: RootCertStore,
    task: JoinHandle<()>,
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Replica {
    async fn start() -> Self {
        // Of this process, which has no other tests.
        let most = Some(OTHER_FILES + PLACES as u64);
        let (current, maximum) = (most, most);
        setrlimit(Resource::Nofile, Rlimit { current, maximum }).unwrap();
        let certificates = Arc::new(in_memory(Subject::default()));
        let roots = roots(&certificates.authority_pem().unwrap());
        let cluster = Snapshot::assumed(SchedulerKind::NATIVE, Dialect::V1_37);
        let cluster = Arc::new(ArcSwap::from_pointee(cluster));
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let port = Port::bind(any, certificates, Barriers::default(), cluster).unwrap();
        Self {
            address: port.local_addr().unwrap(),
            task: tokio::spawn(port.run()),
            roots,
        }
    }

    /// A connection from an address of this machine.
    async fn connect(&self, from: [u8; 4]) -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((from, 0))).unwrap();
        within(10, socket.connect(self.address)).await.unwrap()
    }

    /// The same, with hands shaken.
    async fn shaken(&self, from: [u8; 4]) -> TlsStream<TcpStream> {
        let stream = self.connect(from).await;
        within(10, tls_over(stream, &self.roots)).await.unwrap()
    }
}

const HERE: [u8; 4] = [127, 0, 0, 1];
const ELSEWHERE: [u8; 4] = [127, 0, 0, 2];

/// How long until the port ends a connection.
async fn cut(mut stream: impl tokio::io::AsyncRead + Unpin) -> Duration {
    let start = Instant::now();
    let mut buffer = [0; 256];
    while !matches!(within(30, stream.read(&mut buffer)).await, Ok(0) | Err(_)) {}
    start.elapsed()
}

/// Each holds a place, and may hold none for long before it has shown a token.
#[tokio::test]
async fn who_says_nothing_is_cut_after_the_deadline() {
    let replica = Replica::start().await;
    let silent = replica.connect(HERE).await;
    let shaken = replica.shaken(HERE).await;
    let slow = async {
        let mut stream = replica.shaken(HERE).await;
        let start = Instant::now();
        // What is said bit by bit does not make it longer.
        while start.elapsed() < DEADLINE * 3 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            let said = stream.write_all(b"w").await.and(stream.flush().await);
            if said.is_err() {
                break;
            }
        }
        start.elapsed()
    };
    let (silent, shaken, slow) = tokio::join!(cut(silent), cut(shaken), slow);
    for (who, took) in [("silent", silent), ("shaken", shaken), ("slow", slow)] {
        assert!(took + Duration::from_secs(1) > DEADLINE, "{who}: {took:?}");
        assert!(took < DEADLINE + Duration::from_secs(5), "{who}: {took:?}");
    }
}

#[tokio::test]
async fn a_line_that_does_not_end_is_cut_at_once() {
    let replica = Replica::start().await;
    let mut stream = replica.shaken(HERE).await;
    // The port may cut it before all is said.
    let _ = stream.write_all(&[b'x'; 8_192]).await;
    let _ = stream.flush().await;
    let took = cut(stream).await;
    assert!(took < DEADLINE / 2, "{took:?}");
    // Before hands are shaken too: a message of TLS may be longer.
    let mut stream = replica.connect(HERE).await;
    let hello = [&[22, 3, 1, 0x3f, 0xff, 1, 0, 0x3f, 0xfb][..], &[0; 8_192]].concat();
    let _ = stream.write_all(&hello).await;
    let took = cut(stream).await;
    assert!(took < DEADLINE / 2, "{took:?}");
}

#[tokio::test]
async fn one_peer_holds_half_of_the_places_and_others_still_come_in() {
    let replica = Replica::start().await;
    let mut crowd = Vec::new();
    for _ in 0..PLACES / 2 {
        crowd.push(replica.connect(HERE).await);
    }
    let took = cut(replica.connect(HERE).await).await;
    assert!(took < DEADLINE / 2, "{took:?}");
    // Those that hold a place are not cut for it.
    for stream in &crowd {
        let mut nothing = [0];
        let read = stream.try_read(&mut nothing);
        assert!(read.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock));
    }
    let mut other = replica.shaken(ELSEWHERE).await;
    write(&mut other, "wait ml/train x\n").await;
    assert_eq!(within(5, read_all(&mut other)).await, "denied\n");
    // A place that is given back is another's.
    crowd.pop();
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut again = replica.shaken(HERE).await;
    write(&mut again, "wait ml/train x\n").await;
    assert_eq!(within(5, read_all(&mut again)).await, "denied\n");
}

/// Peers take turns by lanes of their addresses: of twelve others, one or two have that of the crowd.
#[tokio::test]
async fn one_peer_that_never_ends_its_handshakes_holds_up_few_others() {
    let replica = Replica::start().await;
    let mut crowd = Vec::new();
    // More than the turns of a lane.
    for _ in 0..PLACES / 2 {
        let mut stream = replica.connect(HERE).await;
        stream.write_all(&[22]).await.unwrap();
        crowd.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    let mut passed = 0;
    for last in 2..14 {
        let stream = replica.connect([127, 0, 0, last]).await;
        let shaken = tls_over(stream, &replica.roots);
        passed += usize::from(tokio::time::timeout(SOON, shaken).await.is_ok());
    }
    assert!(passed >= 6, "{passed} of 12");
}

/// What is sent and not read is memory of the replica.
#[tokio::test]
async fn what_a_peer_sends_out_of_turn_stays_with_the_peer() {
    let replica = Replica::start().await;
    let mut crowd = Vec::new();
    let mut sent = 0;
    for _ in 0..PLACES / 2 {
        let stream = replica.connect(HERE).await;
        stream.writable().await.unwrap();
        let _ = stream.try_write(&[22]);
        crowd.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The last ones have no turn, and nobody reads what they say.
    let last = crowd.last().unwrap();
    while let Ok(Ok(())) = tokio::time::timeout(SOON / 4, last.writable()).await {
        match last.try_write(&[0; 1_024]) {
            Ok(written) => sent += written,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
    }
    let queued = unread(last.peer_addr().unwrap(), last.local_addr().unwrap());
    assert!(
        sent > queued,
        "{sent} bytes were sent, {queued} wait to be read"
    );
    assert!(
        (1..=8_192).contains(&queued),
        "{queued} bytes wait to be read"
    );
}

/// How much of a connection waits to be read, as the system says it.
fn unread(at: SocketAddr, from: SocketAddr) -> usize {
    let hex = |address: SocketAddr| {
        let SocketAddr::V4(address) = address else {
            panic!("{address} is not IPv4");
        };
        let ip = u32::from_ne_bytes(address.ip().octets());
        format!("{ip:08X}:{:04X}", address.port())
    };
    let ends = format!("{} {} ", hex(at), hex(from));
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let line = table.lines().find(|line| line.contains(&ends)).unwrap();
    // "…: local remote state tx:rx …"
    let queues = line.split_whitespace().nth(4).unwrap();
    usize::from_str_radix(queues.split_once(':').unwrap().1, 16).unwrap()
}

/// And hears nothing but that.
#[tokio::test]
async fn who_shows_a_token_that_muster_did_not_write_is_denied() {
    let replica = Replica::start().await;
    let told = async |line: &str| {
        let mut stream = replica.shaken(HERE).await;
        write(&mut stream, &format!("{line}\n")).await;
        within(5, read_all(&mut stream)).await
    };
    // This replica has not seen the barriers yet, and so does not say that one is closed.
    let good = format!("ml/{BARRIER} {TOKEN}");
    assert_eq!(told(&format!("wait {good}")).await, "unknown\n");
    for line in [
        format!("wait ml/{BARRIER} forged"),
        format!("wait ml/{BARRIER} "),
        format!("wait ml/{BARRIER} {}", TOKEN.replace("Hno", "hNO")),
        format!("hold ml/{BARRIER} forged"),
        format!("wait ml/train-barrier-1-x {TOKEN}"),
        format!("wait others/{BARRIER} {TOKEN}"),
    ] {
        assert_eq!(told(&line).await, "denied\n", "{line}");
    }
    // Who does not even ask is sent away without a word.
    for line in ["GET / HTTP/1.1", "late", "wait ml/train"] {
        assert_eq!(told(line).await, "", "{line}");
    }
}
