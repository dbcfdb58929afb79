//! Who is missing at a start barrier, in words.

use std::collections::HashMap;

use super::status::has_come;
use super::waiters::{Step, Waiter};
use crate::controller::report::few::{Few, cut};

/// The longest text of who is missing: it goes over the line, and into a termination message.
pub(super) const LONGEST: usize = 1000;
/// Of each who is missing.
const EACH: usize = 200;

/// How many of how many have started, and the first of those who have not, with the reason. Those who have
/// given up did start: they are not named, or nobody would find whom they waited for.
pub(super) fn missing(wanted: &[(&str, u64)], own: &[&Waiter]) -> String {
    let gave_up = |waiter: &&Waiter| matches!(waiter.step, Step::GaveUp(_));
    let started = |waiter: &&&Waiter| has_come(&waiter.step) || gave_up(waiter);
    let mut by_role: HashMap<&str, Vec<&Waiter>> = HashMap::new();
    for waiter in own {
        by_role.entry(&waiter.role).or_default().push(waiter);
    }
    let mut missing = Few::default();
    for (role, members) in wanted {
        let of_role = by_role.get(role).map(Vec::as_slice).unwrap_or_default();
        for waiter in of_role {
            let (reason, why) = match &waiter.step {
                Step::Unplaced(why) => ("is not placed", why),
                Step::Starting(why) => ("has not started", why),
                Step::Waits(_) | Step::GaveUp(_) => continue,
                Step::Passed | Step::Done | Step::Gone => continue,
            };
            let pod = &waiter.pod;
            missing.add(|| match why {
                Some(why) => cut(&format!("{pod} {reason}: {why}"), EACH),
                None => format!("{pod} {reason} yet"),
            });
        }
        let unmade = members.saturating_sub(of_role.len() as u64);
        if unmade > 0 {
            missing.add(|| format!("{role}: {unmade} not created yet"));
        }
    }
    let members: u64 = wanted.iter().map(|(_, members)| members).sum();
    let began = own.iter().filter(started).count();
    let mut text = format!("{began} of {members} members have started");
    // Without their number, which changes whenever kubelet restarts one.
    if own.iter().any(gave_up) {
        text.push_str(", and some of them have given up");
    }
    match missing.into_text() {
        missing if missing.is_empty() => text,
        missing => cut(&format!("{text}; {missing}"), LONGEST),
    }
}
