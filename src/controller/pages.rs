//! Lists in pages: a cluster's pods in one answer are hundreds of megabytes, in the apiserver as well as
//! here.
//!
//! With `resourceVersion=0` an apiserver would answer from its cache, but then it ignores the limit. Since
//! Kubernetes 1.31 it answers the first page from its cache without that too.

use std::fmt::Debug;

use kube::api::{Api, ListParams};
use serde::de::DeserializeOwned;

/// So many come in one answer.
pub(super) const PAGE: u32 = 500;

/// Hands over each object of a list.
pub(super) async fn each<K>(
    api: &Api<K>,
    params: ListParams,
    mut note: impl FnMut(K),
) -> Result<(), kube::Error>
where
    K: Clone + DeserializeOwned + Debug,
{
    let mut page = params.limit(PAGE);
    loop {
        let listed = api.list(&page).await?;
        listed.items.into_iter().for_each(&mut note);
        match listed.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => page = page.continue_token(&more),
            None => return Ok(()),
        }
    }
}
