//! The CAs that a Secret holds: which signs, which are trusted, when a new one is due.
//!
//! Pure, with the time given. A new CA joins when the newest has been used for long enough. It is
//! trusted first and signs later: a leaf of a CA that the apiserver does not know yet would fail
//! every call.
//!
//! The clocks of replicas differ, and each of them writes what the others read. So a CA is taken away
//! only when it has expired: one that counts from later on by this clock may count by the apiserver's.

use std::collections::BTreeSet;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::super::authority::Authority;
use super::super::pair::{OutOfValidity, seconds};
use super::super::rotation::{BACKDATE, Lifetime};
use crate::certs::Error;
use crate::secret::{Data, Renewal};

/// A certificate's DER bytes, by which certificates are told apart.
pub(super) type DerSet = BTreeSet<Vec<u8>>;

/// All CAs, the oldest first.
pub(super) struct Ring(Vec<Authority>);

impl Ring {
    /// Reads a Secret's data. A pair that does not fit is left out, and said: someone edited it,
    /// and the others go on.
    pub(super) fn read(data: &Data) -> Self {
        let mut authorities = Vec::new();
        for (key, certificate) in data {
            let Some(name) = key.strip_suffix(".crt") else {
                continue;
            };
            let private = data.get(&format!("{name}.key"));
            let certificate = String::from_utf8_lossy(&certificate.0);
            let private = private.map_or_else(Default::default, |p| String::from_utf8_lossy(&p.0));
            match Authority::from_pem(&certificate, &private) {
                Ok(authority) => authorities.push(authority),
                Err(error) => tracing::warn!(key, %error, "a CA in the Secret is left out"),
            }
        }
        authorities.sort_by_key(|authority| authority.validity().not_before);
        Self(authorities)
    }

    /// The Secret's data: a pair for each CA, named by when it was made.
    pub(super) fn write(&self) -> Data {
        let pair = |authority: &Authority| {
            let name = seconds(authority.validity().not_before);
            let certificate = authority.certificate_pem().as_bytes().to_vec();
            [
                (format!("{name}.crt"), ByteString(certificate)),
                (
                    format!("{name}.key"),
                    ByteString(authority.key_pem().into_bytes()),
                ),
            ]
        };
        self.0.iter().flat_map(pair).collect()
    }

    /// The ring to use from now on, if this one will not do: a new CA joins, expired ones go.
    pub(super) fn renewed(
        self,
        lifetime: Lifetime,
        now: SystemTime,
    ) -> Result<Renewal<Self>, Error> {
        let newest = self.valid(now).last();
        if newest.is_some_and(|newest| now < lifetime.renewal_due(&newest.validity())) {
            return Ok(Renewal::Kept(self));
        }
        let mut authorities = self.0;
        authorities.retain(|authority| !is_expired(authority, now));
        authorities.push(Authority::living(lifetime, now)?);
        Ok(Renewal::New(Self(authorities)))
    }

    /// The newest CA that every webhook has carried for long enough. Where there is none, the one that
    /// signs already: a bundle that was removed is written again with all of them. At the start the
    /// oldest, which most likely is carried where not all are; but not one that ends soon, and by an
    /// apiserver's clock may have ended. `None` when all have expired.
    pub(super) fn signer(
        &self,
        lasting: &DerSet,
        signing: Option<&Authority>,
        now: SystemTime,
    ) -> Option<&Authority> {
        let trusted = |authority: &&Authority| der(authority).is_some_and(|d| lasting.contains(&d));
        let same = |authority: &&Authority| {
            signing.is_some_and(|s| s.certificate_pem() == authority.certificate_pem())
        };
        let goes_on = |authority: &&Authority| authority.validity().not_after > now + BACKDATE;
        let newest = self.valid(now).rfind(trusted);
        newest
            .or_else(|| self.valid(now).find(same))
            .or_else(|| self.valid(now).find(goes_on))
            .or_else(|| self.valid(now).next())
    }

    /// What the webhooks should carry: all CAs that have not expired, as PEM.
    pub(super) fn bundle(&self, now: SystemTime) -> String {
        let wanted = self.unexpired(now);
        wanted.map(Authority::certificate_pem).collect()
    }

    /// Whether a webhook that carries these certificates needs no write: all that have not expired,
    /// and none that is not ours. An expired one of ours may stay, or two replicas whose clocks
    /// differ would undo each other's writes.
    pub(super) fn is_settled(&self, carried: &DerSet, now: SystemTime) -> bool {
        let ours: DerSet = self.0.iter().filter_map(der).collect();
        let wanted: DerSet = self.unexpired(now).filter_map(der).collect();
        carried.is_superset(&wanted) && carried.is_subset(&ours)
    }

    fn unexpired(&self, now: SystemTime) -> impl Iterator<Item = &Authority> {
        let unexpired = move |authority: &&Authority| !is_expired(authority, now);
        self.0.iter().filter(unexpired)
    }

    fn valid(&self, now: SystemTime) -> impl DoubleEndedIterator<Item = &Authority> {
        let valid = move |authority: &&Authority| authority.validity().check(now).is_ok();
        self.0.iter().filter(valid)
    }
}

fn is_expired(authority: &Authority, now: SystemTime) -> bool {
    let validity = authority.validity().check(now);
    matches!(validity, Err(OutOfValidity::Expired(_)))
}

/// The certificates in a PEM text; none where it is not PEM.
pub(super) fn der_set(pem: &[u8]) -> DerSet {
    CertificateDer::pem_slice_iter(pem)
        .filter_map(Result::ok)
        .map(|certificate| certificate.to_vec())
        .collect()
}

fn der(authority: &Authority) -> Option<Vec<u8>> {
    der_set(authority.certificate_pem().as_bytes())
        .into_iter()
        .next()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    /// A day in a life that begins in 2027.
    fn day(number: u32) -> SystemTime {
        UNIX_EPOCH + DAY * (57 * 365 + number)
    }

    fn ring(days: &[u32]) -> Ring {
        let made = |number: &u32| Authority::generate(day(*number)).unwrap();
        Ring(days.iter().map(made).collect())
    }

    fn carrying(ring: &Ring, numbers: &[usize]) -> DerSet {
        let der = |number: &usize| der(&ring.0[*number]).unwrap();
        numbers.iter().map(der).collect()
    }

    fn renewed(ring: Ring, now: SystemTime) -> Option<Ring> {
        match ring.renewed(Lifetime::AUTHORITY, now).unwrap() {
            Renewal::New(ring) => Some(ring),
            Renewal::Kept(_) => None,
        }
    }

    fn signs(ring: &Ring, carried: &[usize], now: SystemTime) -> Option<usize> {
        signs_after(ring, carried, None, now)
    }

    fn signs_after(
        ring: &Ring,
        carried: &[usize],
        signing: Option<usize>,
        now: SystemTime,
    ) -> Option<usize> {
        let signing = signing.map(|number| &ring.0[number]);
        let signer = ring.signer(&carrying(ring, carried), signing, now)?;
        let is = |a: &Authority| a.certificate_pem() == signer.certificate_pem();
        ring.0.iter().position(is)
    }

    #[test]
    fn an_empty_secret_gets_its_first_ca() {
        let ring = renewed(ring(&[]), day(0)).unwrap();
        assert_eq!(ring.0.len(), 1);
        assert_eq!(signs(&ring, &[], day(0)), Some(0));
    }

    #[test]
    fn a_new_ca_joins_at_two_thirds_of_the_newest_ones_life() {
        assert!(renewed(ring(&[0]), day(243)).is_none());
        let joined = renewed(ring(&[0]), day(244)).unwrap();
        assert_eq!(joined.0.len(), 2);
        assert!(renewed(joined, day(245)).is_none());
    }

    #[test]
    fn an_expired_ca_goes_when_the_next_one_comes() {
        let ring = ring(&[0, 244]);
        assert_eq!(der_set(ring.bundle(day(364)).as_bytes()).len(), 2);
        assert_eq!(der_set(ring.bundle(day(366)).as_bytes()).len(), 1);
        let third = renewed(ring, day(488)).unwrap();
        assert_eq!(third.0.len(), 2);
    }

    #[test]
    fn a_new_ca_signs_only_once_every_webhook_carries_it() {
        let ring = ring(&[0, 244]);
        assert_eq!(signs(&ring, &[0], day(244)), Some(0));
        assert_eq!(signs(&ring, &[0, 1], day(244)), Some(1));
    }

    #[test]
    fn a_removed_bundle_does_not_change_the_signer() {
        let ring = ring(&[0, 244]);
        assert_eq!(signs_after(&ring, &[], Some(0), day(250)), Some(0));
        assert_eq!(signs_after(&ring, &[], Some(1), day(250)), Some(1));
        assert_eq!(signs_after(&ring, &[], Some(0), day(366)), Some(1));
        // Somebody has put back an old bundle: only the first is known.
        assert_eq!(signs_after(&ring, &[0], Some(1), day(250)), Some(0));
    }

    #[test]
    fn at_the_start_the_oldest_signs_until_it_is_known_what_is_carried() {
        assert_eq!(signs(&ring(&[0, 244]), &[], day(250)), Some(0));
        // By a clock that is ahead of this one the oldest has ended, and the other is carried for long.
        let hour = Duration::from_secs(60 * 60);
        assert_eq!(signs(&ring(&[0, 244]), &[], day(365) - hour), Some(1));
        assert_eq!(signs(&ring(&[0]), &[], day(365) - hour), Some(0));
    }

    /// The newest was made by a replica whose clock is an hour ahead, then by one that is days ahead.
    #[test]
    fn a_ca_of_a_replica_whose_clock_is_ahead_is_kept_and_joined_once_at_most() {
        let hour = Duration::from_secs(60 * 60);
        let mut ring = ring(&[0]);
        ring.0.push(Authority::generate(day(244) + hour).unwrap());
        assert_eq!(signs(&ring, &[0, 1], day(244)), Some(1));
        assert!(renewed(ring, day(244)).is_none());

        let mut ring = super::tests::ring(&[0]);
        ring.0.push(Authority::generate(day(250)).unwrap());
        let all = carrying(&ring, &[0, 1]);
        assert!(ring.is_settled(&all, day(244)), "nobody takes it away");
        assert!(!ring.is_settled(&carrying(&ring, &[0]), day(244)));
        let joined = renewed(ring, day(244)).unwrap();
        assert_eq!(joined.0.len(), 3);
        assert!(renewed(joined, day(244)).is_none());
    }

    #[test]
    fn an_expired_ca_never_signs() {
        let ring = ring(&[0, 244]);
        assert_eq!(signs(&ring, &[0], day(366)), Some(1));
        assert_eq!(signs(&ring, &[0, 1], day(700)), None);
    }

    #[test]
    fn settled_is_all_valid_ones_and_no_strangers() {
        let ring = ring(&[0, 244]);
        let settled = |carried: &[usize], now| ring.is_settled(&carrying(&ring, carried), now);
        assert!(settled(&[0, 1], day(250)));
        assert!(!settled(&[0], day(250)));
        assert!(!settled(&[], day(250)));
        // Another replica's clock may still call the first one valid.
        assert!(settled(&[0, 1], day(366)));
        assert!(settled(&[1], day(366)));
        let mut strange = carrying(&ring, &[0, 1]);
        strange.extend(carrying(&super::tests::ring(&[3]), &[0]));
        assert!(!ring.is_settled(&strange, day(250)));
    }

    #[test]
    fn a_secret_tells_back_what_was_written_in_order() {
        let ring = ring(&[244, 0]);
        let read = Ring::read(&ring.write());
        assert_eq!(read.0[0].certificate_pem(), ring.0[1].certificate_pem());
        assert_eq!(read.0[1].certificate_pem(), ring.0[0].certificate_pem());
    }

    #[test]
    fn a_spoilt_pair_is_left_out() {
        let mut data = ring(&[0, 244]).write();
        let key = data.keys().find(|key| key.ends_with(".key")).unwrap();
        let key = key.clone();
        data.insert(key, ByteString(b"spoilt".to_vec()));
        assert_eq!(Ring::read(&data).0.len(), 1);
    }
}
