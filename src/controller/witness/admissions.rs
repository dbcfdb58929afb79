//! What Kueue says of workloads that it has not admitted: its own Workload objects, watched while one is
//! suspended that is in a queue of Kueue's. Where Kueue is not installed there is nothing to watch.

use std::collections::{BTreeSet, HashMap};
use std::pin::pin;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures::StreamExt as _;
use kube::api::{Api, ListParams};
use kube::core::{ApiResource, DynamicObject};
use kube::runtime::watcher::{self, Event};
use kube::{Client, ResourceExt as _};
use serde_json::Value;

use crate::controller::discovery::{REFRESH, serves};
use crate::controller::report::few::cut;
use crate::controller::run::watch;
use crate::controller::write::resource;

const GROUP: &str = "kueue.x-k8s.io";
/// The newest first; Kueue 0.15 brought it.
const VERSIONS: [&str; 2] = ["v1beta2", "v1beta1"];
/// On a Workload: the uid of the object that it stands for.
const JOB_UID: &str = "kueue.x-k8s.io/job-uid";

/// So many are kept, and of one namespace fewer. Of others it is only said that Kueue has not admitted
/// them.
const MOST: usize = 4_096;
const MOST_OF_ONE: usize = 1_024;
/// The longest words that are kept.
const LONGEST: usize = 512;

/// By namespace, because whoever may write Workloads there may say what he likes, but only of workloads
/// there; then by the uid of the workload.
#[derive(Default)]
struct Said {
    words: HashMap<String, HashMap<String, String>>,
    count: usize,
}

impl Said {
    /// Keeps what is said of a workload now, if anything; whether that is new.
    fn note(&mut self, namespace: &str, uid: &str, words: Option<String>) -> bool {
        let here = self.words.get(namespace);
        let known = here.and_then(|here| here.get(uid));
        if known == words.as_ref() {
            return false;
        }
        let full = self.count >= MOST || here.is_some_and(|here| here.len() >= MOST_OF_ONE);
        let new = known.is_none();
        if new && full {
            return false;
        }
        let here = self.words.entry(namespace.to_owned()).or_default();
        match words {
            Some(words) => {
                here.insert(uid.to_owned(), words);
                self.count += usize::from(new);
            }
            None => {
                here.remove(uid);
                self.count -= 1;
                if here.is_empty() {
                    self.words.remove(namespace);
                }
            }
        }
        true
    }
}

/// What Kueue says of workloads that it has not admitted.
#[derive(Default)]
pub(super) struct Admissions(Mutex<Said>);

impl Admissions {
    /// Why Kueue has not admitted a workload, in its words.
    pub(super) fn of(&self, namespace: &str, uid: &str) -> Option<String> {
        self.lock().words.get(namespace)?.get(uid).cloned()
    }

    pub(super) fn clear(&self) {
        *self.lock() = Said::default();
    }

    /// Looks once, at one namespace or at all. Whether Kueue is there.
    pub(super) async fn list(
        &self,
        client: &Client,
        namespace: Option<&str>,
    ) -> Result<bool, kube::Error> {
        let Some(kind) = served(client).await? else {
            return Ok(false);
        };
        let api: Api<DynamicObject> = match namespace {
            Some(namespace) => Api::namespaced_with(client.clone(), namespace, &kind),
            None => Api::all_with(client.clone(), &kind),
        };
        let mut params = ListParams::default().limit(50);
        loop {
            let page = api.list(&params).await?;
            let mut said = self.lock();
            for workload in &page {
                follow(&mut said, workload, words(&workload.data));
            }
            match page.metadata.continue_.filter(|next| !next.is_empty()) {
                Some(next) => params = params.continue_token(&next),
                None => return Ok(true),
            }
        }
    }

    /// Watches until dropped, or until Kueue is gone or serves another version. `changed` gets the uid of each workload of which
    /// something else is said than before.
    pub(super) async fn watch(&self, client: Client, changed: impl Fn(&str)) {
        let kind = loop {
            match served(&client).await {
                Ok(Some(kind)) => break kind,
                Ok(None) => {}
                Err(error) => tracing::warn!(%error, "cannot look whether Kueue is served"),
            }
            tokio::time::sleep(REFRESH).await;
        };
        let mut listed = Said::default();
        let mut events = pin!(watch::<DynamicObject>(
            &client,
            &kind,
            watcher::Config::default()
        ));
        while let Some(event) = events.next().await {
            match event {
                Ok(Event::Apply(workload)) => {
                    let said = words(&workload.data);
                    follow(&mut self.lock(), &workload, said)
                        .into_iter()
                        .for_each(&changed);
                }
                Ok(Event::Delete(workload)) => {
                    follow(&mut self.lock(), &workload, None)
                        .into_iter()
                        .for_each(&changed);
                }
                Ok(Event::Init) => listed = Said::default(),
                Ok(Event::InitApply(workload)) => {
                    follow(&mut listed, &workload, words(&workload.data));
                }
                Ok(Event::InitDone) => {
                    let listed = std::mem::take(&mut listed);
                    self.replace(listed).iter().for_each(|uid| changed(uid));
                }
                Err(error) => {
                    // Kueue is gone, or serves another version now.
                    if served(&client)
                        .await
                        .is_ok_and(|now| now != Some(kind.clone()))
                    {
                        let gone = self.replace(Said::default());
                        gone.iter().for_each(|uid| changed(uid));
                        return;
                    }
                    tracing::warn!(%error, "cannot watch what Kueue admits");
                }
            }
        }
    }

    /// Takes what is said from now on, and comes back with the uids of all workloads of which something
    /// was or is said.
    fn replace(&self, said: Said) -> BTreeSet<String> {
        let uids = |said: &Said| -> Vec<String> {
            let uids = said.words.values().flat_map(HashMap::keys);
            uids.cloned().collect()
        };
        let new = uids(&said);
        let before = std::mem::replace(&mut *self.lock(), said);
        new.into_iter().chain(uids(&before)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Said> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Kueue's Workloads, where they are served.
async fn served(client: &Client) -> Result<Option<ApiResource>, kube::Error> {
    for version in VERSIONS {
        if serves(client, &format!("{GROUP}/{version}"), "workloads").await? {
            return Ok(Some(resource(GROUP, version, "Workload")));
        }
    }
    Ok(None)
}

/// The uid of the workload that a Workload stands for, if something else is said of it than before.
fn follow<'a>(
    said: &mut Said,
    workload: &'a DynamicObject,
    words: Option<String>,
) -> Option<&'a str> {
    let uid = workload.labels().get(JOB_UID)?;
    let namespace = workload.metadata.namespace.as_deref()?;
    said.note(namespace, uid, words).then_some(uid)
}

/// Why Kueue has not admitted a Workload, in its words; nothing where it has, or has not looked yet.
fn words(workload: &Value) -> Option<String> {
    let status = &workload["status"];
    let condition = |kind: &str, value: &str| {
        let mut conditions = status["conditions"].as_array().into_iter().flatten();
        conditions.find(|c| c["type"] == kind && c["status"] == value)
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    if condition("Admitted", "True").is_some() || condition("Finished", "True").is_some() {
        return None;
    }
    if workload["spec"]["active"] == false {
        return Some("its Workload is deactivated (spec.active is false)".to_owned());
    }
    let waits = match condition("QuotaReserved", "True") {
        Some(_) => checks(status),
        None => condition("QuotaReserved", "False").map(|c| text(&c["message"])),
    };
    let waits = waits.filter(|words| !words.is_empty());
    let evicted = condition("Evicted", "True").map(|c| (text(&c["reason"]), text(&c["message"])));
    let words = match (evicted, waits) {
        (Some((reason, message)), Some(waits)) if waits != message => {
            Some(format!("evicted ({reason}), and now {waits}"))
        }
        (Some((reason, message)), _) => Some(format!("evicted ({reason}): {message}")),
        (None, waits) => waits,
    };
    words.map(|words| cut(&words, LONGEST))
}

/// The checks that a Workload with a quota still waits for.
fn checks(status: &Value) -> Option<String> {
    let checks = status["admissionChecks"].as_array().into_iter().flatten();
    let open = checks.filter(|check| check["state"] != "Ready");
    let open = open.filter_map(|check| {
        let (name, state) = (check["name"].as_str()?, check["state"].as_str()?);
        let message = check["message"].as_str().filter(|m| !m.is_empty());
        Some(match message {
            Some(message) => format!("{name} is {state}: {message}"),
            None => format!("{name} is {state}"),
        })
    });
    let open: Vec<String> = open.take(3).collect();
    (!open.is_empty()).then(|| format!("quota is reserved; admission check {}", open.join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workload(conditions: Value) -> Value {
        json!({"spec": {"active": true}, "status": {"conditions": conditions}})
    }

    #[test]
    fn kueues_words_are_those_of_what_is_missing() {
        let short = "couldn't assign flavors to pod set workers: insufficient unused quota for cpu";
        let quota = json!({"type": "QuotaReserved", "status": "False", "message": short});
        assert_eq!(words(&workload(json!([]))), None);
        assert_eq!(words(&workload(json!([quota]))).as_deref(), Some(short));
        let evicted = |message: &str| {
            json!({"type": "Evicted", "status": "True", "reason": "Preempted",
                "message": message})
        };
        let both = words(&workload(json!([
            quota,
            evicted("Preempted to accommodate")
        ])));
        assert_eq!(both, Some(format!("evicted (Preempted), and now {short}")));
        let same = words(&workload(json!([quota, evicted(short)])));
        assert_eq!(same, Some(format!("evicted (Preempted): {short}")));
        let admitted = json!({"type": "Admitted", "status": "True"});
        assert_eq!(words(&workload(json!([quota, admitted]))), None);
    }

    #[test]
    fn a_workload_with_a_quota_waits_for_its_checks() {
        let mut waits = workload(json!([{"type": "QuotaReserved", "status": "True"}]));
        assert_eq!(words(&waits), None);
        waits["status"]["admissionChecks"] = json!([
            {"name": "done", "state": "Ready", "message": ""},
            {"name": "nodes", "state": "Pending", "message": "being provisioned"},
        ]);
        let said = "quota is reserved; admission check nodes is Pending: being provisioned";
        assert_eq!(words(&waits).as_deref(), Some(said));
        waits["spec"]["active"] = json!(false);
        let said = words(&waits).unwrap_or_default();
        assert!(said.contains("deactivated"), "{said}");
    }

    #[test]
    fn what_is_kept_is_bounded_and_is_forgotten_with_its_workload() {
        let mut said = Said::default();
        let words = || Some("words".to_owned());
        for number in 0..2 * MOST_OF_ONE {
            said.note("ml", &number.to_string(), words());
        }
        assert_eq!(
            (said.count, said.words["ml"].len()),
            (MOST_OF_ONE, MOST_OF_ONE)
        );
        assert!(
            said.note("web", "0", words()),
            "another namespace has its own"
        );
        assert!(!said.note("web", "0", words()), "it is no news");
        assert!(said.note("web", "0", None));
        assert!(!said.note("web", "0", None));
        assert_eq!(said.count, MOST_OF_ONE);
        assert!(!said.words.contains_key("web"));
    }
}
