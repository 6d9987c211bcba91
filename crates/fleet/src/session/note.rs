//! Notes about a session that an answer carries to its agent, for instance that the session has a new browser and why
//! ([`EndReason`]), or that it ends soon. Their text depends on the browser, because some browsers keep their cookies when
//! a session ends.

use std::{fmt, sync::Arc, time::Duration};

use greenroom_core::{
    Crash, Lost, plural,
    port::{Refusals, StoppedDownloads, human},
    printable::printable,
};

use crate::attached_browsers::BrowserName;

/// How much of a crashed tab's URL a note shows, in characters. A `data:` URL may hold a whole page.
const URL_SHOWN: usize = 200;

/// A note in the agent's next answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Note {
    /// The id was used before; its browser is gone, and the session has another one.
    Restarted(EndReason),
    /// The same, in a browser that keeps its cookies and logins when a session ends.
    Reopened(EndReason),
    /// The tab that the last call without a session left is gone.
    NewTab(NewTab),
    /// One of its tabs crashed; the session goes on.
    Crashed(Crash),
    /// greenroom stopped downloads, because the session's files take all the disk space they may; the session goes on.
    DownloadsStopped(StoppedDownloads),
    /// The network policy refused connections of its pages; the session goes on.
    NetworkRefused {
        refusals: Refusals,
        /// Whether the agent's user is the operator, who can change the policy.
        for_operator: bool,
    },
    /// The call waited for a cancelled call: the engine does not stop in the middle of a call.
    HeldUp { tool: Arc<str>, waited: Duration },
    /// The session ends soon.
    Expiring(Duration),
}

impl Note {
    /// Why the previous session with this id ended, if the note says that.
    pub fn restarted(&self) -> Option<&EndReason> {
        match self {
            Self::Restarted(end_reason) | Self::Reopened(end_reason) => Some(end_reason),
            Self::NewTab(_)
            | Self::Crashed(_)
            | Self::DownloadsStopped(_)
            | Self::NetworkRefused { .. }
            | Self::HeldUp { .. }
            | Self::Expiring(_) => None,
        }
    }
}

/// A tab of an attached browser is gone, and the call ran in another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewTab {
    pub browser: Arc<BrowserName>,
    /// Only the tab was lost, not the whole browser.
    pub is_tab: bool,
    pub why: String,
    /// The tab was in the browser's own context, which keeps its cookies and logins.
    pub keeps_logins: bool,
}

/// Why a session ended without its owner's request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EndReason {
    Lost(Lost),
    Idle(Duration),
    Lifetime(Duration),
    /// The greenroom server on which the session lived is gone.
    Server,
    /// The operator of greenroom closed the session.
    Evicted,
    /// The attached browser in which the session lived was removed from the fleet.
    Removed(Arc<BrowserName>),
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Restarted(end_reason) => {
                write!(
                    f,
                    "session restarted: {end_reason}; this is a new, empty browser, earlier pages, cookies and refs are gone"
                )
            }
            // The cookies went with the browser in which the session lived.
            Self::Reopened(end_reason @ EndReason::Removed(_)) => {
                write!(
                    f,
                    "session restarted: {end_reason}; this is another browser, earlier tabs, cookies and refs are not in it"
                )
            }
            Self::Reopened(end_reason) => {
                write!(
                    f,
                    "session restarted: {end_reason}; its earlier tabs and refs are gone, the browser's cookies and logins are as they were"
                )
            }
            Self::NewTab(new) => new.fmt(f),
            Self::Crashed(Crash { url, why }) => {
                let shown_url: String = url.chars().take(URL_SHOWN).collect();
                let more = if shown_url.len() < url.len() { "…" } else { "" };
                write!(
                    f,
                    "a tab crashed ({why}): {shown_url}{more}; what it showed is gone and its refs are void, the session's cookies and other tabs are as they were"
                )
            }
            Self::DownloadsStopped(StoppedDownloads { count, bytes_max }) => {
                let count = usize::try_from(*count).unwrap_or(usize::MAX);
                let downloads = plural::count(count, "download");
                let were = plural::verb(count, "was", "were");
                write!(
                    f,
                    "{downloads} {were} stopped: the files of this session would take more than {bytes_max} bytes (sessions.disk_bytes_max). It can download no more, and goes on otherwise; another sessionId starts without files"
                )
            }
            Self::NetworkRefused { refusals, for_operator } => refused(f, refusals, *for_operator),
            Self::HeldUp { tool, waited } => {
                write!(
                    f,
                    "this call waited {} for {tool}, which was cancelled: the engine ends a call in its own time, and a session runs one call after the other; another sessionId does not wait",
                    human(*waited)
                )
            }
            Self::Expiring(left) => {
                write!(f, "session ends in {}: call session_renew to keep it", human(*left))
            }
        }
    }
}

/// How many refused connections a note shows: one is usually the address that the agent asked for, and a page with many
/// refused parts must not fill the answer.
const REFUSALS_SHOWN: usize = 3;

fn refused(f: &mut fmt::Formatter<'_>, refusals: &Refusals, for_operator: bool) -> fmt::Result {
    f.write_str("the network policy refused connections: ")?;
    for (index, refusal) in refusals.listed.iter().take(REFUSALS_SHOWN).enumerate() {
        let separator = if index == 0 { "" } else { "; " };
        write!(f, "{separator}{}", printable(&refusal.to_string()))?;
        let remedy = refusal.reason.remedy(&refusal.host, refusal.port).filter(|_| for_operator);
        if let Some(remedy) = remedy {
            write!(f, " ({})", printable(&remedy))?;
        }
    }
    let shown = refusals.listed.len().min(REFUSALS_SHOWN) as u64;
    match refusals.count {
        count if count > shown => write!(f, "; {count} connections in all"),
        _ => Ok(()),
    }
}

impl fmt::Display for NewTab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { browser, why, .. } = self;
        match self.is_tab {
            true => write!(f, "a tab of {browser} was lost: {why}")?,
            false => write!(f, "{browser} was reconnected: {why}")?,
        }
        f.write_str(match self.keeps_logins {
            true => {
                "; the tabs and refs of earlier calls are gone, the browser's cookies and logins are as they were"
            }
            false => "; the tabs, cookies and refs of earlier calls are gone",
        })
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Lost(lost) => lost.fmt(f),
            Self::Idle(after) => write!(f, "it was closed after {} without a call", human(*after)),
            Self::Lifetime(after) => write!(f, "it reached its maximum lifetime of {}", human(*after)),
            Self::Server => f.write_str("the greenroom server was restarted"),
            Self::Evicted => f.write_str("it was closed by hand, by the operator of greenroom"),
            Self::Removed(browser) => write!(f, "{browser}, where it lived, was removed"),
        }
    }
}
