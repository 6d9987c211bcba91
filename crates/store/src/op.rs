//! The writer's operations, each with its waiter.

use std::{sync::Arc, time::SystemTime};

use greenroom_core::{
    id::{Owner, SessionUid},
    record::{BlobId, Claim, Cursor, NotRecorded, RefId, Request, Response, SessionRef, SessionState},
};
use tokio::sync::oneshot;

/// Sends the result of an operation to the caller that waits for it. The caller may be gone; the writer
/// carries the operation out nevertheless.
pub(crate) type ResultSender<T> = oneshot::Sender<Result<T, NotRecorded>>;

pub(crate) enum Op {
    Begin(Request, ResultSender<()>),
    Claim(Request, ResultSender<Claim>),
    End(Box<Response>, ResultSender<()>),
    SessionBegan(Owner, SessionRef, SystemTime, ResultSender<()>),
    SessionEnded(SessionUid, SessionState, SystemTime),
    SetCursor(RefId, Cursor, SystemTime, ResultSender<()>),
    /// Notes that a blob is in use: it is about to be written, or has been read.
    UseBlob(BlobUse, Option<ResultSender<()>>),
}

pub(crate) struct BlobUse {
    pub(crate) id: BlobId,
    /// Empty where all pools share their blobs.
    pub(crate) pool: Arc<str>,
    pub(crate) bytes: u64,
    pub(crate) at: SystemTime,
}

/// The result of an operation that did not fail.
pub(crate) enum OpResult {
    Written,
    Claimed(Claim),
    /// The operation needs a row that does not exist.
    Refused(&'static str),
}

impl Op {
    /// How many bytes of memory the operation holds, roughly: its big parts, and a constant for the rest.
    pub(crate) fn bytes(&self) -> usize {
        const SMALL: usize = 512;
        SMALL
            + match self {
                Self::Begin(request, _) | Self::Claim(request, _) => request.params.get().len(),
                Self::End(response, _) => {
                    response.result.len()
                        + response.snapshot.as_ref().map_or(0, |snapshot| snapshot.len())
                        + response.console.iter().map(|line| line.message.len() + SMALL).sum::<usize>()
                        + response.blobs.len() * SMALL
                }
                Self::SessionBegan(..) | Self::SessionEnded(..) | Self::SetCursor(..) | Self::UseBlob(..) => {
                    0
                }
            }
    }

    /// Answers the waiter, if it still waits.
    pub(crate) fn answer(self, outcome: Result<OpResult, NotRecorded>) {
        match self {
            Self::Claim(_, waiter) => {
                let _ = waiter.send(outcome.and_then(|done| match done {
                    OpResult::Written => Ok(Claim::New),
                    OpResult::Claimed(claim) => Ok(claim),
                    OpResult::Refused(why) => Err(NotRecorded(why.into())),
                }));
            }
            Self::Begin(_, waiter)
            | Self::End(_, waiter)
            | Self::SessionBegan(_, _, _, waiter)
            | Self::SetCursor(_, _, _, waiter)
            | Self::UseBlob(_, Some(waiter)) => {
                let _ = waiter.send(outcome.and_then(|done| match done {
                    OpResult::Written | OpResult::Claimed(_) => Ok(()),
                    OpResult::Refused(why) => Err(NotRecorded(why.into())),
                }));
            }
            // These operations have no waiter. The writer reports their failure in the health and in the log.
            Self::SessionEnded(..) | Self::UseBlob(_, None) => {}
        }
    }
}
