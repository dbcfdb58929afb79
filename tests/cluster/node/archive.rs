//! Images without a registry: one layer, written by hand, as the archive that `docker save` makes.
//!
//! Not an OCI layout, though containerd reads both: only in an archive does it complete a short
//! name such as `muster:dev` as it does for a pod, so no host of a registry is spelled here.

use std::collections::BTreeSet;
use std::env::consts::ARCH;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

/// A program and where it lies in the image.
pub struct Image<'a> {
    /// As a pod names it.
    pub name: &'a str,
    pub program: (&'a Path, &'a str),
    /// `Entrypoint`, `Cmd`, `User` and so on.
    pub config: Value,
}

impl Image<'_> {
    /// Writes `<name without its path>.tar`. The same input gives the same bytes: no time, no
    /// owner.
    pub fn write(&self, dir: &Path) -> Result<PathBuf> {
        let layer = self.layer()?;
        let config = json!({
            "architecture": match ARCH { "x86_64" => "amd64", "aarch64" => "arm64", other => other },
            "os": "linux",
            "config": self.config,
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{}", hex(&layer))]},
        });
        let manifest = json!([{
            "Config": "config.json",
            "RepoTags": [self.name],
            "Layers": ["layer.tar"],
        }]);
        let file = self.name.rsplit('/').next().unwrap_or(self.name);
        let path = dir.join(format!("{}.tar", file.replace(':', "-")));
        let mut archive = Builder::new(File::create(&path)?);
        put(
            &mut archive,
            "manifest.json",
            &serde_json::to_vec(&manifest)?,
        )?;
        put(&mut archive, "config.json", &serde_json::to_vec(&config)?)?;
        put(&mut archive, "layer.tar", &layer)?;
        archive.finish()?;
        Ok(path)
    }

    fn layer(&self) -> Result<Vec<u8>> {
        let (source, target) = self.program;
        let mut layer = Builder::new(Vec::new());
        let target = target.trim_start_matches('/');
        let parents: BTreeSet<&Path> = Path::new(target).ancestors().skip(1).collect();
        for parent in parents
            .into_iter()
            .filter(|path| !path.as_os_str().is_empty())
        {
            let mut header = header(0, 0o755);
            header.set_entry_type(EntryType::Directory);
            layer.append_data(&mut header, parent, std::io::empty())?;
        }
        let program =
            fs::read(source).with_context(|| format!("cannot read {}", source.display()))?;
        let mut header = header(program.len(), 0o755);
        layer.append_data(&mut header, target, program.as_slice())?;
        Ok(layer.into_inner()?)
    }
}

fn put(archive: &mut Builder<File>, name: &str, data: &[u8]) -> Result<()> {
    Ok(archive.append_data(&mut header(data.len(), 0o644), name, data)?)
}

fn header(size: usize, mode: u32) -> Header {
    let mut header = Header::new_ustar();
    header.set_entry_type(EntryType::Regular);
    header.set_size(size as u64);
    header.set_mode(mode);
    header
}

/// ring's, not sha2's: without optimisation the latter takes seconds for an operator.
fn hex(data: &[u8]) -> String {
    let hash = digest(&SHA256, data);
    hash.as_ref()
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}
