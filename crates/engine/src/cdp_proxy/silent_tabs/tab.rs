//! A tab in one of an engine's sessions: what the engine knows of it, and which answers it owes.

use greenroom_cdp::message_stream::Text;
use tokio::time::Instant;

pub(super) struct SessionTab {
    pub(super) target: String,
    /// The session in which the browser announced it.
    pub(super) parent: Option<String>,
    /// The event that announced it.
    pub(super) attached: Text,
    pub(super) state: TabState,
    /// Whether the engine works in it for the agent.
    pub(super) is_used_by_agent: bool,
    /// Whether the engine knows of a dialog in it.
    pub(super) has_dialog: bool,
    /// The engine's calls that the tab has not answered, and since when the oldest of them counts.
    pub(super) unanswered: Vec<u32>,
    pub(super) unanswered_since: Option<Instant>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TabState {
    /// The filter has sent it a probe, and the engine does not know it.
    Held(Instant),
    /// It did not answer the probe, and the engine does not know it.
    Hidden,
    /// The engine knows it.
    Shown,
    /// The engine knows it, and the filter has sent it a probe.
    Probed(Instant),
    /// The engine knows it, and the filter is detaching the engine from it.
    Detaching,
}
