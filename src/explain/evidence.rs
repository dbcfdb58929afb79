//! What is known of one gang that waits, and the causes that follow from it.

use std::sync::Arc;

use super::cause::Cause;
use super::fit::Fit;
use super::refusal::Refusal;
use super::words::{Obstacle, obstacles};
use crate::gang::ask::{Ask, Unscheduled};
use crate::gang::resources::ResourceList;
use crate::scheduler::queue::QueueTrouble;

/// So many causes are told.
const TOLD: usize = 3;

/// So many kinds of words, and of what pods ask, are kept of a gang.
const KINDS: usize = 16;

/// What is known of a gang that waits.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Evidence {
    /// How many members are needed.
    pub quorum: u32,
    /// Members that exist and are neither done nor being deleted.
    pub live: usize,
    /// Pods of it that are not linked to it.
    pub unlinked: usize,
    /// What its workload's controller waits for before it makes its pods.
    pub awaits: Option<String>,
    /// What schedulers say of members that wait, each with how many say so.
    pub words: Vec<(Unscheduled, u32)>,
    /// Members that wait and of which nobody says anything.
    pub unheard: u32,
    /// Members that scheduling gates hold back.
    pub gated: usize,
    /// What members that wait ask of nodes.
    pub asks: Vec<(Arc<Ask>, u32)>,
    /// How the names of pods begin by which the scheduler keeps room for it.
    pub placeholders: Option<String>,
    /// What the scheduler says of the gang.
    pub said: Option<String>,
    /// Which other gang of the bundle is not ready.
    pub partner: Option<String>,
    /// What is wrong with the queue.
    pub queue: Option<QueueTrouble>,
    /// Why members that have finished keep the others from starting.
    pub stranded: Option<String>,
    /// What the controllers of its pods were told, what must be fixed first first.
    pub refusals: Vec<Refusal>,
    /// Claims of volumes that its pods mount and that do not exist.
    pub claims: Vec<String>,
    /// Those that exist and have no volume yet. They may get one when a pod is placed, so that it is no
    /// cause while anything else is.
    pub unbound: Vec<String>,
    /// Whether it fits now.
    pub fit: Option<Fit>,
    /// Whether anybody is known to answer for the `schedulerName` of its pods.
    pub answer: Answer,
}

/// Whether anybody answers for a `schedulerName`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Answer {
    /// It is the name of a scheduler that is known, or it has placed pods; or nothing is known.
    #[default]
    Likely,
    /// No pod of that name is on a node.
    Nobody,
}

impl Evidence {
    /// A member that waits.
    pub(crate) fn note(&mut self, words: Option<&Unscheduled>, ask: Option<&Arc<Ask>>) {
        match words {
            Some(words) if words.reason == super::words::GATED => self.gated += 1,
            Some(words) => count(&mut self.words, words, |a, b| a == b),
            None => self.unheard += 1,
        }
        if let Some(ask) = ask {
            count(&mut self.asks, ask, |a, b| Arc::ptr_eq(a, b) || a == b);
        }
    }

    /// Whether fewer members exist than are needed.
    pub(crate) fn lacks(&self) -> bool {
        self.live < self.quorum as usize
    }

    /// The least that so many of the members that wait ask for together; nothing where no quantity holds
    /// it.
    pub(crate) fn needs(&self, pods: u32) -> Option<ResourceList> {
        let asks = self.asks.iter();
        let kinds: Vec<(&ResourceList, u64)> = asks
            .map(|(ask, count)| (&ask.requests, u64::from(*count)))
            .collect();
        ResourceList::least_of(&kinds, u64::from(pods))
    }

    /// What the scheduler says, in its own words: of a pod, where that says more.
    pub fn quotation(&self) -> Option<&str> {
        let any = || self.words.first().map(|(words, _)| words.message.as_str());
        let telling = self.telling().map(|words| words.message.as_str());
        let telling = telling.or_else(|| self.of_nodes());
        telling.or(self.said.as_deref()).or_else(any)
    }

    /// The first words on a pod that count nodes. Where what they count is not known here, they still say
    /// more than that the gang does not fit.
    fn of_nodes(&self) -> Option<&str> {
        let mut of_pods = self.words.iter().map(|(words, _)| words.message.as_str());
        of_pods.find(|message| message.contains(" nodes are available: "))
    }

    /// The first words on a pod that tell something of nodes.
    pub(crate) fn telling(&self) -> Option<&Unscheduled> {
        let mut words = self.words.iter().map(|(words, _)| words);
        words.find(|words| !obstacles(&words.message).is_empty())
    }

    /// Whether no scheduler has said anything of it.
    fn is_unheard(&self) -> bool {
        self.words.is_empty() && self.said.is_none() && self.unheard > 0
    }

    fn obstacles(&self) -> Vec<(Obstacle, Option<u32>)> {
        let mut all: Vec<(Obstacle, Option<u32>)> = Vec::new();
        let of_pods = self.words.iter().map(|(words, _)| words.message.as_str());
        for message in of_pods.chain(self.said.as_deref()) {
            for (obstacle, nodes) in obstacles(message) {
                if !all.iter().any(|(other, _)| *other == obstacle) {
                    all.push((obstacle, nodes));
                }
            }
        }
        // What excludes most nodes first; volumes before all, because nothing else helps then.
        all.sort_by_key(|(obstacle, nodes)| {
            let volume = obstacle.is_of_a_volume();
            (!volume, std::cmp::Reverse(nodes.unwrap_or(0)))
        });
        all
    }
}

fn count<T: Clone>(counts: &mut Vec<(T, u32)>, one: &T, same: impl Fn(&T, &T) -> bool) {
    let known = counts.len();
    match counts.iter_mut().find(|(other, _)| same(other, one)) {
        Some((_, count)) => *count += 1,
        None if known < KINDS => counts.push((one.clone(), 1)),
        None => {}
    }
}

/// Why a gang waits: what must be mended first first, and at most three.
pub fn causes(known: &Evidence) -> Vec<Cause> {
    let mut causes = Vec::new();
    let lacks = known.lacks();
    if known.unlinked > 0 && lacks {
        causes.push(Cause::Unlinked {
            pods: known.unlinked,
        });
    }
    causes.extend(known.stranded.clone().map(Cause::Stranded));
    let awaits = known.awaits.clone().filter(|_| lacks);
    if lacks && known.stranded.is_none() {
        let (live, quorum) = (known.live, known.quorum);
        let mut told = Vec::new();
        for refusal in &known.refusals {
            if !told.contains(&refusal.by) {
                told.push(refusal.by);
                let refusal = refusal.clone();
                causes.push(Cause::PodsRefused {
                    live,
                    quorum,
                    refusal,
                });
            }
        }
        if told.is_empty() && known.unlinked == 0 && awaits.is_none() {
            causes.push(Cause::PodsMissing { live, quorum });
        }
    }
    if known.gated > 0 {
        causes.push(Cause::Gated { pods: known.gated });
    }
    causes.extend(known.partner.clone().map(Cause::Partner));
    causes.extend(known.queue.clone().map(Cause::Queue));
    causes.extend(awaits.map(Cause::NotBegun));
    // While members are missing or held back, or nobody answers, no scheduler looks for nodes.
    if causes.is_empty() && known.answer == Answer::Nobody && known.is_unheard() {
        causes.extend(unheard(known));
    }
    if causes.is_empty() {
        placement(known, &mut causes);
    }
    if causes.is_empty() {
        let telling = known.of_nodes().is_some();
        causes.push(match known.quotation() {
            _ if !telling && !known.unbound.is_empty() => Cause::Obstacle {
                obstacle: Obstacle::VolumeUnbound,
                nodes: None,
            },
            Some(said) => Cause::SchedulerSays(said.to_owned()),
            None => unheard(known).unwrap_or(Cause::Unknown),
        });
    }
    causes.truncate(TOLD);
    causes
}

/// Nobody has looked at its members.
fn unheard(known: &Evidence) -> Option<Cause> {
    let (ask, _) = known.asks.first().filter(|_| known.unheard > 0)?;
    let scheduler = ask.scheduler.clone();
    Some(Cause::Unheard { scheduler })
}

/// Why there is no node for its members.
fn placement(known: &Evidence, causes: &mut Vec<Cause>) {
    causes.extend(known.claims.iter().cloned().map(Cause::ClaimMissing));
    let mut said = known.obstacles();
    // Nodes that are not for it are out of the question, and no cause while there are others; what
    // those lack is no cause where all fit on the others.
    if let Some(fit) = &known.fit {
        let usable = fit
            .lacking
            .as_ref()
            .is_none_or(|lacking| lacking.eligible > 0);
        said.retain(|(obstacle, _)| match obstacle {
            Obstacle::Selector | Obstacle::Taint(_) | Obstacle::Cordoned => !usable,
            Obstacle::Insufficient(_) | Obstacle::TooManyPods => {
                let apart = fit.lacking.as_ref().is_some_and(|l| l.apart.is_some());
                fit.fits < fit.needed && !apart
            }
            _ => true,
        });
    }
    said.retain(|(obstacle, nodes)| match obstacle {
        Obstacle::ClaimMissing(name) => {
            let cause = Cause::ClaimMissing(name.clone());
            if !causes.contains(&cause) {
                causes.push(cause);
            }
            false
        }
        _ if obstacle.is_of_a_volume() => {
            let obstacle = obstacle.clone();
            causes.push(Cause::Obstacle {
                obstacle,
                nodes: *nodes,
            });
            false
        }
        _ => true,
    });
    let counted = known.fit.as_ref().and_then(|fit| {
        let lacking = fit.lacking.as_ref()?;
        Some((fit, lacking)).filter(|_| fit.fits < fit.needed)
    });
    if let Some((fit, lacking)) = counted {
        if fit.nodes == 0 {
            causes.push(Cause::NoNodes);
        } else if let (0, Some((by, nodes))) = (lacking.eligible, lacking.excluded.first()) {
            causes.push(Cause::Excluded {
                by: by.clone(),
                nodes: *nodes,
                fit: fit.clone(),
            });
        } else if lacking.apart.is_some() {
            causes.push(Cause::Apart(fit.clone()));
        } else if lacking.short.is_some() {
            causes.push(Cause::NoRoom(fit.clone()));
        } else if lacking.full > 0 {
            causes.push(Cause::Obstacle {
                obstacle: Obstacle::TooManyPods,
                nodes: u32::try_from(lacking.full).ok(),
            });
        }
    }
    // What is counted is not said twice; what pods do to each other is only said.
    let counted: Vec<&str> = causes.iter().map(Cause::reason).collect();
    let rest = said.into_iter().map(|(obstacle, nodes)| {
        let between_pods = matches!(
            obstacle,
            Obstacle::AntiAffinity | Obstacle::PodAffinity | Obstacle::Spread | Obstacle::Ports
        );
        (between_pods, Cause::Obstacle { obstacle, nodes })
    });
    let rest: Vec<(bool, Cause)> = rest
        .filter(|(_, cause)| !counted.contains(&cause.reason()))
        .collect();
    // Without a count, or where all would fit by it, the scheduler's words are all there is.
    let fits = known.fit.as_ref().is_some_and(|fit| fit.fits >= fit.needed);
    let (first, later): (Vec<_>, Vec<_>) =
        rest.into_iter().partition(|(between, _)| *between && fits);
    causes.extend(first.into_iter().chain(later).map(|(_, cause)| cause));
}
