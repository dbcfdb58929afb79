//! `muster serve`: certificates, handler and server put together.

use std::io::Write as _;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::Pod;
use kube::Client;
use kube::api::Api;

use super::background::{Background, Ended};
use super::clients::ClientCaError;
use super::connect::{self, ConnectError};
use crate::admission::{self, Unanswerable};
use crate::args::Serve;
use crate::barrier::port::Port;
use crate::barrier::release::Barriers;
use crate::certs::keeper::{self, Keeper, Trust};
use crate::certs::{self, Authority, Certificates, Signer, Source, Subject};
use crate::controller::{self, Cluster, discovery};
use crate::gang::WaitContainer;
use crate::leader::{Election, Timing};
use crate::scheduler::Snapshot;
use crate::seals::{self, Question, Questions};
use crate::server::{self, Config, Handler, Server, Signals};
use crate::workload::{Facts, object};

/// Where the development CA and leaf are kept when no directory is given.
const DEVELOPMENT_DIR: &str = "certs";

/// Why the server did not run.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The directory that the user named cannot be used.
    #[error(
        "{source}; --tls-dir needs tls.crt and tls.key (the command certs writes them), or leave \
         it out for a development certificate"
    )]
    TlsDir {
        /// What is wrong with it.
        source: certs::Error,
    },
    /// The file of client CAs cannot be used.
    #[error(transparent)]
    ClientCa(#[from] ClientCaError),
    /// The cluster to reconcile was not found.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The CA in the cluster cannot be read or made.
    #[error("cannot keep a CA: {0}")]
    Authority(#[from] keeper::Error),
    /// The keys of stamps cannot be read or made.
    #[error("cannot keep the keys of stamps: {0}")]
    Seals(#[from] seals::Error),
    /// The apiserver does not answer.
    #[error("cannot reach the cluster: {0}")]
    Cluster(Box<kube::Error>),
    /// There is no certificate to serve with.
    #[error(transparent)]
    Certificates(#[from] certs::Error),
    /// The server could not start, or stopped.
    #[error(transparent)]
    Server(#[from] server::Error),
    /// Signals cannot be caught.
    #[error("cannot listen to signals: {0}")]
    Io(#[from] std::io::Error),
    #[error("stopped because {0}")]
    /// What must go on beside the server has ended.
    Background(Ended),
}

/// Serves until SIGTERM or SIGINT, or until a part of it is gone: kubelet starts it again.
pub async fn run(args: Serve) -> Result<(), ServeError> {
    let clients = args.clients.open()?;
    let client = connect::server(args.kubeconfig.as_deref()).await?;
    let cluster: Cluster = Arc::new(ArcSwap::from_pointee(args.cluster.snapshot()));
    let rotation = args.rotation();
    let mut keeper = None;
    let mut seals = None;
    if let Some(client) = &client {
        // Before the first review: a decision by an assumed cluster could not be taken back.
        let found = discovery::discover(client).await;
        let found = found.map_err(|source| ServeError::Cluster(Box::new(source)))?;
        controller::update(&cluster, &found, args.cluster.schedulers.scheduler());
        let opened = seals::Keeper::open(client.clone(), &args.namespace, Arc::clone(&cluster));
        seals = Some(opened.await?);
        if args.tls_dir.is_none() {
            let opened = Keeper::rotating(rotation, client.clone(), &args.namespace);
            keeper = Some(opened.await?);
        }
    }
    let certificates = match &keeper {
        Some(keeper) => Certificates::open(Source::Memory {
            signer: keeper.signer(),
            subject: Subject::within(&args.namespace).living(rotation.leaf),
        })?
        .polled_every(rotation.leaf_poll),
        None => certificates(args.tls_dir.as_deref())?,
    };
    let (seals, questions) = seals.unzip();
    if seals.is_none() {
        tracing::warn!("without a cluster stamps are sealed with a key that everybody knows");
    }
    let handler = handler(Arc::clone(&cluster), questions);
    let config = Config {
        listen: args.listen,
        admin: args.admin_listen,
        max_in_flight: args.max_in_flight,
        lame_duck: Duration::from_secs(args.lame_duck_seconds),
        max_connection_age: args.max_connection_age(),
        ..Config::default()
    };
    // Before the port is announced: a signal that comes at once must drain, not kill.
    let signals = Signals::install()?;
    let mut server = Server::bind(config, Arc::new(certificates), handler).await?;
    if let Some(clients) = clients {
        server.demand_certificates(clients)?;
    }
    // In a cluster nobody reads standard output: the server runs on when it is closed.
    if let Err(error) = announce(&server, &args) {
        tracing::debug!(%error, "cannot print the addresses");
    }
    let mut background = Background::default();
    if let Some(client) = &client {
        let barriers = Barriers::default();
        let certificates = Arc::clone(server.certificates());
        let port = Port::bind(
            args.barrier_listen,
            Arc::clone(&certificates),
            barriers.clone(),
            Arc::clone(&cluster),
        );
        let port = port.map_err(|source| server::Error::Listen {
            address: args.barrier_listen,
            source,
        })?;
        let address = port.local_addr()?;
        tracing::info!(%address, "pods at start barriers are answered");
        background.spawn("port of start barriers", port.run());
        let shown = controller::show_barriers(client.clone(), barriers);
        background.spawn("watch of start barriers", shown);
        let image = match &args.cluster.wait.wait_image {
            Some(_) => None,
            None => Some(OwnImage::new(client.clone(), &args)),
        };
        let known = Arc::new(AtomicBool::new(false));
        let is_known = Arc::clone(&known);
        // A template is never written again: one with another image, or without the address of the
        // replicas, would stay so for the life of its workload.
        let check = move || match is_known.load(Ordering::Acquire) {
            true => Ok(()),
            false => Err("the image of this replica is not known yet".to_owned()),
        };
        server.ready_when("wait-container", Box::new(check));
        // The second one stands for any replica: name servers tell for up to half a minute of those
        // that are gone.
        let (namespace, port) = (&args.namespace, address.port());
        let service =
            || format!("muster-barrier.{namespace}.svc:{port};muster.{namespace}.svc:8444");
        let server = args.barrier_server.clone().unwrap_or_else(service);
        let kept = keep_wait_container(image, server, certificates, Arc::clone(&cluster), known);
        background.spawn("container of start barriers", kept);
    }
    if let Some(keeper) = keeper {
        let trust = keeper.trust();
        let carried = move || match *trust.borrow() {
            Trust::Carried => Ok(()),
            Trust::Missing => Err("the webhook configurations do not carry the CA yet".to_owned()),
        };
        server.ready_when("ca-bundle", Box::new(carried));
        background.spawn("keeper of the CA", keeper.run(rotation.authority_poll));
    }
    if let Some(seals) = seals {
        background.spawn("keeper of the keys of stamps", seals.run());
    }
    if client.is_some() {
        let listed = controller::namespaces_listed(Arc::clone(&cluster));
        server.ready_when("namespaces", Box::new(listed));
        let listed = controller::pods_listed(Arc::clone(&cluster));
        server.ready_when("pods", Box::new(listed));
    }
    let mut election = client.map(|client| {
        let default = args.cluster.schedulers.scheduler();
        let snapshot = controller::keep_snapshot(client.clone(), default, Arc::clone(&cluster));
        background.spawn("snapshot of the cluster", snapshot);
        let timing = Timing::default();
        let (leadership, election) =
            Election::start(client.clone(), &args.namespace, &args.identity, timing);
        let metrics = controller::Metrics::register(server.registry(), leadership.clone());
        let reconciler = controller::lead(client, cluster, leadership, metrics);
        background.spawn("reconciler", reconciler);
        election
    });
    let mut gone = None;
    let trouble = async { gone = Some(background.watch_over(&mut election).await) };
    let served = server.run_until(signals, trouble).await;
    if let Some(election) = election {
        election.release().await;
    }
    served?;
    gone.map_or(Ok(()), |ended| Err(ServeError::Background(ended)))
}

/// The image that this replica runs.
struct OwnImage {
    pods: Api<Pod>,
    pod: String,
}

impl OwnImage {
    fn new(client: Client, args: &Serve) -> Self {
        Self {
            pods: Api::namespaced(client, &args.namespace),
            pod: args.identity.clone(),
        }
    }

    /// Nothing, where it is no pod.
    async fn find(&self) -> Result<Option<String>, kube::Error> {
        let Some(pod) = self.pods.get_opt(&self.pod).await? else {
            return Ok(None);
        };
        Ok(own_image(pod))
    }
}

/// As the manifest has it: one that is pinned by its digest stays so.
fn own_image(replica: Pod) -> Option<String> {
    let containers = replica.spec.unwrap_or_default().containers;
    // A mesh may have put its own beside it.
    let own = containers
        .iter()
        .find(|container| container.name == "muster");
    own.or(containers.first()).and_then(|own| own.image.clone())
}

/// How often what is injected for start barriers is looked at.
const WAIT_CONTAINER_POLL: Duration = Duration::from_secs(1);

/// Keeps what is injected for start barriers: by default this replica's own image, which asks the Service
/// and trusts the CA of now.
async fn keep_wait_container(
    mut image: Option<OwnImage>,
    server: String,
    certificates: Arc<Certificates>,
    cluster: Cluster,
    known: Arc<AtomicBool>,
) {
    let mut complained = false;
    loop {
        let mut container = WaitContainer::clone(&cluster.load().wait);
        container.server = Some(server.clone());
        let ca = certificates.authority_pem();
        container.ca = ca
            .and_then(|pem| String::from_utf8(pem).ok())
            .map(Arc::from);
        if let Some(own) = &image {
            match own.find().await {
                Ok(found) => {
                    match found {
                        Some(found) => container.image = found,
                        None => tracing::warn!(
                            pod = own.pod,
                            image = container.image,
                            "this replica is no pod: --wait-image sets the image of start barriers"
                        ),
                    }
                    image = None;
                }
                Err(error) if !complained => {
                    complained = true;
                    tracing::warn!(
                        %error,
                        "this replica's own image is not known yet: --wait-image sets it"
                    );
                }
                Err(_) => {}
            }
        }
        if *cluster.load().wait != container {
            let wait = Arc::new(container);
            cluster.rcu(|old| Snapshot {
                wait: Arc::clone(&wait),
                ..Snapshot::clone(old)
            });
        }
        if image.is_none() {
            known.store(true, Ordering::Release);
        }
        tokio::time::sleep(WAIT_CONTAINER_POLL).await;
    }
}

/// Answers reviews. What it does not know of a stamp is asked, for the next call.
fn handler(cluster: Cluster, questions: Option<Questions>) -> Handler {
    Arc::new(move |phase, body| {
        let answer = admission::answer(phase, body, &cluster.load());
        let question = match &answer {
            Err(Unanswerable::StampNotKnown(carrier)) => Some(Question::Stamp(carrier.clone())),
            Err(Unanswerable::KeyNotKnown) => Some(Question::Key),
            _ => None,
        };
        if let Some((questions, question)) = questions.as_ref().zip(question) {
            questions.ask(question);
        }
        answer
    })
}

fn certificates(tls_dir: Option<&Path>) -> Result<Certificates, ServeError> {
    if let Some(dir) = tls_dir {
        return Certificates::open(Source::Files(dir.to_owned()))
            .map_err(|source| ServeError::TlsDir { source });
    }
    let subject = Subject::default();
    let development = Source::Development {
        dir: DEVELOPMENT_DIR.into(),
        subject: subject.clone(),
    };
    match Certificates::open(development) {
        // A container's file system is often read-only; a certificate in memory serves as well.
        Err(certs::Error::Write { path, source }) => {
            let path = path.display().to_string();
            tracing::warn!(path, %source, "cannot keep a certificate on disk, one in memory serves");
            let signer = Signer::new(Authority::generate(SystemTime::now())?);
            let memory = Source::Memory { signer, subject };
            Ok(Certificates::open(memory)?)
        }
        opened => Ok(opened?),
    }
}

/// Says where the server is, and how to try it.
fn announce(server: &Server, args: &Serve) -> std::io::Result<()> {
    let dir = args.tls_dir.as_deref();
    let ca = dir.unwrap_or(Path::new(DEVELOPMENT_DIR)).join("ca.crt");
    let mut trust = if ca.exists() {
        format!("--cacert {}", ca.display())
    } else {
        "--insecure".to_owned()
    };
    trust.push_str(args.clients.for_curl());
    let mut out = std::io::stdout().lock();
    writeln!(out, "webhook: https://{}", reachable(server.local_addr()))?;
    writeln!(out, "admin:   http://{}", reachable(server.admin_addr()))?;
    writeln!(out, "try:     {}", curl(server.local_addr(), &trust))?;
    out.flush()
}

/// An address that a client on this machine can use.
fn reachable(address: SocketAddr) -> String {
    match address.ip() {
        ip if ip.is_unspecified() => format!("localhost:{}", address.port()),
        IpAddr::V4(_) | IpAddr::V6(_) => address.to_string(),
    }
}

/// A request to try the server with: creates an example of the first kind of workload.
fn curl(address: SocketAddr, trust: &str) -> String {
    let review = object::workloads().next().map(example).unwrap_or_default();
    format!(
        "curl {trust} https://{}/mutate -H 'Content-Type: application/json' -d '{review}'",
        reachable(address)
    )
}

/// A review of the example of a kind.
fn example(facts: &Facts) -> serde_json::Value {
    let kind = facts.kind;
    serde_json::json!({
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "try",
            "kind": {"group": kind.group, "version": kind.version, "kind": kind.name},
            "namespace": "default",
            "operation": "CREATE",
            "object": serde_json::from_str(facts.example).unwrap_or(serde_json::Value::Null),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admission::{Outcome, Phase};
    use crate::args::{Cli, Command};
    use clap::Parser as _;
    use serde_json::json;

    #[test]
    fn the_example_of_every_kind_is_admitted_as_a_gang() {
        let Command::Serve(args) = Cli::parse_from(["muster", "serve"]).command else {
            panic!("serve is a command");
        };
        let cluster = args.cluster.snapshot();
        for facts in object::workloads() {
            let review = example(facts).to_string();
            let answer = admission::answer(Phase::Mutate, review.as_bytes(), &cluster).unwrap();
            let kind = facts.kind.name;
            assert_eq!(answer.record.outcome, Outcome::Patched, "{kind}");
        }
    }

    /// Beside a mesh's container, and pinned by its digest where the manifest pins it.
    #[test]
    fn pods_wait_in_the_image_of_this_replica() {
        let image = |containers: serde_json::Value| {
            let pod = json!({"spec": {"containers": containers}});
            own_image(serde_json::from_value(pod).unwrap())
        };
        let pinned = format!("registry.example/muster@sha256:{}", "0f".repeat(32));
        let mesh = json!({"name": "proxy", "image": "registry.example/mesh:1"});
        let own = json!({"name": "muster", "image": pinned});
        assert_eq!(image(json!([mesh, own])), Some(pinned));
        let called = json!({"name": "webhook", "image": "registry.example/muster:1"});
        let found = image(json!([called, mesh]));
        assert_eq!(found.as_deref(), Some("registry.example/muster:1"));
        assert_eq!(image(json!([])), None);
    }
}
