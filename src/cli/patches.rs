//! Which files of a directory are patches of a kustomization: parts of objects, which no cluster ever
//! gets as they are.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::yaml;

/// The names that kustomize looks for.
const NAMES: [&str; 3] = ["kustomization.yaml", "kustomization.yml", "Kustomization"];

/// Whether a file is one that kustomize reads what to do from.
pub(super) fn is_kustomization(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| NAMES.contains(&name))
}

/// The patches of a kustomization, by their real paths. One that cannot be read has none: it is told
/// elsewhere, or none of Muster's business.
pub(super) fn of(kustomization: &Path) -> HashSet<PathBuf> {
    let text = std::fs::read_to_string(kustomization).unwrap_or_default();
    let documents = yaml::documents(&text).into_iter().flatten();
    let named: Vec<String> = documents
        .flat_map(|document| named(&document.value))
        .collect();
    let dir = kustomization.parent().unwrap_or(Path::new(""));
    let files = named.iter().map(|name| dir.join(name));
    // What is no path is the patch itself.
    files.filter_map(|file| file.canonicalize().ok()).collect()
}

fn named(kustomization: &Value) -> Vec<String> {
    let list = |field: &str| kustomization[field].as_array().into_iter().flatten();
    let texts = list("patchesStrategicMerge");
    let paths = list("patches").chain(list("patchesJson6902"));
    let paths = paths.map(|patch| &patch["path"]);
    let all = texts.chain(paths).filter_map(Value::as_str);
    all.map(str::to_owned).collect()
}
