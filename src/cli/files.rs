//! Finding manifests: files, directories walked, standard input; documents and lists flattened.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::patches;
use super::yaml::{self, Cursor, Document, YamlError};

/// Why a path could not be read.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A directory cannot be listed.
    #[error("{}: {source}", path.display())]
    Walk {
        /// The directory.
        path: PathBuf,
        /// The system's error.
        source: walkdir::Error,
    },
    /// A directory has no manifest in it.
    #[error("{}: no .yaml, .yml or .json file in it", path.display())]
    Empty {
        /// The directory.
        path: PathBuf,
    },
}

/// One manifest file.
#[derive(Debug)]
pub struct Source {
    /// The name to print: the path, or what standard input stands for, else `-`.
    pub name: String,
    /// Its content.
    pub text: String,
}

/// What was read.
#[derive(Debug, Default)]
pub struct Read {
    /// The manifests.
    pub sources: Vec<Source>,
    /// Files of directories that are patches, and no objects.
    pub patches: Vec<PathBuf>,
    /// What cannot be read.
    pub errors: Vec<FileError>,
}

/// Reads what the user named; standard input may stand for a file. Every path that fails is reported;
/// the others are still read.
pub fn read(paths: &[PathBuf], stdin_name: Option<&str>) -> Read {
    let mut read = Read::default();
    for path in paths {
        match find(path, &mut read.patches) {
            Ok(found) => {
                for file in found {
                    match read_one(&file, stdin_name) {
                        Ok(source) => read.sources.push(source),
                        Err(error) => read.errors.push(error),
                    }
                }
            }
            Err(error) => read.errors.push(error),
        }
    }
    read
}

/// The manifests at a path. In a directory linked files are read and linked directories are not entered, as
/// kubectl does it: links among directories lead to the same files over and over.
fn find(path: &Path, patches: &mut Vec<PathBuf>) -> Result<Vec<PathBuf>, FileError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut found, mut patched) = (Vec::new(), HashSet::new());
    for entry in walkdir::WalkDir::new(path).sort_by_file_name() {
        let entry = entry.map_err(|source| FileError::Walk {
            path: path.to_owned(),
            source,
        })?;
        if patches::is_kustomization(entry.path()) {
            patched.extend(patches::of(entry.path()));
        }
        if is_manifest(entry.path()) && is_file(&entry) {
            found.push(entry.into_path());
        }
    }
    if found.is_empty() {
        let path = path.to_owned();
        return Err(FileError::Empty { path });
    }
    let is_patch = |file: &PathBuf| {
        let real = file.canonicalize().ok().filter(|_| !patched.is_empty());
        real.is_some_and(|real| patched.contains(&real))
    };
    let (parts, whole) = found.into_iter().partition(is_patch);
    patches.extend::<Vec<PathBuf>>(parts);
    Ok(whole)
}

/// Whether an entry is a file or a link to one. A link to nothing is told when it is read.
fn is_file(entry: &walkdir::DirEntry) -> bool {
    match std::fs::metadata(entry.path()) {
        Ok(found) => found.is_file(),
        Err(_) => entry.path_is_symlink(),
    }
}

fn is_manifest(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("yaml" | "yml" | "json"))
}

fn read_one(path: &Path, stdin_name: Option<&str>) -> Result<Source, FileError> {
    let is_stdin = path == Path::new("-");
    let read = || {
        if is_stdin {
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
    let name = stdin_name.filter(|_| is_stdin).map(str::to_owned);
    Ok(Source {
        name: name.unwrap_or_else(|| path.display().to_string()),
        text,
    })
}

/// An object of a file, and where it stands.
#[derive(Debug)]
pub struct Found<'s> {
    /// The object as JSON.
    pub value: Value,
    /// Which document of the file it is in, from 0.
    pub(crate) document: usize,
    origin: Origin<'s>,
}

/// Where an object comes from.
#[derive(Debug)]
enum Origin<'s> {
    /// A document, or an item of the list that it is: `items[2]`.
    Document {
        document: Rc<Document>,
        prefix: String,
    },
    /// An item of a JSON list, which is read by itself.
    Item {
        text: &'s str,
        line: usize,
        column: usize,
        /// The item with its places. Only an error asks for them, so that most are never read so.
        read: OnceCell<Option<Document>>,
    },
}

impl Found<'_> {
    /// Line and column, from 1, of a field of the object; of its nearest parent where the field is
    /// not there.
    pub(crate) fn position(&self, path: &str) -> (usize, usize) {
        match &self.origin {
            Origin::Document { document, prefix } => match prefix.as_str() {
                "" => document.position(path),
                prefix => document.position(&format!("{prefix}.{path}")),
            },
            Origin::Item {
                text,
                line,
                column,
                read,
            } => {
                let first = || yaml::documents(text).into_iter().find_map(Result::ok);
                let read = read.get_or_init(first).as_ref();
                match read.map(|document| document.position(path)) {
                    Some((1, inner)) => (*line, column + inner - 1),
                    Some((below, inner)) => (line + below - 1, inner),
                    None => (*line, *column),
                }
            }
        }
    }
}

/// The objects of a file in order; what cannot be read is an error in its place.
///
/// A JSON list, which is what `kubectl get -o json` prints, is read item by item: a cluster's whole
/// list of workloads never stands in memory as values.
pub fn objects(source: &Source) -> Box<dyn Iterator<Item = Result<Found<'_>, YamlError>> + '_> {
    match json_items(&source.text) {
        Some(items) => Box::new(items),
        None => Box::new(yaml::documents(&source.text).into_iter().flat_map(flatten)),
    }
}

fn flatten<'s>(document: Result<Document, YamlError>) -> Vec<Result<Found<'s>, YamlError>> {
    let mut document = match document {
        Ok(document) => document,
        Err(error) => return vec![Err(error)],
    };
    let mut value = document.value.take();
    let items = match (value["kind"].as_str(), &value["items"]) {
        (Some(kind), Value::Array(_)) if kind.ends_with("List") => Some(value["items"].take()),
        _ => None,
    };
    let (index, document) = (document.index, Rc::new(document));
    let found = |value: Value, prefix: String| {
        Ok(Found {
            value,
            document: index,
            origin: Origin::Document {
                document: Rc::clone(&document),
                prefix,
            },
        })
    };
    match items {
        Some(Value::Array(items)) => {
            let items = items.into_iter().enumerate();
            items
                .map(|(i, value)| found(value, format!("items[{i}]")))
                .collect()
        }
        _ => vec![found(value, String::new())],
    }
}

/// The items of a text that is one JSON list.
fn json_items(text: &str) -> Option<impl Iterator<Item = Result<Found<'_>, YamlError>>> {
    #[derive(serde::Deserialize)]
    struct List<'a> {
        kind: String,
        #[serde(borrow)]
        items: Vec<&'a RawValue>,
    }
    let list = text.trim_start().starts_with('{');
    let list: List<'_> = list.then(|| serde_json::from_str(text).ok())??;
    if !list.kind.ends_with("List") {
        return None;
    }
    let mut cursor = Cursor::default();
    Some(list.items.into_iter().map(move |item| {
        // Where the item stands: the raw value is a piece of the text.
        let start = (item.get().as_ptr() as usize).saturating_sub(text.as_ptr() as usize);
        let (line, column) = cursor.forward(text, start);
        Ok(Found {
            value: yaml::read_json(item.get(), line, column)?,
            document: 0,
            origin: Origin::Item {
                text: item.get(),
                line,
                column,
                read: OnceCell::new(),
            },
        })
    }))
}
