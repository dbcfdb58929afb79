//! Requests that get no review: why, and with which status.
//!
//! None of them is a denial. Anything but 200 lets the apiserver apply its failure policy; a
//! denial would bypass it.

use std::time::{Duration, Instant};

use axum::http::header::{CONNECTION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode, Version};
use axum::response::{IntoResponse, Response};

use super::metrics::Unreviewed;
use super::sparing::Sparing;
use crate::admission::Unanswerable;

/// The lines that refusals write: about Muster's mistakes, and about the callers'.
#[derive(Debug, Default)]
pub(super) struct Lines {
    ours: Sparing,
    callers: Sparing,
}

#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("too many reviews at once, try again")]
    Shed,
    #[error("too many bytes of reviews at once (at most {budget} over all callers), try again")]
    NoRoom { budget: usize },
    #[error("the content type must be application/json, not {0:?}")]
    NotJson(String),
    #[error("the body is larger than {limit} bytes")]
    TooLarge { limit: usize },
    #[error("the body ended early: {0}")]
    Truncated(String),
    #[error("the body did not arrive within {deadline:?}")]
    Slow { deadline: Duration },
    #[error(transparent)]
    Unanswerable(#[from] Unanswerable),
    #[error("internal error: the review could not be finished")]
    Panicked,
    #[error("internal error: the review was not decided within {deadline:?}; try a smaller object")]
    Overdue { deadline: Duration },
}

impl Refusal {
    fn status(&self) -> StatusCode {
        match self {
            Self::Shed | Self::NoRoom { .. } => StatusCode::TOO_MANY_REQUESTS,
            Self::NotJson(_) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            Self::Truncated(_) => StatusCode::BAD_REQUEST,
            Self::Slow { .. } => StatusCode::REQUEST_TIMEOUT,
            Self::Unanswerable(reason) => StatusCode::from_u16(reason.status())
                .ok()
                // A success would be taken for an answer.
                .filter(|status| !status.is_success())
                .unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            Self::Panicked | Self::Overdue { .. } => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    pub(crate) fn outcome(&self) -> Unreviewed {
        match self {
            Self::Shed | Self::NoRoom { .. } => Unreviewed::Shed,
            _ if self.status().is_server_error() => Unreviewed::Failed,
            _ => Unreviewed::Unanswerable,
        }
    }

    /// A log line, but not one for each: any caller can send what is not answered.
    pub(crate) fn log(&self, path: &str, lines: &Lines) {
        let status = self.status().as_u16();
        match self {
            // A line per shed call would add load at the worst moment; the metric counts them.
            Self::Shed | Self::NoRoom { .. } => tracing::debug!(path, status, "call shed"),
            // The panic hook has logged it, with the place.
            Self::Panicked => {}
            _ => {
                let lines = match self.status().is_server_error() {
                    true => &lines.ours,
                    false => &lines.callers,
                };
                if let Some(left_out) = lines.turn(Instant::now()) {
                    tracing::warn!(path, status, reason = %self, left_out, "review not answered");
                }
            }
        }
    }

    pub(crate) fn into_response(self, version: Version) -> Response {
        let mut response = (self.status(), self.to_string()).into_response();
        let headers = response.headers_mut();
        let momentary = matches!(&self, Self::Unanswerable(reason) if reason.is_momentary());
        if momentary || matches!(self, Self::Shed | Self::NoRoom { .. }) {
            // client-go retries a call that says when, POST too. On a new connection the retry
            // may reach another replica.
            headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
        }
        let ends = matches!(self, Self::Shed | Self::NoRoom { .. } | Self::Slow { .. });
        if ends && version != Version::HTTP_2 {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    }
}
