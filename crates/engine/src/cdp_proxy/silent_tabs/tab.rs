//! A tab as one of an engine's sessions has it: what the engine knows of it, and what it waits for.

use greenroom_cdp::link::Text;
use tokio::time::Instant;

pub(super) struct Tab {
    pub(super) target: String,
    /// The session that it was made known in.
    pub(super) parent: Option<String>,
    /// What made it known.
    pub(super) attached: Text,
    pub(super) state: State,
    /// The engine works in it for the agent.
    pub(super) is_used: bool,
    /// The engine knows of a dialog in it.
    pub(super) has_dialog: bool,
    /// The engine's calls that it has not answered, and since when the oldest of them counts.
    pub(super) unanswered: Vec<u32>,
    pub(super) since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// It is being asked, and the engine does not know of it.
    Held(Instant),
    /// It did not answer, and the engine does not know of it.
    Hidden,
    /// The engine knows it.
    Shown,
    /// The engine knows it, and it is being asked.
    Asked(Instant),
    /// It is being taken from the engine.
    Leaving,
}
