//! The versions that the page names are those that the tests on real clusters build and run.

use muster::cli::yaml;

use crate::page::{pages, read};
#[path = "../cluster/release.rs"]
#[allow(dead_code)]
mod release;

use release::Release;

/// The version of a Go module that one of the harness requires.
fn pinned(libraries: &str, module: &str) -> String {
    let text = read(&format!("tests/cluster/modules/{libraries}/go.mod"));
    let line = |line: &str| {
        let line = line.trim().trim_start_matches("require ");
        let version = line.strip_prefix(module)?.strip_prefix(" v")?;
        Some(version.split_whitespace().next()?.to_owned())
    };
    let found = text.lines().find_map(line);
    found.unwrap_or_else(|| panic!("{libraries} requires no {module}"))
}

/// What must be on for native gangs, as an administrator types it.
fn flags(release: Release) -> String {
    let runtime = release.runtime_config().unwrap();
    let gates = |component: &str, gates: Option<&str>| {
        gates.map(|gates| format!("{component} `--feature-gates={gates}`"))
    };
    let all = [
        gates("kube-apiserver", release.apiserver_gates())
            .map(|gates| format!("{gates} `--runtime-config={runtime}`")),
        gates("kube-scheduler", release.scheduler_gates()),
        gates("kube-controller-manager", release.controller_gates()),
    ];
    let all: Vec<String> = all.into_iter().flatten().collect();
    all.join("; ")
}

/// The cluster of the guide has what the table says of its version.
#[test]
fn the_guide_is_for_versions_of_the_table() {
    let file = read("manifests/kind.yaml");
    let mut documents = yaml::documents(&file);
    let kind = documents.pop().unwrap().unwrap().value;
    let joined = |field: &str| {
        let pairs = kind[field].as_object().unwrap().iter();
        let pairs = pairs.map(|(name, value)| match value.as_str() {
            Some(text) => format!("{name}={text}"),
            None => format!("{name}={value}"),
        });
        pairs.collect::<Vec<_>>().join(",")
    };
    // kind sets the gates of all components.
    let gates = [
        Release::V1_37.apiserver_gates(),
        Release::V1_37.scheduler_gates(),
        Release::V1_37.controller_gates(),
    ];
    assert_eq!(gates, [Some(joined("featureGates").as_str()); 3]);
    let runtime = joined("runtimeConfig");
    assert_eq!(Release::V1_37.runtime_config(), Some(runtime.as_str()));

    let pages = pages();
    let page = pages.iter().find(|page| page.name() == "docs/install.md");
    let guide = page.unwrap().section("Five minutes");
    // kind has no image of every patch release.
    let jobset = pinned("kubernetes-1.36", "sigs.k8s.io/jobset");
    let jobset = format!("/jobset/releases/download/v{jobset}/manifests.yaml\n");
    for part in [" --image kindest/node:v1.37.", &jobset] {
        assert!(guide.text.contains(part), "the guide has no {part}");
    }
}

#[test]
fn the_supported_versions_are_those_of_the_harness() {
    let mut rows = Vec::new();
    for (name, release) in [
        ("Kubernetes 1.35", Release::V1_35),
        ("Kubernetes 1.36", Release::V1_36),
        ("Kubernetes 1.37", Release::V1_37),
        ("Kubernetes 1.37, for bundles", Release::V1_37WithComposites),
    ] {
        let number = name.split([' ', ',']).nth(1).unwrap();
        let version = pinned(&format!("kubernetes-{number}"), "k8s.io/kubernetes");
        assert!(version.starts_with(number), "{version}");
        rows.push(format!("| {name} | {version} | {} |", flags(release)));
    }
    for (name, libraries, module) in [
        ("JobSet", "kubernetes-1.36", "sigs.k8s.io/jobset"),
        ("LeaderWorkerSet", "kubernetes-1.36", "sigs.k8s.io/lws"),
        ("Kueue", "kubernetes-1.36", "sigs.k8s.io/kueue"),
        ("Volcano", "kubernetes-1.34", "volcano.sh/volcano"),
        (
            "scheduler-plugins (coscheduling)",
            "kubernetes-1.34",
            "sigs.k8s.io/scheduler-plugins",
        ),
        (
            "Koordinator",
            "kubernetes-1.35",
            "github.com/koordinator-sh/koordinator",
        ),
        (
            "YuniKorn",
            "kubernetes-1.34",
            "github.com/apache/yunikorn-k8shim",
        ),
        ("KAI", "kubernetes-1.34", "github.com/NVIDIA/KAI-scheduler"),
        (
            "MPI operator",
            "kubernetes-1.35",
            "github.com/kubeflow/mpi-operator",
        ),
        (
            "KubeRay",
            "kubernetes-1.34",
            "github.com/ray-project/kuberay/ray-operator",
        ),
        ("Helm", "kubernetes-1.37", "helm.sh/helm/v4"),
        (
            "cert-manager",
            "kubernetes-1.36",
            "github.com/cert-manager/cert-manager",
        ),
    ] {
        rows.push(format!("| {name} | {} | |", pinned(libraries, module)));
    }
    let page = read("docs/install.md");
    let section = page.split("\n## Supported versions\n").nth(1).unwrap();
    let shown: Vec<&str> = section
        .lines()
        .filter(|line| line.starts_with('|'))
        .skip(2)
        .collect();
    assert_eq!(shown, rows, "the table must be\n{}", rows.join("\n"));
}
