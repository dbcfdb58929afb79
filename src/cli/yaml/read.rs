//! From a file's text to its documents: splits it as kubectl does and has each part built.
//!
//! A broken document costs only itself. Must not know how a value is built; `build` does.

use serde_json::Value;

use super::build::{Failure, Reader};
use super::place::{Cursor, Spot};
use super::{Document, Problem, YamlError, json};

/// What the aliases of one file may add to it, in bytes.
const ALIAS_BUDGET: usize = 16 << 20;

/// The documents of a file in order, each read or with the reason why it is not.
///
/// Documents that are empty or `null` are left out, as kubectl leaves them out.
pub fn documents(text: &str) -> Vec<Result<Document, YamlError>> {
    let mut found = Vec::new();
    let mut budget = ALIAS_BUDGET;
    for (offset, chunk) in split(text.strip_prefix('\u{feff}').unwrap_or(text)) {
        let before = found.len();
        let mut reader = Reader::new(chunk, budget);
        reader.read(&mut found);
        budget = reader.budget;
        let failed = found.last().is_some_and(is_syntax);
        if failed
            && chunk.trim_start().starts_with('{')
            && let Some(read) = objects(chunk)
        {
            found.truncate(before);
            found.extend(read);
        }
        found[before..].iter_mut().for_each(|result| match result {
            Ok((_, spot)) => spot.shift(offset),
            Err(failure) => failure.line += offset,
        });
    }
    let numbered = found.into_iter().enumerate();
    numbered
        .map(|(index, result)| match result {
            Ok((value, root)) => Ok(Document {
                index,
                line: root.line,
                value,
                root,
            }),
            Err(Failure {
                line,
                column,
                problem,
            }) => Err(YamlError {
                index,
                line,
                column,
                problem,
            }),
        })
        .collect()
}

fn is_syntax(result: &Result<(Value, Spot), Failure>) -> bool {
    matches!(
        result,
        Err(Failure {
            problem: Problem::Syntax(_),
            ..
        })
    )
}

/// The text between lines of `---`, each part with the number of lines before it.
fn split(text: &str) -> Vec<(usize, &str)> {
    let mut chunks = Vec::new();
    let (mut start, mut start_line, mut position) = (0, 0, 0);
    let mut begun = false;
    for (number, line) in text.split_inclusive('\n').enumerate() {
        let separator = line
            .strip_prefix("---")
            .is_some_and(|rest| rest.trim_start().len() < rest.len() || rest.is_empty());
        if separator && begun {
            chunks.push((start_line, &text[start..position]));
            (start, start_line) = (position, number);
        }
        begun |= separator || !(line.trim().is_empty() || line.starts_with(['#', '%']));
        position += line.len();
    }
    chunks.push((start_line, &text[start..]));
    chunks
}

/// JSON that is not YAML, such as objects one after the other, which kubectl reads too. Nothing where
/// the text is no JSON either: as YAML it can be said better what is wrong with it.
fn objects(chunk: &str) -> Option<Vec<Result<(Value, Spot), Failure>>> {
    let read = json::stream(chunk);
    let some = read.iter().any(Result::is_ok);
    let doubled = |failure: &Failure| matches!(failure.problem, Problem::DuplicateKey(_));
    let ours = some || read.iter().any(|read| read.as_ref().is_err_and(doubled));
    let mut cursor = Cursor::default();
    let placed = read.into_iter().map(|read| {
        let (value, start) = read?;
        let (line, column) = cursor.forward(chunk, start);
        Ok((value, Spot::new(line, column)))
    });
    ours.then(|| placed.collect())
}

/// A piece of a file that is one JSON value and begins at a place of the file.
pub(in crate::cli) fn read_json(
    text: &str,
    line: usize,
    column: usize,
) -> Result<Value, YamlError> {
    json::read(text).map_err(|failure| YamlError {
        index: 0,
        line: line + failure.line - 1,
        column: match failure.line {
            1 => column + failure.column - 1,
            _ => failure.column,
        },
        problem: failure.problem,
    })
}
