//! The images of a run: Muster by the steps of its `Dockerfile`, JobSet under the name in its own
//! manifests, and two small programs for pods.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use serde_json::{Value, json};

use super::archive::Image;
use super::needs::target;
use crate::components::Components;
use crate::long::is_on;
use crate::process::{Group, Process};
use crate::progress::Progress;

/// The image of the tests' own containers; see `box.c` for its words.
pub const BOX: &str = "box:e2e";

/// What the samples run, which no registry can be asked for here: of its programs, `sleep`.
const BUSYBOX: &str = "busybox:1.37";

/// The name in manifests/base; a pod of another name would not find it.
pub const MUSTER: &str = "muster:dev";

/// The same image, under a name that Muster does not know by itself.
pub const OTHER_MUSTER: &str = "muster:node";

/// Holds the namespaces of a pod.
pub const PAUSE: &str = "pause:e2e";

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The instructions of the `Dockerfile`, one line each.
struct Dockerfile {
    lines: Vec<String>,
}

impl Dockerfile {
    fn read() -> Result<Dockerfile> {
        let text = fs::read_to_string(Path::new(ROOT).join("Dockerfile"))?;
        let text = text.replace("\\\n", " ");
        let lines = text.lines().map(str::to_owned).collect();
        Ok(Dockerfile { lines })
    }

    /// What follows an instruction, in the last line that has it.
    fn last(&self, instruction: &str) -> Result<&str> {
        let start = format!("{instruction} ");
        let mut lines = self.lines.iter().rev();
        let found = lines.find_map(|line| line.strip_prefix(&start));
        found.with_context(|| format!("the Dockerfile has no {instruction}"))
    }

    /// The arguments of cargo in the last build.
    fn build(&self) -> Result<Vec<&str>> {
        let (_, build) = self
            .last("RUN")?
            .rsplit_once("cargo ")
            .context("the Dockerfile's last RUN is not cargo's")?;
        let build = build.split("&&").next().unwrap_or(build);
        Ok(build.split_whitespace().collect())
    }

    fn config(&self) -> Result<Value> {
        let list =
            |instruction| -> Result<Value> { Ok(serde_json::from_str(self.last(instruction)?)?) };
        Ok(json!({
            "Entrypoint": list("ENTRYPOINT")?,
            "Cmd": list("CMD")?,
            "User": self.last("USER")?,
        }))
    }
}

/// Where a build finds the sources and leaves its result.
pub struct Place {
    pub source: PathBuf,
    pub target: PathBuf,
}

impl Place {
    /// This checkout.
    pub fn own() -> Result<Place> {
        // Of cargo's own directories, which may be two: results are here, and what they are compiled
        // from in the one of the tests' own files.
        let program = Path::new(env!("CARGO_BIN_EXE_muster"));
        let target = program.parent().and_then(Path::parent);
        Ok(Place {
            source: ROOT.into(),
            target: target.context("no target directory")?.to_owned(),
        })
    }

    /// The program, once it is built.
    pub fn program(&self) -> PathBuf {
        self.target.join(target()).join("release/muster")
    }
}

/// Whether the Muster that many tests share is the program of the image, which needs much less CPU time than
/// a debug build. To build it takes minutes, so a run of few tests does without.
pub fn is_shared() -> bool {
    is_on("MUSTER_E2E_RELEASE")
}

/// Starts to build Muster as the image has it; the Dockerfile's own target is this one.
pub fn build_muster(group: &Group, place: &Place) -> Result<Process> {
    let file = Dockerfile::read()?;
    let target = target();
    let compiler = format!("CC_{}", target.replace('-', "_"));
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .args(file.build()?)
        .args(["--target", &target])
        .arg("--target-dir")
        .arg(&place.target)
        .current_dir(&place.source)
        .env(compiler, "musl-gcc");
    // Elsewhere everything is compiled, whatever is kept of it.
    if place.target != Place::own()?.target {
        command.env_remove("CARGO_BUILD_BUILD_DIR");
    }
    // What cargo tells a test about its package; ring compiles itself again when that differs from
    // what it was.
    for (name, _) in env::vars_os() {
        let told = [
            "CARGO_PKG_",
            "CARGO_MANIFEST_",
            "CARGO_BIN_",
            "CARGO_CRATE_",
        ];
        let name = name.to_string_lossy();
        if told.iter().any(|start| name.starts_with(start)) {
            command.env_remove(name.as_ref());
        }
    }
    group.spawn("build-muster", command, Vec::new())
}

/// Muster's program for its image, beside something else: its end is one crate on one core.
pub async fn build_muster_beside<T: Send + 'static>(
    group: &Arc<Group>,
    other: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let muster = build_muster(group, &Place::own()?)?;
    let both = move || -> Result<T> {
        let built = other()?;
        let status = Progress::start("Muster's image").until(|| muster.exited());
        ensure!(
            status.success(),
            "cannot build Muster for its image\n{}",
            muster.last_words()
        );
        Ok(built)
    };
    tokio::task::spawn_blocking(both).await?
}

/// Muster's image of a program, in that directory.
pub fn write_muster(program: &Path, dir: &Path) -> Result<PathBuf> {
    write_muster_as(MUSTER, program, dir)
}

fn write_muster_as(name: &str, program: &Path, dir: &Path) -> Result<PathBuf> {
    let muster = Image {
        name,
        program: (program, "/muster"),
        config: Dockerfile::read()?.config()?,
    };
    muster.write(dir)
}

/// Archives for containerd.
pub struct Images {
    pub muster: PathBuf,
    pub all: Vec<PathBuf>,
}

impl Images {
    pub fn write(components: &Components, dir: &Path) -> Result<Images> {
        fs::create_dir_all(dir)?;
        let pause = compile("pause", include_str!("pause.c"), dir)?;
        let pause = Image {
            name: PAUSE,
            program: (&pause, "/pause"),
            config: json!({"Entrypoint": ["/pause"], "User": "65535:65535"}),
        };
        let words = compile("box", include_str!("box.c"), dir)?;
        let own = Image {
            name: BOX,
            program: (&words, "/box"),
            config: json!({"Entrypoint": ["/box"]}),
        };
        let busybox = Image {
            name: BUSYBOX,
            program: (&words, "/bin/sleep"),
            config: json!({"Env": ["PATH=/bin"]}),
        };
        let jobset_name = jobset_image(components)?;
        let jobset = Image {
            name: &jobset_name,
            program: (components.path("jobset")?, "/manager"),
            config: json!({"Entrypoint": ["/manager"], "User": "65532:65532"}),
        };
        let program = Place::own()?.program();
        let muster = write_muster(&program, dir)?;
        let mut all = vec![
            muster.clone(),
            write_muster_as(OTHER_MUSTER, &program, dir)?,
        ];
        for image in [pause, own, busybox, jobset] {
            all.push(image.write(dir)?);
        }
        Ok(Images { muster, all })
    }
}

/// As the Deployment in JobSet's own manifests names it.
fn jobset_image(components: &Components) -> Result<String> {
    let manifests = fs::read(components.path("jobset.json")?)?;
    let manifests: Vec<Value> = serde_json::from_slice(&manifests)?;
    let deployment = manifests
        .iter()
        .find(|object| object["kind"] == "Deployment");
    let deployment = deployment.context("JobSet's manifests have no Deployment")?;
    let name = deployment.pointer("/spec/template/spec/containers/0/image");
    let name = name.and_then(Value::as_str);
    Ok(name.context("JobSet's Deployment has no image")?.to_owned())
}

fn compile(name: &str, source: &str, dir: &Path) -> Result<PathBuf> {
    let (from, to) = (dir.join(format!("{name}.c")), dir.join(name));
    fs::write(&from, source)?;
    let output = Command::new("musl-gcc")
        .args(["-Os", "-static", "-s", "-Wall", "-Werror", "-o"])
        .args([&to, &from])
        .output()
        .context("cannot run musl-gcc")?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        bail!("cannot compile {name}.c: {said}");
    }
    ensure!(to.is_file(), "musl-gcc made no {}", to.display());
    Ok(to)
}
