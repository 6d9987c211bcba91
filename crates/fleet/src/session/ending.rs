//! How a session ends, how its calls do, and who still has to hear of it.

use greenroom_core::Lost;

use super::{Answers, Job, Note, ReplySender};
use crate::error::FleetError;

/// How a session came to its end.
pub(super) enum End {
    /// It was asked to, or its time was over, or nobody wanted it any more.
    Closed,
    /// Its seat was lost between calls.
    LostBetween(Lost),
    /// Its seat was lost under a call. The calls queued behind relied on that one, and are not run.
    LostUnder(Lost),
    /// It never began.
    Failed(FleetError),
}

/// An end, with the call it interrupted. That call hears of it once the session has left the registry: an
/// agent that calls again at once must get a new session, not the remains of this one.
pub(super) struct Ending {
    pub(super) end: End,
    pub(super) last: Option<Finish>,
    pub(super) unserved: Option<Job>,
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        Self { end, last: None, unserved: None }
    }
}

/// What a job came to, still to be said.
pub(super) struct Finish {
    pub(super) reply: ReplySender,
    pub(super) outcome: Result<Answers, FleetError>,
}

impl Finish {
    /// Says it. Returns notes that nobody heard.
    pub(super) fn say(self) -> Vec<Note> {
        match self.reply.send(self.outcome) {
            Err(Ok(unheard)) => unheard.notes,
            Err(Err(_)) | Ok(()) => Vec::new(),
        }
    }
}

/// Why a call has no reply.
pub(super) enum NoReply {
    Lost(Lost),
    /// The session was told to end.
    Stopped,
}
