//! The CAs that a Secret holds: which signs, which are trusted, when a new one is due.
//!
//! Pure, with the time given. A new CA joins when the newest has lived two thirds of its life. It
//! is trusted first and signs later: a leaf of a CA that the apiserver does not know yet would
//! fail every call.

use std::collections::BTreeSet;
use std::time::SystemTime;

use k8s_openapi::ByteString;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;

use super::super::authority::{Authority, renewal_due};
use super::super::pair::seconds;
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
    pub(super) fn renewed(self, now: SystemTime) -> Result<Renewal<Self>, Error> {
        let newest = self.valid(now).last();
        if newest.is_some_and(|newest| now < renewal_due(&newest.validity())) {
            return Ok(Renewal::Kept(self));
        }
        let mut authorities = self.0;
        authorities.retain(|authority| authority.validity().check(now).is_ok());
        authorities.push(Authority::generate(now)?);
        Ok(Renewal::New(Self(authorities)))
    }

    /// The newest CA that every webhook carries; else the oldest, which most likely is carried
    /// where not all are. `None` when all have expired.
    pub(super) fn signer(&self, carried: &DerSet, now: SystemTime) -> Option<&Authority> {
        let trusted = |authority: &&Authority| der(authority).is_some_and(|d| carried.contains(&d));
        let newest = self.valid(now).rfind(trusted);
        newest.or_else(|| self.valid(now).next())
    }

    /// What the webhooks should carry: all CAs that are still valid, as PEM.
    pub(super) fn bundle(&self, now: SystemTime) -> String {
        self.valid(now).map(Authority::certificate_pem).collect()
    }

    /// Whether a webhook that carries these certificates needs no write: all that are valid, and
    /// none that is not ours. An expired one of ours may stay, or two replicas whose clocks
    /// differ would undo each other's writes.
    pub(super) fn is_settled(&self, carried: &DerSet, now: SystemTime) -> bool {
        let ours: DerSet = self.0.iter().filter_map(der).collect();
        let wanted: DerSet = self.valid(now).filter_map(der).collect();
        carried.is_superset(&wanted) && carried.is_subset(&ours)
    }

    fn valid(&self, now: SystemTime) -> impl DoubleEndedIterator<Item = &Authority> {
        let valid = move |authority: &&Authority| authority.validity().check(now).is_ok();
        self.0.iter().filter(valid)
    }
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

    fn signs(ring: &Ring, carried: &[usize], now: SystemTime) -> Option<usize> {
        let signer = ring.signer(&carrying(ring, carried), now)?;
        let is = |a: &Authority| a.certificate_pem() == signer.certificate_pem();
        ring.0.iter().position(is)
    }

    fn added(renewal: Renewal<Ring>) -> Option<Ring> {
        match renewal {
            Renewal::New(ring) => Some(ring),
            Renewal::Kept(_) => None,
        }
    }

    #[test]
    fn an_empty_secret_gets_its_first_ca() {
        let ring = added(ring(&[]).renewed(day(0)).unwrap()).unwrap();
        assert_eq!(ring.0.len(), 1);
        assert_eq!(signs(&ring, &[], day(0)), Some(0));
    }

    #[test]
    fn a_new_ca_joins_at_two_thirds_of_the_newest_ones_life() {
        assert!(added(ring(&[0]).renewed(day(243)).unwrap()).is_none());
        let joined = added(ring(&[0]).renewed(day(244)).unwrap()).unwrap();
        assert_eq!(joined.0.len(), 2);
        assert!(added(joined.renewed(day(245)).unwrap()).is_none());
    }

    #[test]
    fn an_expired_ca_goes_when_the_next_one_comes() {
        let ring = ring(&[0, 244]);
        assert_eq!(der_set(ring.bundle(day(364)).as_bytes()).len(), 2);
        assert_eq!(der_set(ring.bundle(day(366)).as_bytes()).len(), 1);
        let third = added(ring.renewed(day(488)).unwrap()).unwrap();
        assert_eq!(third.0.len(), 2);
    }

    #[test]
    fn a_new_ca_signs_only_once_every_webhook_carries_it() {
        let ring = ring(&[0, 244]);
        assert_eq!(signs(&ring, &[0], day(244)), Some(0));
        assert_eq!(signs(&ring, &[0, 1], day(244)), Some(1));
    }

    #[test]
    fn a_removed_bundle_does_not_change_the_signer_of_old_leaves_to_an_unknown_one() {
        assert_eq!(signs(&ring(&[0, 244]), &[], day(250)), Some(0));
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
