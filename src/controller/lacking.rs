//! Which other gang of a bundle lacks pods: of that schedulers say nothing (Koordinator 1.8).

use std::collections::BTreeMap;

use super::decide::{Standing, State};
use super::partners::{Partner, Sight};
use crate::gang::Gang;

/// What a gang without its quorum of pods lacks, if so.
pub fn what(name: &str, live: usize, quorum: u32) -> Option<String> {
    (live < quorum as usize).then(|| format!("{name} has only {live} of {quorum} pods"))
}

/// Gives each gang that waits without a word the reason, if another of its bundle lacks pods.
/// `standings` are those of `gangs`, in their order.
pub fn tell(gangs: &[Gang<'_>], partners: &[Partner], standings: &mut [Standing]) {
    let mut bundles: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, gang) in gangs.iter().enumerate() {
        if let Some(bundle) = gang.part.bundle() {
            bundles.entry(bundle.value.as_str()).or_default().push(i);
        }
    }
    for (bundle, members) in bundles {
        let idle = members.iter().map(|i| &standings[*i]);
        let own = idle
            .filter(|gang| gang.bound == 0 && gang.state != State::Scheduled)
            .filter_map(|gang| what(&gang.name, gang.live, gang.quorum));
        let others = partners.iter().flat_map(|partner| match &partner.sight {
            Sight::There(sides) => sides.get(bundle).map_or(&[][..], |side| &side.lacking),
            Sight::Absent(_) => &[],
        });
        let lacking: Vec<String> = own.chain(others.cloned()).take(4).collect();
        if lacking.is_empty() {
            continue;
        }
        let why = format!("the bundle {bundle:?} waits: {}", lacking.join(", "));
        for i in members {
            let gang = &mut standings[i];
            let silent = gang.state == State::Waiting(None);
            if silent && what(&gang.name, gang.live, gang.quorum).is_none() {
                gang.state = State::Waiting(Some(why.clone()));
            }
        }
    }
}
