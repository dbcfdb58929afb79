//! A directory laid out and changed as kubelet does with a Secret volume.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use muster::certs::{Authority, Subject};
use tempfile::TempDir;

pub struct Secret {
    volume: TempDir,
    authority: Authority,
    version: u32,
}

impl Secret {
    /// A volume with one leaf of a CA that stays the same.
    pub fn with_leaf(lifetime: Duration) -> Self {
        let mut secret = Self {
            volume: tempfile::tempdir().expect("a directory"),
            authority: Authority::generate(SystemTime::now()).expect("a CA"),
            version: 0,
        };
        secret.rotate(lifetime);
        for name in ["tls.crt", "tls.key", "ca.crt"] {
            let data = Path::new("..data").join(name);
            symlink(data, secret.dir().join(name)).expect("a link");
        }
        secret
    }

    pub fn dir(&self) -> PathBuf {
        self.volume.path().to_owned()
    }

    /// Puts a new leaf in place.
    pub fn rotate(&mut self, lifetime: Duration) {
        let subject = Subject::default().living(lifetime);
        let leaf = self
            .authority
            .issue(&subject, SystemTime::now())
            .expect("a leaf");
        self.put(&leaf.certificate, &leaf.key);
    }

    /// kubelet's atomic writer: a new directory, the `..data` link replaced by a rename, the old
    /// directory removed.
    pub fn put(&mut self, certificate: &str, key: &str) {
        let old = format!("..v{}", self.version);
        self.version += 1;
        let new = format!("..v{}", self.version);
        let dir = self.volume.path().join(&new);
        fs::create_dir(&dir).expect("a directory");
        fs::write(dir.join("tls.crt"), certificate).expect("a file");
        fs::write(dir.join("tls.key"), key).expect("a file");
        fs::write(dir.join("ca.crt"), self.authority.certificate_pem()).expect("a file");
        let link = self.volume.path().join("..data_tmp");
        symlink(&new, &link).expect("a link");
        fs::rename(&link, self.volume.path().join("..data")).expect("a rename");
        let _ = fs::remove_dir_all(self.volume.path().join(old));
    }

    /// A certificate and the key of another.
    pub fn put_mismatch(&mut self) {
        let subject = Subject::default();
        let issue = || {
            self.authority
                .issue(&subject, SystemTime::now())
                .expect("a leaf")
        };
        let (one, other) = (issue(), issue());
        self.put(&one.certificate, &other.key);
    }
}
