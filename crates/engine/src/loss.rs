//! What is lost, and why: an instance, a seat, a browser. The first declared reason stays. `observed_browser.rs`, the
//! adapters and health checks declare a [`Loss`]; seats pass it on to their sessions, instances to their supervisors.
//!
//! This module also explains failures by the exit of a process. A broken connection or an unanswered
//! handshake says little; the exit that caused it says more, and follows a moment later.

use std::time::Duration;

use greenroom_core::{Lost, StartError};
use greenroom_mcp::PeerError;
use tokio::{sync::watch, time::timeout};

use crate::{exit::Exit, process::Process, upstream::EngineRequestError};

/// How long after a broken handshake greenroom waits for the exit of the engine's process. Its pipes close as it ends.
const EXIT_WITHIN: Duration = Duration::from_millis(500);

/// How long after a broken connection greenroom waits for a declared loss. A browser takes longer to end than its
/// connections.
const LOSS_WITHIN: Duration = Duration::from_secs(2);

/// Whether something is lost, and why. Clones share one state.
#[derive(Clone, Default)]
pub(crate) struct Loss(watch::Sender<Option<Lost>>);

impl Loss {
    /// The loss of a process: declared when the process ends, unless another loss is declared first.
    pub(crate) fn of_process(process: &Process) -> Self {
        let loss = Self::default();
        let mut exit = process.exit();
        let tail = process.tail();
        let declared = loss.clone();
        // This task ends with the process, which does not outlive its owner.
        tokio::spawn(async move {
            let status = exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
            declared.declare(Lost::Process {
                status: status.map(Into::into).unwrap_or_default(),
                stderr_tail: tail.text().into(),
            });
        });
        loss
    }

    /// Declares the loss. The first declared reason stays.
    pub(crate) fn declare(&self, why: Lost) {
        self.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert(why);
            is_first
        });
    }

    /// The receiver becomes `Some` once.
    pub(crate) fn subscribe(&self) -> watch::Receiver<Option<Lost>> {
        self.0.subscribe()
    }

    /// The reason of the loss, if one is declared.
    pub(crate) fn known(&self) -> Option<Lost> {
        self.0.borrow().clone()
    }

    /// Fails with the reason if a loss is declared.
    pub(crate) fn check(&self) -> Result<(), Lost> {
        self.known().map_or(Ok(()), Err)
    }

    /// Resolves when a loss is declared.
    pub(crate) async fn wait_until_declared(&self) -> Lost {
        let mut lost = self.subscribe();
        match lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(lost)) => lost.clone(),
            Ok(None) | Err(_) => Lost::Shutdown,
        }
    }

    /// Runs `work` until a loss is declared, and drops it then.
    pub(crate) async fn unless_declared<T, E: Into<StartError>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StartError> {
        tokio::select! {
            biased;
            lost = self.wait_until_declared() => Err(StartError::new(lost.to_string())),
            done = work => done.map_err(Into::into),
        }
    }
}

/// If a handshake failed because the process ended, returns how it ended. An invalid answer is reported as it is: the
/// process may well end only now, because greenroom closed its pipes.
pub(crate) async fn explain_by_exit<T, E: Into<EngineRequestError>>(
    process: &Process,
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, StartError> {
    tokio::select! {
        biased;
        done = attempt => match done.map_err(Into::into) {
            Ok(value) => Ok(value),
            Err(EngineRequestError::Answer(error)) => Err(error),
            Err(EngineRequestError::Gone(error)) => match timeout(EXIT_WITHIN, process.wait()).await {
                Ok(exit) => Err(exit_error(process, exit)),
                Err(_) => Err(error),
            }
        },
        exit = process.wait() => Err(exit_error(process, exit)),
    }
}

fn exit_error(process: &Process, exit: Exit) -> StartError {
    let lost = Lost::Process { status: exit.into(), stderr_tail: process.stderr_tail() };
    StartError::new(format!("`{}`: {lost}", process.name()))
}

/// A connection that closed usually means a process that is just ending: its exit says more.
pub(crate) async fn wait_for_loss(lost: &mut watch::Receiver<Option<Lost>>, gone: PeerError) -> Lost {
    match timeout(LOSS_WITHIN, lost.wait_for(Option::is_some)).await {
        Ok(Ok(lost)) => lost.clone().unwrap_or(Lost::Shutdown),
        Ok(Err(_)) | Err(_) => Lost::Protocol(gone.to_string().into()),
    }
}
