//! From a kubeconfig to what a client of its cluster needs.
//!
//! kube 5.0 does the same and chooses a proxy on the way: it holds `NO_PROXY` against the address of the
//! proxy itself, and fails on entries that kubectl passes over (`localhost,` with a comma at its end). So
//! kube reads the files, and what they say is put together here.

use http::Uri;
use kube::config::{ExecAuthCluster, Kubeconfig, KubeconfigError};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::{self, PemObject as _};

/// Why a kubeconfig names no cluster that can be asked.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    #[error("cannot use the kubeconfig: {0}")]
    Kube(Box<KubeconfigError>),
    #[error("the kubeconfig has no current context")]
    NoContext,
    #[error("the kubeconfig has no context {0:?}")]
    Context(String),
    #[error("the kubeconfig has no cluster {cluster:?}, which its context {context:?} names")]
    Cluster { context: String, cluster: String },
    #[error("the kubeconfig has no server for its cluster {0:?}")]
    NoServer(String),
    #[error("the kubeconfig has a server that is no address: {0}")]
    Server(http::uri::InvalidUri),
    #[error("the kubeconfig has a CA that cannot be read: {0}")]
    Authority(pem::Error),
}

impl From<KubeconfigError> for Unusable {
    fn from(error: KubeconfigError) -> Self {
        Self::Kube(Box::new(error))
    }
}

/// What a kubeconfig says of a cluster.
#[derive(Debug)]
pub(super) struct Loaded {
    /// How to ask it, without a proxy.
    pub(super) config: kube::Config,
    /// The proxy of the kubeconfig itself.
    pub(super) proxy: Option<String>,
}

/// Looks a context up, or the current one.
pub(super) fn load(file: &Kubeconfig, context: Option<&str>) -> Result<Loaded, Unusable> {
    let current = file.current_context.as_deref();
    let mut names = [context, current].into_iter().flatten();
    let name = names.find(|name| !name.is_empty());
    let name = name.ok_or(Unusable::NoContext)?;
    let named = file.contexts.iter().find(|context| context.name == name);
    let context = named.and_then(|named| named.context.as_ref());
    let context = context.ok_or_else(|| Unusable::Context(name.to_owned()))?;

    let mut named = file.clusters.iter();
    let named = named.find(|cluster| cluster.name == context.cluster);
    let cluster = named.and_then(|named| named.cluster.as_ref());
    let cluster = cluster.ok_or_else(|| Unusable::Cluster {
        context: name.to_owned(),
        cluster: context.cluster.clone(),
    })?;
    let server = cluster.server.as_deref().unwrap_or_default();
    if server.is_empty() {
        return Err(Unusable::NoServer(context.cluster.clone()));
    }
    let server: Uri = server.parse().map_err(Unusable::Server)?;

    // A user that is not there is nobody, as for kubectl.
    let mut users = file.auth_infos.iter();
    let user = users.find(|user| Some(&user.name) == context.user.as_ref());
    let user = user.and_then(|user| user.auth_info.clone());
    // With the CA's text, whether it stands here or in a file.
    let told = ExecAuthCluster::try_from(cluster)?;
    let authority = told.certificate_authority_data.as_deref();

    let mut config = kube::Config::new(server);
    config.root_cert = authority.map(certificates).transpose()?;
    config.auth_info = user.unwrap_or_default();
    if let Some(exec) = &mut config.auth_info.exec
        && exec.provide_cluster_info
    {
        exec.cluster = Some(told);
    }
    if let Some(namespace) = context.namespace.as_ref().filter(|name| !name.is_empty()) {
        config.default_namespace.clone_from(namespace);
    }
    config.accept_invalid_certs = cluster.insecure_skip_tls_verify.unwrap_or(false);
    config.disable_compression = cluster.disable_compression.unwrap_or(false);
    config.tls_server_name.clone_from(&cluster.tls_server_name);
    let proxy = cluster.proxy_url.clone();
    Ok(Loaded {
        config,
        proxy: proxy.filter(|proxy| !proxy.is_empty()),
    })
}

fn certificates(text: &[u8]) -> Result<Vec<Vec<u8>>, Unusable> {
    let found = CertificateDer::pem_slice_iter(text);
    let found = found.map(|certificate| certificate.map(|der| der.to_vec()));
    found.collect::<Result<_, _>>().map_err(Unusable::Authority)
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use kube::config::KubeConfigOptions;

    use super::*;

    fn file() -> Kubeconfig {
        let ca = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let text = format!(
            "current-context: far
contexts:
- {{name: far, context: {{cluster: far, user: me, namespace: ml}}}}
- {{name: near, context: {{cluster: near, user: plugin}}}}
- {{name: nobody, context: {{cluster: near, user: gone}}}}
- {{name: lost, context: {{cluster: gone}}}}
- {{name: empty, context: {{cluster: empty}}}}
clusters:
- name: far
  cluster:
    server: https://far.example:6443
    certificate-authority-data: {}
    tls-server-name: kubernetes
    disable-compression: true
    proxy-url: http://proxy.example:3128
- {{name: near, cluster: {{server: 'https://10.0.0.1', insecure-skip-tls-verify: true}}}}
- {{name: empty, cluster: {{}}}}
users:
- {{name: me, user: {{token: secret}}}}
- {{name: plugin, user: {{exec: {{command: log-in, provideClusterInfo: true}}}}}}
",
            STANDARD.encode(ca)
        );
        Kubeconfig::from_yaml(&text).unwrap()
    }

    /// But for the proxy, of which kube has another opinion.
    #[tokio::test]
    async fn a_kubeconfig_means_what_it_means_to_kube() {
        for context in [None, Some("near"), Some("nobody")] {
            let options = KubeConfigOptions {
                context: context.map(str::to_owned),
                ..KubeConfigOptions::default()
            };
            let theirs = kube::Config::from_custom_kubeconfig(file(), &options);
            let mut theirs = theirs.await.unwrap();
            theirs.proxy_url = None;
            let ours = load(&file(), context).unwrap();
            assert_eq!(format!("{:?}", ours.config), format!("{theirs:?}"));
            let own = context.is_none().then_some("http://proxy.example:3128");
            assert_eq!(ours.proxy.as_deref(), own);
        }
        let far = load(&file(), None).unwrap().config;
        assert_eq!(far.root_cert, Some(vec![vec![0, 0, 0]]));
        assert_eq!(far.default_namespace, "ml");
    }

    #[test]
    fn a_name_that_is_not_there_is_told() {
        let said = |context: &str| load(&file(), Some(context)).unwrap_err().to_string();
        assert_eq!(said("nope"), "the kubeconfig has no context \"nope\"");
        assert_eq!(
            said("lost"),
            "the kubeconfig has no cluster \"gone\", which its context \"lost\" names"
        );
        assert_eq!(
            said("empty"),
            "the kubeconfig has no server for its cluster \"empty\""
        );
        let nothing = load(&Kubeconfig::default(), None).unwrap_err();
        assert_eq!(nothing.to_string(), "the kubeconfig has no current context");
    }
}
