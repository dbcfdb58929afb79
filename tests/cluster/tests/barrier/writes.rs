//! What is written for barriers: how often, and whose it is.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Result, ensure};
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{ListParams, WatchEvent, WatchParams};

use super::super::samples::JOBSET;
use super::CONFIG_MAP;
use crate::sandbox::Sandbox;

/// Every write to the ConfigMaps of a namespace's barriers.
pub(super) struct Writes {
    seen: Arc<Mutex<Vec<String>>>,
    watch: tokio::task::JoinHandle<()>,
}

impl Writes {
    /// Names, and what was done.
    pub(super) fn seen(&self) -> String {
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.join(", ")
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        self.watch.abort();
    }
}

impl Sandbox {
    /// From now on, until it is dropped.
    pub(super) async fn watch_barriers(&self) -> Result<Writes> {
        let api = self.api(CONFIG_MAP.0, CONFIG_MAP.1).await?;
        let before = api.list(&ListParams::default()).await?;
        let version = before.metadata.resource_version.unwrap_or_default();
        let selected = WatchParams::default().labels("muster.dev/barrier");
        let events = api.watch(&selected, &version).await?;
        let seen = Arc::new(Mutex::new(Vec::new()));
        let written = Arc::clone(&seen);
        let watch = tokio::spawn(async move {
            let mut events = events.boxed();
            while let Some(event) = events.next().await {
                let line = match event {
                    Ok(WatchEvent::Added(object)) => format!("{} ADDED", object.name_any()),
                    Ok(WatchEvent::Modified(object)) => format!("{} MODIFIED", object.name_any()),
                    Ok(WatchEvent::Deleted(object)) => format!("{} DELETED", object.name_any()),
                    Ok(WatchEvent::Bookmark(_)) => continue,
                    Ok(WatchEvent::Error(error)) => error.to_string(),
                    Err(error) => error.to_string(),
                };
                let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
                written.push(line);
            }
        });
        Ok(Writes { seen, watch })
    }

    /// So that it goes with the workload, whether or not Muster is there.
    pub(super) async fn is_owned_by_the_jobset(&self, config_map: &str) -> Result<()> {
        let api = self.api(CONFIG_MAP.0, CONFIG_MAP.1).await?;
        let owners = api.get(config_map).await?.metadata.owner_references;
        let jobset = self.api(JOBSET.0, JOBSET.1).await?.get("train").await?;
        let uid = jobset.metadata.uid.unwrap_or_default();
        let owners = owners.unwrap_or_default();
        let is_jobset = owners.iter().any(|owner| {
            owner.controller == Some(true) && owner.kind == "JobSet" && owner.uid == uid
        });
        ensure!(owners.len() == 1 && is_jobset, "it is owned by {owners:?}");
        Ok(())
    }
}
