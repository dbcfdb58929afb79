//! The first process of the namespaces: prepares them, starts the tests, and reaps whatever is
//! orphaned, as containerd's shims are by intent.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, WaitOptions, WaitStatus, wait};

use super::guard::Run;
use crate::apiserver::Seat;

const SETUP: &str = include_str!("setup.sh");

/// Leaves something of each kind for the guard to end or remove, and stays.
const REHEARSAL: &str = r#"
ip link add cni0 type bridge
mkdir "$1/mount"
mount -t tmpfs tmpfs "$1/mount"
for group in /sys/fs/cgroup/*/"$2" /sys/fs/cgroup/"$2"; do
    [ ! -d "$group" ] || mkdir -p "$group/pod/container"
done
setsid sleep 3600 &
for group in /sys/fs/cgroup/*/"$2"/pod/container /sys/fs/cgroup/"$2"/pod/container; do
    # A cpuset without CPUs takes nobody.
    [ ! -d "$group" ] || echo $! 2> /dev/null > "$group/cgroup.procs" || true
done
touch "$1/ready"
exec sleep 3600
"#;

/// Returns the exit code of the tests.
pub fn init(run: &Run) -> Result<u8> {
    let status = Command::new("bash")
        .args(["-c", SETUP, "setup"])
        .arg(&run.scratch)
        .args([Seat::Node.address(), &run.cgroup()])
        .status()
        .context("cannot run `bash`")?;
    ensure!(status.success(), "cannot prepare the namespaces ({status})");
    let mut tests = if run.rehearse {
        let mut command = Command::new("bash");
        command.args(["-ec", REHEARSAL, "rehearsal"]);
        command.arg(&run.scratch).arg(run.cgroup());
        command
    } else {
        let words = run.command("node-inside")?;
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command
    };
    let tests = tests.spawn().context("cannot start the tests")?;
    reap_until(Pid::from_child(&tests))
}

fn reap_until(tests: Pid) -> Result<u8> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == tests => return Ok(code(status)),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).context("cannot wait for the tests"),
        }
    }
}

fn code(status: WaitStatus) -> u8 {
    let code = status.exit_status().unwrap_or(1);
    u8::try_from(code).unwrap_or(1)
}
