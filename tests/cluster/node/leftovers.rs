//! What a run may leave on the machine, looked at from outside: mounts, processes, cgroups,
//! interfaces, firewall rules, kernel settings and files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};

use super::guard::{MARK, Run};

/// Written by the kubelet, containerd and the network plugins wherever they run.
const PLACES: &[&str] = &[
    "/etc/cni",
    "/run/cni-ipam",
    "/run/containerd",
    "/run/xtables.lock",
    "/usr/libexec/kubernetes",
    "/var/lib/cni",
    "/var/lib/containerd",
    "/var/lib/kubelet",
    "/var/log/containers",
    "/var/log/pods",
];

/// Set by a kubelet or a kube-proxy.
const SETTINGS: &[&str] = &[
    "/proc/sys/kernel/keys/root_maxbytes",
    "/proc/sys/kernel/keys/root_maxkeys",
    "/proc/sys/kernel/panic",
    "/proc/sys/kernel/panic_on_oops",
    "/proc/sys/net/ipv4/ip_forward",
    "/proc/sys/vm/overcommit_memory",
    "/proc/sys/vm/panic_on_oom",
];

/// The machine before a run. Others may use it at the same time, so only what bears a run's marks
/// is held against it.
pub struct Before {
    places: BTreeSet<&'static str>,
    settings: BTreeMap<&'static str, String>,
    interfaces: BTreeSet<String>,
    tables: BTreeSet<String>,
    cgroups: BTreeSet<String>,
    mounts: BTreeSet<String>,
}

impl Before {
    pub fn look() -> Before {
        Before {
            places: places(),
            settings: settings(),
            interfaces: interfaces(),
            tables: tables(),
            cgroups: cgroups(),
            mounts: mounts(),
        }
    }

    pub fn nothing_left_by(&self, run: &Run) -> Result<()> {
        let left = self.left_by(run);
        ensure!(left.is_empty(), "left:\n  {}", left.join("\n  "));
        Ok(())
    }

    /// One line for each thing that is left of the run.
    pub fn left_by(&self, run: &Run) -> Vec<String> {
        let mut left = Vec::new();
        let mut add = |what: &str, things: Vec<String>| {
            left.extend(things.into_iter().map(|thing| format!("{what} {thing}")));
        };
        add("process", processes(run));
        let own = run.cgroups().into_iter();
        add("cgroup", own.map(|dir| dir.display().to_string()).collect());
        add("cgroup", new(&cgroups(), &self.cgroups));
        let scratch = run.scratch.to_string_lossy().into_owned();
        let mut mounts = new(&mounts(), &self.mounts);
        mounts.retain(|line| line.contains(&scratch) || FIXED.iter().any(|at| line.contains(at)));
        add("mount", mounts);
        add("interface", new(&interfaces(), &self.interfaces));
        add("firewall table", new(&tables(), &self.tables));
        for (name, value) in settings() {
            if self.settings.get(name) != Some(&value) {
                add("setting", vec![format!("{name}={value}")]);
            }
        }
        let places: Vec<&str> = places().difference(&self.places).copied().collect();
        add("file", places.into_iter().map(str::to_owned).collect());
        if run.scratch.exists() {
            add("file", vec![scratch]);
        }
        left
    }
}

/// Mount points inside that have nothing of the run in their name.
const FIXED: &[&str] = &[" /var ", " /run ", " /proc/sys/"];

fn new(now: &BTreeSet<String>, before: &BTreeSet<String>) -> Vec<String> {
    now.difference(before).cloned().collect()
}

/// By the mark in their environment, and those in containers by their cgroup.
fn processes(run: &Run) -> Vec<String> {
    let mark = format!("{MARK}={}\0", run.id);
    let cgroup = run.cgroup();
    let mut found = Vec::new();
    for name in names(Path::new("/proc")) {
        let dir = Path::new("/proc").join(&name);
        let environment = fs::read(dir.join("environ")).unwrap_or_default();
        let marked = String::from_utf8_lossy(&environment).contains(&mark);
        let groups = fs::read_to_string(dir.join("cgroup")).unwrap_or_default();
        if marked || groups.contains(&cgroup) {
            let command = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            found.push(format!("{name} ({})", command.trim()));
        }
    }
    found
}

fn names(dir: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

fn places() -> BTreeSet<&'static str> {
    let there = |path: &&&str| Path::new(path).exists();
    PLACES.iter().filter(there).copied().collect()
}

fn settings() -> BTreeMap<&'static str, String> {
    let read = |path: &&'static str| Some((*path, fs::read_to_string(path).ok()?));
    SETTINGS.iter().filter_map(read).collect()
}

/// Those that a network plugin makes.
fn interfaces() -> BTreeSet<String> {
    let mut names = names(Path::new("/sys/class/net"));
    names.retain(|name| name.starts_with("cni") || name.starts_with("veth"));
    names
}

/// kube-proxy's.
fn tables() -> BTreeSet<String> {
    let output = Command::new("nft").args(["list", "tables"]).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let text = text.unwrap_or_default();
    let lines = text.lines().filter(|line| line.contains("kube"));
    lines.map(str::to_owned).collect()
}

/// Made by containerd and by a kubelet that was not told where.
fn cgroups() -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let root = Path::new("/sys/fs/cgroup");
    for hierarchy in names(root).into_iter().chain([String::new()]) {
        for name in ["k8s.io", "kubepods"] {
            let dir = root.join(&hierarchy).join(name);
            if dir.is_dir() {
                found.insert(dir.display().to_string());
            }
        }
    }
    found
}

/// Without their ids, which are given again.
fn mounts() -> BTreeSet<String> {
    let text = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}
