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

/// An end, with the call it interrupted. The task answers that call after the session has left the registry: an agent
/// that calls again at once must get a new session, not this one.
pub(super) struct Ending {
    pub(super) end: SessionEnd,
    pub(super) last: Option<UnsentResult>,
    pub(super) unserved: Option<Job>,
}

impl From<SessionEnd> for Ending {
    fn from(end: SessionEnd) -> Self {
        Self { end, last: None, unserved: None }
    }
}

/// The result of a job, not sent yet.
pub(super) struct UnsentResult {
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
