//! The versions that the page names are those that the tests on real clusters build and run.

use crate::page::read;
#[path = "../cluster/release.rs"]
#[allow(dead_code)]
mod release;

use release::Release;

/// The version of a Go module that a group of the harness requires.
fn pinned(group: &str, module: &str) -> String {
    let text = read(&format!("tests/cluster/modules/{group}/go.mod"));
    let line = |line: &str| {
        let line = line.trim().trim_start_matches("require ");
        let version = line.strip_prefix(module)?.strip_prefix(" v")?;
        Some(version.split_whitespace().next()?.to_owned())
    };
    let found = text.lines().find_map(line);
    found.unwrap_or_else(|| panic!("{group} requires no {module}"))
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
    for (name, group, module) in [
        ("JobSet", "operators", "sigs.k8s.io/jobset"),
        ("LeaderWorkerSet", "operators", "sigs.k8s.io/lws"),
        ("Volcano", "schedulers", "volcano.sh/volcano"),
        (
            "scheduler-plugins (coscheduling)",
            "schedulers",
            "sigs.k8s.io/scheduler-plugins",
        ),
        (
            "Koordinator",
            "kubernetes-1.35",
            "github.com/koordinator-sh/koordinator",
        ),
        (
            "YuniKorn",
            "schedulers",
            "github.com/apache/yunikorn-k8shim",
        ),
        ("KAI", "schedulers", "github.com/NVIDIA/KAI-scheduler"),
        ("MPI operator", "mpi", "github.com/kubeflow/mpi-operator"),
        (
            "KubeRay",
            "kuberay",
            "github.com/ray-project/kuberay/ray-operator",
        ),
        ("Helm", "helm", "helm.sh/helm/v4"),
    ] {
        rows.push(format!("| {name} | {} | |", pinned(group, module)));
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
