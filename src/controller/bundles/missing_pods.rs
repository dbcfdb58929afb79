//! Which other gang of a bundle lacks pods. Told by Muster, because the scheduler does not say it
//! (Koordinator 1.8).

use std::collections::BTreeMap;

use crate::controller::bundles::partners::{Partner, PartnerState};
use crate::controller::decide::{GangStatus, State};
use crate::gang::Gang;

/// What a gang lacks that has fewer pods than its quorum.
pub fn shortage(name: &str, live: usize, quorum: u32) -> Option<String> {
    (live < quorum as usize).then(|| format!("{name} has only {live} of {quorum} pods"))
}

/// Gives a reason to each gang that waits, if another gang of its bundle lacks pods.
/// `statuses` are those of `gangs`, in their order.
pub fn explain(gangs: &[Gang<'_>], partners: &[Partner], statuses: &mut [GangStatus]) {
    let mut bundles: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (i, gang) in gangs.iter().enumerate() {
        if let Some(bundle) = gang.part.bundle() {
            bundles.entry(bundle.value.as_str()).or_default().push(i);
        }
    }
    for (bundle, members) in bundles {
        let idle = members.iter().map(|i| &statuses[*i]);
        let own = idle
            .filter(|gang| gang.bound == 0 && gang.state != State::Scheduled)
            .filter_map(|gang| shortage(&gang.name, gang.live, gang.quorum));
        let others = partners.iter().flat_map(|partner| match &partner.state {
            PartnerState::Present(present) => present
                .sides
                .get(bundle)
                .map_or(&[][..], |side| &side.missing_pods[..]),
            PartnerState::Absent(_) => &[],
        });
        let missing: Vec<String> = own.chain(others.cloned()).take(4).collect();
        if missing.is_empty() {
            continue;
        }
        let why = format!("the bundle {bundle:?} waits: {}", missing.join(", "));
        for i in members {
            let gang = &mut statuses[i];
            if gang.waits() && shortage(&gang.name, gang.live, gang.quorum).is_none() {
                gang.evidence.partner = Some(why.clone());
            }
        }
    }
}
