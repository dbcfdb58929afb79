//! The recipes that build images take whichever program is there, and the Dockerfile builds for each of
//! their platforms. A recipe is run by a shell, as just runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

const PLATFORMS: &str = "linux/amd64,linux/arm64";

fn read(file: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap()
}

/// A variable of the justfile, without its quotes.
fn variable(justfile: &str, name: &str) -> String {
    let start = format!("{name} := ");
    let mut lines = justfile.lines();
    let value = lines.find_map(|line| line.strip_prefix(&start)).unwrap();
    let mut inner = value.chars();
    assert_eq!(inner.next(), inner.next_back());
    inner.as_str().to_owned()
}

/// The one command of a recipe.
fn recipe(header: &str) -> String {
    let justfile = read("justfile");
    let (_, rest) = justfile.split_once(&format!("\n{header}:\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let lines: Vec<&str> = lines.collect();
    let mut command = lines.join("\n").replace("{{TAG}}", "muster:test");
    for name in ["builder", "platforms"] {
        command = command.replace(&format!("{{{{{name}}}}}"), &variable(&justfile, name));
    }
    assert!(!command.contains("{{"), "{command}");
    command
}

/// A program that is installed, and what it says it is.
type Program = (&'static str, &'static str);

const DOCKER: Program = ("docker", "Docker version 29.0.1, build eedd969");
/// Of the package podman-docker.
const SHIM: Program = ("docker", "podman version 5.7.0");
const PODMAN: Program = ("podman", "podman version 5.7.0");
const BUILDAH: Program = ("buildah", "buildah version 1.42.1 (image-spec 1.1.1)");

/// Runs it where only these programs exist, each of which prints how it was called.
fn run(recipe: &str, programs: &[Program]) -> Output {
    let path = tempfile::tempdir().unwrap();
    for (name, version) in programs {
        let file = path.path().join(name);
        let script = format!(
            "#!/bin/sh\nif [ \"$1\" = --version ]; then echo \"{version}\"; exit; fi\necho {name} \"$@\"\n"
        );
        fs::write(&file, script).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-cu").arg(recipe).env("PATH", path.path());
    shell.output().unwrap()
}

const IMAGE: &str = "image TAG=\"muster:dev\"";
const MULTI: &str = "image-multi TAG";

/// How each is told to leave out the time of the build, in the image and beside it.
const BY_DOCKER: &str = "--build-arg=SOURCE_DATE_EPOCH=0 --provenance=false";
const BY_PODMAN: &str = "--timestamp=0";

/// What is installed, which of it is taken, and how that is called.
const INSTALLED: [(&[Program], &str, &str); 4] = [
    (&[DOCKER, PODMAN, BUILDAH], "docker", BY_DOCKER),
    (&[SHIM, PODMAN], "docker", BY_PODMAN),
    (&[PODMAN, BUILDAH], "podman", BY_PODMAN),
    (&[BUILDAH], "buildah", BY_PODMAN),
];

#[test]
fn the_image_is_built_by_whichever_program_is_there() {
    for (programs, first, options) in INSTALLED {
        let output = run(&recipe(IMAGE), programs);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(
            said,
            format!("{first} build {options} --tag muster:test .\n")
        );
    }
}

#[test]
fn the_image_for_all_platforms_is_built_and_pushed_by_whichever_program_is_there() {
    for (programs, first, options) in INSTALLED {
        let output = run(&recipe(MULTI), programs);
        let said = String::from_utf8(output.stdout).unwrap();
        let expected = match options {
            BY_DOCKER => format!(
                "docker buildx build {options} --platform {PLATFORMS} --tag muster:test --push .\n"
            ),
            _ => format!(
                "{first} build {options} --platform {PLATFORMS} --manifest muster:test .\n\
                 {first} manifest push --all muster:test docker://muster:test\n"
            ),
        };
        assert_eq!(said, expected);
    }
}

#[test]
fn without_any_of_them_it_says_so() {
    for header in [IMAGE, MULTI] {
        let output = run(&recipe(header), &[]);
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8(output.stderr).unwrap();
        let expected =
            "none of docker, podman and buildah is installed: one of them builds the image\n";
        assert_eq!(said, expected);
    }
}

/// One stage compiles, on the machine that builds, and a `case` in it names the target of each platform.
/// Were the platform part of a stage's name, podman and buildah would not find the stage (buildah#6964).
#[test]
fn the_dockerfile_builds_for_each_platform_of_the_recipe() {
    let dockerfile = read("Dockerfile");
    let from: Vec<&str> = dockerfile
        .lines()
        .filter(|line| line.starts_with("FROM "))
        .collect();
    let [build, run] = from[..] else {
        panic!("{from:?}");
    };
    assert!(build.starts_with("FROM --platform=$BUILDPLATFORM rust:"));
    assert!(build.ends_with("-alpine AS build"));
    assert_eq!(run, "FROM scratch");
    for platform in PLATFORMS.split(',') {
        let (system, name) = platform.split_once('/').unwrap();
        let rust = match name {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => panic!("which target is {other}?"),
        };
        let target = chosen(&dockerfile, name);
        let target = String::from_utf8(target.stdout).unwrap();
        assert_eq!(target, format!("{rust}-unknown-{system}-musl\n"));
    }
    for unknown in ["", "riscv64"] {
        let refused = chosen(&dockerfile, unknown);
        assert_eq!(refused.status.code(), Some(1));
        let said = String::from_utf8(refused.stderr).unwrap();
        assert!(
            said.contains(&format!("TARGETARCH=\"{unknown}\"")),
            "{said}"
        );
    }
}

/// What the Dockerfile's `case` says of a platform.
fn chosen(dockerfile: &str, platform: &str) -> Output {
    let (_, rest) = dockerfile
        .split_once("\nARG TARGETARCH\nRUN case ")
        .unwrap();
    let (case, _) = rest.split_once("esac").unwrap();
    let case = case.replace("\\\n", "");
    let mut shell = Command::new("/bin/sh");
    shell.arg("-cu");
    shell.arg(format!("case {case} esac; echo \"$target\""));
    shell.env("TARGETARCH", platform).output().unwrap()
}

/// The Dockerfile builds the dependencies first, where only the manifest is. There cargo refuses a target
/// whose file it looks for in vain; one whose path is written it does not look for.
#[test]
fn cargo_needs_no_other_file_to_build_the_dependencies() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("src");
    fs::create_dir(&source).unwrap();
    for file in ["Cargo.toml", "Cargo.lock"] {
        fs::write(dir.path().join(file), read(file)).unwrap();
    }
    fs::write(source.join("lib.rs"), "").unwrap();
    fs::write(source.join("main.rs"), "fn main() {}\n").unwrap();
    // The cheapest command that looks for all targets as a build does; `cargo metadata` does not.
    let output = cargo()
        .args(["fetch", "--offline", "--locked", "--target", &host()])
        .current_dir(dir.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}

fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}

/// The platform of this machine, whose crates are there.
fn host() -> String {
    let output = cargo().arg("-vV").output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    let mut lines = said.lines();
    let host = lines.find_map(|line| line.strip_prefix("host: "));
    host.unwrap().to_owned()
}
