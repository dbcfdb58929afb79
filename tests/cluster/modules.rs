//! Which programs the harness builds, and from which Go modules.

/// Programs that are built together.
pub struct Module {
    pub name: &'static str,
    /// The Go module under `modules/` that pins the versions of these programs and of their libraries.
    /// Groups with the same one share what Go has compiled.
    pub libraries: &'static str,
    /// Program name and main package; `./` is one of the module's own.
    pub programs: &'static [(&'static str, &'static str)],
    /// The Kubernetes module whose version the programs report, as its release build does.
    pub reports: Option<&'static str>,
    /// Tags that leave out what these tests do not need.
    pub tags: Option<&'static str>,
    pub manifests: &'static [Manifest],
}

/// Objects that a component ships, kept as `<name>.json`.
pub struct Manifest {
    pub name: &'static str,
    pub module: &'static str,
    pub source: Source,
}

pub enum Source {
    Kustomization(&'static str),
    /// Files below the module's directory.
    Files(&'static [&'static str]),
}

/// In the order in which they are built: first what the tests on a real node need, which run while the
/// rest is built.
pub static ALL: [&Module; 13] = [
    &KUBERNETES_1_37,
    &COREDNS,
    &NETWORK_POLICIES,
    &OPERATORS,
    &CERT_MANAGER,
    &HELM,
    &PROMETHEUS,
    &KUEUE,
    &SCHEDULERS,
    &KUBERNETES_1_36,
    &KUBERNETES_1_35,
    &MPI,
    &KUBERAY,
];

pub static KUBERNETES_1_37: Module = Module {
    name: "kubernetes-1.37",
    libraries: "kubernetes-1.37",
    programs: &[
        ("kubectl", "k8s.io/kubernetes/cmd/kubectl"),
        ("kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"),
        ("kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"),
        (
            "kube-controller-manager",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
        ("kubelet", "k8s.io/kubernetes/cmd/kubelet"),
        ("kube-proxy", "k8s.io/kubernetes/cmd/kube-proxy"),
    ],
    reports: Some("k8s.io/kubernetes"),
    tags: None,
    manifests: &[],
};

/// Names for pods.
pub static COREDNS: Module = Module {
    name: "coredns",
    libraries: "kubernetes-1.37",
    programs: &[("coredns", "./coredns")],
    reports: None,
    tags: None,
    manifests: &[],
};

/// Holds pods to NetworkPolicies, which the network plugin of the node does not.
pub static NETWORK_POLICIES: Module = Module {
    name: "network-policies",
    libraries: "kubernetes-1.37",
    programs: &[("policies", "./policies")],
    reports: None,
    tags: None,
    manifests: &[],
};

pub static OPERATORS: Module = Module {
    name: "operators",
    libraries: "kubernetes-1.36",
    programs: &[
        ("etcd", "go.etcd.io/etcd/server/v3"),
        ("jobset", "sigs.k8s.io/jobset"),
        ("lws", "sigs.k8s.io/lws/cmd"),
        ("kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    ],
    reports: None,
    tags: None,
    manifests: &[
        Manifest {
            name: "jobset",
            module: "sigs.k8s.io/jobset",
            source: Source::Kustomization("config/default"),
        },
        Manifest {
            name: "lws",
            module: "sigs.k8s.io/lws",
            source: Source::Kustomization("config/default"),
        },
    ],
};

/// Its controllers in a main of ours.
pub static CERT_MANAGER: Module = Module {
    name: "cert-manager",
    libraries: "kubernetes-1.36",
    programs: &[("cert-manager", "./cert-manager")],
    reports: None,
    tags: None,
    manifests: &[Manifest {
        name: "cert-manager",
        module: "github.com/cert-manager/cert-manager",
        source: Source::Files(&[
            "deploy/crds/acme.cert-manager.io_challenges.yaml",
            "deploy/crds/acme.cert-manager.io_orders.yaml",
            "deploy/crds/cert-manager.io_certificaterequests.yaml",
            "deploy/crds/cert-manager.io_certificates.yaml",
            "deploy/crds/cert-manager.io_clusterissuers.yaml",
            "deploy/crds/cert-manager.io_issuers.yaml",
        ]),
    }],
};

pub static SCHEDULERS: Module = Module {
    name: "schedulers",
    libraries: "kubernetes-1.34",
    programs: &[
        (
            "coscheduling-scheduler",
            "sigs.k8s.io/scheduler-plugins/cmd/scheduler",
        ),
        ("volcano-scheduler", "volcano.sh/volcano/cmd/scheduler"),
        (
            "volcano-controller",
            "volcano.sh/volcano/cmd/controller-manager",
        ),
        ("volcano-webhook", "volcano.sh/volcano/cmd/webhook-manager"),
        (
            "yunikorn-scheduler",
            "github.com/apache/yunikorn-k8shim/pkg/cmd/shim",
        ),
        ("yunikorn-admission", "./yunikorn-admission"),
        (
            "kai-scheduler",
            "github.com/NVIDIA/KAI-scheduler/cmd/scheduler",
        ),
        ("kai-binder", "github.com/NVIDIA/KAI-scheduler/cmd/binder"),
        (
            "kai-podgrouper",
            "github.com/NVIDIA/KAI-scheduler/cmd/podgrouper",
        ),
    ],
    reports: None,
    tags: None,
    manifests: &[
        Manifest {
            name: "coscheduling",
            module: "sigs.k8s.io/scheduler-plugins",
            source: Source::Files(&[
                "config/crd/bases/scheduling.x-k8s.io_podgroups.yaml",
                "config/crd/bases/scheduling.x-k8s.io_elasticquotas.yaml",
            ]),
        },
        Manifest {
            name: "volcano",
            module: "volcano.sh/volcano",
            source: Source::Files(&[
                "config/crd/volcano/bases/batch.volcano.sh_jobs.yaml",
                "config/crd/volcano/bases/batch.volcano.sh_cronjobs.yaml",
                "config/crd/volcano/bases/bus.volcano.sh_commands.yaml",
                "config/crd/volcano/bases/config.volcano.sh_colocationconfigurations.yaml",
                "config/crd/volcano/bases/nodeinfo.volcano.sh_numatopologies.yaml",
                "config/crd/volcano/bases/scheduling.volcano.sh_podgroups.yaml",
                "config/crd/volcano/bases/scheduling.volcano.sh_queues.yaml",
                "config/crd/volcano/bases/shard.volcano.sh_nodeshards.yaml",
                "config/crd/volcano/bases/topology.volcano.sh_hypernodes.yaml",
                "config/crd/jobflow/bases/flow.volcano.sh_jobflows.yaml",
                "config/crd/jobflow/bases/flow.volcano.sh_jobtemplates.yaml",
            ]),
        },
        Manifest {
            name: "kai",
            module: "github.com/NVIDIA/KAI-scheduler",
            source: Source::Files(&[
                "deployments/kai-scheduler/crds/kai.scheduler_configs.yaml",
                "deployments/kai-scheduler/crds/kai.scheduler_schedulingshards.yaml",
                "deployments/kai-scheduler/crds/kai.scheduler_topologies.yaml",
                "deployments/kai-scheduler/crds/scheduling.run.ai_bindrequests.yaml",
                "deployments/kai-scheduler/crds/scheduling.run.ai_podgroups.yaml",
                "deployments/kai-scheduler/crds/scheduling.run.ai_queues.yaml",
            ]),
        },
    ],
};

/// Koordinator 1.8 is built with the libraries of Kubernetes 1.35.
pub static KUBERNETES_1_35: Module = Module {
    name: "kubernetes-1.35",
    libraries: "kubernetes-1.35",
    programs: &[
        (
            "koordinator-scheduler",
            "github.com/koordinator-sh/koordinator/cmd/koord-scheduler",
        ),
        (
            "kube-apiserver-1.35",
            "k8s.io/kubernetes/cmd/kube-apiserver",
        ),
        (
            "kube-scheduler-1.35",
            "k8s.io/kubernetes/cmd/kube-scheduler",
        ),
        (
            "kube-controller-manager-1.35",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
    ],
    reports: Some("k8s.io/kubernetes"),
    tags: None,
    manifests: &[Manifest {
        name: "koordinator",
        module: "github.com/koordinator-sh/koordinator",
        source: Source::Files(&[
            "config/crd/bases/scheduling.koordinator.sh_clusternetworktopologies.yaml",
            "config/crd/bases/scheduling.koordinator.sh_devices.yaml",
            "config/crd/bases/scheduling.koordinator.sh_podmigrationjobs.yaml",
            "config/crd/bases/scheduling.koordinator.sh_reservations.yaml",
            "config/crd/bases/scheduling.koordinator.sh_scheduleexplanations.yaml",
            "config/crd/bases/scheduling.sigs.k8s.io_elasticquotas.yaml",
            "config/crd/bases/scheduling.sigs.k8s.io_podgroups.yaml",
        ]),
    }],
};

pub static KUBERNETES_1_36: Module = Module {
    name: "kubernetes-1.36",
    libraries: "kubernetes-1.36",
    programs: &[
        (
            "kube-apiserver-1.36",
            "k8s.io/kubernetes/cmd/kube-apiserver",
        ),
        (
            "kube-scheduler-1.36",
            "k8s.io/kubernetes/cmd/kube-scheduler",
        ),
        (
            "kube-controller-manager-1.36",
            "k8s.io/kubernetes/cmd/kube-controller-manager",
        ),
    ],
    reports: Some("k8s.io/kubernetes"),
    tags: None,
    manifests: &[],
};

pub static MPI: Module = Module {
    name: "mpi",
    libraries: "kubernetes-1.35",
    programs: &[("mpi-operator", "./mpi-operator")],
    reports: None,
    tags: None,
    manifests: &[Manifest {
        name: "mpi-operator",
        module: "github.com/kubeflow/mpi-operator",
        source: Source::Kustomization("manifests/overlays/standalone"),
    }],
};

/// Its own libraries are those of Kubernetes 1.33.
pub static KUBERAY: Module = Module {
    name: "kuberay",
    libraries: "kubernetes-1.34",
    programs: &[(
        "kuberay-operator",
        "github.com/ray-project/kuberay/ray-operator",
    )],
    reports: None,
    tags: None,
    manifests: &[Manifest {
        name: "kuberay-operator",
        module: "github.com/ray-project/kuberay/ray-operator",
        source: Source::Kustomization("config/default"),
    }],
};

pub static KUEUE: Module = Module {
    name: "kueue",
    libraries: "kubernetes-1.36",
    programs: &[("kueue", "sigs.k8s.io/kueue/cmd/kueue")],
    reports: None,
    // Kubernetes' scheduler, which it simulates when an alpha gate is on.
    tags: Some("exclude_scheduler_library"),
    manifests: &[Manifest {
        name: "kueue",
        module: "sigs.k8s.io/kueue",
        source: Source::Kustomization("config/default"),
    }],
};

/// What reads and evaluates alerts. A small main and not promtool, which takes four times as long to
/// build: seven and a half minutes of CPU time.
pub static PROMETHEUS: Module = Module {
    name: "prometheus",
    libraries: "kubernetes-1.37",
    programs: &[("prometheus-alerts", "./alerts")],
    reports: None,
    tags: None,
    manifests: &[],
};

/// For the chart.
pub static HELM: Module = Module {
    name: "helm",
    libraries: "kubernetes-1.37",
    programs: &[("helm", "helm.sh/helm/v4/cmd/helm")],
    reports: None,
    tags: None,
    manifests: &[],
};
