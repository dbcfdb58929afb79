//! Where the fields of a document stand in the file, and how a path finds them.
//!
//! Must not know YAML; it holds lines, columns and names.

/// Where a node stands in the file, with the nodes below it.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Spot {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) children: Vec<(Step, Spot)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    Key(String),
    Index(usize),
}

impl Spot {
    pub(super) fn new(line: usize, column: usize) -> Self {
        Spot {
            line,
            column,
            children: Vec::new(),
        }
    }

    pub(super) fn shift(&mut self, lines: usize) {
        self.line += lines;
        self.children
            .iter_mut()
            .for_each(|(_, child)| child.shift(lines));
    }

    /// The child that the path names first, and the path below it. The longest name wins.
    pub(super) fn step<'s, 'p>(&'s self, path: &'p str) -> Option<(&'s Spot, &'p str)> {
        self.children
            .iter()
            .filter_map(|(step, spot)| Some((spot, step.strip(path)?)))
            .min_by_key(|(_, rest)| rest.len())
    }
}

/// A place in a text that only moves forward, so that many places cost one pass over the text.
#[derive(Debug)]
pub(in crate::cli) struct Cursor {
    at: usize,
    line: usize,
    column: usize,
}

impl Default for Cursor {
    fn default() -> Self {
        Cursor {
            at: 0,
            line: 1,
            column: 1,
        }
    }
}

impl Cursor {
    /// Line and column, from 1, of an offset that is not before the last one.
    pub(in crate::cli) fn forward(&mut self, text: &str, to: usize) -> (usize, usize) {
        for c in text.get(self.at..to).unwrap_or_default().chars() {
            (self.line, self.column) = match c {
                '\n' => (self.line + 1, 1),
                _ => (self.line, self.column + 1),
            };
        }
        self.at = to;
        (self.line, self.column)
    }
}

impl Step {
    fn strip<'p>(&self, path: &'p str) -> Option<&'p str> {
        let rest = match self {
            Step::Index(index) => path.strip_prefix(&format!("[{index}]"))?,
            Step::Key(key) => match path.strip_prefix('[') {
                Some(inner) => inner.strip_prefix(key.as_str())?.strip_prefix(']')?,
                None => path
                    .strip_prefix('.')
                    .unwrap_or(path)
                    .strip_prefix(key.as_str())?,
            },
        };
        (path.len() > rest.len() && (rest.is_empty() || rest.starts_with(['.', '['])))
            .then_some(rest)
    }
}
