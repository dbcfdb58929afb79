//! The command line as a user meets it: output, exit status, help.

mod common;

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn muster(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_muster"));
    command.args(args).current_dir(env!("CARGO_MANIFEST_DIR"));
    let ours = |key: &str| key.starts_with("MUSTER_") || key.starts_with("POD_");
    for (key, _) in std::env::vars().filter(|(key, _)| ours(key)) {
        command.env_remove(key);
    }
    command
}

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = muster(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code(), text(stdout), text(stderr))
}

fn json(args: &[&str]) -> Value {
    serde_json::from_str(&run(args).1).unwrap()
}

const GOOD: &str = "fixtures/rules/accepted-whole-jobset.yaml";
const BAD: &str = "fixtures/rules/both-levels.yaml";
const OFF: &str = "fixtures/rules/unquoted-off.yaml";
const NO_GANG: &str = "fixtures/rules/no-gang.yaml";

#[test]
fn check_exits_0_when_all_is_admitted_and_1_when_something_is_refused() {
    let (code, out, _) = run(&["check", GOOD]);
    assert_eq!(code, Some(0), "{out}");
    let (code, out, err) = run(&["check", GOOD, BAD]);
    assert_eq!(code, Some(1));
    assert_eq!(err, "");
    insta::assert_snapshot!("check-text", out);
}

#[test]
fn check_exits_2_on_a_file_that_is_not_there_and_still_checks_the_others() {
    let (code, out, err) = run(&["check", "fixtures/nowhere.yaml", GOOD]);
    assert_eq!(code, Some(2));
    assert!(err.contains("fixtures/nowhere.yaml"), "{err}");
    assert!(out.contains("1 admitted, 0 refused"), "{out}");
    assert_eq!(run(&["check"]).0, Some(2), "no file is a usage error");
    assert_eq!(run(&["chekc", GOOD]).0, Some(2));
}

#[test]
fn check_prints_its_json_contract() {
    let (code, out, _) = run(&["check", "-o", "json", GOOD, BAD]);
    assert_eq!(code, Some(1));
    insta::assert_snapshot!("check-json", out);
    let reports = json(&[
        "check",
        "-o",
        "json",
        "fixtures/rules/accepted-job-replicas.yaml",
    ]);
    let gangs = reports[0]["gangs"].as_array().unwrap();
    let indexes: Vec<&Value> = gangs.iter().map(|gang| &gang["index"]).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert_eq!(gangs[0]["level"], "Replica");
}

/// Errors and warnings, as GitHub takes them from the log of a workflow.
#[test]
fn check_prints_workflow_commands_for_github() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("100%,a:b.yaml"), "a: [1\n").unwrap();
    let (code, out, err) = run(&["check", "-o", "github", GOOD, BAD, OFF]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("check-github", out);
    let mut broken = muster(&["check", "-o", "github", "100%,a:b.yaml", "nowhere.yaml"]);
    let output = broken.current_dir(dir.path()).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(printed.starts_with("::error::nowhere.yaml: "), "{printed}");
    let command = "::error file=100%25%2Ca%3Ab.yaml,line=1,col=4,title=document 1::not readable";
    assert!(printed.contains(command), "{printed}");
}

/// What the schema of SARIF 2.1.0 requires, and GitHub of a result: a rule and a place.
fn is_sarif(log: &Value) {
    assert_eq!(log["version"], "2.1.0");
    let runs = log["runs"].as_array().unwrap();
    assert_eq!(runs.len(), 1);
    let driver = &runs[0]["tool"]["driver"];
    assert!(driver["name"].is_string(), "{driver}");
    let rules = driver["rules"].as_array().unwrap();
    for rule in rules {
        assert!(rule["shortDescription"]["text"].is_string(), "{rule}");
    }
    let results = runs[0]["results"].as_array().unwrap();
    assert!(!results.is_empty());
    for result in results {
        let index = result["ruleIndex"].as_u64().unwrap() as usize;
        assert_eq!(rules[index]["id"], result["ruleId"]);
        let levels = ["none", "note", "warning", "error"];
        assert!(levels.contains(&result["level"].as_str().unwrap()));
        assert!(!result["message"]["text"].as_str().unwrap().is_empty());
        let places = result["locations"].as_array().unwrap();
        assert_eq!(places.len(), 1, "{result}");
        let place = &places[0]["physicalLocation"];
        let uri = place["artifactLocation"]["uri"].as_str().unwrap();
        assert!(!uri.contains(':') && !uri.starts_with('/'), "{uri}");
        assert!(place["region"]["startLine"].as_u64() >= Some(1), "{place}");
        assert!(
            place["region"]["startColumn"].as_u64() >= Some(1),
            "{place}"
        );
    }
    for run in runs {
        for call in run["invocations"].as_array().unwrap() {
            assert!(call["executionSuccessful"].is_boolean(), "{call}");
        }
    }
}

/// Runs with a text as standard input.
fn fed(args: &[&str], text: &str) -> (Option<i32>, String) {
    let mut child = muster(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
    )
}

/// A workflow that changes a file before it is checked: the results are the file's.
#[test]
fn standard_input_may_stand_for_a_file() {
    let bad = std::fs::read_to_string(BAD).unwrap();
    let named = ["check", "-", "--stdin-name", "overlays/prod.yaml", "-o"];
    let (code, out) = fed(&[&named[..], &["sarif"]].concat(), &bad);
    assert_eq!(code, Some(1));
    let log: Value = serde_json::from_str(&out).unwrap();
    is_sarif(&log);
    let place = &log["runs"][0]["results"][0]["locations"][0]["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "overlays/prod.yaml");
    let (_, out) = fed(&[&named[..], &["github"]].concat(), &bad);
    assert!(
        out.starts_with("::error file=overlays/prod.yaml,line="),
        "{out}"
    );
    let (_, out) = fed(&[&named[..], &["json"]].concat(), &bad);
    let reports: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(reports[0]["file"], "overlays/prod.yaml");
}

#[test]
fn warnings_have_a_place_for_scripts() {
    let reports = json(&["check", "-o", "json", OFF]);
    let warning = &reports[0]["warnings"][0];
    assert!(warning["message"].is_string(), "{warning}");
    assert!(warning["line"].as_u64() > Some(1), "{warning}");
    assert!(warning["column"].as_u64() >= Some(1), "{warning}");
}

/// `muster crd extend` adds it: whoever has not run it is told so, and the others may use it.
#[test]
fn a_field_of_an_extended_crd_passes_with_a_warning() {
    let jobset = "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: a},\n\
                  spec: {gangConfig: {gangMode: Gang}, replicatedJobs: [{name: w, template: {spec:\n\
                  {template: {spec: {containers: [{name: a, image: b}]}}}}}]}}";
    let (code, out) = fed(&["check", "-o", "json", "-"], jobset);
    assert_eq!(code, Some(0), "{out}");
    let reports: Value = serde_json::from_str(&out).unwrap();
    let warning = &reports[0]["warnings"][0];
    let said = warning["message"].as_str().unwrap();
    assert!(
        said.starts_with("spec.gangConfig: this field exists only after `muster crd extend`"),
        "{said}"
    );
    assert_eq!(warning["line"], 2);
}

#[test]
fn check_prints_sarif_for_code_scanning() {
    let (code, out, err) = run(&["check", "-o", "sarif", GOOD, BAD, OFF]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    let version = format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(out.contains(&version), "{out}");
    insta::assert_snapshot!(
        "check-sarif",
        out.replace(&version, "\"version\": \"<own>\"")
    );
    let log: Value = serde_json::from_str(&out).unwrap();
    is_sarif(&log);
    let unread = json(&["check", "-o", "sarif", "fixtures/nowhere.yaml", GOOD]);
    let told = &unread["runs"][0]["invocations"][0];
    assert_eq!(told["executionSuccessful"], false);
    let said = told["toolExecutionNotifications"][0]["message"]["text"].as_str();
    assert!(said.unwrap().starts_with("fixtures/nowhere.yaml: "));
}

#[test]
fn check_tells_what_has_no_gang_and_refuses_it_when_one_is_required() {
    let (code, out, _) = run(&["check", NO_GANG]);
    assert_eq!(code, Some(0), "{out}");
    assert!(
        out.contains("JobSet ml/train: admitted, no gang\n"),
        "{out}"
    );
    let reports = json(&["check", "-o", "json", NO_GANG]);
    assert_eq!(reports[0]["gangs"], serde_json::json!([]));
    assert_eq!(reports[0]["gangCount"], 0);
    let (code, out, err) = run(&["check", "--require-gang", GOOD, NO_GANG]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    insta::assert_snapshot!("check-require-gang", out);
    assert_eq!(run(&["check", "--require-gang", GOOD]).0, Some(0));
}

/// A template of theirs may ask for a gang, and silence would read as if it was checked.
#[test]
fn check_names_what_asks_for_a_gang_and_cannot_be_checked() {
    let ray = "manifests/samples/raycluster.yaml";
    let (code, out, err) = run(&["check", GOOD, ray]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    insta::assert_snapshot!("check-unchecked", out);
    let (_, out, _) = run(&["check", "-o", "github", ray]);
    let command = "::warning file=manifests/samples/raycluster.yaml,line=";
    assert!(out.starts_with(command), "{out}");
    let (code, out, err) = run(&["check", "-o", "json", GOOD, ray]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    let reports: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(reports[0]["checked"], true);
    let unchecked = &reports[1];
    assert_eq!(
        (&unchecked["checked"], &unchecked["kind"]),
        (&false.into(), &"RayCluster".into())
    );
    let said = unchecked["warnings"][0]["message"].as_str().unwrap();
    assert!(said.starts_with("not checked: "), "{said}");
    assert!(unchecked["warnings"][0]["line"].as_u64() >= Some(1));
    let log = json(&["check", "-o", "sarif", ray]);
    assert_eq!(log["runs"][0]["results"][0]["ruleId"], "NotChecked");
    is_sarif(&log);
    // A selector with such a key asks for nothing.
    let file = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let service = "{apiVersion: v1, kind: Service, metadata: {name: ring}, \
                   spec: {selector: {muster.dev/gang: ring}}}";
    std::fs::write(file.path(), service).unwrap();
    let (_, out, _) = run(&["check", file.path().to_str().unwrap()]);
    assert!(!out.contains("not checked"), "{out}");
}

/// As when the program before it in a pipe has failed.
#[test]
fn check_that_requires_gangs_exits_2_when_there_is_nothing_to_check() {
    let empty = tempfile::NamedTempFile::with_suffix(".yaml").unwrap();
    let empty = empty.path().to_str().unwrap();
    let (code, out, _) = run(&["check", "--require-gang", empty]);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.starts_with("nothing to check: "), "{out}");
    let (code, out, err) = run(&["check", "--require-gang", "-o", "json", empty]);
    assert_eq!((code, out.trim()), (Some(2), "[]"));
    assert!(err.starts_with("nothing to check: "), "{err}");
    assert_eq!(run(&["check", empty]).0, Some(0));
}

#[test]
fn render_refuses_what_an_apiserver_would_not_decode() {
    for (file, said) in [
        ("unknown-fields", "unknown field \"paralellism\""),
        ("misspelt-kinds", "did you mean \"JobSet\"?"),
    ] {
        let (code, out, err) = run(&["render", &format!("fixtures/check/{file}.yaml")]);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains(said), "{err}");
    }
}

/// Pinned by digest where it is given one, as the cluster's own flags would have it.
#[test]
fn render_shows_the_container_of_a_start_barrier_as_it_is_configured() {
    let sample = "fixtures/rules/barrier-with-a-gang.yaml";
    let image = format!("registry.example/muster@sha256:{}", "0f".repeat(32));
    let flags = ["--wait-image", &image, "--wait-pull-policy", "IfNotPresent"];
    let sizes = ["--wait-cpu", "70m", "--wait-memory", "48Mi"];
    let render = ["render", sample, "-o", "json"];
    let documents = json(&[&render[..], &flags, &sizes].concat());
    let containers = |kind: &str, path: &str| {
        let mut documents = documents.as_array().unwrap().iter();
        let found = documents.find(|document| document["kind"] == kind).unwrap();
        found.pointer(path).unwrap().clone()
    };
    for (kind, path) in [
        ("Job", "/spec/template/spec/initContainers/0"),
        ("Pod", "/spec/initContainers/0"),
    ] {
        let container = containers(kind, path);
        assert_eq!(container["name"], "group-scheduling-init", "{kind}");
        assert_eq!(container["image"], image.as_str(), "{kind}");
        assert_eq!(container["imagePullPolicy"], "IfNotPresent", "{kind}");
        let asked = serde_json::json!({"cpu": "70m", "memory": "48Mi"});
        let resources = &container["resources"];
        assert_eq!(resources["requests"], asked, "{kind}");
        assert_eq!(resources["limits"], asked, "{kind}");
    }
    let (code, _, err) = run(&["render", sample, "--wait-pull-policy", "Sometimes"]);
    assert_eq!(code, Some(2), "{err}");
}

/// What Muster writes is no misspelt field: its own output passes.
#[test]
fn what_render_prints_passes_check() {
    let samples = [
        "fixtures/rules/accepted-all-knobs.yaml",
        "fixtures/rules/barrier-with-a-gang.yaml",
        "fixtures/rules/deployment-by-revision.yaml",
        "fixtures/rules/job.yaml",
        "fixtures/rules/lws.yaml",
    ];
    for scheduler in ["native", "volcano", "koordinator", "yunikorn", "kai"] {
        for sample in samples {
            let (code, rendered, err) = run(&["render", sample, "--scheduler", scheduler]);
            if code != Some(0) {
                assert!(err.contains("cannot"), "{sample} on {scheduler}: {err}");
                continue;
            }
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join("rendered.yaml");
            std::fs::write(&file, rendered).unwrap();
            let (_, out, _) = run(&["check", file.to_str().unwrap()]);
            for misfit in ["unknown field", "expected ", "did you mean"] {
                assert!(!out.contains(misfit), "{sample} on {scheduler}: {out}");
            }
        }
    }
}

#[test]
fn check_reads_standard_input_and_many_documents_and_skips_other_kinds() {
    let good = std::fs::read_to_string(GOOD).unwrap();
    let text = format!("{good}\n---\napiVersion: v1\nkind: ConfigMap\n---\n# nothing\n---\n{good}");
    let mut child = muster(&["check", "-o", "json", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    let documents: Vec<&Value> = reports
        .as_array()
        .unwrap()
        .iter()
        .map(|report| &report["document"])
        .collect();
    assert_eq!(documents, [0, 2]);
}

#[test]
fn check_walks_directories() {
    let reports = json(&["check", "-o", "json", "fixtures/rules"]);
    let files = reports.as_array().unwrap();
    assert!(files.len() > 80, "{}", files.len());
    let (code, _, err) = run(&["check", "src"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("no .yaml"), "{err}");
}

/// As `kubectl apply -f` does it.
#[test]
fn in_a_directory_linked_files_are_read_and_linked_directories_are_not_entered() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let link = |to: &std::path::Path, name: &str| {
        std::os::unix::fs::symlink(to, dir.path().join(name)).unwrap();
    };
    std::fs::copy(GOOD, elsewhere.path().join("good.yaml")).unwrap();
    std::fs::copy(BAD, elsewhere.path().join("bad.yaml")).unwrap();
    link(&elsewhere.path().join("bad.yaml"), "linked.yaml");
    link(elsewhere.path(), "folder");
    link(elsewhere.path(), "folder.yaml");
    link(dir.path(), "circle");
    let (code, out, err) = run(&["check", dir.path().to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(1), ""));
    assert!(out.contains("linked.yaml: JobSet"), "{out}");
    assert!(out.contains("0 admitted, 1 refused"), "{out}");
    // One that is named is meant.
    let folder = dir.path().join("folder");
    let (_, out, _) = run(&["check", folder.to_str().unwrap()]);
    assert!(out.contains("1 admitted, 1 refused"), "{out}");
    link(&elsewhere.path().join("nothing.yaml"), "broken.yaml");
    link(&elsewhere.path().join("nothing"), "of-no-interest");
    let (code, _, err) = run(&["check", dir.path().to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(err.contains("broken.yaml: No such file"), "{err}");
    assert!(!err.contains("of-no-interest"), "{err}");
}

/// Two links in each of forty directories are a million million ways to the last one.
#[test]
fn links_among_directories_do_not_multiply_the_work() {
    let dir = tempfile::tempdir().unwrap();
    for level in 0..40 {
        let folder = dir.path().join(format!("d{level}"));
        std::fs::create_dir(&folder).unwrap();
        for name in ["a", "b"] {
            let next = format!("../d{}", level + 1);
            std::os::unix::fs::symlink(next, folder.join(name)).unwrap();
        }
    }
    std::fs::copy(GOOD, dir.path().join("d39/good.yaml")).unwrap();
    let (code, out, _) = run(&["check", dir.path().to_str().unwrap()]);
    assert_eq!(code, Some(0));
    assert!(out.contains("1 admitted, 0 refused"), "{out}");
}

/// The last of two keys would win otherwise, and be checked alone.
#[test]
fn a_key_twice_in_json_is_an_error_in_lists_and_streams() {
    let job = |keys: &str| {
        format!(
            "{{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"metadata\": {{\"name\": \"a\"}},\n\
             \"spec\": {{{keys}\"template\": {{\"spec\": {{\"restartPolicy\": \"Never\", \"containers\":\n\
             [{{\"name\": \"a\", \"image\": \"b\"}}]}}}}}}}}"
        )
    };
    let (good, bad) = (job(""), job("\"parallelism\": 1, \"parallelism\": 2, "));
    let list = format!("{{\"kind\": \"List\", \"items\": [{good},\n{bad}]}}");
    let (code, out) = fed(&["check", "-"], &list);
    assert_eq!(code, Some(2), "{out}");
    let said = "not readable: line 5, column 40: key \"parallelism\" already set in map";
    assert!(out.contains(said), "{out}");
    assert!(out.contains("1 admitted, 1 refused"), "{out}");
    let (code, out) = fed(&["check", "-"], &format!("{good}\n{bad}\n"));
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains(said.split_once(": line").unwrap().0), "{out}");
    assert!(out.contains("key \"parallelism\" already set"), "{out}");
    assert!(out.contains("1 admitted, 1 refused"), "{out}");
    // One value alone is read as YAML.
    let (code, out) = fed(&["check", "-"], &bad);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("key \"parallelism\" already set"), "{out}");
}

#[test]
fn an_item_that_is_too_deep_is_an_error() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    let item = format!("{{\"apiVersion\": \"batch/v1\", \"kind\": \"Job\", \"spec\": {deep}}}");
    let list = format!("{{\"kind\": \"List\", \"items\": [\n{item}]}}");
    let (code, out) = fed(&["check", "-"], &list);
    assert_eq!(code, Some(2), "{out}");
    assert!(out.contains("line 2, column "), "{out}");
    assert!(out.contains("nested deeper than 127 levels"), "{out}");
}

/// A patch is a part of an object, of which much is missing.
#[test]
fn a_patch_of_a_kustomization_is_not_taken_for_an_object() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    let kustomization = "resources: [job.yaml]\npatches:\n- path: more.yaml\n- patch: '[]'\n  \
                         target: {kind: Job}\n";
    let patch = "{apiVersion: batch/v1, kind: Job, metadata: {name: a}, spec: {parallelism: 3}}";
    write("kustomization.yaml", kustomization);
    write("more.yaml", patch);
    std::fs::copy(GOOD, dir.path().join("job.yaml")).unwrap();
    let (code, out, err) = run(&["check", dir.path().to_str().unwrap()]);
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    assert!(
        out.contains("more.yaml: document 1: not checked: a kustom"),
        "{out}"
    );
    assert!(out.contains("1 admitted, 0 refused"), "{out}");
    let log = json(&["check", "-o", "sarif", dir.path().to_str().unwrap()]);
    let rule = &log["runs"][0]["tool"]["driver"]["rules"][0];
    assert_eq!(rule["id"], "NotChecked");
    assert_eq!(rule["shortDescription"]["text"], "Not checked");
    // Nor is it rendered, and that is told.
    let (code, out, err) = run(&["render", dir.path().to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("kind: JobSet"), "{out}");
    let said = "more.yaml: not rendered: a kustomization uses it as a patch; render what `kubectl \
                kustomize` prints\n";
    assert!(err.contains(said), "{err}");
    // By its name it is checked as it is.
    let file = dir.path().join("more.yaml");
    assert_eq!(run(&["check", file.to_str().unwrap()]).0, Some(1));
}

#[test]
fn check_flattens_lists_and_points_into_them() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("list.yaml");
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: jobset.x-k8s.io/v1alpha2\n  \
                kind: JobSet\n  metadata: {name: x}\n  spec:\n    gangConfig:\n      \
                gangMode: Gnag\n";
    std::fs::write(&file, text).unwrap();
    let (code, out, _) = run(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(1));
    assert!(out.contains("9 |       gangMode: Gnag"), "{out}");
}

#[test]
fn broken_yaml_is_refused_with_its_line_and_the_rest_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.yaml");
    let good = std::fs::read_to_string(GOOD).unwrap();
    std::fs::write(&file, format!("a: [1\n---\n{good}")).unwrap();
    let (code, out, _) = run(&["check", file.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(out.contains("not readable: line 1, column 4: "), "{out}");
    assert!(out.contains("1 admitted, 1 refused"), "{out}");
}

#[test]
fn render_exits_2_on_a_document_that_cannot_be_read_and_renders_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("broken.yaml");
    let good = std::fs::read_to_string(GOOD).unwrap();
    std::fs::write(&file, format!("a: [1\n---\n{good}")).unwrap();
    let (code, out, err) = run(&["render", file.to_str().unwrap(), BAD]);
    assert_eq!(code, Some(2), "{err}");
    assert!(
        err.contains("broken.yaml: error: not readable: line 1, "),
        "{err}"
    );
    assert!(out.contains("kind: JobSet"), "{out}");
}

/// `set -o pipefail; muster check . | head`: what comes after the last line that is read counts too.
#[test]
fn what_is_refused_is_refused_when_nobody_reads_the_output() {
    let bad = std::fs::read_to_string(BAD).unwrap();
    let good = std::fs::read_to_string(GOOD).unwrap();
    // More than any buffer holds, and what is refused at its end.
    let text = format!("{}\n---\n{bad}", vec![good; 500].join("\n---\n"));
    for command in ["check", "render"] {
        let mut child = muster(&[command, "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop((child.stdout.take(), child.stderr.take()));
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(text.as_bytes()).unwrap();
        drop(stdin);
        assert_eq!(child.wait().unwrap().code(), Some(1), "{command}");
    }
}

#[test]
fn render_prints_documents_or_one_array_and_refuses_what_check_refuses() {
    let (code, out, err) = run(&["render", GOOD, "--scheduler", "volcano"]);
    assert_eq!((code, err.as_str()), (Some(0), ""));
    assert!(
        out.contains("scheduling.k8s.io/group-name: train-all-0-"),
        "{out}"
    );
    let documents = json(&["render", GOOD, "--kubernetes", "1.36", "-o", "json"]);
    let kinds: Vec<&str> = documents
        .as_array()
        .unwrap()
        .iter()
        .map(|document| document["kind"].as_str().unwrap())
        .collect();
    assert_eq!(kinds, ["JobSet", "Job", "Workload", "PodGroup"]);
    let (code, out, err) = run(&["render", BAD]);
    assert_eq!((code, out.as_str()), (Some(1), ""));
    assert!(
        err.contains("already makes the whole JobSet one gang"),
        "{err}"
    );
}

#[test]
fn a_scheduler_or_version_that_cannot_be_is_a_usage_error() {
    for args in [
        ["render", GOOD, "--scheduler", "slurm"],
        ["render", GOOD, "--kubernetes", "1.34"],
    ] {
        let (code, _, err) = run(&args);
        assert_eq!(code, Some(2), "{args:?}: {err}");
    }
}

#[test]
fn certs_writes_a_ca_and_a_leaf_and_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().to_str().unwrap();
    let (code, out, err) = run(&["certs", "--dir", path]);
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("(new)") && !out.contains("(kept)"), "{out}");
    let (_, out, _) = run(&["certs", "--dir", path]);
    assert!(out.contains("(kept)") && !out.contains("(new)"), "{out}");
}

#[test]
fn every_command_explains_itself_with_an_example() {
    let mut shown = String::new();
    for command in [&["--help"][..], &["serve", "--help"], &["check", "--help"]]
        .into_iter()
        .chain([&["render", "--help"][..], &["certs", "--help"]])
        .chain([&["schedulers", "--help"][..], &["verify", "--help"]])
        .chain([&["explain", "--help"][..], &["status", "--help"]])
        .chain([
            &["crd", "extend", "--help"][..],
            &["crd", "revert", "--help"],
        ])
    {
        let (code, out, _) = run(command);
        assert_eq!(code, Some(0));
        shown.push_str(&format!("$ muster {}\n{out}\n", command.join(" ")));
        let example = command.len() == 1 || out.contains("Example");
        assert!(example, "{command:?} has no example");
    }
    insta::assert_snapshot!("help", shown);
}

/// As kubectl finds it: a file of that name in the PATH.
#[test]
fn as_a_plugin_it_names_itself_as_kubectl_calls_it() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = dir.path().join("kubectl-muster");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_muster"), &plugin).unwrap();
    let run = |args: &[&str]| {
        let output = Command::new(&plugin).args(args).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.code(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (code, out, _) = run(&["--help"]);
    assert_eq!(code, Some(0));
    assert!(out.contains("Usage: kubectl muster <COMMAND>"), "{out}");
    let (_, out, _) = run(&["status", "--help"]);
    assert!(
        out.contains("Usage: kubectl muster status [OPTIONS]"),
        "{out}"
    );
    assert!(
        out.contains("\n  kubectl muster status -A --watch\n"),
        "{out}"
    );
    assert!(!out.contains("\n  muster "), "{out}");
    let (_, out, _) = run(&["crd", "extend", "--help"]);
    assert!(
        out.contains("\n  kubectl muster crd extend --dry-run\n"),
        "{out}"
    );
    let (code, _, err) = run(&["explain"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("Usage: kubectl muster explain <KIND/NAME>"),
        "{err}"
    );
    let (code, _, err) = run(&["explain", "sts/ring", "-o", "wide"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("[possible values: text, json, yaml]"), "{err}");
}

/// Before any cluster is asked.
#[test]
fn what_names_nothing_is_told_how_to_name_it() {
    for (args, said) in [
        (
            &["explain", "train"][..],
            "\"train\" names nothing: write KIND/NAME",
        ),
        (&["explain", "deploymnt/x"], "(did you mean deployments?)"),
        (
            &["explain", "secret/x"],
            "no kind that can be explained: KIND is jobsets, ",
        ),
        (&["explain", "pod/a/b"], "names nothing"),
        (
            &["explain", "pod", "a", "-n", "../x"],
            "must be a DNS label",
        ),
    ] {
        let (code, out, err) = run(args);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{args:?}");
        assert!(err.contains(said), "{args:?}: {err}");
    }
}

/// A server without any flag but its ports, in a directory of its own.
#[test]
fn serve_needs_no_flags_prints_where_it_is_and_drains_on_sigterm() {
    let dir = tempfile::tempdir().unwrap();
    let mut server = muster(&[
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--lame-duck-seconds",
        "0",
    ])
    .args(["--admin-listen", "127.0.0.1:0"])
    .current_dir(dir.path())
    .stdout(Stdio::piped())
    .stderr(Stdio::null())
    .spawn()
    .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let mut line = |start: &str| {
        let line = lines.next().unwrap().unwrap();
        line.strip_prefix(start)
            .unwrap_or_else(|| panic!("{line}"))
            .trim()
            .to_owned()
    };
    let (webhook, admin) = (line("webhook:"), line("admin:"));
    let curl = line("try:");
    assert!(
        curl.starts_with("curl --cacert certs/ca.crt https://127.0.0.1:"),
        "{curl}"
    );
    assert!(webhook.starts_with("https://127.0.0.1:"), "{webhook}");
    let ready = get(admin.strip_prefix("http://").unwrap(), "/readyz");
    assert!(ready.starts_with("HTTP/1.1 200"), "{ready}");
    // What the printed line sends is a review that Muster answers with a patch.
    let review = curl
        .split("-d '")
        .nth(1)
        .unwrap()
        .strip_suffix('\'')
        .unwrap();
    let answer = muster::admission::answer(
        muster::admission::Phase::Mutate,
        review.as_bytes(),
        &common::cluster(),
    );
    assert_eq!(answer.unwrap().record.outcome.as_str(), "patched");
    let pid = server.id().to_string();
    assert!(Command::new("kill").arg(&pid).status().unwrap().success());
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

fn get(address: &str, path: &str) -> String {
    use std::io::Read;
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_tls_directory_without_a_certificate_is_a_clear_error() {
    let dir = tempfile::tempdir().unwrap();
    let path: PathBuf = dir.path().join("empty");
    std::fs::create_dir(&path).unwrap();
    let (code, _, err) = run(&["serve", "--tls-dir", path.to_str().unwrap()]);
    assert_eq!(code, Some(2));
    assert!(err.contains("--tls-dir needs tls.crt and tls.key"), "{err}");
}

#[test]
fn a_client_ca_that_cannot_be_used_is_a_clear_error() {
    let (code, _, err) = run(&["serve", "--client-ca", "fixtures/nowhere.crt"]);
    assert_eq!(code, Some(2));
    insta::assert_snapshot!(err, @"error: cannot read fixtures/nowhere.crt: No such file or directory (os error 2); --client-ca needs a PEM file with the CA of the certificate that the apiserver shows, or leave it out to answer every caller");
    let (code, _, err) = run(&["serve", "--client-ca", "Cargo.toml"]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("there is no certificate in the PEM text"),
        "{err}"
    );
    // Alone it would keep nobody out.
    let (code, _, err) = run(&["serve", "--client-name", "kube-apiserver"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("--client-ca <FILE>"), "{err}");
    let (code, _, err) = run(&["serve", "--client-ca", "Cargo.toml", "--client-name", ""]);
    assert_eq!(code, Some(2));
    assert!(
        err.contains("a value is required for '--client-name"),
        "{err}"
    );
}

/// What `kubectl get -o json` prints of a whole cluster.
#[test]
fn check_reads_a_clusters_whole_list_in_little_memory() {
    let text = std::fs::read_to_string("fixtures/rules/accepted-job-replicas.yaml").unwrap();
    let jobset = muster::cli::yaml::documents(&text).remove(0).unwrap().value;
    let item = serde_json::to_string_pretty(&jobset).unwrap();
    let items = vec![item.as_str(); 10_000].join(",\n");
    let list = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [\n{items}\n]}}");
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("all.json");
    std::fs::write(&file, list).unwrap();
    // In KiB, and of addresses: a stricter measure than what is really used.
    let limit = 200 * 1024;
    let command = format!(
        "ulimit -v {limit}; exec {} check {}",
        env!("CARGO_BIN_EXE_muster"),
        file.display()
    );
    let output = Command::new("sh").args(["-c", &command]).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(
        printed.contains("10000 admitted, 0 refused"),
        "{:?}",
        output.stderr
    );
}

#[test]
fn a_list_that_no_cluster_could_hold_is_counted_and_not_made() {
    let text = std::fs::read_to_string("fixtures/rules/lws.yaml").unwrap();
    let mut set = muster::cli::yaml::documents(&text).remove(0).unwrap().value;
    set["spec"]["replicas"] = serde_json::json!(2_000_000_000_u32);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("many.json");
    std::fs::write(&file, set.to_string()).unwrap();
    let (_, printed, _) = run(&["check", file.to_str().unwrap()]);
    assert!(printed.contains("and 1999999980 more gangs"), "{printed}");
}
