//! Kubeconfig files, written as JSON, which is YAML too.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};

use crate::pki::Pair;

/// How a client says who it is.
pub enum Credential {
    Certificate(Pair),
    Token(String),
}

impl Credential {
    fn user(&self) -> Value {
        match self {
            Credential::Certificate(pair) => {
                json!({"client-certificate": pair.certificate, "client-key": pair.key})
            }
            Credential::Token(token) => json!({"token": token}),
        }
    }
}

/// Writes `<dir>/<name>.kubeconfig`.
pub fn write(
    dir: &Path,
    name: &str,
    server: &str,
    authority: &Path,
    credential: &Credential,
) -> Result<PathBuf> {
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": authority}}],
        "users": [{"name": name, "user": credential.user()}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": name}}],
        "current-context": "e2e",
    });
    let path = dir.join(format!("{name}.kubeconfig"));
    fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
    Ok(path)
}
