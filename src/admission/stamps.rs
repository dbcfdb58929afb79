//! The stamps of a workload's templates: written, looked for, and put back when an update drops
//! them. The same for every kind.

use std::collections::{BTreeMap, HashMap};

use super::patch::PatchBuilder;
use crate::gang::limits::{MAX_ANNOTATIONS, MAX_OBJECT, MAX_STAMP};
use crate::gang::{FieldError, Part, Plan, Role, Round, Stamp};
use crate::judge::Judged;
use crate::scheduler::{Marks, Scheduler};
use crate::workload::view::Meta;
use crate::workload::{GangFields, Site, Workload, child, keys, site};

type Entries = BTreeMap<&'static str, String>;

/// The place in the plan of the pods of one role.
#[derive(Clone, Copy)]
struct Seat<'p> {
    ordinal: usize,
    part: &'p Part,
    role: &'p Role,
}

/// The seats of a plan, by role.
fn seats(plan: &Plan) -> HashMap<&str, Seat<'_>> {
    let mut seats = HashMap::new();
    for (ordinal, part) in plan.parts.iter().enumerate() {
        for role in part.roles() {
            seats.entry(role.name.as_str()).or_insert(Seat {
                ordinal,
                part,
                role,
            });
        }
    }
    seats
}

/// How much of a stamp is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Text {
    /// All of it.
    Whole,
    /// That it is there: its words do not matter, and may be many.
    Empty,
}

/// What stamps of parts that start together have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Together<'p> {
    Bundle(&'p str),
    Part(usize),
}

impl<'p> Together<'p> {
    fn of(seat: Seat<'p>) -> Self {
        match seat.part.bundle() {
            Some(bundle) => Self::Bundle(bundle.value.as_str()),
            None => Self::Part(seat.ordinal),
        }
    }
}

/// Writes the stamps of a plan.
struct Stamper<'p> {
    workload: &'p dyn Workload,
    plan: &'p Plan,
    backend: &'static dyn Scheduler,
    /// What is said of all that start together, once for each of them.
    common: HashMap<Together<'p>, Stamp>,
}

impl<'p> Stamper<'p> {
    fn new(workload: &'p dyn Workload, plan: &'p Plan, backend: &'static dyn Scheduler) -> Self {
        Self {
            workload,
            plan,
            backend,
            common: HashMap::new(),
        }
    }

    /// A stamp without what the scheduler's links need of others.
    fn plain(&self, seat: Seat<'_>) -> Stamp {
        let mut stamp = Stamp::new(self.backend.kind(), seat.ordinal, seat.part);
        self.workload.extend_stamp(self.plan, &mut stamp);
        stamp
    }

    fn common(&mut self, seat: Seat<'p>) -> &Stamp {
        let key = Together::of(seat);
        if !self.common.contains_key(&key) {
            let mut stamp = self.plain(seat);
            self.backend.extend_stamp(self.plan, seat.part, &mut stamp);
            self.common.insert(key, stamp);
        }
        &self.common[&key]
    }

    /// The stamp of one role.
    fn stamp(&mut self, seat: Seat<'p>) -> Stamp {
        let mut stamp = self.plain(seat);
        let common = self.common(seat);
        stamp.take_over(common, &seat.role.name);
        stamp
    }

    /// Refuses stamps that Kubernetes could not store, before they are written: `size` is what the
    /// workload has without them.
    fn check(&mut self, sites: &[Site<'_>], size: usize) -> Result<(), FieldError> {
        let seats = seats(self.plan);
        let mut lengths: HashMap<Together<'p>, (usize, usize)> = HashMap::new();
        let mut all: usize = 0;
        for site in sites {
            let Some(seat) = seats.get(site.role) else {
                continue;
            };
            let (length, written) = match lengths.get(&Together::of(*seat)) {
                Some(known) => *known,
                None => {
                    let text = self.common(*seat).to_json();
                    // As a text in the workload's JSON.
                    let quotes = text.bytes().filter(|b| matches!(b, b'"' | b'\\')).count();
                    let known = (text.len(), text.len() + quotes);
                    lengths.insert(Together::of(*seat), known);
                    known
                }
            };
            let at = || seat.part.at().clone();
            let others = site.meta.map_or(0, Meta::annotations_size);
            if length > MAX_STAMP || others <= MAX_ANNOTATIONS && others + length > MAX_ANNOTATIONS
            {
                let detail = format!(
                    "the stamp of each pod template would take {length} bytes; Muster writes at \
                     most {MAX_STAMP}, and all annotations of an object hold {MAX_ANNOTATIONS}: \
                     let fewer groups of pods start together"
                );
                return Err(FieldError::forbidden(at(), detail));
            }
            all += written;
            // What is too large without stamps the apiserver refuses by itself.
            let room = MAX_OBJECT.checked_sub(size).unwrap_or(MAX_OBJECT);
            if all > room {
                let detail = format!(
                    "each pod template is stamped with all that starts together with it, and this \
                     takes more than {room} bytes in all, where Kubernetes stores objects of up \
                     to {MAX_OBJECT}: let fewer groups of pods start together"
                );
                return Err(FieldError::forbidden(at(), detail));
            }
        }
        Ok(())
    }
}

/// What Muster writes on the templates of one role.
struct Stamping {
    labels: Entries,
    annotations: Entries,
    /// What the scheduler is told besides, on the template of pods.
    pods: Marks,
}

impl Stamping {
    fn new<'p>(stamper: &mut Stamper<'p>, seat: Seat<'p>, text: Text) -> Self {
        let pods = stamper.backend.template_marks(stamper.plan, seat.role);
        let workload = stamper.workload;
        let text = match text {
            Text::Empty => String::new(),
            Text::Whole => {
                let mut stamp = stamper.stamp(seat);
                // Where a template is stamped again, the user's own name must be told from Muster's.
                if let GangFields::WithTemplate(_) = workload.facts().gang_fields {
                    stamp.scheduler_name.clone_from(&pods.scheduler_name);
                }
                stamp.to_json()
            }
        };
        Self {
            labels: BTreeMap::from([(keys::GANG, workload.label(seat.part).into_owned())]),
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

/// Refuses a workload whose stamps could not be stored with it; `size` is what it has without them.
pub(super) fn check(
    workload: &dyn Workload,
    judged: &Judged,
    size: usize,
) -> Result<(), FieldError> {
    match judged.backend {
        Some(backend) => {
            Stamper::new(workload, &judged.plan, backend).check(&workload.sites(), size)
        }
        None => Ok(()),
    }
}

/// Each site of a workload with what Muster writes there; nothing where its pods are in no gang.
fn stampings<'o>(
    workload: &'o dyn Workload,
    judged: &'o Judged,
    text: Text,
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
pub(crate) fn stamp(patch: &mut PatchBuilder, workload: &dyn Workload, judged: &Judged) {
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
    for (site, marks) in stampings(workload, judged, Text::Whole) {
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

fn remove(patch: &mut PatchBuilder, site: &Site<'_>, rest: &[&str]) {
    patch.remove(&[&site.tokens()[..], rest].concat());
}

fn write(patch: &mut PatchBuilder, site: &Site<'_>, marks: &Marks) {
    let path = site.tokens();
    patch.metadata(&path, site.meta, &marks.labels, &marks.annotations);
    patch.scheduler_name(&path, site.scheduler_name(), marks);
}

/// How closely stamps are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// As they would be written now.
    Exact,
    /// There, for the right part: a workload may have been scaled since it was stamped.
    Present,
}

/// A workload that is stored without its stamps would run without a gang. One error for each role.
pub(crate) fn missing(workload: &dyn Workload, judged: &Judged, how: Stamps) -> Vec<FieldError> {
    let mut errors: Vec<FieldError> = Vec::new();
    let (mut first, mut told) = (None, None);
    let text = match how {
        Stamps::Exact => Text::Whole,
        Stamps::Present => Text::Empty,
    };
    for (site, marks) in stampings(workload, judged, text) {
        let Some(marks) = marks else {
            continue;
        };
        if first.as_ref().is_none_or(|(role, _)| *role != site.role) {
            let labels = site.at.child("metadata").child("labels");
            first = Some((site.role, labels.key(keys::GANG)));
        }
        if told != Some(site.role) && lacks(&site, &marks, how) {
            told = Some(site.role);
            let at = first.as_ref().map(|(_, at)| at.clone()).unwrap_or_default();
            errors.push(FieldError::required(at, lost(workload)));
        }
    }
    errors
}

fn lost(workload: &dyn Workload) -> String {
    let webhook = "a webhook changed it after Muster's mutating webhook";
    let kind = workload.facts().kind.name;
    let why = match workload.facts().gang_fields {
        GangFields::Fixed => format!(
            "it was not part of the gang when the {kind} was created, or {webhook}; recreate the \
             {kind}"
        ),
        GangFields::WithTemplate(_) => webhook.to_owned(),
    };
    format!("this template lacks the stamp of its gang, and its pods would start alone: {why}")
}

fn lacks(site: &Site<'_>, marks: &Marks, how: Stamps) -> bool {
    let label = |(key, value): (&&str, &String)| site.label(key) == Some(value);
    let annotation = |(key, value): (&&str, &String)| site.annotation(key) == Some(value);
    let stamped = match how {
        Stamps::Exact => marks.labels.iter().all(label) && marks.annotations.iter().all(annotation),
        // The outer label, by which children are selected, is immutable in the workload itself.
        Stamps::Present => {
            let gang = marks.labels.get_key_value(keys::GANG);
            let labelled = site.pods.is_none() || gang.is_some_and(label);
            site.annotation(keys::STAMP).is_some() && labelled
        }
    };
    let wanted = marks.scheduler_name.as_deref();
    let named = wanted.is_none() || wanted == site.scheduler_name();
    !stamped || !named
}

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
        let present = site.pods.is_some_and(|pods| pods.spec.present);
        // Kubernetes fills in its own name by itself.
        let ours = present && !backend.entry().is_filled_in();
        let name = dropped(was.scheduler_name(), site.scheduler_name());
        marks.scheduler_name = name.filter(|_| ours);
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
        if was.is_none_or(|was| was.annotation(keys::STAMP).is_none()) {
            continue;
        }
        any = true;
        if site.meta.map(|meta| child::round(meta)).unwrap_or_default() != round {
            patch.metadata(&site.tokens(), site.meta, &none, &annotations);
        }
    }
    if any && child::round(new.meta()) != round {
        patch.metadata(&[], Some(new.meta()), &none, &annotations);
    }
}
