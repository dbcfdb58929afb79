//! The promises that a real cluster must keep, one file per theme.

mod authority;
mod barrier;
mod better;
mod callers;
pub mod certs;
mod chart;
mod choice;
mod crd;
mod endings;
mod explain;
mod fields;
mod foreign;
mod gangs;
mod harness;
mod install;
mod jobs;
mod kueue;
mod leadership;
mod lifecycle;
mod lws;
mod matrix;
mod monitoring;
mod namespaces;
mod native;
pub mod node;
mod operators;
mod ordinary;
mod outage;
mod owners;
mod pods;
mod policies;
mod replicas;
mod rivals;
mod samples;
mod settled;
mod trust;
mod upgrade;
mod verify;
mod words;

use crate::fleet::Home;
use crate::modules::{KUBERNETES_1_35, KUBERNETES_1_36, PROMETHEUS};
use crate::runner::{Test, test, test_in};

pub fn all() -> Vec<Test> {
    let mut tests = vec![
        // The longest first, so that the others run beside them.
        test(settled::two_hundred_settled_gangs_cost_no_write),
        test(rivals::of_two_gangs_one_runs_and_the_other_holds_nothing),
        test(outage::what_has_a_gang_waits_for_muster_and_the_rest_does_not),
        test(upgrade::an_upgrade_and_a_downgrade_fail_no_creation_and_lose_no_gang)
            .beside_the_version_before()
            .strict(),
        test(certs::rotation::a_ca_and_a_leaf_every_5_seconds_fail_no_admission).strict(),
        test(certs::clocks::replicas_that_start_at_once_agree_whatever_their_clocks_say),
        test(certs::clocks::a_dead_leaders_lease_runs_out_in_time_whatever_the_clocks_say),
        test(ordinary::a_thousand_objects_without_a_gang_never_reach_muster),
        test(pods::crowd::five_thousand_pods_are_one_gang_and_one_write),
        test(pods::outage::a_gang_that_ended_while_muster_was_down_leaves_nothing),
        test(replicas::either_replica_serves_and_one_leads),
        test(barrier::outage::replicas_that_are_killed_lose_nobody),
        test(barrier::outage::replicas_that_are_killed_as_they_tell_lose_nobody),
        test(barrier::outage::where_no_replica_is_reached_the_file_opens_it),
        test(barrier::main_containers_start_when_the_last_target_has_come),
        test(barrier::a_gang_waits_at_its_barrier_too),
        test(barrier::the_pods_of_a_job_wait_for_each_other),
        test(barrier::a_pod_that_pretends_to_wait_is_refused),
        test(barrier::times::a_pod_that_waits_in_vain_says_who_is_missing),
        test(barrier::times::a_restarted_container_does_not_wait_again),
        test(barrier::times::pods_that_do_not_exist_are_missed),
        test(barrier::lives::each_attempt_waits_for_its_own_pods),
        test(barrier::lives::suspension_closes_and_a_resume_opens_anew),
        test(barrier::lives::a_job_that_has_not_seen_a_suspension_meets_the_others),
        test(barrier::lives::a_replaced_pod_goes_straight_through),
        test(barrier::lives::a_job_that_restarts_alone_goes_straight_through),
        test(barrier::lives::a_resumed_workload_does_not_wait_for_what_is_done),
        test(barrier::a_barrier_whose_configmap_is_refused_says_so),
        test(barrier::a_users_own_configmap_is_never_overwritten),
        test(trust::a_forged_stamp_makes_nothing_and_a_lost_key_strands_nothing),
        test(trust::a_sealed_stamp_that_was_never_stored_makes_nothing),
        test(fields::the_table_is_that_of_the_pinned_modules),
        test(fields::check_and_the_apiserver_refuse_the_same_fields),
        test(fields::check_and_the_apiserver_refuse_the_same_objects),
        test(harness::jobset_is_defaulted_by_its_own_webhook),
        test(harness::leaderworkerset_gets_its_pods),
        test(harness::jobset_runs_to_completion),
        test(harness::invalid_jobset_is_refused_by_kubectl_apply),
        test(harness::pods_stay_on_the_nodes_of_their_test),
        test(harness::process_ends_when_asked),
        test(harness::what_must_never_fail_is_not_tried_twice),
        test(native::gang_binds_nothing_until_it_fits),
        test(gangs::a_whole_jobset_binds_nothing_until_it_fits),
        test(gangs::each_replicated_job_starts_by_itself),
        test(gangs::each_job_replica_starts_by_itself),
        test(gangs::gangs_that_depend_on_each_other_start_in_order),
        test(lws::lives::a_replica_whose_leader_is_deleted_is_a_gang_again),
        test(lws::lives::gangs_come_and_go_with_their_replicas),
        test(lws::lives::a_replica_that_cannot_be_made_is_missed),
        test(lws::lives::a_set_whose_pods_are_all_refused_says_why_and_times_out),
        test(lws::rollouts::a_rollout_with_a_surge_gangs_every_revision),
        test(lws::rollouts::under_a_partition_two_revisions_live_side_by_side),
        test(lws::lives::a_replica_that_loses_a_worker_is_recreated),
        test(lws::rollouts::an_update_that_changes_no_template_rolls_nothing),
        test(lws::lives::a_subgrouped_replica_is_one_gang),
        test(lws::neighbours::installing_muster_rolls_no_replica),
        test(lifecycle::a_restart_is_a_new_gang_and_the_old_one_goes),
        test(lifecycle::a_suspended_gang_is_removed_and_comes_back_when_resumed),
        test(lifecycle::a_gang_that_is_resumed_while_its_old_pods_die_is_not_said_to_be_placed),
        test(jobs::a_job_says_how_its_gang_stands_and_leaves_nothing),
        test(jobs::a_job_that_waits_too_long_is_suspended),
        test(jobs::a_pod_that_fails_is_replaced_by_itself),
        test(jobs::a_job_that_is_admitted_later_starts_as_a_gang),
        test(jobs::each_job_of_a_cronjob_is_a_gang),
        test(jobs::a_mode_is_refused_on_kinds_that_have_none),
        test(pods::words::pods_that_disagree_and_came_at_once_are_told),
        test(pods::words::what_a_stored_pod_declares_cannot_change),
        test(pods::words::a_gang_that_waits_is_told_of_its_first_pod),
        test(pods::owners::the_gang_of_a_deployment_belongs_to_the_deployment),
        test(pods::owners::a_deployment_that_grows_keeps_its_quorum_and_one_that_shrinks_goes_on),
        test(pods::owners::a_gang_outlives_the_pods_that_own_it_and_goes_with_the_last),
        test(pods::owners::a_pod_that_is_being_deleted_is_no_member),
        test(endings::a_finished_gang_leaves_nothing),
        test(lifecycle::a_jobset_recreated_under_its_name_gets_a_gang_of_its_own),
        test(lifecycle::a_replacement_is_placed_after_members_have_finished),
        test(gangs::every_violation_is_printed_by_kubectl_apply),
        test(gangs::a_gang_that_waits_says_why),
        test(gangs::each_of_two_gangs_that_wait_is_told),
        test(gangs::a_gang_that_waits_too_long_is_suspended),
        test(gangs::a_suspension_that_is_refused_is_told),
        test(gangs::a_users_own_gang_is_respected),
        test(gangs::suspending_a_gang_that_kueue_governs_is_refused),
        test(lifecycle::a_restart_that_waits_for_the_old_pods_is_a_new_gang_too),
        test(lifecycle::a_job_that_restarts_alone_leaves_the_other_gangs_in_place),
        test(lifecycle::a_gang_that_grows_asks_for_its_new_size),
        test(endings::a_failed_gang_leaves_nothing),
        test(endings::a_finished_jobset_that_times_out_leaves_nothing),
        test(endings::a_deleted_jobset_or_namespace_takes_its_gang_along),
        test(choice::a_scheduler_that_is_not_there_is_refused),
        test(namespaces::a_jobset_that_comes_with_its_namespace_goes_to_its_scheduler),
        test(choice::native_gangs_that_are_not_served_are_refused_with_what_is_missing),
        test(foreign::a_podgroup_of_the_gangs_name_is_left_alone),
        test(crd::the_fields_are_added_once_and_taken_away_exactly),
        test(crd::the_fields_come_back_after_the_crd_was_replaced),
        test(policies::the_table_holds_on_1_37),
        test(policies::the_table_holds_on_1_36).with(&KUBERNETES_1_36),
        test(policies::the_table_holds_on_1_35).with(&KUBERNETES_1_35),
        test(policies::the_largest_jobset_is_within_the_cost_of_an_expression),
        test(policies::what_asks_for_no_gang_is_not_looked_at),
        test(install::replicas_are_created_where_a_quota_must_allow_their_priority),
        test(owners::gangs_get_their_objects_where_owner_references_need_a_right),
        test(install::objects_without_a_gang_never_reach_muster),
        test(install::objects_with_a_gang_are_refused_while_muster_is_down),
        test(install::the_system_is_spared_even_with_a_gang),
        test(install::malformed_jobsets_get_the_schemas_answer),
        test(install::gang_fields_count_once_the_crd_has_them),
        test(install::removing_the_last_gang_field_still_reaches_muster),
        test(install::a_ganged_jobset_can_be_deleted_while_muster_is_down),
        test(leadership::one_replica_leads_and_hands_over_when_it_stops),
        test(leadership::a_dead_leaders_lease_runs_out),
        test(leadership::of_many_candidates_never_two_lead),
        test(leadership::a_leader_that_cannot_reach_the_api_steps_down),
        test(authority::replicas_that_start_at_once_agree_on_one_ca),
        test(authority::replicas_that_start_at_once_are_ready_within_5_seconds),
        test(authority::the_bundle_is_written_restored_and_then_left_alone),
        test(authority::a_new_ca_is_trusted_before_it_signs),
        test(authority::an_upgrade_may_drop_a_webhook_and_keeps_the_bundle),
        test(authority::no_other_secret_and_no_other_webhook_is_open_to_muster),
        test(callers::the_apiserver_is_answered_and_nobody_else),
        test(verify::every_kind_works_beside_its_own_webhooks),
        test(monitoring::the_alerts_are_valid).with(&PROMETHEUS),
        test(monitoring::a_gang_that_waits_is_counted_until_it_is_placed),
    ];
    tests.extend(barrier::jobs::all());
    tests.extend(barrier::schedulers::all());
    tests.extend(explain::all());
    tests.extend(chart::all());
    tests.extend([
        test_in(
            Home::Schedulers,
            better::coscheduling::a_blocked_gang_starts_when_a_node_comes,
        ),
        test_in(
            Home::Schedulers,
            better::coscheduling::a_blocked_gang_starts_when_room_is_freed,
        ),
        test_in(
            Home::Schedulers,
            better::kai::the_podgrouper_does_not_break_a_gang,
        ),
        test_in(
            Home::Schedulers,
            better::kai::a_replacement_is_placed_after_members_have_finished,
        ),
        test_in(
            Home::Schedulers,
            better::kai::jobsets_of_one_name_in_two_namespaces_are_two_gangs,
        ),
        test_in(
            Home::Schedulers,
            better::kai::a_part_of_a_podgroup_that_waits_ends_those_that_run,
        ),
        test_in(
            Home::Schedulers,
            better::kai::a_queue_that_does_not_exist_is_told,
        ),
        test_in(
            Home::Schedulers,
            better::volcano::a_queue_that_does_not_exist_is_told,
        ),
        test_in(Home::Schedulers, better::volcano::a_closed_queue_is_told),
        test_in(
            Home::Schedulers,
            better::volcano::a_podgroup_that_volcano_refuses_is_told,
        ),
        test_in(
            Home::Schedulers,
            better::volcano::a_gang_that_is_over_holds_no_room,
        ),
        test_in(
            Home::Schedulers,
            better::volcano::a_gang_that_waited_once_is_scheduled,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_that_is_resumed_at_once_is_a_gang_again,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_whose_first_pod_is_deleted_starts_all_the_same,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_whose_first_pod_fails_while_it_is_deleted_starts_all_the_same,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_of_one_pod_per_node_starts,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_that_stays_in_one_place_starts,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_of_pods_that_want_to_be_alone_starts,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_is_not_drawn_to_pods_of_others,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::a_gang_that_cannot_be_spread_binds_nothing,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::workers_that_must_be_where_their_leader_is_start,
        ),
        test_in(
            Home::Schedulers,
            better::yunikorn::its_admission_controller_breaks_no_gang,
        ),
    ]);
    tests.extend([
        test_in(
            Home::Schedulers,
            better::koordinator::a_gang_with_a_scheduling_gate_is_refused,
        ),
        test_in(
            Home::Schedulers,
            better::koordinator::a_gang_that_lacks_pods_is_told,
        ),
        test_in(
            Home::Schedulers,
            better::koordinator::a_resumed_gang_is_all_or_nothing_again,
        ),
        test_in(
            Home::KoordinatorAnnotations,
            better::koordinator::a_blocked_gang_starts_when_a_node_comes_at_default_gates,
        ),
        test_in(
            Home::Schedulers,
            pods::words::a_pod_that_disagrees_is_refused_until_the_others_are_gone,
        ),
        test_in(Home::Schedulers, jobs::jobs_of_one_bundle_start_together),
        test_in(
            Home::Schedulers,
            better::partners::gangs_of_two_namespaces_start_together,
        ),
        test_in(
            Home::Schedulers,
            better::kinds::gangs_of_three_kinds_start_together,
        ),
        test_in(
            Home::Schedulers,
            better::partners::gangs_of_two_namespaces_that_do_not_both_fit_wait,
        ),
        test_in(
            Home::Schedulers,
            better::partners::a_partner_that_does_not_name_back_is_told,
        ),
        test_in(
            Home::Schedulers,
            better::partners::a_side_that_waits_follows_its_recreated_partner,
        ),
        test_in(
            Home::Schedulers,
            better::partners::a_side_that_restarts_does_not_harm_the_other,
        ),
        test_in(
            Home::Schedulers,
            better::partners::sides_that_both_restart_start_together_again,
        ),
        test_in(
            Home::Schedulers,
            better::partners::a_side_goes_on_when_its_partner_is_gone,
        ),
        test_in(
            Home::Schedulers,
            better::shared::gangs_of_three_kinds_share_a_podgroup,
        ),
        test_in(
            Home::Schedulers,
            better::shared::a_side_that_is_recreated_beside_one_that_runs_is_all_or_nothing,
        ),
        test_in(
            Home::Schedulers,
            better::shared::a_side_of_a_shared_podgroup_restarts,
        ),
        test_in(
            Home::Schedulers,
            better::shared::sides_of_a_shared_podgroup_that_both_restart_start_together,
        ),
        test_in(
            Home::Schedulers,
            better::shared::a_side_that_waits_follows_its_recreated_partner_in_one_podgroup,
        ),
        test_in(
            Home::Schedulers,
            better::shared::a_side_of_a_shared_podgroup_goes_on_when_its_partner_is_gone,
        ),
        test_in(
            Home::Schedulers,
            better::sizes::pods_of_different_sizes_start_together,
        ),
        test_in(
            Home::Schedulers,
            better::sizes::what_is_left_of_a_gang_grows_pod_by_pod,
        ),
        test_in(
            Home::Schedulers,
            better::sizes::pods_of_different_sizes_are_refused_on_yunikorn,
        ),
        test_in(
            Home::Schedulers,
            gangs::the_same_manifest_can_be_applied_again,
        ),
        test_in(
            Home::Schedulers,
            lws::lives::a_leader_that_comes_first_waits_for_room_for_its_replica,
        ),
        test_in(
            Home::Schedulers,
            lws::neighbours::muster_stands_aside_where_lws_makes_the_gangs,
        ),
        test_in(
            Home::Schedulers,
            choice::the_namespaces_label_chooses_the_scheduler,
        ),
        test_in(
            Home::Schedulers,
            choice::where_several_are_served_the_nearest_word_counts,
        ),
        test_in(
            Home::Schedulers,
            verify::where_several_schedulers_are_served_one_must_be_named,
        ),
        test_in(
            Home::Schedulers,
            choice::a_running_gang_keeps_its_scheduler_when_the_namespace_moves,
        ),
    ]);
    tests.push(test_in(
        Home::Kubernetes1_36,
        better::native::a_gang_that_the_scheduler_does_not_hold_together_is_told,
    ));
    tests.extend([
        test_in(
            Home::ThirdParty,
            operators::the_samples_of_operators_are_gangs,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::an_mpijob_gets_its_launcher_and_its_workers,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::the_launcher_and_the_workers_of_an_mpijob_are_one_gang,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::a_launcher_that_waits_for_its_workers_joins_their_gang,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::a_launcher_that_is_counted_too_early_is_missed,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::a_resumed_mpijob_is_a_gang_again,
        ),
        test_in(
            Home::ThirdParty,
            operators::mpi::the_mpi_operator_says_why_a_pod_is_refused,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::a_raycluster_gets_its_head_and_its_worker_groups,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::a_raycluster_starts_as_a_gang_and_grows_pod_by_pod,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::a_raycluster_whose_workers_are_refused_says_by_whom,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::a_raycluster_that_has_shrunk_below_its_quorum_grows_again,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::each_of_two_rayclusters_alike_is_a_gang,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::a_resumed_raycluster_is_a_gang_again,
        ),
        test_in(
            Home::ThirdParty,
            operators::ray::kuberay_says_why_a_pod_is_refused,
        ),
    ]);
    tests.extend(kueue::all());
    tests.extend(matrix::all());
    tests
}
