//! How the end of a process explains what went wrong. A broken connection or an unanswered handshake says little;
//! the exit that caused it says more, and comes a moment later.

use std::time::Duration;

use greenroom_core::{Lost, StartError};
use greenroom_mcp::Gone;
use tokio::{sync::watch, time::timeout};

use crate::{process::Process, upstream::Failed};

/// How long after a broken handshake the exit of its process may come. The pipes close as it ends.
const EXIT: Duration = Duration::from_millis(500);

/// How long after a broken connection a loss may be noticed. A browser takes longer to end than its connections.
const SETTLE: Duration = Duration::from_secs(2);

/// Says how the process ended when a handshake failed because it did. An answer that was no good is told as it is:
/// the process may well end now, because nobody talks to it any more.
pub(crate) async fn explain<T, E: Into<Failed>>(
    process: &Process,
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, StartError> {
    tokio::select! {
        biased;
        done = attempt => match done.map_err(Into::into) {
            Ok(value) => Ok(value),
            Err(Failed::Answer(error)) => Err(error),
            Err(Failed::Gone(error)) => match timeout(EXIT, process.wait()).await {
                Ok(status) => Err(died(process, &status)),
                Err(_) => Err(error),
            }
        },
        status = process.wait() => Err(died(process, &status)),
    }
}

fn died(process: &Process, status: &str) -> StartError {
    let lost = Lost::Process { status: status.into(), stderr_tail: process.last_words() };
    StartError::new(format!("`{}`: {lost}", process.name()))
}

/// Declares something lost. What was said first stays.
pub(crate) fn declare(lost: &watch::Sender<Option<Lost>>, why: Lost) {
    lost.send_if_modified(|known| {
        let news = known.is_none();
        known.get_or_insert(why);
        news
    });
}

/// A watch that becomes `Some` when the process ends, unless another loss is declared first.
pub(crate) fn lost_with(process: &Process) -> watch::Sender<Option<Lost>> {
    let lost = watch::Sender::new(None);
    let (sender, mut exit, tail) = (lost.clone(), process.exit(), process.tail());
    // Ends with the process, which does not outlive its owner.
    tokio::spawn(async move {
        let status = exit.wait_for(Option::is_some).await.ok().and_then(|exit| exit.clone());
        let status = status.unwrap_or_default();
        declare(&sender, Lost::Process { status, stderr_tail: tail.text().into() });
    });
    lost
}

/// A connection that closed usually means a process that is just ending: its exit tells more.
pub(crate) async fn settle(lost: &mut watch::Receiver<Option<Lost>>, gone: Gone) -> Lost {
    match timeout(SETTLE, lost.wait_for(Option::is_some)).await {
        Ok(Ok(lost)) => lost.clone().unwrap_or(Lost::Shutdown),
        Ok(Err(_)) | Err(_) => Lost::Protocol(gone.to_string().into()),
    }
}
