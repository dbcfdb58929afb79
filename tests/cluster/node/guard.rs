//! The process that owns the namespaces: it starts them, and cleans up after them however the
//! process that the user started ends, `kill -9` included.
//!
//! As in `process`, it knows of that end by a pipe that only the other holds.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};

/// In the environment of every process of a run but those in containers; its value is the run's id.
pub const MARK: &str = "MUSTER_NODE";

/// One run: its names are its own, so that runs can overlap.
#[derive(clap::Args, Clone)]
pub struct Run {
    pub id: String,
    /// Everything that is written, and removed at the end.
    pub scratch: PathBuf,
    /// Only the namespaces, for the tests of how a run ends
    #[arg(long)]
    pub rehearse: bool,
    /// Run only the tests whose name contains this
    #[arg(long, default_value = "")]
    pub filter: String,
}

impl Run {
    pub fn new(filter: Option<&str>, rehearse: bool) -> Result<Run> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH)?;
        let id = format!("{}-{}", std::process::id(), since.subsec_nanos());
        Ok(Run {
            scratch: std::env::temp_dir().join(format!("muster-node-{id}")),
            id,
            rehearse,
            filter: filter.unwrap_or_default().to_owned(),
        })
    }

    /// This program again, in another part.
    pub fn command(&self, part: &str) -> Result<Vec<OsString>> {
        let program = std::env::current_exe().context("cannot find this program")?;
        let mut words = vec![program.into(), part.into(), self.id.clone().into()];
        words.push(self.scratch.clone().into());
        words.push(format!("--filter={}", self.filter).into());
        words.extend(self.rehearse.then(|| "--rehearse".into()));
        Ok(words)
    }

    /// The kubelet's, in every hierarchy.
    pub fn cgroup(&self) -> String {
        format!("muster-node-{}", self.id)
    }

    pub fn cgroups(&self) -> Vec<PathBuf> {
        let root = Path::new("/sys/fs/cgroup");
        let entries = fs::read_dir(root).into_iter().flatten().flatten();
        let hierarchies = entries.map(|entry| entry.path());
        let all = hierarchies.chain([root.to_owned()]);
        let own = all.map(|dir| dir.join(self.cgroup()));
        own.filter(|dir| dir.is_dir()).collect()
    }

    /// After the first process of the namespaces has ended; the others end a moment later, and
    /// hold cgroups until then.
    fn clean(&self) {
        let start = Instant::now();
        loop {
            let gone = self.cgroups().iter().all(|dir| remove_cgroup(dir).is_ok());
            let removed = match fs::remove_dir_all(&self.scratch) {
                Err(error) => error.kind() == io::ErrorKind::NotFound,
                Ok(()) => true,
            };
            if gone && removed || start.elapsed() > Duration::from_secs(30) {
                return;
            }
            thread::sleep(Duration::from_millis(50));
        }
    }
}

/// A cgroup's files cannot be removed, and go with it.
fn remove_cgroup(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            remove_cgroup(&entry.path())?;
        }
    }
    fs::remove_dir(dir)
}

/// What the guard does: the namespaces' exit status, or that of a run that was cut off.
pub fn guard(run: &Run) -> Result<ExitStatus> {
    // Not on a file system in memory if the user can choose: containers are unpacked in it.
    fs::create_dir(&run.scratch)?;
    let holder = Command::new("unshare")
        .args([
            "--mount",
            "--net",
            "--pid",
            "--uts",
            "--ipc",
            "--mount-proc",
        ])
        .args(["--fork", "--kill-child", "--propagation", "private"])
        .args(run.command("node-init")?)
        .env(MARK, &run.id)
        .env("TMPDIR", &run.scratch)
        .stdin(Stdio::null())
        .spawn();
    let status = holder
        .context("cannot start `unshare`")
        .and_then(|mut holder| watch(&mut holder));
    run.clean();
    status
}

fn watch(holder: &mut Child) -> Result<ExitStatus> {
    let (sender, closed) = mpsc::channel::<()>();
    thread::spawn(move || {
        let _ = io::copy(&mut io::stdin(), &mut io::sink());
        drop(sender);
    });
    loop {
        if let Some(status) = holder.try_wait()? {
            return Ok(status);
        }
        if let Err(RecvTimeoutError::Disconnected) = closed.recv_timeout(Duration::from_millis(50))
        {
            // With it ends the first process inside, and with that one all others.
            holder.kill()?;
            return Ok(holder.wait()?);
        }
    }
}

/// A guard as its parent sees it; dropped, it ends everything and is waited for.
pub struct Guarded {
    guard: Child,
    pipe: Option<ChildStdin>,
}

impl Guarded {
    pub fn start(run: &Run) -> Result<Guarded> {
        let words = run.command("node-guard")?;
        let mut guard = Command::new(&words[0])
            .args(&words[1..])
            .stdin(Stdio::piped())
            // Ctrl-C is for the parent only.
            .process_group(0)
            .spawn()
            .context("cannot start the guard")?;
        let pipe = guard.stdin.take();
        Ok(Guarded { guard, pipe })
    }

    /// Waits for the end of the tests and of the cleaning.
    pub async fn wait(&mut self) -> Result<ExitStatus> {
        loop {
            if let Some(status) = self.guard.try_wait()? {
                return Ok(status);
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        drop(self.pipe.take());
        let _ = self.guard.wait();
    }
}
