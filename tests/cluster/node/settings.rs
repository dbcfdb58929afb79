//! The files that configure the programs of a node.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::{Value, json};

use super::guard::MARK;
use super::images::PAUSE;
use crate::apiserver::Seat;
use crate::control_plane::ControlPlane;

pub const CONTAINERD_SOCKET: &str = "/run/containerd/containerd.sock";

/// The configuration of the network of pods.
pub const NETWORK: &str = "10-pods.conflist";

const NETWORKS: &str = "cni";
const KEPT: &str = "cni-kept";

/// How often the kubelet looks at each pod though nothing happened, which is when it refreshes
/// mounted Secrets and ConfigMaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// JobSet waits for its own certificate to show up in a mounted Secret.
    Often,
    /// The kubelet's default: a minute.
    Default,
}

/// The directory of a node's files, which goes with the namespaces.
pub struct Settings {
    pub dir: PathBuf,
    /// Of the run; names the cgroup.
    id: String,
}

impl Settings {
    pub fn new() -> Result<Settings> {
        let id = std::env::var(MARK).context("a node runs only in namespaces of its own")?;
        let dir = std::env::temp_dir().join("node");
        for below in [NETWORKS, KEPT, "containerd", "kubelet", "images"] {
            fs::create_dir_all(dir.join(below))?;
        }
        Ok(Settings { dir, id })
    }

    pub fn containerd(&self) -> Result<PathBuf> {
        let root = self.dir.join("containerd");
        let network = json!({"cniVersion": "0.4.0", "name": "pods", "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                // A pod may reach itself by its Service.
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": "/run/cni-ipam",
                    "ranges": [[{"subnet": "10.245.0.0/24"}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ]});
        let cni = self.networks();
        fs::write(cni.join(NETWORK), serde_json::to_vec_pretty(&network)?)?;
        // Without CAP_SYS_RESOURCE, as in many VMs and CI machines, runc cannot lower a score.
        let text = format!(
            r#"version = 2
root = "{root}"
state = "/run/containerd"
[grpc]
  address = "{CONTAINERD_SOCKET}"
[plugins."io.containerd.internal.v1.opt"]
  path = "{root}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{cni}"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
"#,
            root = root.display(),
            cni = cni.display(),
        );
        let path = self.dir.join("containerd.toml");
        fs::write(&path, text)?;
        Ok(path)
    }

    pub fn kubelet(&self, plane: &ControlPlane, sync: Sync) -> Result<PathBuf> {
        let address = Seat::Node.address();
        let serving = plane
            .authority
            .server("kubelet-server", &[address, super::NODE])?;
        let mut config = json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": address,
            "authentication": {
                "anonymous": {"enabled": false},
                "webhook": {"enabled": true},
                "x509": {"clientCAFile": plane.authority.certificate()},
            },
            "authorization": {"mode": "Webhook"},
            "tlsCertFile": serving.certificate,
            "tlsPrivateKeyFile": serving.key,
            "containerRuntimeEndpoint": format!("unix://{CONTAINERD_SOCKET}"),
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": format!("/muster-node-{}", self.id),
            "cgroupsPerQOS": true,
            "enforceNodeAllocatable": ["pods"],
            // Reads the machine's settings, and never writes them: see `setup.sh`.
            "protectKernelDefaults": true,
            "volumePluginDir": self.dir.join("volumeplugins"),
            "resolvConf": "",
            "clusterDNS": [address],
            "clusterDomain": "cluster.local",
            "nodeStatusUpdateFrequency": "5s",
            // An image that is collected cannot be pulled again.
            "imageGCHighThresholdPercent": 100,
            // The machine's disk is not the test's matter.
            "evictionHard": {},
            "localStorageCapacityIsolation": false,
        });
        if sync == Sync::Often {
            config["syncFrequency"] = json!("5s");
        }
        self.write("kubelet.json", &config)
    }

    pub fn proxy(&self, plane: &ControlPlane) -> Result<PathBuf> {
        let kubeconfig = plane.user_kubeconfig("system:kube-proxy", None)?;
        let config = json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "clientConnection": {"kubeconfig": kubeconfig},
            "mode": "nftables",
            "hostnameOverride": super::NODE,
            "bindAddress": Seat::Node.address(),
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            "clusterCIDR": "10.245.0.0/16",
            // Cannot be written in a network namespace.
            "conntrack": {
                "maxPerCore": 0,
                "min": 0,
                "tcpEstablishedTimeout": "0s",
                "tcpCloseWaitTimeout": "0s",
            },
        });
        self.write("kube-proxy.json", &config)
    }

    pub fn dns(&self, plane: &ControlPlane) -> Result<PathBuf> {
        let kubeconfig = plane.kubeconfig.display();
        let text = format!(
            ".:53 {{
    errors
    ready 127.0.0.1:8181
    kubernetes cluster.local in-addr.arpa {{
        kubeconfig {kubeconfig} e2e
        pods insecure
    }}
}}
"
        );
        let path = self.dir.join("Corefile");
        fs::write(&path, text)?;
        Ok(path)
    }

    fn write(&self, name: &str, config: &Value) -> Result<PathBuf> {
        let path = self.dir.join(name);
        fs::write(&path, serde_json::to_vec_pretty(config)?)?;
        Ok(path)
    }

    /// Where the runtime looks for the network of pods.
    pub fn networks(&self) -> PathBuf {
        self.dir.join(NETWORKS)
    }

    /// Where its configuration is while a node joins without it.
    pub fn kept(&self) -> PathBuf {
        self.dir.join(KEPT)
    }

    pub fn images(&self) -> PathBuf {
        self.dir.join("images")
    }

    pub fn kubelet_root(&self) -> PathBuf {
        self.dir.join("kubelet")
    }
}
