//! Why the gangs of a workload wait: what was seen of them and what witnesses say goes into
//! `explain`, and its answer into how each gang stands.

use std::collections::BTreeSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube::Client;

use super::decide::{Actions, GangStatus, State};
use super::report::events::FIRST_WORDS;
use super::witness::Witnesses;
use crate::explain::causes;
use crate::explain::refusal::Refusal;
use crate::workload::seen::LinkState;
use crate::workload::{SeenPod, Workload};

/// Witnesses that have not seen everything yet are waited for so much longer.
const GRACE: Duration = Duration::from_millis(1500);

/// A workload, as far as its gangs' causes need it.
pub(super) struct Case<'a> {
    pub(super) workload: &'a dyn Workload,
    pub(super) namespace: &'a str,
    pub(super) pods: &'a [SeenPod],
    pub(super) now: Timestamp,
}

impl Case<'_> {
    fn refusals(&self, witnesses: &Witnesses) -> Vec<Refusal> {
        let makes = |kind: &str, name: &str| {
            let own = |pod: &SeenPod| {
                let controller = pod.own.as_ref().and_then(|own| own.controller.as_ref());
                controller.is_some_and(|made| made.kind == kind && made.name == name)
            };
            self.workload.makes_pods(kind, name) || self.pods.iter().any(own)
        };
        witnesses.refusals(self.namespace, makes)
    }

    /// Finds the causes of every gang that waits.
    pub(super) async fn explain(
        &self,
        actions: &mut Actions,
        witnesses: &Witnesses,
        client: &Client,
    ) {
        let waiting = actions.gangs.iter().filter(|gang| gang.waits());
        let asks = waiting.flat_map(|gang| &gang.evidence.asks);
        let claims: BTreeSet<&str> = asks
            .flat_map(|(ask, _)| ask.claims.iter().map(String::as_str))
            .collect();
        let no_claims = witnesses
            .missing_claims(client, self.namespace, claims)
            .await;
        let refusals = match actions.gangs.iter().any(lacks_pods) || actions.unmade {
            true => self.refusals(witnesses),
            false => Vec::new(),
        };
        self.refused(actions, &refusals);
        let missing = |pod: &&SeenPod| pod.link == LinkState::Missing && !pod.going;
        let unlinked = self.pods.iter().filter(missing).count();
        let filled = witnesses.is_filled();
        for gang in actions.gangs.iter_mut().filter(|gang| gang.waits()) {
            let waited = gang.waited.unwrap_or_default();
            if !filled && waited < FIRST_WORDS + GRACE {
                continue;
            }
            let known = &mut gang.evidence;
            known.unlinked = unlinked;
            if known.live < known.quorum as usize {
                known.refusals.clone_from(&refusals);
            } else {
                let placed = u32::try_from(gang.bound).unwrap_or(u32::MAX);
                let needed = gang.quorum.saturating_sub(placed);
                let own = known.placeholders.as_ref();
                let own = own.map(|prefix| format!("{}/{prefix}", self.namespace));
                let of = (self.namespace, gang.name.as_str());
                known.fit = witnesses.fit(of, &known.asks, needed, own.as_deref());
            }
            let asked = known.asks.iter().flat_map(|(ask, _)| &ask.claims);
            known.claims = no_claims
                .iter()
                .filter(|m| asked.clone().any(|a| a == *m))
                .cloned()
                .collect();
            gang.causes = causes(known);
        }
    }

    /// A gang whose pods are refused is wanted, also if none of them exists.
    fn refused(&self, actions: &mut Actions, refusals: &[Refusal]) {
        let Some(last) = refusals.first() else {
            return;
        };
        let since = refusals.iter().filter_map(|refusal| refusal.since).min();
        let waited = since.or(last.at).map(|since| {
            let waited = self.now.duration_since(since);
            Duration::try_from(waited).unwrap_or_default()
        });
        let settled = |gang: &GangStatus| gang.state == State::Scheduled;
        if let Some(scheduler) = actions.scheduler
            && actions.unmade
            && actions.gangs.iter().all(settled)
        {
            let name = self.workload.meta().name.as_deref().unwrap_or_default();
            actions
                .gangs
                .push(GangStatus::unmade(name, actions.first_quorum, scheduler));
        }
        let empty = |gang: &&mut GangStatus| gang.state == State::Empty;
        for gang in actions.gangs.iter_mut().filter(empty) {
            gang.state = State::Waiting;
            gang.evidence.quorum = gang.quorum;
            gang.waited = waited;
        }
    }
}

fn lacks_pods(gang: &GangStatus) -> bool {
    gang.state != State::Scheduled && gang.live < gang.quorum as usize
}
