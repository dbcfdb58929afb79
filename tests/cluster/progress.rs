//! What is being built and for how long: a first build takes minutes per component.

use std::thread::sleep;
use std::time::{Duration, Instant};

pub struct Progress {
    what: String,
    start: Instant,
}

impl Progress {
    pub fn start(what: &str) -> Progress {
        println!("  {what} ...");
        Progress {
            what: what.to_owned(),
            start: Instant::now(),
        }
    }

    /// Polls until there is an answer, with a sign of life every half minute.
    pub fn until<T>(self, mut poll: impl FnMut() -> Option<T>) -> T {
        let mut said = 0;
        loop {
            let elapsed = self.start.elapsed().as_secs();
            if let Some(answer) = poll() {
                println!("  {} {elapsed} s", self.what);
                return answer;
            }
            if elapsed / 30 > said {
                said = elapsed / 30;
                println!("  {} ... {elapsed} s so far", self.what);
            }
            sleep(Duration::from_millis(100));
        }
    }
}
