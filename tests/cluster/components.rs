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
use std::process::{Command, Output};

use anyhow::{Context, Result, anyhow, bail};
use sha2::{Digest, Sha256};

use crate::manifests;
use crate::modules::{KUBERNETES_1_37, Module, Source};
use crate::process::Group;
use crate::progress::Progress;

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
    fn source(&self) -> PathBuf {
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

    /// One call for several programs: one is linked, on one core, while others are compiled.
    fn compile(&self, programs: &[Program], to: &Path, group: &Group) -> Result<()> {
        let out = to.join("out");
        fs::create_dir(&out)?;
        let mut command = Command::new("go");
        command
            .args(["build", "-mod=readonly", "-buildvcs=false"])
            .arg(format!("-gcflags=all={}", self.compiler_flags()))
            .arg("-ldflags")
            .arg(self.linker_flags()?)
            .arg(format!("-tags={}", self.tags.unwrap_or_default()))
            .arg("-o")
            .arg(&out)
            .args(programs.iter().map(|(_, package)| package))
            .current_dir(self.source())
            // As the release builds: no C compiler needed.
            .env("CGO_ENABLED", "0")
            .env("GOWORK", "off")
            // The compiler does not collect its garbage while it has memory: a quarter less CPU
            // time, measured with the group mpi (152 s for 213 s).
            .env("GOGC", "off")
            .env("GOMEMLIMIT", "3GiB");
        let names: Vec<&str> = programs.iter().map(|(name, _)| *name).collect();
        let progress = Progress::start(&names.join(", "));
        let first = names.first().copied().unwrap_or_default();
        let compiler = group.spawn(&format!("build-{first}"), command, Vec::new())?;
        let status = progress.until(|| compiler.exited());
        if !status.success() {
            let names = names.join(", ");
            let said = compiler.last_words();
            bail!("`go build` failed for {names} ({status})\n{said}");
        }
        for (name, package) in programs {
            let written = out.join(written_as(package));
            fs::rename(&written, to.join(name))
                .with_context(|| format!("go has not written {}", written.display()))?;
        }
        fs::remove_dir(&out).context("go has written more than was asked for")?;
        Ok(())
    }

    /// Symbols are stripped anyway: without them 7 % less CPU time, measured with the group mpi. Without
    /// inlining a third less, measured with the standard library; but not where most of the CPU time of
    /// a run goes, the API server and its controllers.
    fn compiler_flags(&self) -> &'static str {
        match self.libraries == KUBERNETES_1_37.libraries {
            true => "-dwarf=false",
            false => "-dwarf=false -l",
        }
    }

    /// Without the version, `/version` would say v0.0.0, and clients decide by it.
    fn linker_flags(&self) -> Result<String> {
        let mut flags = "-s -w".to_owned();
        if let Some(module) = self.reports {
            let text = fs::read_to_string(self.source().join("go.mod"))?;
            let version = text
                .split_once(&format!("{module} v"))
                .and_then(|(_, rest)| rest.split_whitespace().next())
                .with_context(|| format!("go.mod requires no {module}"))?;
            let mut numbers = version.split('.');
            let (major, minor) = (numbers.next().unwrap_or(""), numbers.next().unwrap_or(""));
            let at = "k8s.io/component-base/version";
            flags += &format!(
                " -X {at}.gitVersion=v{version} -X {at}.gitMajor={major} -X {at}.gitMinor={minor}"
            );
        }
        Ok(flags)
    }
}

/// A program's name and its main package.
type Program = (&'static str, &'static str);

/// The name under which go writes a program: the last part of its package that is no major version.
fn written_as(package: &str) -> &str {
    let version = |part: &&str| {
        let number = part.strip_prefix('v');
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut parts = package.rsplit('/').filter(|part| !version(part));
    parts.next().unwrap_or(package)
}

/// Programs that can be written to one directory: no two of one name.
fn batches(programs: &[Program]) -> Vec<Vec<Program>> {
    let mut batches: Vec<Vec<Program>> = Vec::new();
    for program in programs {
        let same = |(_, package): &Program| written_as(package) == written_as(program.1);
        match batches.iter_mut().find(|batch| !batch.iter().any(same)) {
            Some(batch) => batch.push(*program),
            None => batches.push(vec![*program]),
        }
    }
    batches
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

fn go(args: &[&str], dir: &Path) -> std::io::Result<Output> {
    let output = Command::new("go")
        .args(args)
        .current_dir(dir)
        .env("GOWORK", "off")
        .output()?;
    if output.status.success() {
        return Ok(output);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(std::io::Error::other(format!(
        "`go {}`: {said}",
        args.join(" ")
    )))
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
