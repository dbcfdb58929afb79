//! What only a real node can show: containers that start, run and end.

mod barrier;
mod cert_manager;
mod chart;
mod down;
mod gangs;
mod guide;
mod host_network;
mod image;
mod install;
mod network;
mod outages;
mod rollout;
mod uninstall;
mod words;

use crate::fleet::Home;
use crate::runner::{Test, test_in};

/// In this order, one after the other: the last ones restart what all of them use, or take it away.
pub fn all() -> Vec<Test> {
    vec![
        test_in(Home::Node, install::two_replicas_are_ready),
        test_in(Home::Node, install::the_image_is_small),
        test_in(Home::Node, image::the_image_is_the_same_to_the_byte),
        test_in(Home::Node, chart::helm_test_tries_admission_in_a_pod),
        test_in(Home::Node, gangs::a_gang_of_real_containers_runs_to_its_end),
        test_in(
            Home::Node,
            gangs::the_pods_of_a_gang_find_each_other_by_name,
        ),
        test_in(Home::Node, gangs::a_gang_runs_under_restricted_pod_security),
        test_in(
            Home::Node,
            barrier::main_containers_start_within_five_seconds_of_the_last,
        ),
        test_in(
            Home::Node,
            barrier::a_barrier_holds_under_restricted_pod_security,
        ),
        test_in(
            Home::Node,
            barrier::replicas::a_pod_that_waits_holds_a_second_replica_ready,
        ),
        test_in(
            Home::Node,
            barrier::replicas::pods_that_reach_no_replica_go_on_when_they_are_written_to,
        ),
        test_in(
            Home::Node,
            barrier::times::a_pod_that_gives_up_fails_with_the_reason,
        ),
        test_in(
            Home::Node,
            barrier::times::a_container_that_is_restarted_fails_at_once,
        ),
        test_in(Home::Node, outages::a_restart_of_the_kubelet_harms_no_gang),
        test_in(
            Home::Node,
            barrier::replicas::a_restart_of_the_kubelet_loses_nobody,
        ),
        test_in(Home::Node, outages::both_replicas_deleted_harm_no_gang),
        test_in(
            Home::Node,
            barrier::replicas::both_replicas_deleted_lose_nobody,
        ),
        test_in(
            Home::Node,
            barrier::replicas::the_container_that_waits_runs_the_image_of_muster,
        ),
        test_in(
            Home::Node,
            guide::the_guide_leads_to_a_running_gang_in_five_minutes,
        ),
        test_in(Home::Node, outages::the_leaders_pod_deleted_harms_no_gang),
        test_in(Home::Node, rollout::a_rollout_of_muster_fails_no_creation),
        test_in(
            Home::Node,
            network::the_network_policy_lets_only_the_control_plane_call,
        ),
        test_in(
            Home::Node,
            down::what_has_no_gang_does_not_notice_that_muster_is_down,
        ),
        test_in(
            Home::Node,
            host_network::in_the_network_of_the_node_gangs_are_admitted_and_barriers_open,
        ),
        test_in(
            Home::Node,
            chart::a_release_is_upgraded_and_removed_with_its_pods,
        ),
        test_in(
            Home::Node,
            uninstall::the_documented_uninstall_leaves_gangs_running,
        ),
        test_in(
            Home::Node,
            uninstall::after_a_namespace_deleted_first_the_emergency_command_recovers,
        ),
        test_in(
            Home::Node,
            install::fresh_installs_are_ready_within_ten_seconds,
        ),
        test_in(
            Home::Node,
            cert_manager::certificates_are_issued_injected_mounted_and_renewed_under_load,
        )
        .strict(),
    ]
}
