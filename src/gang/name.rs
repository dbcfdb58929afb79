//! Names of gangs: valid DNS labels that never mean two gangs.
//!
//! `<workload>-<part>[-<index>]-<attempt>-<hash>`, the hash over namespace, uid, part, index,
//! attempt and round; a workload that is rolled out by revisions has the revision in the place of
//! the attempt. Unique in the cluster and not only in the namespace, because KAI keys
//! PodGroups by bare name; never reused by a restart, because coscheduling and Koordinator count
//! the members of the previous attempt.

use std::fmt;

use sha2::{Digest, Sha256};

/// The longest DNS label. A gang's name is one, and so fits the value of a label, which links pods
/// on some schedulers.
pub(crate) const MAX_LABEL: usize = 63;
const HASH_LENGTH: usize = 10;
/// Kubernetes' own alphabet for generated names (`k8s.io/apimachinery/pkg/util/rand`):
/// no vowels, so that no word appears.
const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";

/// The name of a part within its plan; also the value of the label `muster.dev/gang`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PartName(String);

impl PartName {
    /// The part of a plan whose whole workload is one gang.
    pub fn whole() -> Self {
        Self("all".to_owned())
    }

    /// A name that its plan has checked.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name that gangs of one bundle share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct BundleName(String);

impl BundleName {
    /// A DNS label: it becomes part of object names and labels.
    pub(crate) fn new(name: &str) -> Option<Self> {
        is_dns_label(name).then(|| Self(name.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of a gang's scheduler object.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GangName(String);

impl GangName {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn into_string(self) -> String {
        self.0
    }

    /// The name of an object that workloads share which know only each other's names: `told` is all that
    /// tells these objects apart. It comes back when all of them are deleted and recreated.
    pub(crate) fn shared<'t>(readable: &str, told: impl IntoIterator<Item = &'t str>) -> Self {
        let mut hash = Sha256::new();
        for field in std::iter::once("shared").chain(told) {
            update(&mut hash, field);
        }
        let mut label = readable.to_owned();
        label.truncate(MAX_LABEL - HASH_LENGTH - 1);
        label = label.trim_matches('-').to_owned();
        label.push('-');
        push_letters(&mut label, &hash.finalize());
        Self(label)
    }
}

/// A field with its length, so that no two lists of fields are the same bytes.
fn update(hash: &mut Sha256, field: &str) {
    hash.update((field.len() as u64).to_le_bytes());
    hash.update(field);
}

fn push_letters(out: &mut String, digest: &[u8]) {
    let mut bits = digest
        .iter()
        .take(8)
        .fold(0u64, |acc, byte| (acc << 8) | u64::from(*byte));
    for _ in 0..HASH_LENGTH {
        let letter = (bits % ALPHABET.len() as u64) as usize;
        out.push(char::from(ALPHABET[letter]));
        bits /= ALPHABET.len() as u64;
    }
}

impl fmt::Display for GangName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Which start of the workload a gang belongs to. A new attempt is a new gang.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Attempt {
    /// Restarts of the whole workload.
    pub whole: u32,
    /// Restarts of this replica alone (JobSet's `RestartJob`); only for gangs of one replica.
    pub own: u32,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.own {
            0 => write!(f, "{}", self.whole),
            own => write!(f, "{}-{own}", self.whole),
        }
    }
}

/// How often the workload was resumed within one attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Round(pub u32);

impl Round {
    #[must_use]
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// Everything that tells one gang from another.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// The workload's namespace.
    pub namespace: String,
    /// The workload's name. It makes the gang's name readable; the uid makes it unique.
    pub workload: String,
    /// The workload's uid; or what is as unique, where its pods do not know it.
    pub uid: String,
    /// The part of the workload's plan.
    pub part: PartName,
    /// The replica, for gangs of one replica.
    pub index: Option<u32>,
    /// The restart of the workload.
    pub attempt: Attempt,
    /// The resume within the attempt.
    pub round: Round,
    /// The revision of the templates, for workloads that are rolled out replica by replica.
    pub revision: Option<String>,
}

/// What tells gangs of one workload apart, in whatever round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct GangKey<'a> {
    uid: &'a str,
    part: &'a str,
    index: Option<u32>,
    attempt: Attempt,
}

impl Identity {
    /// The same for pods of every round of the gang.
    pub(crate) fn key(&self) -> GangKey<'_> {
        GangKey {
            uid: &self.uid,
            part: self.part.as_str(),
            index: self.index,
            attempt: self.attempt,
        }
    }

    /// The gang's name.
    pub fn name(&self) -> GangName {
        self.named("gang", self.part.as_str(), self.index)
    }

    /// The identity of another gang of the same start of the workload.
    #[must_use]
    pub(crate) fn of(&self, part: &str, index: Option<u32>) -> Self {
        Self {
            part: PartName::new(part),
            index,
            ..self.clone()
        }
    }

    /// The name of an object that several gangs of this start of the workload share: a bundle's,
    /// or one that stands for the whole plan. `kind` keeps it apart from a part of the same name.
    pub(crate) fn shared_name(&self, kind: &str, name: &str) -> GangName {
        // Shared by all replicas, so the restart of one alone does not count.
        let mut shared = self.clone();
        shared.attempt.own = 0;
        shared.named(kind, name, None)
    }

    fn named(&self, kind: &str, part: &str, index: Option<u32>) -> GangName {
        let index_text = index.map(|i| i.to_string());
        let attempt = match &self.revision {
            Some(revision) => revision.clone(),
            None => self.attempt.to_string(),
        };
        let mut name = String::with_capacity(MAX_LABEL);
        let segments = [
            Some(self.workload.as_str()),
            Some(part).filter(|p| !p.is_empty()),
            index_text.as_deref(),
            Some(&attempt),
        ];
        for segment in segments.into_iter().flatten() {
            if !name.is_empty() {
                name.push('-');
            }
            // A workload's name may be a DNS subdomain; a gang's is a label.
            name.extend(segment.chars().map(|c| match c {
                'a'..='z' | '0'..='9' => c,
                'A'..='Z' => c.to_ascii_lowercase(),
                _ => '-',
            }));
        }
        name.truncate(MAX_LABEL - HASH_LENGTH - 1);
        let mut label = name.trim_matches('-').to_owned();
        if !label.is_empty() {
            label.push('-');
        }
        self.push_hash(&mut label, kind, part, index);
        GangName(label)
    }

    fn push_hash(&self, out: &mut String, kind: &str, part: &str, index: Option<u32>) {
        let mut hash = Sha256::new();
        for field in [kind, &self.namespace, &self.uid, part] {
            update(&mut hash, field);
        }
        hash.update([u8::from(index.is_some())]);
        hash.update(index.unwrap_or(0).to_le_bytes());
        for count in [self.attempt.whole, self.attempt.own, self.round.0] {
            hash.update(count.to_le_bytes());
        }
        if let Some(revision) = &self.revision {
            hash.update(revision);
        }
        push_letters(out, &hash.finalize());
    }
}

/// Whether a text is a DNS subdomain (RFC 1123), of which each label is one.
pub(crate) fn is_dns_subdomain(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_label)
}

/// Whether a text can be the name of most objects: a DNS subdomain as Kubernetes checks it, which bounds
/// the whole and not its labels.
pub(crate) fn is_object_name(text: &str) -> bool {
    text.len() <= 253 && text.split('.').all(is_dns_word)
}

/// Whether a text is a DNS label (RFC 1123), as Kubernetes checks it.
pub(crate) fn is_dns_label(text: &str) -> bool {
    text.len() <= MAX_LABEL && is_dns_word(text)
}

/// A DNS label of any length.
fn is_dns_word(text: &str) -> bool {
    let lower = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    is_word(text, lower, |b| b == b'-')
}

/// Whether a text is the key of a label or an annotation: a name, and before it perhaps a DNS subdomain
/// and a slash.
pub(crate) fn is_qualified_name(text: &str) -> bool {
    match text.split_once('/') {
        Some((prefix, name)) => is_object_name(prefix) && is_name(name),
        None => is_name(text),
    }
}

/// Whether a text is the value of a label.
pub(crate) fn is_label_value(text: &str) -> bool {
    text.is_empty() || is_name(text)
}

/// What is after the slash of a key, and what a label's value is.
fn is_name(text: &str) -> bool {
    let between = |b| matches!(b, b'-' | b'_' | b'.');
    text.len() <= MAX_LABEL && is_word(text, |b| b.is_ascii_alphanumeric(), between)
}

/// Whether a text begins and ends with some bytes, and has others only between them.
fn is_word(text: &str, ends: impl Fn(u8) -> bool, between: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().all(|b| ends(*b) || between(*b))
        && bytes.first().is_some_and(|b| ends(*b))
        && bytes.last().is_some_and(|b| ends(*b))
}

#[cfg(test)]
mod tests;
