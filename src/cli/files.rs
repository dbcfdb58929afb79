//! Finding manifests: files, directories walked, standard input; documents and lists flattened.

use std::cell::OnceCell;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::Value;
use serde_json::value::RawValue;

use super::yaml::{self, Document, YamlError};

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
    /// The name to print: the path, or `-` for standard input.
    pub name: String,
    /// Its content.
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
        Some(items) => Box::new(items.map(Ok)),
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

/// The items of a text that is one JSON list, as far as they are objects.
fn json_items(text: &str) -> Option<impl Iterator<Item = Found<'_>>> {
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
    let (mut at, mut line, mut column) = (0, 1, 1);
    Some(list.items.into_iter().filter_map(move |item| {
        // Where the item stands: the raw value is a piece of the text.
        let start = (item.get().as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
        for c in text.get(at..start)?.chars() {
            (line, column) = match c {
                '\n' => (line + 1, 1),
                _ => (line, column + 1),
            };
        }
        at = start;
        Some(Found {
            value: serde_json::from_str(item.get()).ok()?,
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
