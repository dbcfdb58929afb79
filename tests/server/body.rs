//! Bodies: the largest that is read, and what becomes of larger and of broken ones.

use crate::support;

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::StatusCode;
use hyper::body::{Body, Bytes, Frame};
use support::client::{Http1, Http2, post, raw, read_all, review, write};
use support::{config, echo, start, within};
use tokio::io::AsyncWriteExt;

const SEVEN_MIB: usize = 7 * 1024 * 1024;

#[tokio::test]
async fn a_body_of_7_mib_is_reviewed_and_one_byte_more_is_413() {
    let server = start(config(), echo()).await;
    let fits = post(&server, "/mutate", vec![b'x'; SEVEN_MIB]).await;
    assert_eq!((fits.status, fits.text.len()), (StatusCode::OK, SEVEN_MIB));
    let over = post(&server, "/mutate", vec![b'x'; SEVEN_MIB + 1]).await;
    assert_eq!(over.status, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(over.text, "the body is larger than 7340032 bytes");
    let over = Http2::connect(&server)
        .await
        .send(review("/mutate", vec![b'x'; SEVEN_MIB + 1]));
    assert_eq!(
        within(10, over).await.unwrap().status,
        StatusCode::PAYLOAD_TOO_LARGE
    );
}

#[tokio::test]
async fn a_chunked_body_is_cut_at_the_limit() {
    let server = start(config(), echo()).await;
    let chunk = Bytes::from(vec![b'x'; 1024 * 1024]);
    let request = review("/mutate", "").map(|_| Chunks { chunk, left: 8 });
    let mut connection = Http1::connect(&server).await;
    let reply = within(10, connection.send(request)).await.unwrap();
    assert_eq!(reply.status, StatusCode::PAYLOAD_TOO_LARGE);
}

/// A body without a declared length: so many equal chunks.
struct Chunks {
    chunk: Bytes,
    left: usize,
}

impl Body for Chunks {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Poll::Ready(Some(Ok(Frame::data(self.chunk.clone()))))
    }
}

#[tokio::test]
async fn a_declared_length_over_the_limit_is_refused_before_any_byte_of_it() {
    let server = start(config(), echo()).await;
    let mut stream = raw(&server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                expect: 100-continue\r\ncontent-length: 7340033\r\n\r\n";
    write(&mut stream, head).await;
    let reply = within(5, read_all(&mut stream)).await;
    assert!(reply.starts_with("HTTP/1.1 413 "), "{reply}");
}

#[tokio::test]
async fn a_body_that_ends_early_is_400() {
    let server = start(config(), echo()).await;
    let mut stream = raw(&server).await;
    let head = "POST /mutate HTTP/1.1\r\nhost: m\r\ncontent-type: application/json\r\n\
                content-length: 100\r\n\r\n{\"half\":";
    write(&mut stream, head).await;
    stream.shutdown().await.unwrap();
    let reply = within(5, read_all(&mut stream)).await;
    assert!(reply.starts_with("HTTP/1.1 400 "), "{reply}");
    assert!(reply.contains("the body ended early"), "{reply}");
}
