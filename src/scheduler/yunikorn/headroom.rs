//! What YuniKorn says of a full queue. Queues are no objects, and no condition says it: only events of
//! the placeholders do (1.8: `SendRequestExceedsQueueHeadroom`).

use crate::gang::quantity::Quantity;
use crate::scheduler::queue::{Full, Left, QueueTrouble, Wrong};

/// The reason of all events that YuniKorn's core writes of pods.
pub(super) const REASON: &str = "Informational";

/// `Request '3f2a' does not fit in queue 'root.ml' (requested map[memory:1048576 pods:1 vcore:1000],
/// available map[pods:1 vcore:500])`. What the queue does not limit is not among what is available. Once
/// it fits, it is said to have become schedulable.
pub(super) fn read(message: &str) -> Option<QueueTrouble> {
    let (_, rest) = message.split_once(" does not fit in queue '")?;
    let (queue, rest) = rest.split_once("' (requested map[")?;
    let (requested, rest) = rest.split_once(']')?;
    let available = rest.strip_prefix(", available map[")?;
    let (available, _) = available.split_once(']')?;
    let full = amounts(requested).find_map(|(resource, asked)| {
        let left = amounts(available).find(|(other, _)| *other == resource)?.1;
        (asked > left).then_some((resource, asked, left))
    });
    let full = full.map(|(resource, asked, left)| Full {
        resource: match resource {
            VCORE => "cpu".to_owned(),
            other => other.to_owned(),
        },
        asked: quantity(resource, asked),
        left: Left::ForOnePod(quantity(resource, left.max(0))),
    });
    Some(QueueTrouble {
        queue: queue.to_owned(),
        resource: None,
        wrong: Wrong::Full(full),
    })
}

/// Thousandths of a CPU.
const VCORE: &str = "vcore";

/// As Go prints a map of numbers.
fn amounts(map: &str) -> impl Iterator<Item = (&str, i64)> {
    map.split_whitespace().filter_map(|entry| {
        let (resource, amount) = entry.rsplit_once(':')?;
        Some((resource, amount.parse().ok()?))
    })
}

fn quantity(resource: &str, amount: i64) -> Quantity {
    let thousandths = || Quantity::parse(&format!("{amount}m")).ok();
    let quantity = (resource == VCORE).then(thousandths).flatten();
    quantity.unwrap_or(Quantity::from_units(amount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_queue_lacks_for_a_placeholder_is_read_from_its_event() {
        let read = |message: &str| {
            let trouble = read(message)?;
            let Wrong::Full(full) = trouble.wrong else {
                panic!("it is full");
            };
            let full = full.map(|full| (full.resource, full.asked, full.left));
            Some((trouble.queue, full))
        };
        let milli = |number: u32| Quantity::parse(&format!("{number}m")).unwrap();
        assert_eq!(
            read(
                "Request '3f2a' does not fit in queue 'root.ml' (requested map[memory:1048576 \
                 pods:1 vcore:1000], available map[pods:1 vcore:500])"
            ),
            Some((
                "root.ml".to_owned(),
                Some(("cpu".to_owned(), milli(1000), Left::ForOnePod(milli(500))))
            ))
        );
        // More is in use than the queue may hold by now.
        let over = "Request 'a' does not fit in queue 'root.ml' (requested map[nvidia.com/gpu:1], \
                    available map[nvidia.com/gpu:-2])";
        let (_, full) = read(over).unwrap();
        assert_eq!(full.unwrap().2, Left::ForOnePod(Quantity::ZERO));
        for other in [
            "Request '3f2a' has become schedulable in queue 'root.ml'",
            "Request '3f2a' exceeds the available user quota (requested map[], available map[])",
            "does not fit in queue 'x",
        ] {
            assert_eq!(read(other), None, "{other}");
        }
    }
}
