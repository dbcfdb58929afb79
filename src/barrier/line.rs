//! What `muster wait` and the replicas say to each other: lines over TLS, one question and one answer.
//!
//! Not HTTP: ten thousand pods wait at once, and what a connection holds for buffers of its own is
//! most of what it costs.

use std::{fmt, io};

use rustls::crypto::{CryptoProvider, ring};
use tokio::io::{AsyncRead, AsyncReadExt as _};

/// One suite: its keys are a tenth as large as those of the others, and its hash is the one that
/// processors know. Both count where ten thousand pods come at once.
pub(crate) fn provider() -> CryptoProvider {
    CryptoProvider {
        cipher_suites: vec![ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256],
        ..ring::default_provider()
    }
}

/// The longest line: a namespace, a name, a token, or what is told at the end of the time.
const LONGEST: usize = 4096;

/// Lines of a connection. What comes with one and is of the next is kept.
pub(crate) struct Lines<S> {
    pub(crate) stream: S,
    rest: Vec<u8>,
}

impl<S: AsyncRead + Unpin> Lines<S> {
    pub(crate) fn new(stream: S) -> Self {
        let rest = Vec::new();
        Self { stream, rest }
    }

    /// One line, without its end. What is longer than any is an error.
    pub(crate) async fn read(&mut self) -> io::Result<String> {
        let mut buffer = [0; 128];
        loop {
            if let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).take(end).collect();
                return String::from_utf8(line).map_err(io::Error::other);
            }
            if self.rest.len() > LONGEST {
                return Err(io::Error::other("the line is too long"));
            }
            let read = self.stream.read(&mut buffer).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.rest.extend_from_slice(&buffer[..read]);
        }
    }
}

/// What a pod says first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Question {
    pub(crate) when: When,
    pub(crate) namespace: String,
    pub(crate) barrier: String,
    pub(crate) token: String,
}

impl fmt::Display for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            when,
            namespace,
            barrier,
            token,
        } = self;
        let verb = match when {
            When::Now => WAIT,
            When::Later => HOLD,
        };
        write!(f, "{verb} {namespace}/{barrier} {token}")
    }
}

impl Question {
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (verb, rest) = line.split_once(' ')?;
        let when = match verb {
            WAIT => When::Now,
            HOLD => When::Later,
            _ => return None,
        };
        let (place, token) = rest.split_once(' ')?;
        let (namespace, barrier) = place.split_once('/')?;
        Some(Self {
            when,
            namespace: namespace.to_owned(),
            barrier: barrier.to_owned(),
            token: token.to_owned(),
        })
    }
}

/// Whether a pod wants to be told, or only to be known here for the time when it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Now,
    /// Another replica tells it. When that one is gone, it says [`WAIT`] here, and nobody shakes hands
    /// while a thousand others want to.
    Later,
}

/// Tell me when it opens: with the first line, or after [`HOLD`].
pub(crate) const WAIT: &str = "wait";

const HOLD: &str = "hold";

/// A pod's last word: its time is over, and it wants to know who is missing.
pub(crate) const LATE: &str = "late";

/// What a replica answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    /// All have come: go on.
    Open,
    /// The time is over, and who is missing, where that is known.
    Closed(String),
    /// The token is of another barrier: there is nothing to hear.
    Denied,
    /// The token is of a key that this replica does not know yet, or it has not seen the barriers.
    Unknown,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open => f.write_str("open"),
            Self::Closed(missing) => {
                // One line, however it was written.
                let line: Vec<&str> = missing.split_whitespace().collect();
                write!(f, "closed {}", line.join(" "))
            }
            Self::Denied => f.write_str("denied"),
            Self::Unknown => f.write_str("unknown"),
        }
    }
}

impl Answer {
    pub(crate) fn read(line: &str) -> Option<Self> {
        match line.split_once(' ') {
            Some(("closed", missing)) => Some(Self::Closed(missing.to_owned())),
            None if line == "open" => Some(Self::Open),
            None if line == "closed" => Some(Self::Closed(String::new())),
            None if line == "denied" => Some(Self::Denied),
            None if line == "unknown" => Some(Self::Unknown),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_understood() {
        for (when, line) in [
            (When::Now, "wait ml/train-barrier-0-x c914ec48.abc"),
            (When::Later, "hold ml/train-barrier-0-x c914ec48.abc"),
        ] {
            let question = Question {
                when,
                namespace: "ml".to_owned(),
                barrier: "train-barrier-0-x".to_owned(),
                token: "c914ec48.abc".to_owned(),
            };
            assert_eq!(question.to_string(), line);
            assert_eq!(Question::read(line), Some(question));
        }
        let closed = Answer::Closed("7 of 9 came; two\nlines".to_owned());
        assert_eq!(closed.to_string(), "closed 7 of 9 came; two lines");
        for answer in [Answer::Open, Answer::Denied, Answer::Unknown] {
            assert_eq!(Answer::read(&answer.to_string()), Some(answer));
        }
    }

    #[tokio::test]
    async fn two_lines_that_come_at_once_are_two() {
        let mut lines = Lines::new(&b"wait a/b c\nlate\n"[..]);
        assert_eq!(lines.read().await.unwrap(), "wait a/b c");
        assert_eq!(lines.read().await.unwrap(), LATE);
        assert!(lines.read().await.is_err());
        assert!(Lines::new(&[b'x'; 9000][..]).read().await.is_err());
    }

    #[test]
    fn anything_else_is_no_question_and_no_answer() {
        for line in [
            "",
            "wait",
            "wait ml train x",
            "wait ml/train",
            "hold ml/train",
            "held ml/train x",
            "GET / HTTP/1.1",
        ] {
            assert_eq!(Question::read(line), None, "{line}");
            assert_eq!(Answer::read(line), None, "{line}");
        }
    }
}
