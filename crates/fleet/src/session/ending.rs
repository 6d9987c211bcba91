//! How a session ends, how its calls do, and who still has to hear of it.

use greenroom_core::Lost;

use super::{Answer, Asker, BulkAnswer, Job, Note};
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
pub(super) enum Finish {
    Call(Asker<Answer>, Result<Answer, FleetError>),
    Bulk(Asker<BulkAnswer>, Result<BulkAnswer, FleetError>),
    Open(Asker<()>),
    /// Nobody waits for it.
    Nothing,
}

impl Finish {
    /// Whether its caller left before it was done.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            Self::Call(asker, _) => asker.is_closed(),
            Self::Bulk(asker, _) => asker.is_closed(),
            Self::Open(_) | Self::Nothing => false,
        }
    }

    /// Says it. Returns notes that nobody heard.
    pub(super) fn say(self) -> Option<Vec<Note>> {
        match self {
            Self::Call(asker, outcome) => {
                asker.send(outcome).err().and_then(Result::ok).map(|unheard| unheard.notes)
            }
            Self::Bulk(asker, outcome) => {
                asker.send(outcome).err().and_then(Result::ok).map(|unheard| unheard.notes)
            }
            Self::Open(asker) => {
                // Whoever left meanwhile hears nothing, which is what it wanted.
                let _ = asker.send(Ok(()));
                None
            }
            Self::Nothing => None,
        }
    }
}

/// Why a call has no reply.
pub(super) enum NoReply {
    Lost(Lost),
    /// The session was told to end.
    Stopped,
}
