//! What an update does to stamps that stand in a stored workload: put back where it drops them,
//! taken out where they no longer hold.

use std::collections::HashMap;

use super::{Entries, PatchBuilder, Text, remove, stampings, write};
use crate::judge::Judged;
use crate::workload::{Workload, keys, site};

/// What Muster wrote into the stored templates and the update lacks, with the stored values:
/// another version of Muster may have written them in other words.
pub(crate) fn put_back(old: &dyn Workload, new: &dyn Workload, before: &Judged) -> PatchBuilder {
    let mut patch = PatchBuilder::default();
    let Some(backend) = before.backend else {
        return patch;
    };
    let sites = new.sites();
    let sites = site::by_key(&sites);
    for (was, marks) in stampings(old, before, Text::Empty) {
        let (Some(site), Some(mut marks)) = (sites.get(&was.key()), marks) else {
            continue;
        };
        if was.annotation(keys::STAMP).is_none() {
            continue;
        }
        let dropped =
            |was: Option<&str>, is: Option<&str>| was.filter(|_| is.is_none()).map(str::to_owned);
        keep_dropped(&mut marks.labels, |key| {
            dropped(was.label(key), site.label(key))
        });
        keep_dropped(&mut marks.annotations, |key| {
            dropped(was.annotation(key), site.annotation(key))
        });
        // Kubernetes fills in its own name by itself. A spec that was dropped too is made.
        let ours = site.pods.is_some() && !backend.entry().is_filled_in();
        let name = dropped(was.scheduler_name(), site.scheduler_name());
        marks.scheduler_name = name.filter(|_| ours);
        if marks.is_empty() {
            continue;
        }
        patch.create(&site.missing);
        write(&mut patch, site, &marks);
    }
    patch
}

fn keep_dropped(marks: &mut Entries, dropped: impl Fn(&str) -> Option<String>) {
    let keys: Vec<&'static str> = marks.keys().copied().collect();
    for key in keys {
        match dropped(key) {
            Some(value) => marks.insert(key, value),
            None => marks.remove(key),
        };
    }
}

/// Takes what an earlier stamp told the scheduler out of templates that are stamped again, as far as
/// it stands there unchanged: another scheduler, or none, knows nothing of it.
pub(crate) fn take_back(
    patch: &mut PatchBuilder,
    old: &dyn Workload,
    new: &dyn Workload,
    before: &Judged,
    now: &Judged,
) {
    let wanted: Vec<_> = stampings(new, now, Text::Empty).collect();
    let by_key: HashMap<_, _> = wanted
        .iter()
        .map(|(site, marks)| (site.key(), (site, marks)))
        .collect();
    for (was, marks) in stampings(old, before, Text::Empty) {
        let Some(marks) = marks else {
            continue;
        };
        let Some((site, wanted)) = by_key.get(&was.key()) else {
            continue;
        };
        let own = |key: &str| key == keys::GANG || key == keys::STAMP;
        let kept = |wanted: Option<&Entries>, key: &str| {
            own(key) || wanted.is_some_and(|wanted| wanted.contains_key(key))
        };
        let labels = wanted.as_ref().map(|wanted| &wanted.labels);
        let stale = marks.labels.iter().filter(|(key, _)| !kept(labels, key));
        for (key, _) in stale.filter(|(key, value)| site.label(key) == Some(value)) {
            remove(patch, site, &["metadata", "labels", key]);
        }
        let annotations = wanted.as_ref().map(|wanted| &wanted.annotations);
        let stale = marks
            .annotations
            .iter()
            .filter(|(key, _)| !kept(annotations, key));
        for (key, _) in stale.filter(|(key, value)| site.annotation(key) == Some(value)) {
            remove(patch, site, &["metadata", "annotations", key]);
        }
    }
}

/// Says which names of a scheduler are gone: the user may have meant them by now.
pub(crate) fn taken_back(old: &dyn Workload, new: &dyn Workload) -> Vec<String> {
    let before = old.sites();
    let before = site::by_key(&before);
    let sites = new.sites();
    let gone = sites.iter().filter_map(|site| {
        let was = before.get(&site.key())?;
        let name = was.scheduler_name().filter(|_| was.is_named_by_muster())?;
        let at = site.at.child("spec").child("schedulerName");
        site.scheduler_name().is_none().then(|| {
            format!(
                "{at}: {name:?} was written by Muster and is removed: the pods go to the default \
                 scheduler, unless the next update names another"
            )
        })
    });
    gone.collect()
}
