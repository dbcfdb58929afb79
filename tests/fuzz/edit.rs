//! Edits of JSON values: what a user, a controller or another webhook could have written instead.
//! An edit is data, so that a case of the corpus says what was changed, however large it made it.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::choices::Choices;
use crate::words;

/// One change at a place, which is a JSON pointer. Where there is no such place, it does nothing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Edit {
    at: String,
    #[serde(flatten)]
    change: Change,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Change {
    /// Takes the value away.
    Drop {},
    /// Puts another value there; the place may be new.
    Set(Value),
    /// A text of so many times another.
    Long(String, usize),
    /// The value in so many lists.
    Nest(usize),
    /// So many more of it: items of the list, or members of the object, under new names.
    Repeat(usize),
}

/// Deep enough for serde_json to refuse, and not so deep that building it is a problem.
const DEEP: usize = 300;

/// Makes an edit of a value and carries it out. `donors` are values of the same kind.
pub fn make(choices: &mut Choices<'_>, value: &mut Value, donors: &[&Value]) -> Edit {
    let at = place(choices, value);
    let there = value.pointer(&at).cloned().unwrap_or_default();
    let change = match choices.below(12) {
        // What is written as JSON in a text is edited as JSON.
        _ if there.as_str().is_some_and(|text| text.starts_with('{')) => inside(choices, &there),
        0 | 1 => Change::Set(words::value(choices)),
        2 => Change::Drop {},
        3 | 4 => match &there {
            Value::Object(_) => {
                let edit = Edit {
                    at: format!("{at}/{}", escaped(words::key(choices))),
                    change: Change::Set(words::value(choices)),
                };
                edit.apply(value);
                return edit;
            }
            _ => Change::Set(words::value(choices)),
        },
        5..=8 => {
            let donor = choices.pick(donors);
            match like(choices, donor, &at) {
                Some(other) => Change::Set(other),
                None => Change::Set(words::value(choices)),
            }
        }
        9 => Change::Repeat(count(choices)),
        10 => Change::Long(words::text(choices).to_owned(), count(choices)),
        _ => match choices.once_in(4) {
            true => Change::Nest(choices.below(DEEP)),
            false => Change::Nest(1),
        },
    };
    let edit = Edit { at, change };
    edit.apply(value);
    edit
}

/// Mostly few, seldom thousands.
fn count(choices: &mut Choices<'_>) -> usize {
    let most = *choices.pick(&[4, 4, 4, 20, 20, 200, 5000]);
    1 + choices.below(most)
}

/// A place in a value: down from the root, as far as the choices lead.
fn place(choices: &mut Choices<'_>, value: &Value) -> String {
    let mut at = String::new();
    let mut here = value;
    loop {
        let (key, next) = match here {
            Value::Object(map) if !map.is_empty() => {
                let (key, next) = map.iter().nth(choices.below(map.len())).unwrap();
                (escaped(key), next)
            }
            Value::Array(items) if !items.is_empty() => {
                let index = choices.below(items.len());
                (index.to_string(), &items[index])
            }
            _ => return at,
        };
        at = format!("{at}/{key}");
        here = next;
        if choices.once_in(6) {
            return at;
        }
    }
}

/// A value of another object that stands under the same key, or at any place there.
fn like(choices: &mut Choices<'_>, donor: &Value, at: &str) -> Option<Value> {
    if let Some(same) = donor.pointer(at) {
        return Some(same.clone());
    }
    let place = place(choices, donor);
    donor.pointer(&place).cloned()
}

fn inside(choices: &mut Choices<'_>, text: &Value) -> Change {
    let text = text.as_str().unwrap_or_default();
    match serde_json::from_str::<Value>(text) {
        Ok(mut inner) => {
            let same = inner.clone();
            make(choices, &mut inner, &[&same]);
            Change::Set(Value::from(inner.to_string()))
        }
        Err(_) => Change::Set(words::value(choices)),
    }
}

/// A key as a step of a JSON pointer.
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

impl Edit {
    pub fn apply(&self, value: &mut Value) {
        let Some((parent, key)) = self.at.rsplit_once('/') else {
            return self.change.apply(value);
        };
        let key = unescaped(key);
        match value.pointer_mut(parent) {
            Some(Value::Object(map)) => self.in_object(map, &key),
            Some(Value::Array(items)) => {
                let index = key.parse::<usize>().ok();
                if let Some(index) = index.filter(|index| *index < items.len()) {
                    self.in_array(items, index);
                }
            }
            _ => {}
        }
    }

    fn in_object(&self, map: &mut Map<String, Value>, key: &str) {
        match (&self.change, map.get_mut(key)) {
            (Change::Drop {}, _) => drop(map.remove(key)),
            (Change::Repeat(times), Some(value)) => {
                let value = value.clone();
                let more = (0..*times).map(|i| (format!("{key}{i}"), value.clone()));
                map.extend(more);
            }
            (change, Some(value)) => change.apply(value),
            (Change::Set(value), None) => drop(map.insert(key.to_owned(), value.clone())),
            (_, None) => {}
        }
    }

    fn in_array(&self, items: &mut Vec<Value>, index: usize) {
        match &self.change {
            Change::Drop {} => drop(items.remove(index)),
            Change::Repeat(times) => {
                let item = items[index].clone();
                items.extend((0..*times).map(|i| renamed(&item, i)));
            }
            change => change.apply(&mut items[index]),
        }
    }
}

impl Change {
    fn apply(&self, value: &mut Value) {
        match self {
            Self::Drop {} => *value = Value::Null,
            Self::Set(other) => value.clone_from(other),
            Self::Long(text, times) => *value = Value::from(text.repeat(*times)),
            Self::Nest(depth) => {
                for _ in 0..*depth {
                    *value = Value::Array(vec![value.take()]);
                }
            }
            Self::Repeat(times) => *value = Value::Array(vec![value.clone(); *times]),
        }
    }
}

/// A copy, under a name of its own if the item has one: else it is refused before much is done.
fn renamed(item: &Value, number: usize) -> Value {
    let mut copy = item.clone();
    if let Some(Value::String(name)) = copy.get_mut("name") {
        name.push_str(&number.to_string());
    }
    copy
}
