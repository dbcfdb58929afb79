//! How Go compiles the programs of a group: what makes that cheap, and what makes them themselves.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::thread::available_parallelism;

use anyhow::{Context, Result, bail};

use crate::modules::{KUBERNETES_1_37, Module};
use crate::process::Group;
use crate::progress::Progress;

/// What every program spends its time in; the same everywhere, so that all groups share it.
const EVERYWHERE: &[&str] = &["std"];

/// Where most of the CPU time of a run goes: the libraries of the API server and of its controllers.
const HOT: &[&str] = &[
    "k8s.io/apimachinery/...",
    "k8s.io/apiserver/...",
    "k8s.io/kube-openapi/...",
    "sigs.k8s.io/...",
    "google.golang.org/...",
    "go.etcd.io/...",
    "golang.org/x/...",
];

/// A program's name and its main package.
pub type Program = (&'static str, &'static str);

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
pub fn batches(programs: &[Program]) -> Vec<Vec<Program>> {
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

impl Module {
    /// One call for several programs: one is linked, on one core, while others are compiled.
    pub fn compile(&self, programs: &[Program], to: &Path, group: &Group) -> Result<()> {
        let out = to.join("out");
        fs::create_dir(&out)?;
        let mut command = Command::new("go");
        command
            .args(["build", "-mod=readonly", "-buildvcs=false"])
            // Each compiler on one core, and as many of them as there are cores: a tenth less CPU time,
            // measured with client-go.
            .arg(format!("-p={}", available_parallelism()?))
            .args(self.compiler_flags())
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
            .env("GOMEMLIMIT", "3GiB")
            .env("GOMAXPROCS", "1");
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
    /// inlining a quarter less, measured with client-go.
    fn compiler_flags(&self) -> Vec<String> {
        let is_hot = self.libraries == KUBERNETES_1_37.libraries;
        let hot = if is_hot { HOT } else { &[] };
        let inlined = EVERYWHERE.iter().chain(hot);
        let inlined = inlined.map(|packages| format!("-gcflags={packages}=-dwarf=false"));
        // The last one that names a package decides.
        [String::from("-gcflags=all=-dwarf=false -l")]
            .into_iter()
            .chain(inlined)
            .collect()
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

pub fn go(args: &[&str], dir: &Path) -> std::io::Result<Output> {
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
