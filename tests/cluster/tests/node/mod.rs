//! What only a real node can show: containers that start, run and end.

mod barrier;
mod chart;
mod gangs;
mod install;
mod outages;
mod words;

use crate::fleet::Home;
use crate::runner::{Test, test_in};

/// In this order, one after the other: the last ones restart what all of them use.
pub fn all() -> Vec<Test> {
    vec![
        test_in(Home::Node, install::two_replicas_are_ready),
        test_in(Home::Node, install::the_image_is_small),
        test_in(Home::Node, chart::helm_test_tries_admission_in_a_pod),
        test_in(Home::Node, gangs::a_gang_of_real_containers_runs_to_its_end),
        test_in(
            Home::Node,
            gangs::the_pods_of_a_gang_find_each_other_by_name,
        ),
        test_in(Home::Node, gangs::a_gang_runs_under_restricted_pod_security),
        test_in(
            Home::Node,
            barrier::main_containers_start_within_a_second_of_the_last,
        ),
        test_in(
            Home::Node,
            barrier::a_barrier_holds_under_restricted_pod_security,
        ),
        test_in(
            Home::Node,
            barrier::a_pod_that_waits_holds_a_second_replica_ready,
        ),
        test_in(
            Home::Node,
            barrier::a_pod_that_gives_up_fails_with_the_reason,
        ),
        test_in(
            Home::Node,
            barrier::a_container_that_is_restarted_fails_at_once,
        ),
        test_in(Home::Node, outages::a_restart_of_the_kubelet_harms_no_gang),
        test_in(Home::Node, barrier::a_restart_of_the_kubelet_loses_nobody),
        test_in(Home::Node, outages::both_replicas_deleted_harm_no_gang),
        test_in(Home::Node, barrier::both_replicas_deleted_lose_nobody),
    ]
}
