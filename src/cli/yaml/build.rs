//! From the events of a YAML parser to a value, with the place of each field.
//!
//! Bounds what aliases may add. Must not know how a file is split, nor what a scalar means.

use std::collections::{HashMap, HashSet};

use granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Span, StrInput};
use serde_json::{Map, Value};

use super::Problem;
use super::place::{Spot, Step};
use super::scalar::{self, Scalar};

/// As deep as serde_json itself reads.
pub(super) const MAX_DEPTH: usize = 127;
/// What each node of an alias costs, over the bytes of its text.
const NODE: usize = 32;

/// What is wrong, and where in the part that was read.
pub(super) struct Failure {
    pub(super) line: usize,
    pub(super) column: usize,
    pub(super) problem: Problem,
}

impl Failure {
    fn at(mark: Marker, problem: Problem) -> Self {
        Failure {
            line: mark.line(),
            column: mark.col() + 1,
            problem,
        }
    }
}

impl From<ScanError> for Failure {
    fn from(error: ScanError) -> Self {
        Failure::at(*error.marker(), Problem::Syntax(error.info()))
    }
}

/// A value with the places below it, and whether it comes from an alias.
struct Node {
    value: Value,
    children: Vec<(Step, Spot)>,
    alias: bool,
}

/// A finished anchor: its value, what a copy of it costs and how deep it is.
struct Anchor {
    value: Value,
    weight: usize,
    depth: usize,
}

/// Builds the documents of one part of a file.
pub(super) struct Reader<'a> {
    events: Parser<'a, StrInput<'a>>,
    anchors: HashMap<usize, Anchor>,
    /// What aliases may still add.
    pub(super) budget: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, budget: usize) -> Self {
        let options = granit_parser::options! { emit_comments: false };
        let events = Parser::new_from_str_with_options(text, options);
        Reader {
            events,
            anchors: HashMap::new(),
            budget,
        }
    }

    /// All documents of one part; ends at the first that is broken.
    pub(super) fn read(&mut self, found: &mut Vec<Result<(Value, Spot), Failure>>) {
        loop {
            match self.document() {
                Ok(None) => return,
                Ok(Some((Value::Null, _))) => {}
                Ok(Some(document)) => found.push(Ok(document)),
                Err(failure) => return found.push(Err(failure)),
            }
        }
    }

    fn document(&mut self) -> Result<Option<(Value, Spot)>, Failure> {
        while let Some(next) = self.events.next() {
            let (event, span) = next?;
            if event.is_node() {
                let node = self.node(event, span, 1)?;
                let spot = spot(span, node.children);
                self.anchors.clear();
                return Ok(Some((node.value, spot)));
            }
        }
        Ok(None)
    }

    fn next(&mut self, after: Span) -> Result<(Event<'a>, Span), Failure> {
        match self.events.next() {
            Some(next) => Ok(next?),
            None => Err(Failure::at(
                after.end,
                Problem::Syntax("unexpected end of text".to_owned()),
            )),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, Failure> {
        if depth > MAX_DEPTH {
            return Err(Failure::at(span.start, Problem::TooDeep(MAX_DEPTH)));
        }
        let (id, node) = match event {
            Event::Alias(id) => {
                let value = self
                    .alias(id, depth)
                    .map_err(|problem| Failure::at(span.start, problem))?;
                return Ok(Node {
                    value,
                    children: Vec::new(),
                    alias: true,
                });
            }
            Event::Scalar(text, style, id, tag) => {
                let tag = tag.map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
                let value = resolve(&text, style, tag.as_deref()).and_then(Scalar::into_value);
                let value = value.map_err(|problem| Failure::at(span.start, problem))?;
                (
                    id,
                    Node {
                        value,
                        children: Vec::new(),
                        alias: false,
                    },
                )
            }
            Event::SequenceStart(_, id, _) => (id, self.list(span, depth)?),
            Event::MappingStart(_, id, _) => (id, self.map(span, depth)?),
            _ => {
                return Err(Failure::at(
                    span.start,
                    Problem::Syntax("expected a value".to_owned()),
                ));
            }
        };
        self.anchor(id, &node.value)
            .map_err(|problem| Failure::at(span.start, problem))?;
        Ok(node)
    }

    /// Keeps a copy of an anchor's value. It costs what an alias costs: anchors inside each other
    /// would multiply the text without any alias.
    fn anchor(&mut self, id: usize, value: &Value) -> Result<(), Problem> {
        if id == 0 {
            return Ok(());
        }
        let (weight, depth) = measure(value);
        self.spend(weight)?;
        let value = value.clone();
        self.anchors.insert(
            id,
            Anchor {
                value,
                weight,
                depth,
            },
        );
        Ok(())
    }

    fn spend(&mut self, weight: usize) -> Result<(), Problem> {
        let left = self.budget.checked_sub(weight);
        self.budget = left.ok_or(Problem::TooManyAliases)?;
        Ok(())
    }

    fn alias(&mut self, id: usize, depth: usize) -> Result<Value, Problem> {
        let anchor = self.anchors.get(&id).ok_or(Problem::SelfAlias)?;
        if depth + anchor.depth > MAX_DEPTH {
            return Err(Problem::TooDeep(MAX_DEPTH));
        }
        let (value, weight) = (anchor.value.clone(), anchor.weight);
        self.spend(weight)?;
        Ok(value)
    }

    fn list(&mut self, start: Span, depth: usize) -> Result<Node, Failure> {
        let (mut items, mut children) = (Vec::new(), Vec::new());
        loop {
            let (event, span) = self.next(start)?;
            if matches!(event, Event::SequenceEnd) {
                return Ok(Node {
                    value: Value::Array(items),
                    children,
                    alias: false,
                });
            }
            let node = self.node(event, span, depth + 1)?;
            let spot = spot(span, node.children);
            children.push((Step::Index(items.len()), spot));
            items.push(node.value);
        }
    }

    /// A map. Merged keys go in where `<<` stands, over those before it and under those after it.
    fn map(&mut self, start: Span, depth: usize) -> Result<Node, Failure> {
        let (mut map, mut children, mut own) = (Map::new(), Vec::new(), HashSet::new());
        loop {
            let (event, span) = self.next(start)?;
            if matches!(event, Event::MappingEnd) {
                return Ok(Node {
                    value: Value::Object(map),
                    children,
                    alias: false,
                });
            }
            let key = self.key(event, span, depth)?;
            let (event, value_span) = self.next(span)?;
            let node = self.node(event, value_span, depth + 1)?;
            let Some(key) = key else {
                merge(&mut map, node).map_err(|problem| Failure::at(value_span.start, problem))?;
                continue;
            };
            if !own.insert(key.clone()) {
                return Err(Failure::at(span.start, Problem::DuplicateKey(key)));
            }
            let spot = spot(span, node.children);
            children.push((Step::Key(key.clone()), spot));
            map.insert(key, node.value);
        }
    }

    /// A map's key; `None` for the merge key.
    fn key(
        &mut self,
        event: Event<'a>,
        span: Span,
        depth: usize,
    ) -> Result<Option<String>, Failure> {
        let at = |problem| Failure::at(span.start, problem);
        if let Event::Scalar(text, style, id, tag) = &event {
            let tag = tag
                .as_ref()
                .map(|tag| format!("{}{}", tag.handle(), tag.suffix()));
            let merges = tag.as_deref().map_or(*style == ScalarStyle::Plain, |tag| {
                tag == "tag:yaml.org,2002:merge"
            });
            if text == "<<" && merges {
                return Ok(None);
            }
            let scalar = resolve(text, *style, tag.as_deref()).map_err(at)?;
            if *id == 0 {
                return Ok(Some(scalar.into_key().map_err(at)?));
            }
        }
        let node = self.node(event, span, depth + 1)?;
        let scalar =
            Scalar::of(&node.value).ok_or_else(|| at(Problem::BadKey("a list or a map")))?;
        Ok(Some(scalar.into_key().map_err(at)?))
    }
}

fn spot(span: Span, children: Vec<(Step, Spot)>) -> Spot {
    Spot {
        children,
        ..Spot::new(span.start.line(), span.start.col() + 1)
    }
}

fn resolve(text: &str, style: ScalarStyle, tag: Option<&str>) -> Result<Scalar, Problem> {
    match (tag, style) {
        (None, ScalarStyle::Plain) | (Some(_), _) => scalar::resolve(text, tag),
        (None, _) => Ok(Scalar::Str(text.to_owned())),
    }
}

/// Merges the keys of `<<`; in a list of maps the first map wins.
fn merge(map: &mut Map<String, Value>, node: Node) -> Result<(), Problem> {
    match node.value {
        Value::Object(other) => map.extend(other),
        Value::Array(items) if !node.alias => {
            for item in items.into_iter().rev() {
                let Value::Object(other) = item else {
                    return Err(Problem::BadMerge);
                };
                map.extend(other);
            }
        }
        _ => return Err(Problem::BadMerge),
    }
    Ok(())
}

/// What a copy of the value costs, and how many levels it has below itself.
fn measure(value: &Value) -> (usize, usize) {
    let sum =
        |(weight, depth): (usize, usize), (w, d): (usize, usize)| (weight + w, depth.max(d + 1));
    match value {
        Value::String(text) => (NODE + text.len(), 0),
        Value::Array(items) => items.iter().map(measure).fold((NODE, 0), sum),
        Value::Object(map) => {
            let entries = map.iter().map(|(key, value)| (measure(value), key.len()));
            entries
                .map(|((weight, depth), key)| (weight + key, depth))
                .fold((NODE, 0), sum)
        }
        _ => (NODE, 0),
    }
}
