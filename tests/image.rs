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

/// Runs it where only these programs exist, each of which prints how it was called.
fn run(recipe: &str, programs: &[&str]) -> Output {
    let path = tempfile::tempdir().unwrap();
    for program in programs {
        let file = path.path().join(program);
        fs::write(&file, format!("#!/bin/sh\necho {program} \"$@\"\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-cu").arg(recipe).env("PATH", path.path());
    shell.output().unwrap()
}

const IMAGE: &str = "image TAG=\"muster:dev\"";
const MULTI: &str = "image-multi TAG";

/// What is installed, which of it is taken, and how that is told to leave out the time of the build.
const INSTALLED: [(&[&str], &str, &str); 3] = [
    (
        &["docker", "podman", "buildah"],
        "docker",
        "--build-arg=SOURCE_DATE_EPOCH=0",
    ),
    (&["podman", "buildah"], "podman", "--timestamp=0"),
    (&["buildah"], "buildah", "--timestamp=0"),
];

#[test]
fn the_image_is_built_by_whichever_program_is_there() {
    for (programs, first, time) in INSTALLED {
        let output = run(&recipe(IMAGE), programs);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("{first} build {time} --tag muster:test .\n"));
    }
}

#[test]
fn the_image_for_all_platforms_is_built_and_pushed_by_whichever_program_is_there() {
    for (programs, first, time) in INSTALLED {
        let output = run(&recipe(MULTI), programs);
        let said = String::from_utf8(output.stdout).unwrap();
        let expected = match first {
            "docker" => {
                format!(
                    "docker buildx build {time} --platform {PLATFORMS} --tag muster:test --push .\n"
                )
            }
            other => format!(
                "{other} build {time} --platform {PLATFORMS} --manifest muster:test .\n\
                 {other} manifest push --all muster:test docker://muster:test\n"
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

/// For each platform a stage that says for which target cargo compiles, and no stage beside.
#[test]
fn the_dockerfile_builds_for_each_platform_of_the_recipe() {
    let dockerfile = read("Dockerfile");
    let mut stages = 0;
    for platform in PLATFORMS.split(',') {
        let (system, name) = platform.split_once('/').unwrap();
        let rust = match name {
            "amd64" => "x86_64",
            "arm64" => "aarch64",
            other => panic!("which target is {other}?"),
        };
        let stage =
            format!("-alpine AS for-{name}\nENV CARGO_BUILD_TARGET={rust}-unknown-{system}-musl\n");
        assert!(dockerfile.contains(&stage), "no stage:\n{stage}");
        stages += 1;
    }
    assert_eq!(stages, dockerfile.matches(" AS for-").count());
    assert!(dockerfile.contains("\nFROM for-$TARGETARCH AS build\n"));
    // A stage of the platform itself would run under emulation.
    let own = "FROM --platform=$BUILDPLATFORM rust:";
    assert_eq!(stages, dockerfile.matches(own).count());
    assert_eq!(stages, dockerfile.matches(" rust:").count());
}

/// The Dockerfile builds the dependencies first, where only the manifest is. There cargo refuses a target
/// whose file it looks for in vain; one whose path is written it does not look for.
#[test]
fn every_target_of_the_manifest_has_its_path() {
    let manifest = read("Cargo.toml");
    let targets = manifest.split("\n[[").skip(1);
    let mut checked = 0;
    for target in targets {
        let target = target.split("\n\n").next().unwrap();
        assert!(target.contains("\npath = "), "[[{target}");
        checked += 1;
    }
    assert!(checked >= 6, "only {checked} targets");
}
