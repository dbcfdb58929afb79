//! Every YAML example of KEP-1068 and KEP-498, rendered for every scheduler and dialect.

mod common;

use common::{expect, files, no_orphans};
use muster::cli::check::Output;
use muster::cli::{admit, render};
use muster::gang::SchedulerKind;
use muster::scheduler::{Dialect, Snapshot};

/// Every backend that there is, by the name that its expectations carry.
fn backends() -> Vec<(String, Snapshot)> {
    let mut all: Vec<(String, Snapshot)> = Dialect::ALL
        .into_iter()
        // As 1.37, but for bundles, which no proposal has.
        .filter(|dialect| *dialect != Dialect::V1_37Composites)
        .map(|dialect| {
            let name = format!("native-{dialect}");
            (name, Snapshot::assumed(SchedulerKind::NATIVE, dialect))
        })
        .collect();
    for kind in [
        SchedulerKind::VOLCANO,
        SchedulerKind::COSCHEDULING,
        SchedulerKind::KOORDINATOR,
        SchedulerKind::YUNIKORN,
        SchedulerKind::KAI,
    ] {
        let name = kind.as_str().to_owned();
        all.push((name, Snapshot::assumed(kind, Dialect::V1_37)));
    }
    all.push(("koordinator-annotations".to_owned(), by_annotations()));
    all
}

fn by_annotations() -> Snapshot {
    Snapshot::assumed(SchedulerKind::KOORDINATOR, Dialect::V1_37)
        .with_variant(SchedulerKind::KOORDINATOR, "annotations")
}

fn rendered(dir: &str, name: &str, cluster: &Snapshot) -> String {
    let path = common::fixtures(dir).join(format!("{name}.yaml"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    render::run(
        std::slice::from_ref(&path),
        Output::Text,
        cluster,
        &mut out,
        &mut err,
    )
    .unwrap();
    let err = String::from_utf8(err).unwrap();
    let err = err.replace(path.to_str().unwrap(), &format!("{name}.yaml"));
    format!("{err}{}", String::from_utf8(out).unwrap())
}

#[test]
fn every_example_of_the_proposals_gets_its_objects_and_links() {
    let mut names = Vec::new();
    for (name, _) in files("seeds") {
        for (backend, cluster) in backends() {
            let shown = rendered("seeds", &name, &cluster);
            expect("seeds", &format!("{name}@{backend}"), &shown);
        }
        names.push(name);
    }
    no_orphans("seeds", &names);
}

/// The objects that matter most beyond the proposals' examples.
#[test]
fn quorums_bundles_priorities_and_nine_gangs_reach_the_schedulers_objects() {
    let dialect = |d| Snapshot::assumed(SchedulerKind::NATIVE, d);
    for (fixture, backend, cluster) in [
        ("accepted-all-knobs", "volcano", dialect(Dialect::V1_37)),
        ("bundle", "volcano", dialect(Dialect::V1_37)),
        (
            "bundle-on-native",
            "native-1.37-composites",
            dialect(Dialect::V1_37Composites),
        ),
        ("bundle-on-kai", "kai", dialect(Dialect::V1_37)),
        (
            "bundle-on-koordinator",
            "koordinator",
            dialect(Dialect::V1_37),
        ),
        (
            "bundle-on-koordinator",
            "koordinator-annotations",
            by_annotations(),
        ),
        ("bundle-on-yunikorn", "yunikorn", dialect(Dialect::V1_37)),
        (
            "near-and-apart-on-yunikorn",
            "yunikorn",
            dialect(Dialect::V1_37),
        ),
        (
            "bundle",
            "volcano-1.13",
            Snapshot {
                found: Vec::new(),
                ..dialect(Dialect::V1_37)
            },
        ),
        (
            "bundle-of-two-priorities",
            "native-1.37-composites",
            dialect(Dialect::V1_37Composites),
        ),
        ("nine-gangs", "native-1.35", dialect(Dialect::V1_35)),
        ("nine-gangs", "native-1.36", dialect(Dialect::V1_36)),
        ("nine-gangs", "native-1.37", dialect(Dialect::V1_37)),
        (
            "resources",
            "volcano",
            Snapshot::assumed(SchedulerKind::VOLCANO, Dialect::V1_37),
        ),
        (
            "copied-from-a-cluster",
            "native-1.37",
            dialect(Dialect::V1_37),
        ),
        ("scheduler-name-chooses", "volcano", dialect(Dialect::V1_37)),
        ("generate-name", "native-1.37", dialect(Dialect::V1_37)),
    ] {
        let shown = rendered("rules", fixture, &cluster);
        expect("rendered", &format!("{fixture}@{backend}"), &shown);
    }
}

/// A replica's pods and objects, on every backend.
#[test]
fn a_replica_of_a_leaderworkerset_reaches_every_scheduler() {
    for (backend, cluster) in backends() {
        let shown = rendered("rules", "lws", &cluster);
        expect("rendered", &format!("lws@{backend}"), &shown);
        if ["volcano", "yunikorn", "native-1.35"].contains(&backend.as_str()) {
            for fixture in ["lws-leader-ready", "lws-leader-ready-one-template"] {
                let shown = rendered("rules", fixture, &cluster);
                expect("rendered", &format!("{fixture}@{backend}"), &shown);
            }
        }
    }
}

/// A gang's object and its members' links must carry the same name, on every backend.
#[test]
fn every_link_points_at_an_object_that_render_prints() {
    for (name, text) in files("seeds") {
        let jobset = &common::documents(&text)[0];
        for (backend, cluster) in backends() {
            let kind = admit::kind_of(jobset).unwrap();
            let admitted = admit::create(kind, jobset, &cluster).unwrap();
            if !admitted.errors.is_empty() {
                continue;
            }
            let documents = render::documents(&admitted, &cluster).unwrap();
            let names: Vec<&str> = documents
                .iter()
                .filter(|d| matches!(d["kind"].as_str(), Some("PodGroup" | "Workload")))
                .map(|d| d["metadata"]["name"].as_str().unwrap())
                .collect();
            let mut links = 0;
            for document in &documents {
                let pod = match document["kind"].as_str() {
                    Some("Job") => &document["spec"]["template"],
                    Some("Pod") => document,
                    _ => continue,
                };
                let meta = &pod["metadata"];
                let found = [
                    &pod["spec"]["schedulingGroup"]["podGroupName"],
                    &pod["spec"]["workloadRef"]["name"],
                    &meta["annotations"]["scheduling.k8s.io/group-name"],
                    &meta["labels"]["scheduling.x-k8s.io/pod-group"],
                    &meta["labels"]["pod-group.scheduling.sigs.k8s.io"],
                    &meta["annotations"]["gang.scheduling.koordinator.sh/name"],
                    &meta["labels"]["yunikorn.apache.org/app-id"],
                    &meta["annotations"]["pod-group-name"],
                ];
                let link: Vec<&str> = found.iter().filter_map(|value| value.as_str()).collect();
                assert_eq!(link.len(), 1, "{name} on {backend}: one link per pod");
                let objectless = ["koordinator-annotations", "yunikorn"];
                let known = names.contains(&link[0]) || objectless.contains(&&*backend);
                assert!(known, "{name} on {backend}: {link:?}");
                links += 1;
            }
            let gangs = documents.iter().filter(|d| d["kind"] == "PodGroup").count();
            assert!(
                links >= gangs,
                "{name} on {backend}: {links} links, {gangs} PodGroups"
            );
        }
    }
}
