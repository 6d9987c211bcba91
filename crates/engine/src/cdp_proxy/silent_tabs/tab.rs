//! A tab in one of an engine's sessions: what the engine knows of it, and which answers it owes.

use greenroom_cdp::link::Text;
use tokio::time::Instant;

pub(super) struct SessionTab {
    pub(super) target: String,
    /// The session in which the browser announced it.
    pub(super) parent: Option<String>,
    /// The event that announced it.
    pub(super) attached: Text,
    pub(super) state: TabState,
    /// Whether the engine works in it for the agent.
    pub(super) is_used: bool,
    /// Whether the engine knows of a dialog in it.
    pub(super) has_dialog: bool,
    /// The engine's calls that the tab has not answered, and since when the oldest of them counts.
    pub(super) unanswered: Vec<u32>,
    pub(super) since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TabState {
    /// The filter is asking it, and the engine does not know it.
    Held(Instant),
    /// It did not answer, and the engine does not know it.
    Hidden,
    /// The engine knows it.
    Shown,
    /// The engine knows it, and the filter is asking it.
    Questioned(Instant),
    /// The filter is taking it from the engine.
    Leaving,
}
