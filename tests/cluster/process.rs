//! Child processes whose output goes to files, and that never outlive the run.
//!
//! All of them join the process group of one small shell, the guard, whose standard input is a
//! pipe that only this process holds. However this process ends (normally, by a panic, Ctrl-C or
//! `kill -9`), the pipe closes, and the guard ends the whole group. A parent-death signal would
//! need `unsafe`, and a signal handler does not run on `kill -9`.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::ports::Port;

/// Ignores the signals that it sends to its own group; gives the others two seconds to end.
const GUARD: &str = r#"
trap '' INT TERM HUP
while read -r _; do :; done
kill -TERM 0
sleep 2
rm -rf -- "$1"
kill -KILL 0
"#;

/// A process group that ends with this process; `data` goes with it.
pub struct Group {
    guard: Mutex<Child>,
    leader: Pid,
    pub data: PathBuf,
    pub logs: PathBuf,
}

impl Group {
    /// `data` is removed at the end, `logs` only by [`Group::forget_logs`].
    pub fn new(data: &Path, logs: &Path) -> Result<Group> {
        fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let guard = Command::new("sh")
            .args(["-c", GUARD, "guard"])
            .arg(data)
            .stdin(Stdio::piped())
            .process_group(0)
            .spawn()
            .context("cannot start `sh`")?;
        Ok(Group {
            leader: Pid::from_child(&guard),
            guard: Mutex::new(guard),
            data: data.to_owned(),
            logs: logs.to_owned(),
        })
    }

    /// Starts `command` in the group, its output in `<logs>/<name>.log`. The ports that it listens
    /// on are held as long as it is known.
    pub fn spawn(&self, name: &str, mut command: Command, ports: Vec<Port>) -> Result<Process> {
        let log = self.logs.join(format!("{name}.log"));
        if let Some(parent) = log.parent() {
            fs::create_dir_all(parent)?;
        }
        // Appended, so that the log of a process that a test restarts is whole.
        let out = File::options().create(true).append(true).open(&log)?;
        command
            .stdin(Stdio::null())
            .stdout(out.try_clone()?)
            .stderr(out)
            .process_group(self.leader.as_raw_nonzero().get());
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        Ok(Process {
            name: name.to_owned(),
            child: Mutex::new(child),
            log,
            _ports: ports,
        })
    }

    /// Ends every member at once: their data is thrown away, so none needs to say goodbye.
    pub fn end(&self) {
        let mut guard = self
            .guard
            .lock()
            .unwrap_or_else(|poison| poison.into_inner());
        // Once the guard is reaped its id may belong to somebody else.
        if let Ok(None) = guard.try_wait() {
            let _ = kill_process_group(self.leader, Signal::KILL);
            let _ = guard.wait();
        }
        // A dying etcd may still create a file.
        for _ in 0..20 {
            if fs::remove_dir_all(&self.data).is_ok() || !self.data.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn forget_logs(&self) {
        let _ = fs::remove_dir_all(&self.logs);
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// One running component.
pub struct Process {
    pub name: String,
    pub log: PathBuf,
    child: Mutex<Child>,
    _ports: Vec<Port>,
}

impl Process {
    /// How it ended, if it did.
    pub fn exited(&self) -> Option<ExitStatus> {
        self.child().try_wait().ok().flatten()
    }

    pub fn signal(&self, signal: Signal) -> Result<()> {
        let mut child = self.child();
        // Asked under the lock: a reaped process has given its id back.
        if child.try_wait()?.is_none() {
            kill_process(Pid::from_child(&child), signal)?;
        }
        Ok(())
    }

    /// Asks it to end and waits for it; an error when it takes longer than `within`.
    pub async fn stop(&self, within: Duration) -> Result<ExitStatus> {
        self.signal(Signal::TERM)?;
        let start = Instant::now();
        loop {
            if let Some(status) = self.exited() {
                return Ok(status);
            }
            if start.elapsed() > within {
                let _ = self.signal(Signal::KILL);
                bail!("{} was still running {within:?} after SIGTERM", self.name);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Resident memory in MiB, where the system tells (Linux).
    pub fn memory(&self) -> Option<u64> {
        self.status_mib("VmRSS:")
    }

    /// The most that it ever was.
    pub fn peak_memory(&self) -> Option<u64> {
        self.status_mib("VmHWM:")
    }

    fn status_mib(&self, field: &str) -> Option<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child().id())).ok()?;
        let line = status.lines().find(|line| line.starts_with(field))?;
        let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kib / 1024)
    }

    /// CPU time of all its threads so far.
    pub fn cpu(&self) -> Option<Duration> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child().id())).ok()?;
        // The second field, the program's name, may have spaces; then utime and stime are the 12th and
        // 13th, in hundredths of a second on every Linux (USER_HZ).
        let (_, fields) = stat.rsplit_once(')')?;
        let times = fields.split_whitespace().skip(11).take(2);
        let ticks: u64 = times.filter_map(|time| time.parse::<u64>().ok()).sum();
        Some(Duration::from_millis(10 * ticks))
    }

    /// The last lines of its log, and where the rest is.
    pub fn last_words(&self) -> String {
        let text = fs::read(&self.log).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let lines: Vec<&str> = text.lines().collect();
        let tail = &lines[lines.len().saturating_sub(15)..];
        let path = self.log.display();
        format!("last lines of {path}:\n  {}", tail.join("\n  "))
    }

    fn child(&self) -> std::sync::MutexGuard<'_, Child> {
        self.child
            .lock()
            .unwrap_or_else(|poison| poison.into_inner())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let mut child = self.child();
        let _ = child.kill();
        let _ = child.wait();
    }
}
