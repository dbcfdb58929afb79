//! What a scheduler says of a gang in the conditions of the gang's object.

use kube::core::DynamicObject;
use serde_json::Value;

/// The message of the last condition that tells why the gang waits; `tells` gets a condition and
/// all of them.
pub(crate) fn last(
    object: &DynamicObject,
    tells: impl Fn(&Value, &[Value]) -> bool,
) -> Option<String> {
    let conditions = object.data["status"]["conditions"].as_array()?;
    let condition = conditions.iter().rev().find(|c| tells(c, conditions))?;
    condition["message"].as_str().map(str::to_owned)
}
