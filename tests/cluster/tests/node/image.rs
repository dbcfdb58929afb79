//! Muster's image, built twice.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::words::succeeds;
use crate::health::wait_for;
use crate::long::Length;
use crate::node::images::{Place, build_muster, write_muster};
use crate::process::Group;
use crate::sandbox::Sandbox;

/// A release build takes minutes, and much longer beside others.
const BUILT: Duration = Duration::from_secs(3000);

/// The archive is written twice of one program. In the long form the program is built a second time too,
/// from a copy of the sources in another directory.
pub async fn the_image_is_the_same_to_the_byte(sandbox: Sandbox) -> Result<()> {
    let dir = tempfile::tempdir()?;
    let program = Place::own()?.program();
    let first = image(&program, &dir.path().join("first"))?;
    // Another time, and another owner's rights.
    let copy = dir.path().join("copy");
    fs::copy(&program, &copy)?;
    let other = match Length::of_this_run() {
        Length::Short => copy,
        Length::Long => built_elsewhere(&sandbox, &dir.path().join("elsewhere")).await?,
    };
    let second = image(&other, &dir.path().join("second"))?;
    ensure!(
        first == second,
        "{} and {} bytes",
        first.len(),
        second.len()
    );
    Ok(())
}

fn image(program: &Path, dir: &Path) -> Result<Vec<u8>> {
    fs::create_dir(dir)?;
    Ok(fs::read(write_muster(program, dir)?)?)
}

async fn built_elsewhere(sandbox: &Sandbox, dir: &Path) -> Result<PathBuf> {
    let own = Place::own()?;
    let there = Place {
        source: dir.join("sources"),
        target: dir.join("built"),
    };
    fs::create_dir_all(&there.source)?;
    let mut copy = Command::new("cp");
    copy.arg("-R").current_dir(&own.source);
    copy.args([
        "Cargo.toml",
        "Cargo.lock",
        "src",
        "benches",
        "examples",
        "tests",
    ]);
    copy.arg(&there.source);
    succeeds(copy).await?;
    let start = Instant::now();
    let logs = sandbox.cluster.plane.dir().join("image");
    let group = Arc::new(Group::new(&dir.join("group"), &logs)?);
    let build = build_muster(&group, &there)?;
    let status = wait_for("the second build", BUILT, async || {
        build.exited().ok_or_else(|| anyhow::anyhow!("it goes on"))
    })
    .await?;
    ensure!(status.success(), "{}", build.last_words());
    println!(
        "built a second time in {:.0} s",
        start.elapsed().as_secs_f64()
    );
    Ok(there.program())
}
