//! TLS session tickets of the port at which pods wait, good at every replica.
//!
//! Where a replica is gone, all who waited there come to another one at once. With a ticket neither side
//! signs or checks a certificate, which is most of what a handshake costs. The keys are made of those
//! of the seals, which all replicas share and which change with them.

use std::fmt;

use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};
use rustls::server::ProducesTickets;

use crate::controller::Cluster;
use crate::gang::seal::{KEY_ID, KeyBytes};

/// What makes the key of one ticket differ from that of all others.
const SALT: usize = 32;

/// A pod that waits longer shakes hands once more.
const LIFETIME: u32 = 24 * 60 * 60;

/// Larger than any that is made here.
const LONGEST: usize = 1_024;

/// Makes and reads tickets.
pub(super) struct Tickets(pub(super) Cluster);

impl fmt::Debug for Tickets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tickets")
    }
}

/// Each key is used for one ticket: no nonce can come twice.
fn once(key: &KeyBytes) -> Option<(LessSafeKey, Nonce)> {
    let key = UnboundKey::new(&CHACHA20_POLY1305, key).ok()?;
    Some((LessSafeKey::new(key), Nonce::assume_unique_for_key([0; 12])))
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        LIFETIME
    }

    /// The id of the key, the salt, and the session, encrypted.
    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        let mut salt = [0; SALT];
        SystemRandom::new().fill(&mut salt).ok()?;
        let cluster = self.0.load();
        let (id, key) = cluster.seals.ticket_key(&salt);
        let (key, nonce) = once(&key)?;
        let mut session = plain.to_vec();
        key.seal_in_place_append_tag(nonce, Aad::empty(), &mut session)
            .ok()?;
        Some([id.as_bytes(), &salt, &session].concat())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        if cipher.len() > LONGEST {
            return None;
        }
        let (id, rest) = cipher.split_at_checked(KEY_ID)?;
        let (salt, session) = rest.split_at_checked(SALT)?;
        let cluster = self.0.load();
        let key = cluster
            .seals
            .ticket_key_of(std::str::from_utf8(id).ok()?, salt)?;
        let (key, nonce) = once(&key)?;
        let mut session = session.to_vec();
        let plain = key.open_in_place(nonce, Aad::empty(), &mut session).ok()?;
        Some(plain.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};
    use crate::gang::Seals;

    fn replica(seals: Seals) -> Tickets {
        let Command::Serve(args) = Cli::parse_from(["muster", "serve"]).command else {
            panic!("serve is a command");
        };
        let mut snapshot = args.cluster.snapshot();
        snapshot.seals = Arc::new(seals);
        Tickets(Arc::new(ArcSwap::from_pointee(snapshot)))
    }

    #[test]
    fn a_ticket_is_good_at_every_replica_that_has_its_key() {
        let (old, new) = ([1; 32], [2; 32]);
        let ticket = replica(Seals::new(&old, &[])).encrypt(b"session").unwrap();
        let read = |seals| replica(seals).decrypt(&ticket);
        assert_eq!(read(Seals::new(&old, &[])).unwrap(), b"session");
        assert_eq!(read(Seals::new(&new, &[old])).unwrap(), b"session");
        assert_eq!(read(Seals::new(&new, &[])), None);
        let again = replica(Seals::new(&old, &[])).encrypt(b"session").unwrap();
        assert_ne!(ticket, again);
    }

    #[test]
    fn what_is_no_ticket_is_none() {
        let replica = replica(Seals::fixed());
        let ticket = replica.encrypt(b"session").unwrap();
        for length in 0..ticket.len() {
            assert_eq!(replica.decrypt(&ticket[..length]), None);
        }
        for at in 0..ticket.len() {
            let mut ticket = ticket.clone();
            ticket[at] ^= 1;
            assert_eq!(replica.decrypt(&ticket), None, "byte {at}");
        }
        assert_eq!(replica.decrypt(&vec![b'a'; 100_000]), None);
    }
}
