//! What `muster explain` and `muster status` print for scripts: the same data, in one form.

use std::io::Write;

use serde_json::{Value, json};

use super::standing::{condition, headline, stands};
use super::yaml;
use crate::controller::decide::GangStatus;
use crate::controller::inspect::progress::Progress;
use crate::controller::inspect::{Inspected, Sight};
use crate::explain::{Cause, Place};

/// Prints JSON.
pub(super) fn write_json(value: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value)?;
    writeln!(out)
}

/// Prints YAML.
pub(super) fn write_yaml(value: &Value, out: &mut dyn Write) -> std::io::Result<()> {
    writeln!(out, "{}", yaml::to_string(value).trim_end())
}

/// A workload and its gangs.
pub(super) fn workload(workload: &Inspected) -> Value {
    let gangs = workload.gangs();
    let gangs: Vec<Value> = gangs
        .map(|(gang, progress)| self::gang(gang, progress, workload))
        .collect();
    let told = |(reason, message): &(String, String)| json!({"reason": reason, "message": message});
    json!({
        "kind": workload.kind,
        "namespace": workload.namespace,
        "name": workload.name,
        "declaredGang": workload.declared,
        "headline": headline(workload),
        "gangs": gangs,
        "refused": workload.refused,
        "broken": workload.broken,
        "missing": workload.missing,
        "foreign": workload.foreign,
        "condition": condition(workload).map(told),
        "startBarrier": workload.barrier.as_ref().map(told),
        "kueueQueue": workload.kueue.as_ref().map(|queued| &queued.queue),
        "next": workload.resume,
    })
}

fn gang(gang: &GangStatus, progress: Progress, workload: &Inspected) -> Value {
    let pods = workload.pods_of(gang);
    let place = Place {
        namespace: &workload.namespace,
        pods: &pods,
    };
    let cause = |cause: &Cause| {
        json!({
            "reason": cause.reason(),
            "message": cause.to_string(),
            "waitingFor": cause.waits_for(),
            "next": cause.next_step(place),
        })
    };
    let seen = (workload.sight != Sight::NoPods).then_some(progress);
    let seconds = |time: Option<std::time::Duration>| time.map(|time| time.as_secs());
    json!({
        "name": gang.name,
        "scheduler": gang.scheduler.as_str(),
        "state": stands(gang, progress, workload.sight),
        "quorum": gang.quorum,
        "size": gang.size,
        "created": seen.map(|progress| progress.created),
        "placed": seen.map(|progress| progress.placed),
        "running": seen.map(|progress| progress.running),
        "done": seen.map(|progress| progress.done),
        "ageSeconds": seconds(gang.age),
        "waitedSeconds": seconds(gang.waited.filter(|_| gang.waits())),
        "causes": gang.causes.iter().map(cause).collect::<Vec<_>>(),
        "schedulerSays": gang.evidence.quotation().filter(|_| gang.waits()).map(str::trim),
    })
}
