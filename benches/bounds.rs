//! What the worst bodies cost, from the request's bytes to the response's, and the largest workloads
//! the reconciler: CPU time, additional memory, length of the answer. Fails when a limit is broken.
//!
//! `cargo bench --bench bounds`. Each case runs in a process of its own, since a peak of memory can
//! be read once only.

use std::collections::{HashMap, HashSet};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use muster::admission::{self, Phase};
use muster::cli::admit;
use muster::controller::decide::{self, Seen};
use muster::gang::{Asked, Carrier, SchedulerKind, StampHash, Vouched, WorkloadRef};
use muster::scheduler::{Dialect, Snapshot};
use muster::workload::{Kind, Object, jobset, pods};
use serde_json::{Value, json};

/// What a body of so many bytes may cost.
struct Limits {
    cpu: Duration,
    memory: usize,
    response: usize,
}

const MIB: usize = 1 << 20;

fn limits(body: usize) -> Limits {
    match body {
        0..=16_384 => Limits {
            cpu: Duration::from_millis(5),
            memory: 2 * MIB,
            response: 2 * MIB,
        },
        _ => Limits {
            cpu: Duration::from_secs(1),
            memory: 200 * MIB,
            response: 3 * MIB,
        },
    }
}

/// Of one workload for the reconciler.
const LOOK: Limits = Limits {
    cpu: Duration::from_secs(2),
    memory: 64 * MIB,
    response: 0,
};

const SCHEDULERS: [SchedulerKind; 6] = [
    SchedulerKind::NATIVE,
    SchedulerKind::VOLCANO,
    SchedulerKind::COSCHEDULING,
    SchedulerKind::KOORDINATOR,
    SchedulerKind::YUNIKORN,
    SchedulerKind::KAI,
];

fn review(kind: &Kind, object: &str) -> String {
    format!(
        r#"{{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{{"uid":"u","kind":{{"group":"{}","version":"{}","kind":"{}"}},"namespace":"ml","operation":"CREATE","object":{object}}}}}"#,
        kind.group, "v1", kind.name
    )
}

/// A JobSet whose spec is written as text.
fn jobset_text(annotations: &str, groups: &str) -> String {
    format!(
        r#"{{"metadata":{{"name":"train","annotations":{{{annotations}}}}},"spec":{{"replicatedJobs":[{groups}]}}}}"#
    )
}

const GANG: &str = r#""muster.dev/gang-mode":"Gang""#;

/// As many items as fit, with commas.
fn fill(bytes: usize, item: impl Fn(usize) -> String) -> String {
    let mut text = String::new();
    for i in 0.. {
        let item = item(i);
        if text.len() + item.len() + 1 > bytes {
            break;
        }
        if i > 0 {
            text.push(',');
        }
        text.push_str(&item);
    }
    text
}

fn group(name: &str, knobs: &str, spec: &str) -> String {
    format!(
        r#"{{"name":"{name}"{knobs},"template":{{"spec":{{"template":{{"spec":{{"containers":[{{"name":"m","resources":{{"requests":{{"cpu":"1"}}}}}}]{spec}}}}}}}}}}}"#
    )
}

fn forged(stamp: &str, spec: &str) -> String {
    let stamp = json!(stamp);
    let labels = json!({
        "muster.dev/gang": "workers",
        "jobset.sigs.k8s.io/jobset-name": "train",
        "jobset.sigs.k8s.io/jobset-uid": "9d3f",
        "jobset.sigs.k8s.io/replicatedjob-name": "workers",
        "jobset.sigs.k8s.io/job-index": "0",
        "jobset.sigs.k8s.io/restart-attempt": "0",
    });
    format!(
        r#"{{"metadata":{{"name":"p","labels":{labels},"annotations":{{"muster.dev/stamp":{stamp}}}}},"spec":{{"containers":[{{"name":"m","resources":{{"requests":{{"cpu":"1"}}}}}}]{spec}}}}}"#
    )
}

fn terms(bytes: usize) -> String {
    let term = |_| r#"{"labelSelector":{"matchLabels":{"a":"b"}},"topologyKey":"x"}"#.to_owned();
    let terms = fill(bytes, term);
    format!(
        r#","affinity":{{"podAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":[{terms}]}}}}"#
    )
}

/// The body of a case of about so many bytes, and the scheduler.
fn body(case: &str, bytes: usize) -> (String, SchedulerKind) {
    let room = bytes.saturating_sub(1024);
    let (what, scheduler) = case.split_once('@').unwrap_or((case, "volcano"));
    let scheduler: SchedulerKind = scheduler.parse().expect("a scheduler");
    let many = |item: &dyn Fn(usize) -> String| jobset_text(GANG, &fill(room, item));
    let empty = |_| "{}".to_owned();
    let object = match what {
        "groups" => many(&|i| group(&format!("g{i}"), "", "")),
        "thousand groups" => {
            let spec = format!(
                r#","x":"{}""#,
                "y".repeat((room / 1000).saturating_sub(140))
            );
            let groups = room.min(1000 * 7168) / (140 + spec.len());
            let groups: Vec<String> = (0..groups.min(1000))
                .map(|i| group(&format!("g{i}"), "", &spec))
                .collect();
            jobset_text(GANG, &groups.join(","))
        }
        "bundle" => {
            let knobs = r#","gangConfig":{"gangMode":"Gang"}"#;
            let groups = room / 200;
            let groups: Vec<String> = (0..groups.min(1000))
                .map(|i| group(&format!("g{i}"), knobs, ""))
                .collect();
            jobset_text(r#""muster.dev/bundle":"ring""#, &groups.join(","))
        }
        "chain" => {
            let groups: Vec<String> = (0..(room / 240).min(1000))
                .map(|i| {
                    let knobs = format!(
                        r#","gangConfig":{{"gangMode":"Gang"}},"dependsOn":[{{"name":"g{}"}}]"#,
                        i.max(1) - 1
                    );
                    group(&format!("g{i}"), &knobs, "")
                })
                .collect();
            jobset_text(r#""muster.dev/bundle":"ring""#, &groups.join(","))
        }
        "empty groups" => many(&empty),
        "empty containers" => {
            let spec = format!(r#","initContainers":[{}]"#, fill(room, empty));
            jobset_text(GANG, &group("g", "", &spec))
        }
        "empty volumes" => {
            let spec = format!(r#","volumes":[{}]"#, fill(room, empty));
            jobset_text(GANG, &group("g", "", &spec))
        }
        "empty ignored" => {
            let spec = format!(r#","x":[{}]"#, fill(room, empty));
            jobset_text(GANG, &group("g", "", &spec))
        }
        "wrong type" => {
            let spec = format!(r#","x":[{}]"#, fill(room, |_| r#"{"a":1}"#.to_owned()));
            let group = group("g", "", &spec);
            jobset_text(GANG, &format!(r#"{group},{{"name":7}}"#))
        }
        "deep" => {
            let depth = room / 2;
            let spec = format!(r#","x":{}{}"#, "[".repeat(depth), "]".repeat(depth));
            jobset_text(GANG, &group("g", "", &spec))
        }
        "annotations" => {
            let keys = fill(room, |i| format!(r#""{i:x}":"""#));
            jobset_text(&format!("{GANG},{keys}"), &group("g", "", ""))
        }
        "unknown keys" => {
            let keys = fill(room, |i| format!(r#""muster.dev/{i:x}":"""#));
            jobset_text(&format!("{GANG},{keys}"), &group("g", "", ""))
        }
        "long key" => {
            let key = format!(r#""muster.dev/{}":"""#, "k".repeat(room));
            jobset_text(&format!("{GANG},{key}"), &group("g", "", ""))
        }
        "partners" => {
            let with = fill(room, |i| format!("{i:x}"));
            let keys = format!(r#"{GANG},"muster.dev/bundle-with":"{with}""#);
            jobset_text(&keys, &group("g", "", ""))
        }
        "affinity" => jobset_text(GANG, &group("g", "", &terms(room))),
        "affinities" => {
            let groups = (room / 1000).clamp(2, 900);
            let spec = terms((room / groups).saturating_sub(400));
            let groups: Vec<String> = (0..groups)
                .map(|i| group(&format!("g{i}"), "", &spec))
                .collect();
            jobset_text(GANG, &groups.join(","))
        }
        "forged siblings" => forged(
            r#"{"scheduler":"koordinator","way":"annotations","level":"Group","size":1,"quorum":1,"bundle":"a","siblings":[{"part":"a","replicas":4294967295}]}"#,
            "",
        ),
        "forged roles" => {
            let roles = fill(room / 4, |i| {
                format!(r#"{{"name":"{i}","members":1,"shape":0}}"#)
            });
            let stamp = format!(
                r#"{{"scheduler":"yunikorn","level":"Whole","size":1,"quorum":1,"roles":[{roles}],"shapes":[{{"affinity":{{}}}}]}}"#
            );
            forged(&stamp, &terms(room / 4))
        }
        "forged affinity" => {
            let stamp = r#"{"scheduler":"yunikorn","level":"Whole","size":1,"quorum":1,"roles":[{"name":"a","members":1}]}"#;
            forged(stamp, &terms(room))
        }
        other => panic!("no case {other}"),
    };
    let kind = match what.starts_with("forged") {
        true => &pods::KIND,
        false => &jobset::KIND,
    };
    (review(kind, &object), scheduler)
}

/// A workload that is as large as admission lets it be.
fn largest(case: &str) -> (Value, Snapshot) {
    let (bundled, scheduler) = match case {
        "look@koordinator bundle" => (true, SchedulerKind::KOORDINATOR),
        "look@volcano bundle" => (true, SchedulerKind::VOLCANO),
        "look@volcano" => (false, SchedulerKind::VOLCANO),
        _ => (false, SchedulerKind::NATIVE),
    };
    let replicas = match scheduler {
        SchedulerKind::KOORDINATOR => 400,
        _ => 5000,
    };
    let knobs = format!(r#","replicas":{replicas},"gangConfig":{{"gangMode":"ReplicatedGang"}}"#);
    let annotations = if bundled {
        r#""muster.dev/bundle":"ring""#
    } else {
        ""
    };
    let name = "n".repeat(40);
    let object = jobset_text(annotations, &group(&name, &knobs, ""));
    let object: Value = serde_json::from_str(&object).expect("JSON");
    let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
    let admitted = admit::create(&jobset::KIND, &object, &cluster).expect("an answer");
    assert!(admitted.errors.is_empty(), "{:?}", admitted.errors);
    let mut stored = admitted.object;
    stored["metadata"]["uid"] = json!("4d1c");
    (stored, cluster)
}

/// The JobSet carries the stamp of the pod too: else it would be refused before it costs anything.
fn vouched(body: &str) -> Vouched {
    let review: Value = serde_json::from_str(body).expect("JSON");
    let stamp = &review["request"]["object"]["metadata"]["annotations"]["muster.dev/stamp"];
    let stamp = StampHash::of("workers", stamp.as_str().expect("a stamp"));
    let carrier = Carrier {
        kind: jobset::KIND.name,
        workload: WorkloadRef::new("ml", "train"),
    };
    let asked = Asked {
        carried: HashMap::from([(carrier, Arc::new(HashSet::from([stamp])))]),
        ..Asked::default()
    };
    Vouched::Asked(Arc::new(asked))
}

fn cpu() -> Duration {
    let times = std::fs::read_to_string("/proc/thread-self/schedstat").expect("schedstat");
    let nanoseconds = times.split(' ').next().and_then(|n| n.parse().ok());
    Duration::from_nanos(nanoseconds.expect("a number"))
}

/// A field of `/proc/self/status`, in bytes.
fn memory(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").expect("status");
    let line = status.lines().find(|line| line.starts_with(field));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<usize>().ok());
    kib.expect("a number") * 1024
}

/// Runs one case and prints what it took; whether it kept the limits.
fn run(case: &str, bytes: usize) -> bool {
    let (length, limits, work): (_, _, Box<dyn Fn() -> usize>) = match case.starts_with("look") {
        true => {
            let (stored, cluster) = largest(case);
            let text = stored.to_string();
            let length = text.len();
            let look = move || {
                let object = Object::read(&jobset::KIND, &text);
                let seen = Seen {
                    workload: object.workload().expect("a workload"),
                    namespace: "ml",
                    pods: &[],
                    strangers: &[],
                    made: &[],
                    partners: &[],
                    owner: None,
                    waiters: &[],
                    now: Timestamp::now(),
                };
                let actions = decide::decide(&seen, &cluster);
                assert!(!actions.apply.is_empty());
                0
            };
            (length, LOOK, Box::new(look))
        }
        false => {
            let (body, scheduler) = body(case, bytes);
            let mut cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
            if case.starts_with("forged") {
                cluster.vouched = vouched(&body);
            }
            let length = body.len();
            let answer = move || {
                let answer = admission::answer(Phase::Mutate, body.as_bytes(), &cluster);
                let validated = admission::answer(Phase::Validate, body.as_bytes(), &cluster);
                let length =
                    |answer: Result<admission::Answer, _>| answer.map_or(0, |a| a.body.len());
                length(answer).max(length(validated))
            };
            (length, limits(length), Box::new(answer))
        }
    };
    // The program's own pages are there before the first request.
    let small = review(&jobset::KIND, &jobset_text(GANG, &group("g", "", "")));
    for scheduler in SCHEDULERS {
        let cluster = Snapshot::assumed(scheduler, Dialect::V1_37);
        for phase in [Phase::Mutate, Phase::Validate] {
            let _ = admission::answer(phase, small.as_bytes(), &cluster);
        }
    }
    // The peak before is that of making the body; what was freed of it counts for nobody.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let (before, start) = (memory("VmRSS"), cpu());
    let response = work();
    // Both phases were asked.
    let took = (cpu() - start) / if case.starts_with("look") { 1 } else { 2 };
    let peak = memory("VmHWM").saturating_sub(before);
    let kept = took <= limits.cpu && peak <= limits.memory && response <= limits.response;
    println!(
        "{case:<28} {length:>9} B {:>9.2} ms {:>8} KiB {response:>9} B {}",
        took.as_secs_f64() * 1000.0,
        peak / 1024,
        if kept { "ok" } else { "OVER" }
    );
    kept
}

fn cases() -> Vec<(String, usize)> {
    let plain = [
        "chain",
        "empty groups",
        "empty containers",
        "empty volumes",
        "empty ignored",
        "wrong type",
        "deep",
        "annotations",
        "unknown keys",
        "long key",
        "partners",
    ];
    let on_each = ["groups", "thousand groups", "bundle"];
    let on_yunikorn = ["affinity", "affinities", "forged roles", "forged affinity"];
    let mut names: Vec<String> = plain.map(str::to_owned).to_vec();
    for what in on_each {
        names.extend(SCHEDULERS.map(|scheduler| format!("{what}@{scheduler}")));
    }
    names.extend(on_yunikorn.map(|what| format!("{what}@yunikorn")));
    names.push("forged siblings@koordinator".to_owned());
    let mut cases = Vec::new();
    for bytes in [16 * 1024, 7 * MIB] {
        cases.extend(names.iter().map(|name| (name.clone(), bytes)));
    }
    let looks = [
        "look@native",
        "look@volcano",
        "look@volcano bundle",
        "look@koordinator bundle",
    ];
    cases.extend(looks.map(|look| (look.to_owned(), 0)));
    cases
}

fn main() -> ExitCode {
    if let Ok(case) = std::env::var("MUSTER_BENCH_CASE") {
        let (case, bytes) = case.split_once('|').expect("a case and its bytes");
        return match run(case, bytes.parse().expect("a number")) {
            true => ExitCode::SUCCESS,
            false => ExitCode::FAILURE,
        };
    }
    println!(
        "{:<28} {:>11} {:>12} {:>12} {:>11}",
        "case", "body", "CPU", "memory", "response"
    );
    let itself = std::env::current_exe().expect("this program");
    let mut kept = true;
    for (case, bytes) in cases() {
        let mut child = Command::new(&itself);
        child.env("MUSTER_BENCH_CASE", format!("{case}|{bytes}"));
        kept &= child.status().is_ok_and(|status| status.success());
    }
    match kept {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}
