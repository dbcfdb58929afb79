//! The stamps of a workload's templates: what they say (`stamper`), written here, looked for
//! (`missing`), and put back when an update drops them (`put_back`). The same for every kind.

mod missing;
mod put_back;
mod stamper;

use std::collections::BTreeMap;

use super::patch::PatchBuilder;
use crate::gang::seal::{Bearer, Called};
use crate::gang::{Round, Seals};
use crate::judge::Judged;
use crate::scheduler::{Marks, Snapshot};
use crate::workload::facts::Watched;
use crate::workload::{GangFields, Site, Workload, child, keys, site};
pub(crate) use missing::{Stamps, UnknownKey, missing};
pub(crate) use put_back::{put_back, take_back, taken_back};
pub(crate) use stamper::{Room, check};
use stamper::{Seat, Stamper, seats};

type Entries = BTreeMap<&'static str, String>;

/// What seals stamps, and the namespace that they are for.
#[derive(Clone, Copy)]
pub(crate) struct Pen<'a> {
    pub(super) seals: &'a Seals,
    namespace: &'a str,
}

impl<'a> Pen<'a> {
    pub(crate) fn new(cluster: &'a Snapshot, namespace: &'a str) -> Self {
        Self {
            seals: &cluster.seals,
            namespace,
        }
    }

    /// The children of a workload in the gangs of one label.
    pub(super) fn bearer<'b>(&self, workload: &'b dyn Workload, gang: &'b str) -> Bearer<'b>
    where
        'a: 'b,
    {
        let meta = workload.meta();
        let name = meta.name.as_deref().filter(|name| !name.is_empty());
        Bearer {
            namespace: self.namespace,
            kind: workload.facts().kind.name,
            workload: name.map_or(Called::Prefix(meta.display_name()), Called::Name),
            gang,
        }
    }
}

/// How much of a stamp is wanted.
#[derive(Clone, Copy)]
enum Text<'a> {
    /// All of it, with its seal.
    Sealed(Pen<'a>),
    /// That it is there: its words do not matter, and may be many.
    Empty,
}

/// What Muster writes on the templates of one role.
struct Stamping {
    labels: Entries,
    annotations: Entries,
    /// What the scheduler is told besides, on the template of pods.
    pods: Marks,
}

impl Stamping {
    fn new<'p>(stamper: &mut Stamper<'p>, seat: Seat<'p>, text: Text<'_>) -> Self {
        let pods = stamper.backend.template_marks(stamper.plan, seat.role);
        let workload = stamper.workload;
        let gang = workload.label(seat.part).into_owned();
        let text = match text {
            Text::Empty => String::new(),
            Text::Sealed(pen) => {
                let mut stamp = stamper.stamp(seat);
                // Where a template is stamped again, the user's own name must be told from Muster's.
                if let GangFields::WithTemplate(_) = workload.facts().gang_fields {
                    stamp.scheduler_name.clone_from(&pods.scheduler_name);
                }
                pen.seals
                    .seal(&pen.bearer(workload, &gang), &stamp.to_json())
            }
        };
        Self {
            labels: BTreeMap::from([(keys::GANG, gang)]),
            annotations: BTreeMap::from([(keys::STAMP, text)]),
            pods,
        }
    }

    /// What is written on one site.
    fn at(&self, site: &Site<'_>) -> Marks {
        let mut marks = match site.pods {
            Some(_) => self.pods.clone(),
            None => Marks::default(),
        };
        marks.labels.extend(self.labels.clone());
        marks.annotations.extend(self.annotations.clone());
        marks
    }
}

/// Each site of a workload with what Muster writes there; nothing where its pods are in no gang.
fn stampings<'o>(
    workload: &'o dyn Workload,
    judged: &'o Judged,
    text: Text<'o>,
) -> impl Iterator<Item = (Site<'o>, Option<Marks>)> {
    let seats = seats(&judged.plan);
    let mut stamper = judged
        .backend
        .map(|backend| Stamper::new(workload, &judged.plan, backend));
    let mut last: Option<(&str, Option<Stamping>)> = None;
    workload.sites().into_iter().map(move |site| {
        // Sites of one role follow each other.
        if last.as_ref().is_none_or(|(role, _)| *role != site.role) {
            let seat = stamper.as_mut().zip(seats.get(site.role));
            let stamping = seat.map(|(stamper, seat)| Stamping::new(stamper, *seat, text));
            last = Some((site.role, stamping));
        }
        let stamping = last.as_ref().and_then(|(_, stamping)| stamping.as_ref());
        let marks = stamping.map(|stamping| stamping.at(&site));
        (site, marks)
    })
}

/// Stamps a workload: the scheduler on itself, and on each template of a gang what a link will
/// need. Stamps of a copied manifest that no longer hold are removed.
pub(crate) fn stamp(
    patch: &mut PatchBuilder,
    workload: &dyn Workload,
    judged: &Judged,
    pen: Pen<'_>,
) {
    let meta = workload.meta();
    if meta.annotation(keys::ROUND).is_some() {
        patch.remove(&["metadata", "annotations", keys::ROUND]);
    }
    if let Some(backend) = judged.backend {
        let scheduler = (keys::SCHEDULER, backend.kind().as_str().to_owned());
        let mode = judged.mode.map(|mode| (keys::GANG_MODE, mode.to_owned()));
        let own: Entries = mode.into_iter().chain([scheduler]).collect();
        patch.metadata(&[], Some(meta), &BTreeMap::new(), &own);
    }
    if is_labelled(workload, judged) {
        let found = BTreeMap::from([(keys::WORKLOAD, "gang".to_owned())]);
        patch.metadata(&[], Some(meta), &found, &BTreeMap::new());
    } else if meta.label(keys::WORKLOAD).is_some() {
        patch.remove(&["metadata", "labels", keys::WORKLOAD]);
    }
    for (site, marks) in stampings(workload, judged, Text::Sealed(pen)) {
        let renamed = marks
            .as_ref()
            .is_some_and(|marks| marks.scheduler_name.is_some());
        if !renamed && site.is_named_by_muster() {
            remove(patch, &site, &["spec", "schedulerName"]);
        }
        let stale = |key| site.annotation(key).is_some();
        if stale(keys::ROUND) {
            remove(patch, &site, &["metadata", "annotations", keys::ROUND]);
        }
        if let Some(marks) = marks {
            patch.create(&site.missing);
            write(patch, &site, &marks);
            continue;
        }
        if stale(keys::STAMP) {
            remove(patch, &site, &["metadata", "annotations", keys::STAMP]);
        }
        if site.label(keys::GANG).is_some() {
            remove(patch, &site, &["metadata", "labels", keys::GANG]);
        }
    }
}

/// Whether the reconciler finds the workload by a label of Muster's, and has something to do for it.
fn is_labelled(workload: &dyn Workload, judged: &Judged) -> bool {
    let wanted = judged.backend.is_some() || judged.plan.barrier.is_some();
    wanted && workload.facts().watched == Watched::Labelled
}

fn remove(patch: &mut PatchBuilder, site: &Site<'_>, rest: &[&str]) {
    patch.remove(&[&site.tokens()[..], rest].concat());
}

fn write(patch: &mut PatchBuilder, site: &Site<'_>, marks: &Marks) {
    let path = site.tokens();
    patch.metadata(&path, site.meta, &marks.labels, &marks.annotations);
    patch.scheduler_name(&path, site.scheduler_name(), marks);
}

/// Writes the round that an update leaves the workload in: on itself, and on the pod templates of
/// its gangs, from where it reaches the children that are resumed.
pub(crate) fn stamp_round(
    patch: &mut PatchBuilder,
    old: &dyn Workload,
    new: &dyn Workload,
    round: Round,
) {
    let annotations = BTreeMap::from([(keys::ROUND, round.0.to_string())]);
    let none = BTreeMap::new();
    let before = old.sites();
    let before = site::by_key(&before);
    let mut any = false;
    for site in new.sites().iter().filter(|site| site.pods.is_some()) {
        // By the stored object: an update may have dropped the stamps, which are put back.
        let was = before.get(&site.key());
        let stamped = |was: &&Site<'_>| {
            let stamps = [keys::STAMP, keys::BARRIER_STAMP];
            stamps.iter().any(|key| was.annotation(key).is_some())
        };
        if was.is_none_or(|was| !stamped(was)) {
            continue;
        }
        any = true;
        if site.meta.map(|meta| child::round(meta)).unwrap_or_default() != round {
            patch.create(&site.missing);
            patch.metadata(&site.tokens(), site.meta, &none, &annotations);
        }
    }
    if any && child::round(new.meta()) != round {
        patch.metadata(&[], Some(new.meta()), &none, &annotations);
    }
}
