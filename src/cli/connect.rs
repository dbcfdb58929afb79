//! Finding the cluster: for a server the one it is told, for a person the one they use.

use std::path::Path;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

use super::proxy;
use crate::args::Target;
use crate::controller::inspect::unseen::reason;

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(Box<kube::config::KubeconfigError>),
    #[error("cannot use the pod's service account: {0}")]
    InCluster(Box<kube::config::InClusterError>),
    #[error("found no cluster: {0}; name one with --kubeconfig")]
    None(Box<kube::config::InferConfigError>),
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
    match kubeconfig {
        Some(path) => client(from_file(path, KubeConfigOptions::default()).await?).map(Some),
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            let config = kube::Config::incluster();
            client(config.map_err(|source| ConnectError::InCluster(Box::new(source)))?).map(Some)
        }
        None => Ok(None),
    }
}

/// The cluster that a person means: the file and the context that they name, else what kubectl would
/// use.
pub(crate) async fn user(target: &Target) -> Result<Cluster, ConnectError> {
    let unusable = |source| ConnectError::Kubeconfig(Box::new(source));
    let options = KubeConfigOptions {
        context: target.context.clone(),
        ..KubeConfigOptions::default()
    };
    let config = match (&target.kubeconfig, &target.context) {
        (Some(path), _) => from_file(path, options).await?,
        // Those of a pod have no contexts.
        (None, Some(_)) => kube::Config::from_kubeconfig(&options)
            .await
            .map_err(unusable)?,
        (None, None) => kube::Config::infer()
            .await
            .map_err(|source| ConnectError::None(Box::new(source)))?,
    };
    let server = config.cluster_url.to_string();
    Ok(Cluster {
        server: server.trim_end_matches('/').to_owned(),
        client: client(config)?,
    })
}

async fn from_file(path: &Path, options: KubeConfigOptions) -> Result<kube::Config, ConnectError> {
    let unusable = |source| ConnectError::Kubeconfig(Box::new(source));
    let file = Kubeconfig::read_from(path).map_err(unusable)?;
    kube::Config::from_custom_kubeconfig(file, &options)
        .await
        .map_err(unusable)
}

fn client(mut config: kube::Config) -> Result<Client, ConnectError> {
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    config.proxy_url = proxy::for_server(config.proxy_url, &config.cluster_url, variable);
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
