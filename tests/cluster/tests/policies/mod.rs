//! The policies in CEL on real apiservers, with no Muster: they refuse what Muster refuses as far as
//! docs/policies.md says, in the same words, and nothing that Muster accepts.

mod answers;
mod bench;
mod fixture;
mod table;

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::DeleteParams;
use serde_json::{Value, json};

use crate::install::{jobset, pod_template};
use crate::release::Release;
use crate::sandbox::Sandbox;
use answers::{Answer, Error};
use bench::{Bench, Said, deployment, job, leaderworkerset, word};
use fixture::{Case, change, complete};
use table::{Table, Verdict};

/// A case with the object that it changes, if it is an update that can be made.
struct Ready {
    case: Case,
    stored: Option<Value>,
}

pub async fn the_table_holds_on_1_37(sandbox: Sandbox) -> Result<()> {
    the_table_holds(&sandbox, Release::V1_37).await
}

pub async fn the_table_holds_on_1_36(sandbox: Sandbox) -> Result<()> {
    the_table_holds(&sandbox, Release::V1_36).await
}

pub async fn the_table_holds_on_1_35(sandbox: Sandbox) -> Result<()> {
    the_table_holds(&sandbox, Release::V1_35).await
}

async fn the_table_holds(sandbox: &Sandbox, release: Release) -> Result<()> {
    // The namespace has another name in a second attempt, where nothing may be stored yet.
    let name = &sandbox.namespace;
    let bench = Bench::new(sandbox, release, name).await?;
    let mut ready = Vec::new();
    let mut before = Vec::new();
    for case in fixture::cases()? {
        let namespace = case.namespace();
        bench.add_namespace(&namespace).await?;
        let mut stored = None;
        if let Some(old) = &case.old {
            stored = bench.store(&complete(old, &namespace), &namespace).await?;
            if stored.is_none() {
                before.push((case.name, "cannot be stored".to_owned()));
                continue;
            }
        }
        ready.push(Ready { case, stored });
    }
    // Some of what is stored has errors.
    bench.install_policies().await?;

    let table = Table::read()?;
    let mut wrong = Vec::new();
    let all = ready.len() + before.len();
    for ready in &ready {
        let answer = match &ready.case.old {
            None => answers::created(&ready.case.new)?,
            Some(old) => answers::updated(&ready.case.user, old, &ready.case.new)?,
        };
        let said = send(&bench, ready, &ready.case.new).await?;
        if let Said::Before(why) = &said {
            before.push((ready.case.name.clone(), why.clone()));
        }
        let problems = compare(&table, &answer, &said);
        wrong.extend(
            problems
                .into_iter()
                .map(|problem| (&ready.case.name, problem)),
        );
        // Beside Muster the policies see what Muster has made of it.
        if let Some(after) = &answer.after
            && let Said::Refused(said) = send(&bench, ready, after).await?
        {
            let problem = format!("refused, as Muster leaves it: {said}");
            wrong.push((&ready.case.name, problem));
        }
    }
    let unshown = table.unshown();
    ensure!(
        wrong.is_empty() && unshown.is_empty(),
        "{wrong:#?}\nrows that no fixture shows: {unshown:#?}"
    );
    let compared = all - before.len();
    let names: Vec<&str> = before.iter().map(|(name, _)| name.as_str()).collect();
    println!(
        "{name}: {compared} of {all} reach the policies; not {}",
        names.join(", ")
    );
    ensure!(
        before.len() * 4 < all,
        "too many do not reach the policies: {before:#?}"
    );
    Ok(())
}

/// Sends an object of a case: as a new one, or as a change of the one that is stored.
async fn send(bench: &Bench, ready: &Ready, object: &Value) -> Result<Said> {
    let namespace = ready.case.namespace();
    let new = complete(object, &namespace);
    // An apiserver reads the metadata of any object so.
    if let Err(error) = serde_json::from_value::<ObjectMeta>(new["metadata"].clone()) {
        return Ok(Said::Before(error.to_string()));
    }
    Said::of(match (&ready.case.old, &ready.stored) {
        (Some(old), Some(stored)) => {
            let changed = change(stored, &complete(old, &namespace), &new);
            bench.try_replace(&changed).await
        }
        _ => bench.try_create(&new, &namespace).await,
    })
}

/// Everything that is not as the table says.
fn compare(table: &Table, answer: &Answer, said: &Said) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut rest = match said {
        Said::Refused(errors) => errors.clone(),
        Said::Accepted | Said::Before(_) => String::new(),
    };
    for error in &answer.errors {
        let Some(row) = table.row(&error.message) else {
            wrong.push(format!("no row for {}", error.text()));
            continue;
        };
        let text = error.text();
        let found = match row.verdict {
            Verdict::Same => take(&mut rest, &text),
            Verdict::OtherWords => take_at(&mut rest, error),
            Verdict::Before => matches!(said, Said::Before(_)),
            Verdict::Dropped | Verdict::No => !take(&mut rest, &text),
        };
        match (said, row.verdict) {
            // What the apiserver refuses for whatever reason shows nothing of the policies.
            (Said::Before(_), verdict) if verdict != Verdict::Before => {}
            _ if found => row.show(),
            _ => wrong.push(format!(
                "{:?} says the table of {text}: {said:?}",
                row.verdict
            )),
        }
    }
    if !rest.trim_matches(['[', ']', ',', ' ']).is_empty() {
        wrong.push(format!("Muster does not say: {rest}"));
    }
    wrong
}

/// Takes a text out of others, each time that it is there.
fn take(rest: &mut String, text: &str) -> bool {
    let found = rest.contains(text);
    *rest = rest.replace(text, "");
    found
}

/// Takes the error at the path of another.
fn take_at(rest: &mut String, error: &Error) -> bool {
    let Some(start) = rest.find(&format!("{}: ", error.field)) else {
        return false;
    };
    let ends = [", metadata.", ", spec."].map(|next| rest[start..].find(next));
    let end = ends.into_iter().flatten().min();
    let end = end.map_or(rest.len(), |end| start + end);
    rest.replace_range(start..end, "");
    true
}

/// As many ReplicatedJobs as Muster takes, with the stamps that Muster writes.
fn large_jobset(groups: usize) -> Value {
    let meta = json!({
        "labels": {"muster.dev/gang": "workers"},
        "annotations": {"muster.dev/stamp": "x".repeat(200)},
    });
    let group = |i: usize| {
        let mut pods = pod_template();
        pods["metadata"] = meta.clone();
        json!({
            "name": format!("g{i}"),
            "gangConfig": {"gangMode": "Gang"},
            "template": {"metadata": meta, "spec": {"parallelism": 2, "template": pods}},
        })
    };
    let mut jobset = jobset("large");
    jobset["spec"]["replicatedJobs"] = (0..groups).map(group).collect();
    jobset
}

pub async fn the_largest_jobset_is_within_the_cost_of_an_expression(
    sandbox: Sandbox,
) -> Result<()> {
    let bench = Bench::shared(&sandbox).await?;
    // A thousand, and as many as are compared with each other.
    for groups in [1000, 64] {
        let namespace = format!("groups-{groups}");
        bench.add_namespace(&namespace).await?;
        let stored = bench.store(&large_jobset(groups), &namespace).await?;
        let mut stored = stored.with_context(|| format!("{groups} cost too much"))?;
        stored["metadata"]["labels"] = json!({"any": "thing"});
        bench.try_replace(&stored).await?;
        stored["spec"]["gangConfig"] = json!({"gangMode": "Off"});
        let said = Said::of(bench.try_replace(&stored).await)?;
        let immutable =
            "spec.gangConfig: Invalid value: {\"gangMode\":\"Off\"}: field is immutable";
        ensure!(
            matches!(&said, Said::Refused(said) if said.starts_with(immutable)),
            "{said:?}"
        );
    }
    let many = Said::of(bench.try_create(&large_jobset(1001), "default").await)?;
    let answer = answers::created(&large_jobset(1001))?;
    let [error] = &answer.errors[..] else {
        bail!("Muster says {:?}", answer.errors);
    };
    ensure!(
        matches!(&many, Said::Refused(said) if *said == error.text()),
        "{many:?}"
    );
    Ok(())
}

pub async fn what_asks_for_no_gang_is_not_looked_at(sandbox: Sandbox) -> Result<()> {
    let bench = Bench::shared(&sandbox).await?;
    for mut object in [jobset("plain"), leaderworkerset(), job(), deployment()] {
        bench.try_create(&object, "default").await?;
        object["metadata"]["annotations"] = json!({"example.com/muster.dev": "Gnag"});
        bench.try_create(&object, "default").await?;
        // Nor are the system's own, and what is being deleted.
        object["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "On"});
        bench.try_create(&object, "kube-system").await?;
        object["metadata"]["annotations"] = json!({});
        object["metadata"]["finalizers"] = json!(["e2e.muster.dev/held"]);
        let mut stored = bench.store(&object, "default").await?.context("refused")?;
        let (api_version, kind) = (word(&object, "apiVersion")?, word(&object, "kind")?);
        let api = bench.objects.api(api_version, kind, "default").await?;
        let name = word(&object["metadata"], "name")?;
        stored["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "On"});
        let said = Said::of(bench.try_replace(&stored).await)?;
        ensure!(matches!(said, Said::Refused(_)), "{said:?}");
        api.delete(name, &DeleteParams::default()).await?;
        let mut deleted = serde_json::to_value(api.get(name).await?)?;
        deleted["metadata"]["finalizers"] = json!([]);
        deleted["metadata"]["annotations"] = json!({"muster.dev/gang-mode": "On"});
        bench.try_replace(&deleted).await?;
    }
    Ok(())
}
