//! What a server tells in its log: one line per decision, one line per error.

mod support;

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::client::post;
use support::{config, obedient, start};

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
    /// The lines since the last call, without their time.
    fn take(&self) -> Vec<Value> {
        let bytes = std::mem::take(&mut *self.0.lock().unwrap());
        let lines = String::from_utf8(bytes).unwrap();
        let parse = |line| serde_json::from_str::<Value>(line).unwrap();
        lines.lines().map(parse).collect()
    }
}

// One test: the log belongs to the whole process.
#[tokio::test]
async fn each_decision_and_each_error_is_one_line() {
    let lines = Lines::default();
    let writer = lines.clone();
    tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_writer(move || writer.clone())
        .init();
    let server = start(config(), obedient()).await;
    // The server logs its start from a task of its own.
    post(&server, "/validate", "{}").await;
    lines.take();

    post(&server, "/mutate", "{}").await;
    let told = lines.take();
    assert_eq!(told.len(), 1, "{told:#?}");
    let expected = json!({
        "level": "INFO", "webhook": "mutate", "uid": "705ab4f5", "operation": "CREATE",
        "kind": "JobSet", "namespace": "team", "name": "train", "outcome": "patched",
        "gang": "workers",
    });
    for (key, value) in expected.as_object().unwrap() {
        assert_eq!(&told[0][key], value, "{key}");
    }
    assert!(told[0]["duration_us"].is_u64());

    for (path, body, status) in [
        ("/mutate", "not json", 400),
        ("/mutate", r#"{"do":"fail"}"#, 500),
        ("/elsewhere", "{}", 404),
    ] {
        post(&server, path, body).await;
        let told = lines.take();
        assert_eq!(told.len(), 1, "{told:#?}");
        assert_eq!(told[0]["level"], "WARN");
        assert_eq!(told[0]["path"], path);
        assert_eq!(told[0]["status"], status);
    }
    // A caller that goes on does not fill the log.
    for _ in 0..20 {
        post(&server, "/mutate", "not json").await;
    }
    let told = lines.take();
    assert!(told.is_empty(), "{told:#?}");
}
