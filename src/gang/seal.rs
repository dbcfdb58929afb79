//! Seals: keyed hashes by which Muster knows the stamps that it wrote itself.
//!
//! A stamp reaches pods through templates, and anybody who may create a pod can write one. What a
//! gang's objects are made of is therefore taken only from a stamp with a seal, or from a workload's own
//! spec. A seal covers the stamp's text, and who may carry it: the namespace, the workload and the
//! gang's label. The keys come from outside: this module neither makes nor keeps them.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::hmac;
use sha2::{Digest as _, Sha256};

/// The bytes of a key.
pub type KeyBytes = [u8; 32];

/// How a key is told from others: the beginning of a hash of it.
pub(crate) const KEY_ID: usize = 8;

/// The part of the hash that is written: 128 bits.
const HASH: usize = 16;

/// The same as text.
const TEXT: usize = 22;

const OPEN: &str = ",\"seal\":\"";
const CLOSE: &str = "\"}";

/// How much longer a seal makes a stamp.
pub(crate) const SEAL: usize = OPEN.len() + KEY_ID + 1 + TEXT + CLOSE.len() - 1;

/// Its quotes, which are two characters in a workload's JSON.
pub(crate) const SEAL_QUOTES: usize = 4;

/// What Kubernetes adds to `generateName`, and how much of that it keeps.
const GENERATED: usize = 5;
const MAX_PREFIX: usize = 63 - GENERATED;

/// A workload's name, as far as it is known when its stamps are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Called<'a> {
    Name(&'a str),
    /// `generateName`: the apiserver makes the name of it later.
    Prefix(&'a str),
}

/// Who may carry a stamp: the children of one workload, in one of its parts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bearer<'a> {
    pub(crate) namespace: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) workload: Called<'a>,
    /// The value of the label `muster.dev/gang`.
    pub(crate) gang: &'a str,
}

/// What a stamp's seal says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Muster wrote this stamp for this bearer.
    Good,
    /// There is no seal: an earlier version may have written it.
    Unsealed,
    /// The key is not known here: another replica may have it.
    Unknown,
    /// The key is known, and the seal is not of this stamp or not of this bearer.
    Broken,
}

#[derive(Debug, Clone)]
struct Key {
    id: String,
    hmac: hmac::Key,
}

impl Key {
    fn new(bytes: &KeyBytes) -> Self {
        let hmac = hmac::Key::new(hmac::HMAC_SHA256, bytes);
        let id = hmac::sign(&hmac, b"muster.dev/seal-key");
        let id = id.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self {
            id: id.take(KEY_ID / 2).collect(),
            hmac,
        }
    }

    fn hash(&self, bearer: &Bearer<'_>, content: &str) -> String {
        let mut context = hmac::Context::with_key(&self.hmac);
        let (how, name) = match bearer.workload {
            Called::Name(name) => ("name", name),
            Called::Prefix(prefix) => ("prefix", cut(prefix)),
        };
        let Bearer {
            namespace,
            kind,
            gang,
            ..
        } = *bearer;
        for part in [namespace, kind, how, name, gang, content] {
            // With its length, so that nothing can move from one to the next.
            context.update(&(part.len() as u64).to_le_bytes());
            context.update(part.as_bytes());
        }
        URL_SAFE_NO_PAD.encode(&context.sign().as_ref()[..HASH])
    }
}

impl Key {
    /// Begins like the key's id and like no bearer: those begin with the eight bytes of a length.
    fn derive(&self, salt: &[u8]) -> KeyBytes {
        let mut context = hmac::Context::with_key(&self.hmac);
        context.update(b"muster.dev/session-ticket");
        context.update(salt);
        let mut key = KeyBytes::default();
        key.copy_from_slice(context.sign().as_ref());
        key
    }
}

/// As much of `generateName` as Kubernetes keeps.
fn cut(prefix: &str) -> &str {
    prefix.get(..MAX_PREFIX).unwrap_or(prefix)
}

/// The keys: one seals, and all are believed.
#[derive(Debug, Clone)]
pub struct Seals {
    first: Key,
    others: Vec<Key>,
}

impl Seals {
    /// `first` seals; what the others sealed is good too.
    pub fn new(first: &KeyBytes, others: &[KeyBytes]) -> Self {
        Self {
            first: Key::new(first),
            others: others.iter().map(Key::new).collect(),
        }
    }

    /// A key that everybody knows, for commands and servers without a cluster: what they stamp is
    /// never stored.
    pub fn fixed() -> Self {
        Self::new(b"muster without a cluster, no key", &[])
    }

    /// The text of a stamp with its seal.
    pub(crate) fn seal(&self, bearer: &Bearer<'_>, stamp: &str) -> String {
        let content = stamp.strip_suffix('}').unwrap_or(stamp);
        let hash = self.first.hash(bearer, content);
        format!("{content}{OPEN}{}.{hash}{CLOSE}", self.first.id)
    }

    /// Whether Muster wrote a stamp for this bearer.
    pub(crate) fn check(&self, bearer: &Bearer<'_>, text: &str) -> Verdict {
        let Some((content, id, hash)) = split(text) else {
            return Verdict::Unsealed;
        };
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        let Some(key) = keys.find(|key| key.id == id) else {
            return Verdict::Unknown;
        };
        let prefix = match bearer.workload {
            Called::Name(name) => name
                .len()
                .checked_sub(GENERATED)
                .and_then(|end| name.get(..end)),
            Called::Prefix(_) => None,
        };
        let from_prefix = prefix.map(|prefix| Bearer {
            workload: Called::Prefix(prefix),
            ..*bearer
        });
        let mut bearers = std::iter::once(*bearer).chain(from_prefix);
        match bearers.any(|bearer| same(&key.hash(&bearer, content), hash)) {
            true => Verdict::Good,
            false => Verdict::Broken,
        }
    }
}

impl Seals {
    /// What a pod shows that it belongs to a barrier. Only a pod that Muster has admitted to it has it.
    pub(crate) fn token(&self, namespace: &str, barrier: &str) -> String {
        let bearer = token_bearer(namespace);
        format!("{}.{}", self.first.id, self.first.hash(&bearer, barrier))
    }

    /// Whether a token is of this barrier.
    pub(crate) fn check_token(&self, namespace: &str, barrier: &str, token: &str) -> Verdict {
        let Some((id, hash)) = token.split_once('.') else {
            return Verdict::Unsealed;
        };
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        let Some(key) = keys.find(|key| key.id == id) else {
            return Verdict::Unknown;
        };
        match same(&key.hash(&token_bearer(namespace), barrier), hash) {
            true => Verdict::Good,
            false => Verdict::Broken,
        }
    }
}

impl Seals {
    /// A key for one session ticket of the port at which pods wait, and the id of the key that it is made
    /// of.
    pub(crate) fn ticket_key(&self, salt: &[u8]) -> (&str, KeyBytes) {
        (&self.first.id, self.first.derive(salt))
    }

    /// The same by that id; nothing where the key is not known.
    pub(crate) fn ticket_key_of(&self, id: &str, salt: &[u8]) -> Option<KeyBytes> {
        let mut keys = std::iter::once(&self.first).chain(&self.others);
        keys.find(|key| key.id == id).map(|key| key.derive(salt))
    }
}

/// No kind of workload has this name, so that no seal of a stamp is a token.
fn token_bearer(namespace: &str) -> Bearer<'_> {
    Bearer {
        namespace,
        kind: "a barrier's token",
        workload: Called::Name(""),
        gang: "",
    }
}

/// Comparing takes as long for a near miss as for a far one.
fn same(wanted: &str, is: &str) -> bool {
    let both = wanted.bytes().zip(is.bytes());
    both.fold(wanted.len() ^ is.len(), |all, (a, b)| {
        all | usize::from(a ^ b)
    }) == 0
}

/// What a stamp says, without its seal.
pub(crate) fn content(text: &str) -> &str {
    match split(text) {
        Some((content, ..)) => content,
        None => text.strip_suffix('}').unwrap_or(text),
    }
}

/// What is sealed, the key's id, and the hash.
fn split(text: &str) -> Option<(&str, &str, &str)> {
    // The seal replaces the stamp's last brace, and ends with one.
    let at = text.len().checked_sub(SEAL + 1)?;
    let (content, rest) = text.split_at_checked(at)?;
    let seal = rest.strip_prefix(OPEN)?.strip_suffix(CLOSE)?;
    let (id, hash) = seal.split_once('.')?;
    (id.len() == KEY_ID).then_some((content, id, hash))
}

/// By which a stamp is found again among those that a workload's stored templates carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct StampHash([u8; 16]);

impl StampHash {
    /// Of a stamp's text beside the label `muster.dev/gang`.
    pub fn of(gang: &str, text: &str) -> Self {
        let mut hasher = Sha256::new();
        hasher.update((gang.len() as u64).to_le_bytes());
        hasher.update(gang);
        hasher.update(text);
        let mut hash = [0; 16];
        hash.copy_from_slice(&hasher.finalize()[..16]);
        Self(hash)
    }
}

#[cfg(test)]
mod tests;
