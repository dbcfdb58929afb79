//! The version before this one, from the history of this repository: built once per machine, and kept
//! beside the components.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::components::{cache_dir, lock};
use crate::process::Group;
use crate::progress::Progress;

/// What an upgrade begins with. There is no release yet; the first one takes this one's place.
const COMMIT: &str = "584b367cd7925ba854d2c77f1237d25c8c96b13f";

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Its program and its manifests.
pub struct VersionBefore {
    dir: PathBuf,
}

impl VersionBefore {
    /// Where it is built already.
    pub fn built() -> Result<VersionBefore> {
        let dir = cache_dir()?.join(format!("muster-{COMMIT}"));
        ensure!(dir.exists(), "the version before is not built");
        Ok(VersionBefore { dir })
    }

    pub fn program(&self) -> PathBuf {
        self.dir.join("muster")
    }

    pub fn base(&self) -> PathBuf {
        self.dir.join("manifests/base")
    }

    pub fn build(group: &Group) -> Result<VersionBefore> {
        if let Ok(built) = VersionBefore::built() {
            return Ok(built);
        }
        let cache = cache_dir()?;
        fs::create_dir_all(&cache)?;
        let _lock = lock(&cache.join("muster.lock"), "muster")?;
        if let Ok(built) = VersionBefore::built() {
            return Ok(built);
        }
        // Renamed when complete: a build that was cut off leaves nothing that looks finished.
        let fresh = cache.join(".building-muster");
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        let source = fresh.join("source");
        fs::create_dir_all(&source)?;
        unpack(&source)?;
        compile(group, &source, &fresh.join("target"))?;
        fs::rename(fresh.join("target/debug/muster"), fresh.join("muster"))?;
        fs::rename(source.join("manifests"), fresh.join("manifests"))?;
        fs::remove_dir_all(&source)?;
        fs::remove_dir_all(fresh.join("target"))?;
        fs::rename(&fresh, cache.join(format!("muster-{COMMIT}")))?;
        VersionBefore::built()
    }
}

/// The files of the commit.
fn unpack(to: &Path) -> Result<()> {
    let archive = to.join("archive.tar");
    let git = Command::new("git")
        .args(["archive", "--format=tar", "--output"])
        .arg(&archive)
        .arg(COMMIT)
        .current_dir(ROOT)
        .output()
        .context("cannot run `git`, which has the version before this one")?;
    if !git.status.success() {
        let said = String::from_utf8_lossy(&git.stderr);
        bail!(
            "the history of this checkout has no commit {COMMIT}, from which these tests upgrade. \
             Get it (`git fetch --unshallow` in a shallow clone) and run the same command again.\n\
             git said: {said}"
        );
    }
    let tar = Command::new("tar")
        .arg("-xf")
        .arg(&archive)
        .current_dir(to)
        .status()?;
    ensure!(tar.success(), "cannot unpack {}", archive.display());
    fs::remove_file(archive)?;
    Ok(())
}

fn compile(group: &Group, source: &Path, target: &Path) -> Result<()> {
    let compiled = Path::new(env!("CARGO_TARGET_TMPDIR")).parent();
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(["build", "--locked", "--bin", "muster", "--target-dir"])
        .arg(target)
        // Most of its dependencies are this checkout's, and are compiled already. Cargo before 1.91
        // does not know the variable, and compiles them again.
        .env("CARGO_BUILD_BUILD_DIR", compiled.context("no directory")?)
        .current_dir(source);
    // What cargo tells this program about its own package.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy();
        let told = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        if told.iter().any(|start| name.starts_with(start)) {
            command.env_remove(name.as_ref());
        }
    }
    let progress = Progress::start("Muster, the version before");
    let compiler = group.spawn("build-muster-before", command, Vec::new())?;
    let status = progress.until(|| compiler.exited());
    ensure!(
        status.success(),
        "cannot build the version before ({status})\n{}",
        compiler.last_words()
    );
    Ok(())
}
