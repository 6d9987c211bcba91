//! A thin Chrome DevTools Protocol client: one connection, calls out, replies and events in. The connection is a WebSocket,
//! which [`discover()`] finds when the caller knows the debugger's address only, or one of several on a [`BrowserPipe`].
//!
//! A reply is matched to its call by id, never by order, so an abandoned call shifts nothing. Results and
//! events stay raw JSON; this crate knows the protocol's envelope and of its domains only how `Target` makes sessions, so a
//! new Chromium with new events cannot break it. It starts no browser and never reconnects: a connection that ended is
//! [`Closed`], and its caller, one of greenroom's observers, decides what that means.
//!
//! Events come through a bounded queue. The connection must not stall behind a slow consumer, or replies would
//! stall too; and no event may vanish, or an observer would believe in pages that are gone. So a consumer
//! that falls [`EVENTS_MAX`] events or [`EVENTS_BYTES_MAX`] behind loses the whole connection, with [`Closed::Overflow`] as the
//! reason. A consumer can name events of which only the latest matters ([`Events::keep_latest`]), so that a page
//! which changes its address without end does not count. A caller without interest in events drops [`Events`],
//! and the connection discards them on arrival.

mod address;
mod client;
mod dial;
mod discover;
mod envelope;
pub mod message_stream;
mod pipe;
mod queue;
mod session_field;
mod unreachable;
mod wire;

use std::{sync::Arc, time::Duration};

use greenroom_core::{port::human, raw::Raw};

use crate::envelope::CdpError;
pub use address::{authorization, host_and_port, local_port, pinned, port, secrets};
pub use client::{CdpClient, Events};
pub use discover::discover;
pub use pipe::BrowserPipe;
pub use unreachable::Unreachable;

/// The largest message, in one frame, as Chromium sends it. The biggest are screenshots and PDFs in base64 and
/// bodies of responses: tens of megabytes, rarely. Past this a page is filling our memory.
pub const MESSAGE_BYTES_MAX: usize = 256 << 20;

/// How far a consumer may fall behind. Opening a page of a hundred frames makes a few hundred events at
/// once; thousands in a row mean that the consumer no longer reads.
pub const EVENTS_MAX: usize = 4_096;

/// How many bytes of events may wait for a consumer: as many as one message may have. Events of thousands of tabs with the
/// longest addresses fit; more would let pages fill greenroom's memory.
pub const EVENTS_BYTES_MAX: usize = MESSAGE_BYTES_MAX;

/// How long connecting may take. A browser that has just printed its address answers within milliseconds,
/// on a machine that starts many at once within seconds.
pub const CONNECT_WITHIN: Duration = Duration::from_secs(10);

/// How long finding the WebSocket behind an `http://` address may take, DNS included. A browser on this machine needs
/// milliseconds, a remote one a second; one that does not answer for longer is busy or hangs, and the caller asks it
/// again later.
pub const DISCOVER_WITHIN: Duration = Duration::from_secs(5);

/// How long a call may take. A browser answers an observer's calls in milliseconds, and prints a large page to PDF in
/// seconds; a browser that does not answer for longer hangs, and its callers must not hang with it.
pub const CALL_WITHIN: Duration = Duration::from_secs(30);

/// A CDP event.
#[derive(Debug, Clone)]
pub struct Event {
    /// For example `Target.targetCreated`.
    pub method: String,
    /// The `sessionId` of the CDP session in which it happened; `None` for the browser's own session.
    pub session: Option<String>,
    /// The parameters as the browser wrote them; `{}` if it wrote none.
    pub params: Raw,
    /// Events are numbered in the order in which the browser sent them.
    pub number: u64,
}

/// What the browser answered to a call.
#[derive(Debug)]
pub struct CallReply {
    pub result: Raw,
    /// The number of the last event that the browser sent before it answered; 0 if there was none.
    pub after_event: u64,
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// `url` is shown without its secrets.
    #[error("cannot connect to the browser at {url}: {why}")]
    Connect { url: String, why: Unreachable },
    /// The browser understood the call and declined it.
    #[error("the browser refused {method}: {message} ({code})")]
    Refused { method: String, code: i64, message: String },
    #[error("the browser did not answer {method} within {}", human(CALL_WITHIN))]
    NoAnswer { method: String },
    #[error("the parameters of {method} cannot be written as JSON: {source}")]
    Params { method: String, source: serde_json::Error },
    #[error(transparent)]
    Closed(#[from] Closed),
}

impl Error {
    pub(crate) fn refused(method: &str, error: &CdpError) -> Self {
        Self::Refused { method: method.to_owned(), code: error.code, message: error.message_with_data() }
    }
}

/// Why a connection is over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Closed {
    #[error("the browser closed its DevTools connection")]
    ByBrowser,
    #[error("the DevTools connection broke: {0}")]
    Broken(Arc<str>),
    #[error("the browser broke the DevTools protocol: {0}")]
    Protocol(Arc<str>),
    #[error(
        "it sends events faster than greenroom can read them: {EVENTS_MAX} events or {EVENTS_BYTES_MAX} bytes are waiting"
    )]
    Overflow,
    /// Only a future of `closed()` that outlives every handle sees this.
    #[error("the DevTools connection is not in use any more")]
    Unused,
}
