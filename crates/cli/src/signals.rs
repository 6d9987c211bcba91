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
    pub stop: CancellationToken,
    /// Cancelled by a second signal to end.
    pub hurry: CancellationToken,
    /// Notified when the configuration is to be read again.
    pub reload: Arc<Notify>,
}

impl Signals {
    /// Listens from now on. A process that cannot reload its configuration is ended by SIGHUP.
    pub fn listen(reloads: bool) -> anyhow::Result<Self> {
        let signals = Self::default();
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let mut arriving = signal(kind).context("cannot listen for signals")?;
            let signals = signals.clone();
            tokio::spawn(async move {
                while arriving.recv().await.is_some() {
                    signals.end();
                }
            });
        }
        let mut hangups = signal(SignalKind::hangup()).context("cannot listen for signals")?;
        let had_terminal = std::io::stdin().is_terminal();
        let told = signals.clone();
        tokio::spawn(async move {
            while hangups.recv().await.is_some() {
                if !reloads || (had_terminal && terminal_is_gone()) {
                    told.end();
                } else {
                    told.reload.notify_one();
                }
            }
        });
        Ok(signals)
    }

    fn end(&self) {
        if self.stop.is_cancelled() {
            self.hurry.cancel();
        }
        self.stop.cancel();
    }
}

fn terminal_is_gone() -> bool {
    rustix::termios::tcgetattr(std::io::stdin()).is_err()
}
