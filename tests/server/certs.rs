//! The certificates that Muster makes, and the directory that it keeps them in.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, SystemTime};

use muster::certs::files::{Made, read, renew_development, write_development};
use muster::certs::pair::{Facts, Pair, seconds};
use muster::certs::{Authority, Certificates, Lifetime, Signer, Source, Subject};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::prelude::{FromDer, X509Certificate};

const DAY: Duration = Duration::from_secs(24 * 3600);

fn facts(certificate: &str, key: &str) -> Facts {
    Pair::from_pem(certificate.as_bytes(), key.as_bytes())
        .expect("a pair")
        .facts
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).expect("PEM")
}

#[test]
fn a_leaf_has_the_names_that_an_apiserver_and_a_developer_call() {
    let authority = Authority::generate(SystemTime::now()).unwrap();
    let extra = ["10.0.0.7".to_owned(), "webhook.example".to_owned()];
    let subject = Subject::default().also_named(&extra);
    let leaf = authority.issue(&subject, SystemTime::now()).unwrap();
    let names = facts(&leaf.certificate, &leaf.key).names;
    for name in [
        "muster.muster-system.svc",
        "muster.muster-system.svc.cluster.local",
        "muster-barrier.muster-system.svc",
        "localhost",
        "127.0.0.1",
        "::1",
        "10.0.0.7",
        "webhook.example",
    ] {
        assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
    }
}

#[test]
fn certificates_are_backdated_by_a_day_and_a_leaf_never_outlives_its_ca() {
    let now = SystemTime::now();
    let authority = Authority::generate(now).unwrap();
    let ca = authority.validity();
    assert_eq!(seconds(ca.not_before), seconds(now - DAY));
    assert_eq!(seconds(ca.not_after), seconds(now + 365 * DAY));
    let leaf = authority.issue(&Subject::default(), now).unwrap();
    let validity = facts(&leaf.certificate, &leaf.key).validity;
    assert_eq!(seconds(validity.not_before), seconds(now - DAY));
    assert_eq!(seconds(validity.not_after), seconds(now + 7 * DAY));
    let due = Lifetime::LEAF.renewal_due(&validity);
    assert_eq!(seconds(due), seconds(now) + 7 * 24 * 3600 * 2 / 3);

    let late = authority
        .issue(&Subject::default(), now + 363 * DAY)
        .unwrap();
    let late = facts(&late.certificate, &late.key).validity;
    assert_eq!(late.not_after, ca.not_after);
}

#[test]
fn the_ca_may_only_sign_and_the_leaf_may_only_serve() {
    let authority = Authority::generate(SystemTime::now()).unwrap();
    let leaf = authority
        .issue(&Subject::default(), SystemTime::now())
        .unwrap();
    let (ca_der, leaf_der) = (der(authority.certificate_pem()), der(&leaf.certificate));
    let (_, ca) = X509Certificate::from_der(&ca_der).unwrap();
    let (_, leaf_x509) = X509Certificate::from_der(&leaf_der).unwrap();

    let constraints = ca.basic_constraints().unwrap().unwrap().value;
    assert!(constraints.ca && constraints.path_len_constraint == Some(0));
    let usage = ca.key_usage().unwrap().unwrap().value;
    assert!(usage.key_cert_sign() && usage.crl_sign() && !usage.digital_signature());

    assert!(!leaf_x509.is_ca());
    let usage = leaf_x509.key_usage().unwrap().unwrap().value;
    assert!(usage.digital_signature() && !usage.key_cert_sign());
    let extended = leaf_x509.extended_key_usage().unwrap().unwrap().value;
    assert!(extended.server_auth && !extended.client_auth && !extended.any);
    assert_eq!(leaf_x509.issuer(), ca.subject());

    let leaf = facts(&leaf.certificate, &leaf.key);
    assert!(leaf.subject_key_id.is_some() && authority.signed(&leaf));
    assert!(
        !Authority::generate(SystemTime::now())
            .unwrap()
            .signed(&leaf)
    );
}

#[test]
fn a_second_write_keeps_everything_and_keys_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path().join("certs");
    let first = write_development(&dir, &[]).unwrap();
    assert_eq!(
        (first.authority_made, first.leaf_made),
        (Made::New, Made::New)
    );
    for (name, mode) in [("tls.key", 0o600), ("ca.key", 0o600), ("tls.crt", 0o644)] {
        let found = fs::metadata(dir.join(name)).unwrap().permissions().mode() & 0o777;
        // The umask may take away from a public file, never add to a key.
        assert_eq!(found & !mode, 0, "{name} has mode {found:o}");
    }
    let before = read(&dir).unwrap();
    let second = write_development(&dir, &[]).unwrap();
    assert_eq!(
        (second.authority_made, second.leaf_made),
        (Made::Kept, Made::Kept)
    );
    assert!(read(&dir).unwrap() == before);
    let files = fs::read_dir(&dir).unwrap().count();
    assert_eq!(files, 4, "no temporary file is left");
}

#[test]
fn a_leaf_is_renewed_from_the_same_ca_when_it_is_due_or_lacks_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let (dir, now) = (dir.path(), SystemTime::now());
    let subject = Subject::default();
    renew_development(dir, &subject, now).unwrap();
    let made = |subject: &Subject, now| {
        let written = renew_development(dir, subject, now).unwrap();
        (written.authority_made, written.leaf_made)
    };
    assert_eq!(made(&subject, now + 4 * DAY), (Made::Kept, Made::Kept));
    assert_eq!(made(&subject, now + 5 * DAY), (Made::Kept, Made::New));
    let named = Subject::default().also_named(&["other.example".to_owned()]);
    assert_eq!(made(&named, now + 5 * DAY), (Made::Kept, Made::New));
    // A CA too old for a whole leaf goes, and its leaf with it.
    assert_eq!(made(&named, now + 360 * DAY), (Made::New, Made::New));
}

#[test]
fn an_address_written_another_way_is_not_a_missing_name() {
    let dir = tempfile::tempdir().unwrap();
    let long = ["0:0:0:0:0:0:0:1".to_owned(), "FD00::0:7".to_owned()];
    write_development(dir.path(), &long).unwrap();
    let again = write_development(dir.path(), &long).unwrap();
    assert_eq!(again.leaf_made, Made::Kept);
}

#[test]
fn a_damaged_directory_is_made_whole() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    write_development(dir, &[]).unwrap();
    fs::write(dir.join("tls.key"), "rubbish").unwrap();
    let written = write_development(dir, &[]).unwrap();
    assert_eq!(
        (written.authority_made, written.leaf_made),
        (Made::Kept, Made::New)
    );
    fs::remove_file(dir.join("ca.key")).unwrap();
    let written = write_development(dir, &[]).unwrap();
    assert_eq!(
        (written.authority_made, written.leaf_made),
        (Made::New, Made::New)
    );
    Certificates::open(Source::Files(dir.to_owned())).unwrap();
}

#[test]
fn opening_a_directory_without_certificates_names_the_missing_file() {
    let dir = tempfile::tempdir().unwrap();
    let error = Certificates::open(Source::Files(dir.path().to_owned())).unwrap_err();
    assert!(error.to_string().contains("tls.crt"), "{error}");
}

#[test]
fn a_leaf_in_memory_follows_its_signer() {
    let now = SystemTime::now();
    let signer = Signer::new(Authority::generate(now).unwrap());
    let (shared, subject) = (signer.clone(), Subject::default());
    let certificates = Certificates::open(Source::Memory {
        signer: shared,
        subject,
    });
    let certificates = certificates.unwrap();
    certificates.refresh(now);
    assert_eq!(certificates.reloads().taken, 0, "nothing changed");

    signer.replace(Authority::generate(now).unwrap());
    certificates.refresh(now);
    assert_eq!(certificates.reloads().taken, 1);
    let trusted = signer.current().certificate_pem().as_bytes().to_vec();
    assert_eq!(certificates.authority_pem(), Some(trusted));
    certificates.refresh(now);
    assert_eq!(certificates.reloads().taken, 1, "once");
}

/// What a pod at a start barrier is given must serve it for longer than one CA signs.
#[test]
fn clients_trust_the_ca_that_signs_next_too() {
    let now = SystemTime::now();
    let [first, next] = [(); 2].map(|()| Authority::generate(now).unwrap());
    let both = format!("{}{}", first.certificate_pem(), next.certificate_pem());
    let signer = Signer::new(first);
    signer.trust(both.clone());
    let certificates = Certificates::open(Source::Memory {
        signer: signer.clone(),
        subject: Subject::default(),
    });
    let certificates = certificates.unwrap();
    assert_eq!(
        certificates.authority_pem(),
        Some(both.clone().into_bytes())
    );
    signer.replace(next);
    assert_eq!(certificates.authority_pem(), Some(both.into_bytes()));
}
