//! Finding manifests: files, directories walked, standard input; documents and lists flattened.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::yaml::{self, Document};

/// Why a path could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("{}: {source}", path.display())]
    Read {
        path: PathBuf,
        source: std::io::Error,
    },
    #[error("{}: {source}", path.display())]
    Walk {
        path: PathBuf,
        source: walkdir::Error,
    },
    #[error("{}: no .yaml, .yml or .json file in it", path.display())]
    Empty { path: PathBuf },
}

/// One manifest file.
#[derive(Debug)]
pub struct Source {
    /// The name to print: the path, or `-` for standard input.
    pub name: String,
    pub text: String,
}

/// Reads what the user named. Every path that fails is reported; the others are still read.
pub fn read(paths: &[PathBuf]) -> (Vec<Source>, Vec<FileError>) {
    let mut sources = Vec::new();
    let mut errors = Vec::new();
    for path in paths {
        match find(path) {
            Ok(found) => {
                for file in found {
                    match read_one(&file) {
                        Ok(source) => sources.push(source),
                        Err(error) => errors.push(error),
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    (sources, errors)
}

fn find(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut found = Vec::new();
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        let entry = entry.map_err(|source| FileError::Walk {
            path: path.to_owned(),
            source,
        })?;
        let extension = entry.path().extension().and_then(|e| e.to_str());
        if entry.file_type().is_file() && matches!(extension, Some("yaml" | "yml" | "json")) {
            found.push(entry.into_path());
        }
    }
    if found.is_empty() {
        let path = path.to_owned();
        return Err(FileError::Empty { path });
    }
    Ok(found)
}

fn read_one(path: &Path) -> Result<Source, FileError> {
    let read = || {
        if path == Path::new("-") {
            let mut text = String::new();
            std::io::stdin().lock().read_to_string(&mut text)?;
            return Ok(text);
        }
        std::fs::read_to_string(path)
    };
    let text = read().map_err(|source| FileError::Read {
        path: path.to_owned(),
        source,
    })?;
    Ok(Source {
        name: path.display().to_string(),
        text,
    })
}

/// An object of a file, with the document that it came from.
#[derive(Debug)]
pub struct Found {
    pub document: Document,
    pub value: Value,
    /// Where the object starts within its document, as a path prefix: `items[2]` in a List.
    pub prefix: String,
}

/// The objects of a file in order; what cannot be read is an error in its place.
pub fn objects(source: &Source) -> Vec<Result<Found, yaml::YamlError>> {
    let mut found = Vec::new();
    for document in yaml::documents(&source.text) {
        match document {
            Err(error) => found.push(Err(error)),
            Ok(document) => flatten(document, &mut found),
        }
    }
    found
}

fn flatten(document: Document, found: &mut Vec<Result<Found, yaml::YamlError>>) {
    let items = match (document.value["kind"].as_str(), &document.value["items"]) {
        (Some(kind), Value::Array(items)) if kind.ends_with("List") => items.clone(),
        _ => {
            let value = document.value.clone();
            let prefix = String::new();
            found.push(Ok(Found {
                document,
                value,
                prefix,
            }));
            return;
        }
    };
    for (i, value) in items.into_iter().enumerate() {
        found.push(Ok(Found {
            document: document.clone(),
            value,
            prefix: format!("items[{i}]"),
        }));
    }
}
