//! The components of a real control plane, built from source and kept outside the checkout.
//!
//! The small Go modules under `modules/` pin versions, and the Go toolchain fetches and builds the
//! programs of a group by module path. The result lies in a directory named after a hash of the
//! files that decide about it, so that a fresh clone on the same machine builds nothing.

use std::collections::BTreeMap;
use std::env;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::compile::{batches, go};
use crate::manifests;
use crate::modules::{Module, Source};
use crate::process::Group;

/// Part of every key: raise it when the way of building changes but no module file does.
const RECIPE: &str = "2";

const NO_GO: &str = "\
`go` was not found, and components are missing that these tests build from source.
Install Go 1.26 or newer (your system's package manager has it, or see the Go project's
download page), make sure that `go version` works, and run the same command again.";

/// Where the built programs and rendered manifests are.
#[derive(Default)]
pub struct Components {
    files: BTreeMap<String, PathBuf>,
}

impl Components {
    /// Those of these modules, built or not.
    pub fn of(modules: &[&Module]) -> Result<Components> {
        let mut components = Components::default();
        for module in modules {
            let dir = module.built_in()?;
            for (program, _) in module.programs {
                let path = dir.join(program);
                components.files.insert((*program).to_owned(), path);
            }
            for manifest in module.manifests {
                let file = format!("{}.json", manifest.name);
                let path = dir.join(&file);
                components.files.insert(file, path);
            }
        }
        Ok(components)
    }

    /// Builds what the cache lacks of these modules.
    pub fn build(group: &Group, modules: &[&Module]) -> Result<Components> {
        let cache = cache_dir()?;
        fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
        let components = Components::of(modules)?;
        for module in modules {
            module
                .build(&cache, &components, group)
                .with_context(|| format!("cannot build the group {}", module.name))?;
        }
        Ok(components)
    }

    pub fn have_built(&self, module: &Module) -> bool {
        let mut programs = module.programs.iter();
        programs.all(|(name, _)| self.path(name).is_ok_and(Path::exists))
    }

    pub fn path(&self, name: &str) -> Result<&Path> {
        let path = self.files.get(name);
        path.map(PathBuf::as_path)
            .ok_or_else(|| anyhow!("no group builds {name}"))
    }

    pub fn program(&self, name: &str) -> Result<Command> {
        let mut command = Command::new(self.path(name)?);
        // Less garbage is collected than by default, as long as there is memory: what bounds a run on
        // few cores is CPU time.
        command.env("GOGC", "300").env("GOMEMLIMIT", "3GiB");
        Ok(command)
    }
}

impl Module {
    pub fn source(&self) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/cluster/modules")
            .join(self.libraries)
    }

    fn key(&self) -> Result<String> {
        let mut hash = Sha256::new_with_prefix(RECIPE);
        let source = self.source();
        let mut paths = vec![source.join("go.mod"), source.join("go.sum")];
        for (_, package) in self.programs {
            hash.update(package);
            if package.starts_with("./") {
                paths.extend(files(&source.join(package))?);
            }
        }
        for path in paths {
            let text =
                fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.strip_prefix(&source)?.to_string_lossy();
            hash.update(name.as_bytes());
            hash.update(text.len().to_le_bytes());
            hash.update(text);
        }
        Ok(hash
            .finalize()
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }

    fn built_in(&self) -> Result<PathBuf> {
        Ok(cache_dir()?.join(format!("{}-{}", self.name, self.key()?)))
    }

    fn build(&self, cache: &Path, all: &Components, group: &Group) -> Result<()> {
        let done = self.built_in()?;
        if done.exists() {
            return Ok(());
        }
        let _lock = lock(&cache.join(format!("{}.lock", self.name)), self.name)?;
        if done.exists() {
            return Ok(());
        }
        let version = match go(&["version"], &self.source()) {
            Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
            Err(error) if error.kind() == ErrorKind::NotFound => bail!(NO_GO),
            Err(error) => return Err(error).context("cannot run `go`"),
        };
        println!("building the group {} with {version}", self.name);
        // Renamed when complete: a build that was cut off leaves nothing that looks finished.
        let fresh = cache.join(format!(".building-{}", self.name));
        if fresh.exists() {
            fs::remove_dir_all(&fresh)?;
        }
        fs::create_dir(&fresh)?;
        for together in batches(self.programs) {
            self.compile(&together, &fresh, group)?;
        }
        for manifest in self.manifests {
            let args = [
                "list",
                "-mod=readonly",
                "-m",
                "-f",
                "{{.Dir}}",
                manifest.module,
            ];
            let output = go(&args, &self.source())?;
            let dir = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
            let objects = match manifest.source {
                Source::Kustomization(path) => manifests::render(all, &dir.join(path)),
                Source::Files(paths) => manifests::read(&dir, paths),
            };
            let objects = objects
                .with_context(|| format!("cannot read the manifests of {}", manifest.module))?;
            let json = serde_json::to_vec(&objects)?;
            fs::write(fresh.join(format!("{}.json", manifest.name)), json)?;
        }
        fs::rename(&fresh, &done)?;
        println!("built {}", done.display());
        Ok(())
    }
}
/// All files of a directory and of those below it, in a fixed order.
fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let entries = fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            found.extend(files(&path)?);
        } else {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Two runs must not build the same group at once; the lock ends with the returned file.
pub fn lock(path: &Path, name: &str) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot make {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => {}
        Err(TryLockError::Error(error)) => return Err(error.into()),
    }
    println!("another run builds the group {name}: waiting for it");
    file.lock()?;
    Ok(file)
}

/// Held by a run that builds everything, as long as it is at work.
fn builder() -> Result<File> {
    let cache = cache_dir()?;
    fs::create_dir_all(&cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let path = cache.join("builder.lock");
    File::create(&path).with_context(|| format!("cannot make {}", path.display()))
}

/// Tells other runs that this one builds everything, until the returned file is closed.
pub fn announce_builder() -> Result<File> {
    let file = builder()?;
    file.lock()?;
    Ok(file)
}

/// Whether another run builds everything.
pub fn is_building() -> Result<bool> {
    match builder()?.try_lock_shared() {
        Ok(()) => Ok(false),
        Err(TryLockError::WouldBlock) => Ok(true),
        Err(TryLockError::Error(error)) => Err(error.into()),
    }
}

pub fn cache_dir() -> Result<PathBuf> {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    if let Some(dir) = set("MUSTER_E2E_CACHE") {
        return Ok(PathBuf::from(dir));
    }
    let user = match (set("XDG_CACHE_HOME"), set("HOME")) {
        (Some(dir), _) => PathBuf::from(dir),
        (None, Some(home)) => PathBuf::from(home).join(".cache"),
        (None, None) => bail!("set MUSTER_E2E_CACHE: neither XDG_CACHE_HOME nor HOME is set"),
    };
    Ok(user.join("muster-e2e"))
}
