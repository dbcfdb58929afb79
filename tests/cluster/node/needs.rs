//! What the tests on a real node need from the machine. What is missing is asked for, with the
//! command to type; a tier that is skipped shows nothing.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

/// Programs by the Debian package that has them.
const PROGRAMS: &[(&str, &str)] = &[
    ("containerd", "containerd"),
    ("ctr", "containerd"),
    ("runc", "runc"),
    ("/usr/lib/cni/bridge", "containernetworking-plugins"),
    ("iptables", "iptables"),
    ("nft", "nftables"),
    ("conntrack", "conntrack"),
    ("musl-gcc", "musl-tools"),
    ("unshare", "util-linux"),
    ("mount", "mount"),
    ("ip", "iproute2"),
];

/// The target of the `Dockerfile`, whose libc makes the binary static.
pub fn target() -> String {
    format!("{}-unknown-linux-musl", env::consts::ARCH)
}

/// An error that says everything that is missing.
pub fn check() -> Result<()> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root: run the same command as root, such as with sudo -E".to_owned());
    }
    let mut packages: Vec<&str> = Vec::new();
    for (program, package) in PROGRAMS {
        if !found(program) && !packages.contains(package) {
            packages.push(package);
        }
    }
    if !packages.is_empty() {
        let install = "apt-get update && apt-get install -y --no-install-recommends";
        missing.push(format!("Debian packages: {install} {}", packages.join(" ")));
    }
    let target = target();
    if !has_target(&target) {
        missing.push(format!("a Rust target: rustup target add {target}"));
    }
    if !missing.is_empty() {
        let list = missing.join("\n- ");
        bail!("the tests on a real node need more than this machine has:\n- {list}");
    }
    Ok(())
}

fn found(program: &str) -> bool {
    if program.starts_with('/') {
        return Path::new(program).exists();
    }
    let path = env::var_os("PATH").unwrap_or_default();
    // The path of an ordinary user may lack the last two; root will have them.
    let dirs = env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    dirs.into_iter().any(|dir| dir.join(program).is_file())
}

fn has_target(target: &str) -> bool {
    let output = Command::new("rustc")
        .args(["--print=target-libdir", "--target", target])
        .output();
    output.is_ok_and(|output| {
        let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        output.status.success() && dir.is_dir()
    })
}
