//! The Helm chart: the same objects as the kustomizations, every value, and a release's life on a real
//! apiserver.

mod dropped;
mod host_network;
mod lives;
mod parity;
mod rows;
mod takeover;
mod values;

use crate::modules::HELM;
use crate::runner::{Test, test};

pub fn all() -> Vec<Test> {
    let tests = [
        test(lives::a_release_is_installed_tried_upgraded_and_leaves_nothing),
        test(dropped::an_upgrade_that_drops_a_webhook_goes_the_documented_way),
        test(host_network::the_host_network_needs_a_namespace_that_allows_it),
        test(takeover::what_kubectl_installed_becomes_a_release_without_a_rollout),
        test(parity::every_combination_of_overlays_is_what_the_chart_renders),
        test(parity::the_kustomization_of_the_page_is_what_the_chart_renders),
        test(parity::a_package_renders_the_same),
        test(parity::another_namespace_is_named_everywhere),
        test(parity::the_chart_makes_no_certificate_and_needs_no_foreign_image),
        test(values::each_value_changes_what_its_row_says),
        test(values::the_schema_refuses_wrong_types_and_unknown_values),
        test(values::the_notes_say_the_next_command),
        test(values::values_that_cannot_hold_together_are_refused),
    ];
    tests.map(|test| test.with(&HELM)).into()
}
