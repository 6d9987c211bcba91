//! The signals that greenroom handles: those that ask it to end, and the one that asks it to read its configuration again.
//!
//! SIGTERM and SIGINT end the process in order; a second one does not wait for calls that still run. SIGHUP has two
//! meanings: the terminal is gone, which ends a process that was started in one, or, for a service, "read your
//! configuration again". Whether stdin is a terminal decides which.

use std::{io::IsTerminal, sync::Arc};

use anyhow::Context;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};
use tokio_util::sync::CancellationToken;

/// The effects of the signals.
#[derive(Debug, Clone, Default)]
pub struct Signals {
    /// Cancelled by the first signal that asks greenroom to end.
    pub stop: CancellationToken,
    /// Cancelled by the second one: running calls are not awaited any more.
    pub stop_now: CancellationToken,
    /// Notified when the configuration is to be read again.
    pub reload: Arc<Notify>,
}

impl Signals {
    /// Starts to listen. Without `reloads`, SIGHUP ends the process.
    pub fn listen(reloads: bool) -> anyhow::Result<Self> {
        let signals = Self::default();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut received = signal(kind).context("cannot listen for signals")?;
            let signals = signals.clone();
            tokio::spawn(async move {
                while received.recv().await.is_some() {
                    signals.request_stop();
                }
            });
        }
        let mut hangups = signal(SignalKind::hangup()).context("cannot listen for signals")?;
        let had_terminal = std::io::stdin().is_terminal();
        let on_hangup = signals.clone();
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                if !reloads || (had_terminal && terminal_is_gone()) {
                    on_hangup.request_stop();
                } else {
                    on_hangup.reload.notify_one();
                }
            }
        });
        Ok(signals)
    }

    fn request_stop(&self) {
        if self.stop.is_cancelled() {
            self.stop_now.cancel();
        }
        self.stop.cancel();
    }
}

fn terminal_is_gone() -> bool {
    rustix::termios::tcgetattr(std::io::stdin()).is_err()
}
