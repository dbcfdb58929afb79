//! `just image` builds with whichever program is there. The recipe is run by a shell, as just runs it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

/// The recipe's one command.
fn recipe() -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("justfile");
    let text = fs::read_to_string(file).unwrap();
    let (_, rest) = text.split_once("\nimage TAG=\"muster:dev\":\n").unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    let lines: Vec<&str> = lines.collect();
    lines.join("\n").replace("{{TAG}}", "muster:test")
}

/// Runs it where only these programs exist, each of which prints how it was called.
fn image(programs: &[&str]) -> Output {
    let path = tempfile::tempdir().unwrap();
    for program in programs {
        let file = path.path().join(program);
        fs::write(&file, format!("#!/bin/sh\necho {program} \"$@\"\n")).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut shell = Command::new("/bin/sh");
    shell.arg("-cu").arg(recipe()).env("PATH", path.path());
    shell.output().unwrap()
}

#[test]
fn the_image_is_built_by_whichever_program_is_there() {
    for (programs, first) in [
        (&["docker", "podman", "buildah"][..], "docker"),
        (&["podman", "buildah"], "podman"),
        (&["buildah"], "buildah"),
    ] {
        let output = image(programs);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(said, format!("{first} build --tag muster:test .\n"));
    }
}

#[test]
fn without_any_of_them_it_says_so() {
    let output = image(&[]);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8(output.stderr).unwrap();
    let expected =
        "none of docker, podman and buildah is installed: one of them builds the image\n";
    assert_eq!(said, expected);
}
