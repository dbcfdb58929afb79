//! A door between the pods and a replica, which can keep to itself what the replica says: so a replica can
//! be killed after it has opened a barrier, and before any pod has heard of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Ends with all its connections when dropped.
pub struct Door {
    pub port: u16,
    state: watch::Sender<State>,
    counts: Arc<Counts>,
    task: JoinHandle<()>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Open,
    /// Nothing goes out, not even that a connection has ended.
    Shut,
    /// There is no replica any more.
    Gone,
}

/// Of connections.
#[derive(Default)]
struct Counts {
    leading: AtomicUsize,
    told: AtomicUsize,
}

impl Drop for Door {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Door {
    pub async fn before(replica: u16) -> Result<Door> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (state, watched) = watch::channel(State::Open);
        let counts = Arc::<Counts>::default();
        let counted = Arc::clone(&counts);
        let task = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((from, _)) = listener.accept().await {
                let (counted, state) = (Arc::clone(&counted), watched.clone());
                connections.spawn(async move {
                    let to = TcpStream::connect(("127.0.0.1", replica)).await?;
                    counted.leading.fetch_add(1, Ordering::Relaxed);
                    let ended = carry(from, to, state, &counted).await;
                    counted.leading.fetch_sub(1, Ordering::Relaxed);
                    ended
                });
            }
        });
        Ok(Door {
            port,
            state,
            counts,
            task,
        })
    }

    /// From now on nothing that the replica says goes out. What pods say still goes in.
    pub fn shut(&self) {
        self.state.send_replace(State::Shut);
    }

    /// Ends all connections, after the replica was killed.
    pub fn gone(&self) {
        self.state.send_replace(State::Gone);
    }

    /// Connections that lead to the replica.
    pub fn leading(&self) -> usize {
        self.counts.leading.load(Ordering::Relaxed)
    }

    /// Those on which the replica has said something since the door was shut.
    pub fn told(&self) -> usize {
        self.counts.told.load(Ordering::Relaxed)
    }
}

async fn carry(
    mut from: TcpStream,
    mut to: TcpStream,
    mut state: watch::Receiver<State>,
    counts: &Counts,
) -> std::io::Result<()> {
    let mut ends = state.clone();
    let (mut from_pod, mut to_pod) = from.split();
    let (mut from_replica, mut to_replica) = to.split();
    let out = async {
        let (mut buffer, mut told) = ([0; 4096], false);
        loop {
            let read = from_replica.read(&mut buffer).await.unwrap_or(0);
            let now = *state.borrow();
            match (now, read) {
                (State::Open, 0) => return Ok(()),
                (State::Open, read) => to_pod.write_all(&buffer[..read]).await?,
                (State::Shut, 0) => {
                    let _ = state.wait_for(|state| *state == State::Gone).await;
                    return Ok(());
                }
                (State::Shut, _) if told => {}
                (State::Shut, _) => {
                    told = true;
                    counts.told.fetch_add(1, Ordering::Relaxed);
                }
                (State::Gone, _) => return Ok(()),
            }
        }
    };
    let inward = async {
        let _ = tokio::io::copy(&mut from_pod, &mut to_replica).await;
        // What a replica that has ended does not take any more is lost.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = out => ended,
        () = inward => Ok(()),
        _ = ends.wait_for(|state| *state == State::Gone) => Ok(()),
    }
}
