//! The gangs that pods declare themselves, as they stand in the cluster: what their pods agreed on, and
//! which round lives. So that a pod that says something else is refused, and that pods which come
//! after all others have ended or are going begin as a gang again.
//!
//! A function of what the watch has shown and of nothing else: every replica of Muster comes to the
//! same answer. Who watches is somebody else.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use k8s_openapi::jiff::Timestamp;

use super::name::Round;

/// What all pods of such a gang say alike: fields, and what they say.
pub(crate) type Terms = BTreeMap<String, String>;

/// What is known of such gangs.
#[derive(Debug, Clone, Default)]
pub enum Standing {
    /// There is no cluster to look at.
    #[default]
    Nobody,
    /// What the watch has shown.
    Watched(Arc<Declared>),
}

/// The pods are not listed yet: nothing found means nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Unlisted;

/// How one gang stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Stands {
    /// The round that another pod belongs to.
    pub(crate) round: Round,
    /// What its pods agreed on, and one that says so.
    pub(crate) agreed: Option<(Arc<Terms>, Arc<str>)>,
}

impl Standing {
    /// With nothing there yet, to be told of each pod: what several files declare must agree too.
    pub(crate) fn told() -> Self {
        let declared = Declared::default();
        declared.complete();
        Self::Watched(Arc::new(declared))
    }

    /// Tells of a pod that is admitted.
    pub(crate) fn tell(&self, pod: DeclaredPod) {
        if let Self::Watched(declared) = self {
            declared.applied(pod);
        }
    }

    /// The same in a cluster that is watched.
    #[must_use]
    pub(crate) fn watched(&self) -> Self {
        match self {
            Self::Nobody => Self::Watched(Arc::default()),
            Self::Watched(declared) => Self::Watched(Arc::clone(declared)),
        }
    }

    pub(crate) fn of(&self, namespace: &str, gang: &str) -> Result<Stands, Unlisted> {
        let Self::Watched(declared) = self else {
            return Ok(Stands::default());
        };
        let state = declared.lock();
        let shown = state.shown.as_ref().ok_or(Unlisted)?;
        let gang = shown.get(namespace).and_then(|all| all.get(gang));
        Ok(gang.map(Gang::stands).unwrap_or_default())
    }
}

/// The pods that declare their gangs.
#[derive(Debug, Default)]
pub struct Declared(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// `None` until a list was complete.
    shown: Option<Shown>,
    listing: Shown,
}

/// By namespace and by the name of the gang.
type Shown = HashMap<String, HashMap<String, Gang>>;

/// What is kept of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DeclaredPod {
    pub(crate) namespace: String,
    pub(crate) gang: String,
    pub(crate) pod: String,
    pub(crate) round: Round,
    pub(crate) presence: Presence,
    /// When it was created: what the oldest says counts.
    pub(crate) created: Option<Timestamp>,
    pub(crate) terms: Terms,
}

/// Whether a pod counts for its gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Presence {
    Here,
    /// It has ended, or is being deleted.
    Leaving,
}

#[derive(Debug, Default)]
struct Gang {
    pods: HashMap<Arc<str>, (Place, Arc<Terms>)>,
    /// The latest round first, of that the pods that are here first, and of these the oldest.
    order: BTreeSet<(Place, Arc<str>)>,
}

type Place = (Reverse<Round>, Presence, Option<Timestamp>);

impl Gang {
    fn stands(&self) -> Stands {
        let Some(((Reverse(round), presence, _), pod)) = self.order.first() else {
            return Stands::default();
        };
        match presence {
            Presence::Here => Stands {
                round: *round,
                agreed: self
                    .pods
                    .get(pod)
                    .map(|(_, terms)| (Arc::clone(terms), Arc::clone(pod))),
            },
            Presence::Leaving => Stands {
                round: round.next(),
                agreed: None,
            },
        }
    }

    fn remove(&mut self, pod: &str) {
        if let Some((name, (place, _))) = self.pods.remove_entry(pod) {
            self.order.remove(&(place, name));
        }
    }

    fn insert(&mut self, pod: DeclaredPod) {
        let agreed = self.stands().agreed.map(|(terms, _)| terms);
        // Almost always all pods say the same.
        let terms = agreed
            .filter(|terms| **terms == pod.terms)
            .unwrap_or_else(|| Arc::new(pod.terms));
        let name: Arc<str> = pod.pod.into();
        let place = (Reverse(pod.round), pod.presence, pod.created);
        self.order.insert((place, Arc::clone(&name)));
        self.pods.insert(name, (place, terms));
    }
}

impl Declared {
    /// A list begins. What was shown counts until it is complete.
    pub(crate) fn list(&self) {
        self.lock().listing = HashMap::new();
    }

    pub(crate) fn listed(&self, pod: DeclaredPod) {
        put(&mut self.lock().listing, pod);
    }

    pub(crate) fn complete(&self) {
        let mut state = self.lock();
        state.shown = Some(std::mem::take(&mut state.listing));
    }

    pub(crate) fn applied(&self, pod: DeclaredPod) {
        if let Some(shown) = &mut self.lock().shown {
            put(shown, pod);
        }
    }

    pub(crate) fn deleted(&self, namespace: &str, gang: &str, pod: &str) {
        let mut state = self.lock();
        let Some(shown) = &mut state.shown else {
            return;
        };
        let Some(gangs) = shown.get_mut(namespace) else {
            return;
        };
        if let Some(found) = gangs.get_mut(gang) {
            found.remove(pod);
            if found.pods.is_empty() {
                gangs.remove(gang);
            }
        }
        if gangs.is_empty() {
            shown.remove(namespace);
        }
    }

    /// Whether a list was complete once.
    pub(crate) fn is_filled(&self) -> bool {
        self.lock().shown.is_some()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn put(shown: &mut Shown, pod: DeclaredPod) {
    let gangs = shown.entry(pod.namespace.clone()).or_default();
    let gang = gangs.entry(pod.gang.clone()).or_default();
    gang.remove(&pod.pod);
    gang.insert(pod);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, round: u32, presence: Presence, quorum: &str) -> DeclaredPod {
        DeclaredPod {
            namespace: "ml".to_owned(),
            gang: "train".to_owned(),
            pod: name.to_owned(),
            round: Round(round),
            presence,
            created: None,
            terms: Terms::from([("min-count".to_owned(), quorum.to_owned())]),
        }
    }

    fn filled() -> (Arc<Declared>, Standing) {
        let declared = Arc::new(Declared::default());
        let standing = Standing::Watched(Arc::clone(&declared));
        (declared, standing)
    }

    #[test]
    fn nothing_is_said_before_a_list_is_complete() {
        let (declared, standing) = filled();
        declared.list();
        declared.listed(pod("a", 0, Presence::Here, "4"));
        assert_eq!(standing.of("ml", "train"), Err(Unlisted));
        declared.complete();
        let (terms, who) = standing.of("ml", "train").unwrap().agreed.unwrap();
        assert_eq!((&*who, terms["min-count"].as_str()), ("a", "4"));
        assert_eq!(standing.of("web", "train"), Ok(Stands::default()));
    }

    #[test]
    fn a_pod_joins_the_round_that_lives_and_begins_the_next_when_all_others_leave() {
        let (declared, standing) = filled();
        declared.complete();
        let round = || standing.of("ml", "train").unwrap().round;
        assert_eq!(round(), Round(0));
        declared.applied(pod("a", 0, Presence::Here, "2"));
        declared.applied(pod("b", 0, Presence::Here, "2"));
        declared.applied(pod("a", 0, Presence::Leaving, "2"));
        assert_eq!(round(), Round(0), "b is still here: a is replaced");
        declared.applied(pod("b", 0, Presence::Leaving, "2"));
        assert_eq!(round(), Round(1), "all are going: a gang again");
        assert_eq!(standing.of("ml", "train").unwrap().agreed, None);
        declared.applied(pod("c", 1, Presence::Here, "3"));
        assert_eq!(round(), Round(1));
        declared.deleted("ml", "train", "a");
        declared.deleted("ml", "train", "b");
        declared.deleted("ml", "train", "c");
        assert_eq!(round(), Round(0), "nothing is left to tell apart from");
        assert!(declared.lock().shown.as_ref().unwrap().is_empty());
    }
}
