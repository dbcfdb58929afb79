//! The promises that a real cluster must keep, one file per theme.

mod harness;
mod native;

use crate::runner::{Test, test};

pub fn all() -> Vec<Test> {
    vec![
        test(harness::jobset_is_defaulted_by_its_own_webhook),
        test(harness::leaderworkerset_gets_its_pods),
        test(harness::jobset_runs_to_completion),
        test(harness::invalid_jobset_is_refused_by_kubectl_apply),
        test(harness::pods_stay_on_the_nodes_of_their_test),
        test(harness::process_ends_when_asked),
        test(native::gang_binds_nothing_until_it_fits),
    ]
}
