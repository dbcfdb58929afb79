//! Finding the cluster: for a server the one it is told, for a person the one they use.

use std::path::Path;

use kube::Client;
use kube::config::{Kubeconfig, KubeconfigError};

use super::kubeconfig::{self, Loaded, Unusable};
use super::proxy::{self, ProxyError};
use crate::args::Target;
use crate::controller::inspect::unseen::reason;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(transparent)]
    Kubeconfig(#[from] Unusable),
    #[error(transparent)]
    Proxy(#[from] ProxyError),
    #[error("cannot use the pod's service account: {0}")]
    InCluster(Box<kube::config::InClusterError>),
    #[error("found no cluster: {0}; name one with --kubeconfig")]
    None(Unusable),
    #[error("cannot set up the client: {}", reason(.0))]
    Client(Box<kube::Error>),
}

/// A cluster that a person asks.
pub(crate) struct Cluster {
    pub(crate) client: Client,
    /// Its apiserver's address.
    server: String,
}

/// Why the apiserver did not do what it was asked for, in its own words where it answered.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// It does not know who asks.
    #[error("{server} does not accept the credentials of the kubeconfig: {why}")]
    Unknown {
        /// Its address.
        server: String,
        /// Its words.
        why: String,
    },
    /// It refuses.
    #[error("{0}")]
    Refused(String),
    /// It cannot be asked.
    #[error("no answer from {server}: {why}")]
    Silent {
        /// Its address.
        server: String,
        /// What is known.
        why: String,
    },
}

impl Cluster {
    /// For people.
    pub(crate) fn failed(&self, error: &kube::Error) -> Failed {
        let (server, why) = (self.server.clone(), reason(error));
        match error {
            kube::Error::Api(status) if status.code == 401 => Failed::Unknown { server, why },
            kube::Error::Api(_) => Failed::Refused(why),
            _ => Failed::Silent { server, why },
        }
    }
}

/// The cluster that a server works on. A developer's own kubeconfig is never picked up by itself:
/// serving on a laptop must not reconcile whatever cluster that points at.
pub(crate) async fn server(kubeconfig: Option<&Path>) -> Result<Option<Client>, ConnectError> {
    let config = match kubeconfig {
        Some(path) => reached(loaded(Kubeconfig::read_from(path), None)?)?,
        None if is_pod() => in_cluster()?,
        None => return Ok(None),
    };
    client(config).map(Some)
}

/// The cluster that a person means: the file and the context that they name, else what kubectl would
/// use.
pub(crate) async fn user(target: &Target) -> Result<Cluster, ConnectError> {
    let context = target.context.as_deref();
    let found = match &target.kubeconfig {
        Some(path) => loaded(Kubeconfig::read_from(path), context),
        None => loaded(Kubeconfig::read(), context),
    };
    let named = target.kubeconfig.is_some() || context.is_some();
    let mut config = match found {
        Ok(found) => reached(found)?,
        Err(error) if named => return Err(error.into()),
        Err(_) if is_pod() => in_cluster()?,
        Err(error) => return Err(ConnectError::None(error)),
    };
    if !named {
        config.apply_debug_overrides();
    }
    let server = config.cluster_url.to_string();
    Ok(Cluster {
        server: server.trim_end_matches('/').to_owned(),
        client: client(config)?,
    })
}

fn loaded(
    file: Result<Kubeconfig, KubeconfigError>,
    context: Option<&str>,
) -> Result<Loaded, Unusable> {
    kubeconfig::load(&file?, context)
}

/// What a kubeconfig says, with the proxy by which kubectl would ask its cluster.
fn reached(found: Loaded) -> Result<kube::Config, ProxyError> {
    let Loaded { mut config, proxy } = found;
    let variable = |name: &str| std::env::var(name).ok();
    config.proxy_url = proxy::for_server(proxy.as_deref(), &config.cluster_url, variable)?;
    Ok(config)
}

fn is_pod() -> bool {
    std::env::var_os("KUBERNETES_SERVICE_HOST").is_some()
}

/// By no proxy: a pod is in the cluster that it asks.
fn in_cluster() -> Result<kube::Config, ConnectError> {
    kube::Config::incluster().map_err(|source| ConnectError::InCluster(Box::new(source)))
}

/// Only within a runtime, as the async functions above are: it starts a task.
fn client(config: kube::Config) -> Result<Client, ConnectError> {
    Client::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn cluster(port: u16) -> Cluster {
        let url = format!("http://127.0.0.1:{port}");
        let config = kube::Config::new(url.parse().unwrap());
        Cluster {
            client: client(config).unwrap(),
            server: url,
        }
    }

    #[tokio::test]
    async fn a_refusal_is_told_in_the_apiservers_words() {
        let cluster = cluster(1).await;
        let said = |message: &str, reason: &str, code| {
            let status = kube::core::Status::failure(message, reason).with_code(code);
            let error = kube::Error::Api(Box::new(status));
            cluster.failed(&error).to_string()
        };
        let forbidden = r#"pods is forbidden: User "eve" cannot list"#;
        assert_eq!(said(forbidden, "Forbidden", 403), forbidden);
        insta::assert_snapshot!(said("Unauthorized", "Unauthorized", 401), @"http://127.0.0.1:1 does not accept the credentials of the kubeconfig: Unauthorized");
    }

    #[tokio::test]
    async fn an_apiserver_that_does_not_answer_is_named() {
        // A port that was free a moment ago.
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let cluster = cluster(port).await;
        let error = cluster.client.apiserver_version().await.unwrap_err();
        let said = cluster.failed(&error).to_string();
        let named = format!("no answer from http://127.0.0.1:{port}: ");
        assert!(said.starts_with(&named), "{said}");
        assert!(said.contains("Connection refused"), "{said}");
    }
}
