//! How a session and its calls end, and which callers still get an answer.

use greenroom_core::Lost;

use super::{BulkAnswers, Job, Note, ReplySender};
use crate::error::FleetError;

/// How a session came to its end.
pub(super) enum SessionEnd {
    /// It was closed, it expired, or no caller waited for it any more.
    Closed,
    /// Its seat was lost between calls.
    LostWhileIdle(Lost),
    /// Its seat was lost during a call. The calls queued behind that call relied on it, and do not run.
    LostDuringCall(Lost),
    /// It got no slot or no seat.
    Failed(FleetError),
}

/// The job that the end of its session interrupted. The task answers its caller after the session has left the
/// registry: an agent that calls again at once must get a new session, not this one.
pub(crate) enum InterruptedJob {
    /// No call of it has run.
    NotRun(Job),
    /// It has a result, which is not sent yet.
    Unsent(UnsentResult),
}

/// The result of a job, not sent yet.
pub(crate) struct UnsentResult {
    pub(super) reply: ReplySender,
    pub(super) outcome: Result<BulkAnswers, FleetError>,
}

impl UnsentResult {
    /// Sends the result. Returns its notes if the caller has left.
    pub(super) fn send(self) -> Vec<Note> {
        match self.reply.send(self.outcome) {
            Err(Ok(undelivered)) => undelivered.notes,
            Err(Err(_)) | Ok(()) => Vec::new(),
        }
    }
}

/// Why a call has no reply.
pub(super) enum NoReply {
    Lost(Lost),
    /// The session was ordered to end.
    Stopped,
}
