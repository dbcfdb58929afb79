//! The stages of a server's life, seen by every connection and by readiness.
//!
//! Two steps lead out: in the lame duck new calls are still answered, since proxies go on sending
//! them for seconds after SIGTERM (kubernetes-sigs/controller-runtime#3113); only then does the
//! listener close.

use tokio::sync::watch;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    Serving,
    /// Not ready, still serving, each answer ends its connection.
    LameDuck,
    /// No new connections; those that are open finish their requests.
    Closing,
}

/// A view on the stage, one per connection.
#[derive(Debug, Clone)]
pub(super) struct Lifecycle(watch::Receiver<Stage>);

impl Lifecycle {
    pub(crate) fn start() -> (watch::Sender<Stage>, Self) {
        let (sender, receiver) = watch::channel(Stage::Serving);
        (sender, Self(receiver))
    }

    pub(crate) fn is_draining(&self) -> bool {
        *self.0.borrow() != Stage::Serving
    }

    /// Waits until the listener closes. A server that is gone counts as closing.
    pub(crate) async fn closing(&mut self) {
        let _ = self.0.wait_for(|stage| *stage == Stage::Closing).await;
    }
}
