//! The operators' own manifests: rendered once at build time, made to point at loopback per run.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use muster::cli::yaml;
use serde_json::{Value, json};

use crate::components::Components;

/// What `kubectl kustomize` prints, as JSON: parsing the JobSet CRD as YAML in every run would
/// cost seconds.
pub fn render(components: &Components, kustomization: &Path) -> Result<Vec<Value>> {
    let output = components
        .program("kubectl")?
        .arg("kustomize")
        .arg(kustomization)
        .output()?;
    if !output.status.success() {
        bail!("{}", String::from_utf8_lossy(&output.stderr));
    }
    parse(&String::from_utf8(output.stdout)?)
}

/// The objects of files that a component ships as they are.
pub fn read(dir: &Path, files: &[&str]) -> Result<Vec<Value>> {
    let mut objects = Vec::new();
    for file in files {
        let path = dir.join(file);
        let text =
            fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
        objects.extend(parse(&text).with_context(|| format!("in {file}"))?);
    }
    Ok(objects)
}

/// The objects of a YAML text, as kubectl reads it.
pub fn parse(text: &str) -> Result<Vec<Value>> {
    let documents = yaml::documents(text).into_iter();
    documents
        .map(|document| Ok(document?.value))
        .collect::<Result<_>>()
        .context("not valid YAML")
}

/// Where an operator's webhooks listen, since nothing runs in pods here.
pub struct Loopback<'a> {
    pub port: u16,
    pub authority: &'a str,
}

impl Loopback<'_> {
    /// The manifests with three changes: the Deployment goes, and with it an API that it would serve;
    /// the webhook's Service becomes an ExternalName, for which the apiserver dials that name at the
    /// port in the webhook's `service` reference; and those references get the port and the authority.
    pub fn redirect(&self, objects: Vec<Value>) -> Vec<Value> {
        let bundle = BASE64_STANDARD.encode(self.authority);
        let mut kept = Vec::new();
        for mut object in objects {
            match object["kind"].as_str() {
                // An API that nobody serves would keep namespaces from going.
                Some("Deployment" | "APIService") => continue,
                Some("Service") if is_webhook_service(&object) => {
                    object["spec"] = json!({"type": "ExternalName", "externalName": "127.0.0.1"});
                }
                Some("MutatingWebhookConfiguration" | "ValidatingWebhookConfiguration") => {
                    let hooks = object["webhooks"].as_array_mut().into_iter().flatten();
                    for hook in hooks {
                        self.point(&mut hook["clientConfig"], &bundle);
                    }
                }
                Some("CustomResourceDefinition") => {
                    let at = "/spec/conversion/webhook/clientConfig";
                    if let Some(client) = object.pointer_mut(at) {
                        self.point(client, &bundle);
                    }
                }
                _ => {}
            }
            kept.push(object);
        }
        kept
    }

    fn point(&self, client: &mut Value, bundle: &str) {
        client["service"]["port"] = json!(self.port);
        client["caBundle"] = json!(bundle);
    }
}

fn is_webhook_service(object: &Value) -> bool {
    let name = object.pointer("/metadata/name").and_then(Value::as_str);
    name.is_some_and(|name| name.ends_with("webhook-service"))
}
