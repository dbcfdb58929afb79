//! The options of `muster serve`, and of the containers that wait at start barriers, which `check` and
//! `render` show too.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::{Cluster, parse_duration};
use crate::certs::Rotation;
use crate::cli::clients::ClientArgs;
use crate::gang::quantity::Quantity;
use crate::gang::{WaitContainer, WaitUser};
use crate::server::{self, LogFormat, MAX_IN_FLIGHT};

/// The options of `muster serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// Address of the webhook
    #[arg(long, env = "MUSTER_LISTEN", default_value = "[::]:8443")]
    pub(crate) listen: SocketAddr,

    /// Address of /livez, /readyz and /metrics (plain HTTP)
    #[arg(long, env = "MUSTER_ADMIN_LISTEN", default_value = "[::]:8080")]
    pub(crate) admin_listen: SocketAddr,

    /// Address that pods at a start barrier ask, over TLS
    #[arg(long, env = "MUSTER_BARRIER_LISTEN", default_value = "[::]:8444")]
    pub(crate) barrier_listen: SocketAddr,

    /// Where pods find it, as host:port: several with commas, and those to ask only where the others
    /// cannot be reached after a semicolon. A pod asks one of the first, and holds another one ready.
    /// Without it: each replica behind the Service muster-barrier, and then the Service muster
    #[arg(long, env = "MUSTER_BARRIER_SERVER", value_name = "HOST:PORT")]
    pub(crate) barrier_server: Option<String>,

    /// Directory with tls.crt and tls.key, re-read every 10 seconds. Without it Muster makes a
    /// development certificate under certs/
    #[arg(long, env = "MUSTER_TLS_DIR", value_name = "DIR")]
    pub(crate) tls_dir: Option<PathBuf>,

    /// For tests: a new CA and a new certificate that often, each living four times as long
    #[arg(long, hide = true, value_name = "DURATION", value_parser = parse_duration,
          conflicts_with = "tls_dir")]
    rotate_every: Option<Duration>,

    #[command(flatten)]
    pub(crate) clients: ClientArgs,

    #[command(flatten)]
    pub(crate) cluster: Cluster,

    /// Kubeconfig of the cluster to reconcile. In a pod the service account is used; without
    /// either, Muster only answers reviews
    #[arg(long, env = "MUSTER_KUBECONFIG", value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// Namespace of Muster's own objects
    #[arg(long, env = "POD_NAMESPACE", default_value = "muster-system")]
    pub(crate) namespace: String,

    /// Name of this replica, unlike any other's
    #[arg(long, env = "POD_NAME", default_value = "muster")]
    pub(crate) identity: String,

    /// Log lines for people or for machines
    #[arg(long, env = "MUSTER_LOG_FORMAT", value_enum, default_value_t)]
    pub log_format: LogFormat,

    /// Seconds to go on serving after SIGTERM, so that no apiserver finds a closed port
    #[arg(long, env = "MUSTER_LAME_DUCK", default_value_t = 10)]
    pub(crate) lame_duck_seconds: u64,

    /// Requests in flight beyond which further ones are shed with 429
    #[arg(long, env = "MUSTER_MAX_IN_FLIGHT", default_value_t = MAX_IN_FLIGHT)]
    pub(crate) max_in_flight: usize,
}

impl Serve {
    /// How often Muster's own certificates are replaced.
    pub(crate) fn rotation(&self) -> Rotation {
        let every = self.rotate_every.map(Rotation::every);
        every.unwrap_or_default()
    }

    /// How long a connection lives. Where certificates change every few seconds each of them is to be
    /// seen, and only new connections see it.
    pub(crate) fn max_connection_age(&self) -> Duration {
        let usual = server::Config::default().max_connection_age;
        self.rotate_every.map_or(usual, |every| every / 10)
    }
}

/// What start barriers are made of.
#[derive(Debug, Args)]
pub struct WaitContainerArgs {
    /// Image of the container that waits at a start barrier. Without it: this replica's own
    #[arg(long, env = "MUSTER_WAIT_IMAGE", value_name = "IMAGE")]
    pub(crate) wait_image: Option<String>,

    /// Its pull policy: Always, IfNotPresent or Never. Without it: Kubernetes' own default
    #[arg(long, env = "MUSTER_WAIT_PULL_POLICY", value_name = "POLICY",
          value_parser = ["Always", "IfNotPresent", "Never"])]
    pub(crate) wait_pull_policy: Option<String>,

    /// Its request and limit of CPU
    #[arg(long, env = "MUSTER_WAIT_CPU", value_name = "QUANTITY", default_value = "50m",
          value_parser = parse_quantity)]
    pub(crate) wait_cpu: String,

    /// Its request and limit of memory
    #[arg(long, env = "MUSTER_WAIT_MEMORY", value_name = "QUANTITY", default_value = "32Mi",
          value_parser = parse_quantity)]
    pub(crate) wait_memory: String,

    /// User and group that it runs as; `none` where the platform chooses them, as OpenShift does
    #[arg(long, env = "MUSTER_WAIT_USER", value_name = "NUMBER", default_value_t)]
    pub(crate) wait_user: WaitUser,
}

impl WaitContainerArgs {
    pub(super) fn container(&self) -> WaitContainer {
        let default = WaitContainer::default();
        WaitContainer {
            image: self.wait_image.clone().unwrap_or(default.image),
            pull_policy: self.wait_pull_policy.clone(),
            cpu: self.wait_cpu.clone(),
            memory: self.wait_memory.clone(),
            user: self.wait_user,
            ..default
        }
    }
}

fn parse_quantity(text: &str) -> Result<String, String> {
    match text.parse::<Quantity>() {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};
    use std::sync::Arc;
    use std::time::SystemTime;

    use arc_swap::ArcSwap;
    use clap::Parser as _;
    use tokio::net::TcpStream;

    use super::*;
    use crate::admission::Unanswerable;
    use crate::args::{Cli, Command};
    use crate::barrier::port::Port;
    use crate::certs::{Authority, Certificates, Signer, Source, Subject};
    use crate::server::Server;

    /// Pods of a cluster have IPv4 addresses, IPv6 addresses, or both.
    #[tokio::test]
    async fn every_port_is_reached_over_ipv4_and_ipv6() {
        let Command::Serve(args) = Cli::parse_from(["muster", "serve"]).command else {
            panic!("serve is a command");
        };
        let any = |usual: SocketAddr| SocketAddr::new(usual.ip(), 0);
        let signer = Signer::new(Authority::generate(SystemTime::now()).unwrap());
        let subject = Subject::default();
        let certificates = Certificates::open(Source::Memory { signer, subject }).unwrap();
        let certificates = Arc::new(certificates);
        let config = server::Config {
            listen: any(args.listen),
            admin: any(args.admin_listen),
            ..server::Config::default()
        };
        let handler = Arc::new(|_, _: &[u8]| Err(Unanswerable::KeyNotKnown));
        let server = Server::bind(config, Arc::clone(&certificates), handler);
        let server = server.await.unwrap();
        let cluster = Arc::new(ArcSwap::from_pointee(args.cluster.snapshot()));
        let address = any(args.barrier_listen);
        let barriers = Port::bind(address, certificates, Default::default(), cluster).unwrap();
        let has_ipv6 = std::net::TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
        for port in [
            server.local_addr().port(),
            server.admin_addr().port(),
            barriers.local_addr().unwrap().port(),
        ] {
            let ipv4 = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
            let ipv6 = SocketAddr::from((Ipv6Addr::LOCALHOST, port));
            // Containers often have no `::1`.
            let clients = [Some(ipv4), has_ipv6.then_some(ipv6)];
            for client in clients.into_iter().flatten() {
                let connected = TcpStream::connect(client).await;
                assert!(connected.is_ok(), "{client}: {connected:?}");
            }
        }
    }
}
