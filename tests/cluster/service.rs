//! A Service on loopback, where no kube-proxy runs: one port before several replicas.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Result;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// New connections go to the replicas in turn, and to none that it does not lead to.
pub struct Service {
    routes: watch::Sender<Routes>,
    connections: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Default)]
struct Routes {
    /// Where new connections go.
    to: Vec<u16>,
    /// To any other replica none lives on.
    alive: Vec<u16>,
}

impl Service {
    /// Its port leads nowhere yet.
    pub async fn start() -> Result<(Service, u16)> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let port = listener.local_addr()?.port();
        let (routes, watched) = watch::channel(Routes::default());
        let connections = Arc::default();
        tokio::spawn(serve(listener, watched, Arc::clone(&connections)));
        let service = Service {
            routes,
            connections,
        };
        Ok((service, port))
    }

    /// Connections to any other replica end at once.
    pub fn only(&self, ports: &[u16]) {
        self.routes.send_replace(Routes {
            to: ports.to_vec(),
            alive: ports.to_vec(),
        });
    }

    /// A replica has become ready.
    pub fn add(&self, port: u16) {
        self.routes.send_modify(|routes| {
            routes.to.push(port);
            routes.alive.push(port);
        });
    }

    /// A replica is about to end: its connections live on, and it gets no new ones.
    pub fn forget(&self, port: u16) {
        self.routes
            .send_modify(|routes| routes.to.retain(|other| *other != port));
    }

    /// How many connections were opened so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }
}

async fn serve(listener: TcpListener, routes: watch::Receiver<Routes>, turn: Arc<AtomicUsize>) {
    while let Ok((mut from, _)) = listener.accept().await {
        let (mut routes, turn) = (routes.clone(), Arc::clone(&turn));
        tokio::spawn(async move {
            let ports = routes.borrow_and_update().to.clone();
            let number = turn.fetch_add(1, Ordering::Relaxed) % ports.len().max(1);
            let port = *ports.get(number)?;
            let mut to = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
            let dropped = routes.wait_for(|routes| !routes.alive.contains(&port));
            tokio::select! {
                _ = tokio::io::copy_bidirectional(&mut from, &mut to) => {}
                _ = dropped => {}
            }
            Some(())
        });
    }
}
