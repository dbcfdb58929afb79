//! The response: `admission.k8s.io/v1`, with the patch in base64 as the API says.
//!
//! Of our own because kube 5 writes the patch as an array of numbers (kube-rs/kube#1781).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::{Decision, Review};
use crate::gang::FieldError;

/// The apiserver cuts warnings at 256 characters once they are 4096 together.
const MAX_WARNING: usize = 256;

/// A refusal lists so many errors and counts the others: nobody reads more at once.
const MAX_ERRORS: usize = 50;

/// More warnings than the apiserver passes on.
const MAX_WARNINGS: usize = 50;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Envelope<'a> {
    api_version: &'static str,
    kind: &'static str,
    response: Response<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Response<'a> {
    uid: &'a str,
    allowed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Status<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    patch_type: Option<&'static str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    message: String,
    reason: &'static str,
    code: u16,
    details: Details<'a>,
}

#[derive(Serialize)]
struct Details<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    name: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    group: &'a str,
    kind: &'a str,
    causes: Vec<Cause<'a>>,
}

#[derive(Serialize)]
struct Cause<'a> {
    reason: &'static str,
    message: String,
    field: &'a str,
}

/// The body of the answer.
pub(crate) fn encode(
    review: &Review<'_>,
    decision: &Decision,
) -> Result<Vec<u8>, serde_json::Error> {
    let mut response = Response {
        uid: &review.uid,
        allowed: true,
        status: None,
        patch: None,
        patch_type: None,
        warnings: Vec::new(),
    };
    match decision {
        Decision::Allow { patch, warnings } => {
            response.warnings = shorten(warnings);
            if !patch.0.is_empty() {
                response.patch = Some(STANDARD.encode(serde_json::to_vec(patch)?));
                response.patch_type = Some("JSONPatch");
            }
        }
        Decision::Deny { errors, warnings } => {
            response.allowed = false;
            response.warnings = shorten(warnings);
            response.status = Some(status(review, errors));
        }
    }
    serde_json::to_vec(&Envelope {
        api_version: "admission.k8s.io/v1",
        kind: "AdmissionReview",
        response,
    })
}

/// The Status of Kubernetes' own validation: 422, every violation a cause.
fn status<'a>(review: &'a Review<'_>, errors: &'a [FieldError]) -> Status<'a> {
    let (kind, group, name) = (review.kind.name, review.kind.group, review.name());
    let full_kind = match group {
        "" => kind.to_owned(),
        group => format!("{kind}.{group}"),
    };
    let (listed, more) = errors.split_at(errors.len().min(MAX_ERRORS));
    let mut list: Vec<String> = listed.iter().map(FieldError::to_string).collect();
    if !more.is_empty() {
        list.push(format!("and {} more", more.len()));
    }
    let list = match &list[..] {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Status {
        status: "Failure",
        message: format!("{full_kind} {name:?} is invalid: {list}"),
        reason: "Invalid",
        code: 422,
        details: Details {
            name,
            group,
            kind,
            causes: listed
                .iter()
                .map(|error| Cause {
                    reason: error.kind.reason(),
                    message: error.body(),
                    field: error.field.as_str(),
                })
                .collect(),
        },
    }
}

fn shorten(warnings: &[String]) -> Vec<String> {
    let clean = |warning: &String| -> String {
        let mut text: String = warning
            .chars()
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if text.len() > MAX_WARNING {
            let mut end = MAX_WARNING - 3;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text.truncate(end);
            text.push_str("...");
        }
        text
    };
    warnings.iter().take(MAX_WARNINGS).map(clean).collect()
}
