//! What a server tells of clients whose certificate it refuses.

mod support;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use support::client::Identity;
use support::strict::{Authority, NAME, Strict};

#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    /// The lines since the last call, without the client's port.
    fn take(&self) -> Vec<String> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let without_port = |line: &str| {
            let (before, rest) = line.split_once("peer=").unwrap_or_else(|| panic!("{line}"));
            format!("{before}{}", rest.split_once(' ').unwrap().1)
        };
        let text = String::from_utf8(bytes).unwrap();
        text.lines().map(without_port).collect()
    }
}

// One test: the log belongs to the whole process.
#[tokio::test]
async fn a_refusal_is_logged_with_its_reason_and_a_flood_of_them_once() {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .without_time()
        .with_ansi(false)
        .with_target(false)
        .with_max_level(tracing::Level::WARN)
        .with_writer(move || writer.clone())
        .init();
    let authority = Authority::new();
    let kubelet = authority.client("system:node:n1");
    let stranger = Authority::named("another").client(NAME);
    let (mut told, mut servers) = (Vec::new(), Vec::new());
    let calls: [(Option<&Identity>, usize); 3] =
        [(None, 1), (Some(&stranger), 1), (Some(&kubelet), 20)];
    for (client, times) in calls {
        // Another server: each counts its own silence.
        let strict = Strict::start(&authority, &[NAME]).await;
        for _ in 0..times {
            strict.is_not_answered(client).await;
        }
        let lines = lines.take();
        assert_eq!(lines.len(), 1, "{lines:#?}");
        told.extend(lines);
        // Its file must stay: a server that misses it says so.
        servers.push(strict);
    }
    insta::assert_snapshot!(told.join("\n"), @r#"
    WARN client certificate refused error="there is none" left_out=0
    WARN client certificate refused error="it is of another CA" left_out=0
    WARN client certificate refused error="it is for \"system:node:n1\", which is none of the names that may call" left_out=0
    "#);
}
