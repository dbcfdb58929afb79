//! The keys that a Secret holds: which seals, and when a new one is due.
//!
//! Pure, with the time given. Keys are never dropped while there is room: a stamp lives as long as its
//! workload. A new key is believed first and seals later, since other replicas read it later.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use k8s_openapi::ByteString;

use crate::gang::field::shorten;
use crate::gang::{KeyBytes, Seals};
use crate::secret::{Data, Renewal};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// How long a key seals.
const RENEWED_AFTER: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// By then every replica has read it.
const SEALS_AFTER: Duration = HOUR;

/// Clocks of replicas differ by less.
const AHEAD: Duration = Duration::from_secs(24 * 60 * 60);

/// The keys of ten years.
const MAX_KEYS: usize = 40;

/// A key, and when it was made, in seconds.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Key {
    made: u64,
    bytes: KeyBytes,
}

/// All keys, the oldest first; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ring(Vec<Key>);

/// The system has no randomness.
#[derive(Debug, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandomness;

impl Ring {
    /// The ring to use from now on: with a new key, where the newest is too old or there is none.
    /// What is no key is left out, and said: someone edited it, and the others go on.
    pub(super) fn renewed(data: &Data, now: SystemTime) -> Result<Renewal<Self>, NoRandomness> {
        let now = seconds(now);
        let mut keys: Vec<Key> = data.iter().filter_map(|(n, v)| read(n, v, now)).collect();
        keys.sort_by_key(|key| key.made);
        let surplus = keys.len().saturating_sub(MAX_KEYS);
        keys.drain(..surplus);
        let fresh = |key: &Key| now < key.made.saturating_add(RENEWED_AFTER.as_secs());
        if keys.last().is_some_and(fresh) {
            return Ok(Renewal::Kept(Self(keys)));
        }
        let bytes = random()?;
        // One second later than the newest, where a clock has gone back.
        let made = keys.last().map_or(now, |newest| now.max(newest.made + 1));
        keys.push(Key { made, bytes });
        let surplus = keys.len().saturating_sub(MAX_KEYS);
        keys.drain(..surplus);
        Ok(Renewal::New(Self(keys)))
    }

    /// As a Secret holds it: each key, named by when it was made.
    pub(super) fn write(&self) -> Data {
        let entry = |key: &Key| (format!("{}.key", key.made), ByteString(key.bytes.into()));
        self.0.iter().map(entry).collect()
    }

    /// The newest key that every replica has read seals; else the oldest.
    pub(super) fn seals(&self, now: SystemTime) -> Seals {
        let read = |key: &Key| key.made.saturating_add(SEALS_AFTER.as_secs()) <= seconds(now);
        let first = self.0.iter().rposition(read).unwrap_or(0);
        let others = self.0.iter().enumerate().filter(|(i, _)| *i != first);
        let others: Vec<KeyBytes> = others.map(|(_, key)| key.bytes).collect();
        Seals::new(&self.0[first].bytes, &others)
    }
}

/// What a key of the future says of its age is no use: a clock was wrong, or somebody wrote it.
fn read(name: &str, value: &ByteString, now: u64) -> Option<Key> {
    let made: Option<u64> = name.strip_suffix(".key").and_then(|made| made.parse().ok());
    let made = made.filter(|made| *made <= now.saturating_add(AHEAD.as_secs()));
    let bytes = KeyBytes::try_from(value.0.as_slice()).ok();
    let key = made.zip(bytes).map(|(made, bytes)| Key { made, bytes });
    if key.is_none() {
        let name = shorten(name.to_owned());
        tracing::debug!(name, "what is no key in the Secret is left out");
    }
    key
}

fn random() -> Result<KeyBytes, NoRandomness> {
    let random = ring::rand::SystemRandom::new();
    let bytes = ring::rand::generate(&random).map_err(|_| NoRandomness)?;
    Ok(bytes.expose())
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_secs()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gang::seal::{Bearer, Called, Verdict};

    const DAY: u64 = 24 * 60 * 60;

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(57 * 365 * DAY + seconds)
    }

    fn renewed(data: &Data, now: SystemTime) -> (Ring, bool) {
        match Ring::renewed(data, now).unwrap() {
            Renewal::Kept(ring) => (ring, false),
            Renewal::New(ring) => (ring, true),
        }
    }

    fn bearer() -> Bearer<'static> {
        Bearer {
            namespace: "ml",
            kind: "Thing",
            workload: Called::Name("train"),
            gang: "workers",
        }
    }

    #[test]
    fn an_empty_secret_gets_a_key_that_seals_at_once() {
        let (ring, new) = renewed(&Data::new(), at(0));
        assert!(new);
        let text = ring.seals(at(0)).seal(&bearer(), "{}");
        let (again, new) = renewed(&ring.write(), at(DAY));
        assert_eq!((again.clone(), new), (ring, false));
        let verdict = again.seals(at(DAY)).check(&bearer(), &text);
        assert_eq!(verdict, Verdict::Good);
    }

    #[test]
    fn a_new_key_is_believed_first_and_seals_later_and_the_old_one_stays_good() {
        let (old, _) = renewed(&Data::new(), at(0));
        let (both, new) = renewed(&old.write(), at(90 * DAY));
        assert!(new && both.0.len() == 2);
        let text = |now| both.seals(now).seal(&bearer(), "{}");
        let early = text(at(90 * DAY + 3599));
        let late = text(at(90 * DAY + 3600));
        let check = |ring: &Ring, text: &str| ring.seals(at(0)).check(&bearer(), text);
        assert_eq!(check(&old, &early), Verdict::Good);
        assert_eq!(check(&old, &late), Verdict::Unknown);
        assert_eq!(check(&both, &early), Verdict::Good);
        assert_eq!(check(&both, &late), Verdict::Good);
    }

    #[test]
    fn ten_years_of_keys_are_kept_and_no_more() {
        let mut data = Data::new();
        for quarter in 0..60 {
            data = renewed(&data, at(quarter * 90 * DAY)).0.write();
        }
        assert_eq!(data.len(), MAX_KEYS);
        assert!(!renewed(&data, at(59 * 90 * DAY)).1);
    }

    #[test]
    fn what_is_no_key_is_left_out_and_a_clock_that_went_back_makes_none() {
        let (ring, _) = renewed(&Data::new(), at(DAY));
        let mut data = ring.write();
        data.insert("9.key".to_owned(), ByteString(b"short".to_vec()));
        data.insert("readme".to_owned(), ByteString(vec![0; 32]));
        assert_eq!(renewed(&data, at(0)), (ring, false));
    }
}
