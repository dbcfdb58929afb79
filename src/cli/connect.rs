//! Finding the cluster: for a server the one it is told, for a person the one they use.

use std::path::Path;

use kube::Client;
use kube::config::{KubeConfigOptions, Kubeconfig};

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("cannot use the kubeconfig: {0}")]
    Kubeconfig(Box<kube::config::KubeconfigError>),
    #[error("cannot use the pod's service account: {0}")]
    InCluster(Box<kube::config::InClusterError>),
    #[error("found no cluster: {0}; name one with --kubeconfig")]
    None(Box<kube::config::InferConfigError>),
    #[error("cannot set up the client: {0}")]
    Client(Box<kube::Error>),
}

/// The cluster that a server works on. A developer's own kubeconfig is never picked up by itself:
/// serving on a laptop must not reconcile whatever cluster that points at.
pub(crate) async fn server(kubeconfig: Option<&Path>) -> Result<Option<Client>, ConnectError> {
    match kubeconfig {
        Some(path) => client(from_file(path).await?).map(Some),
        None if std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() => {
            let config = kube::Config::incluster();
            client(config.map_err(|source| ConnectError::InCluster(Box::new(source)))?).map(Some)
        }
        None => Ok(None),
    }
}

/// The cluster that a person means: the file they name, else what kubectl would use.
pub(crate) async fn user(kubeconfig: Option<&Path>) -> Result<Client, ConnectError> {
    let config = match kubeconfig {
        Some(path) => from_file(path).await?,
        None => kube::Config::infer()
            .await
            .map_err(|source| ConnectError::None(Box::new(source)))?,
    };
    client(config)
}

async fn from_file(path: &Path) -> Result<kube::Config, ConnectError> {
    let unusable = |source| ConnectError::Kubeconfig(Box::new(source));
    let file = Kubeconfig::read_from(path).map_err(unusable)?;
    kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
        .await
        .map_err(unusable)
}

fn client(config: kube::Config) -> Result<Client, ConnectError> {
    Client::try_from(config).map_err(|source| ConnectError::Client(Box::new(source)))
}
