//! Reading a request's body within a size, a deadline, and a budget of bytes over all bodies.

use std::time::Duration;

use axum::body::Body;
use axum::http::HeaderMap;
use axum::http::header::EXPECT;
use http_body_util::BodyExt;
use hyper::body::Body as _;

use super::refusal::Refusal;
use super::share::Part;

/// Memory reserved because Content-Length asks for it; more is reserved as bytes arrive.
const FIRST_ROOM: u64 = 64 * 1024;

/// How long a refused client may go on sending before its connection ends.
const LINGER: Duration = Duration::from_secs(1);

/// The whole body, or why not. `budget` grows with the bytes that have come.
pub(super) async fn read(
    body: &mut Body,
    budget: &mut Part,
    limit: usize,
    deadline: Duration,
) -> Result<Vec<u8>, Refusal> {
    let declared = body.size_hint().lower();
    if declared > limit as u64 {
        return Err(Refusal::TooLarge { limit });
    }
    let reading = async {
        let mut bytes = Vec::with_capacity(declared.min(FIRST_ROOM) as usize);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| Refusal::Truncated(error.to_string()))?;
            let Some(data) = frame.data_ref() else {
                continue;
            };
            if bytes.len() + data.len() > limit {
                return Err(Refusal::TooLarge { limit });
            }
            budget.grow(data.len()).map_err(|_| Refusal::NoRoom {
                budget: budget.total(),
            })?;
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    };
    match tokio::time::timeout(deadline, reading).await {
        Ok(read) => read,
        Err(_) => Err(Refusal::Slow { deadline }),
    }
}

/// Throws away what a refused client still sends, within bounds. Closing a socket with unread
/// bytes resets it, and the reset may overtake the answer that says why.
pub(super) async fn discard(body: &mut Body, headers: &HeaderMap, limit: usize) {
    if headers.contains_key(EXPECT) {
        // The client waits for `100 Continue` before it sends, and reading would send that.
        return;
    }
    let reading = async {
        let mut left = limit.saturating_mul(2);
        while let Some(Ok(frame)) = body.frame().await {
            left = left.saturating_sub(frame.data_ref().map_or(0, |data| data.len()));
            if left == 0 {
                return;
            }
        }
    };
    let _ = tokio::time::timeout(LINGER, reading).await;
}
