//! greenroom's own progress notifications for a call: its position in the queue for a browser, and how many
//! steps of a bulk are done.
//!
//! The gateway sends none unless the client gave the call a progress token. It limits their number, and
//! keeps the values for positions in the queue below those that engines send later, since progress must
//! increase.

use std::sync::atomic::{AtomicU32, Ordering};

use greenroom_core::{Fields, Queued, Raw, raw::encode};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::{browser_json::index_of, route};

/// The method of progress notifications.
pub(crate) const METHOD: &str = "notifications/progress";

/// The parameters of a progress notification. The token is sent back as the client wrote it.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ProgressParams<'a, N> {
    progress_token: &'a RawValue,
    progress: N,
    #[serde(skip_serializing_if = "Option::is_none")]
    total: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
}

/// The parameters of the notification that `done` of `total` steps are done.
pub(crate) fn done(progress_token: &RawValue, done: usize, total: usize) -> Raw {
    encode(&ProgressParams { progress_token, progress: done, total: Some(total), message: None })
}

/// How many notifications of its position a call gets. Values are thousandths, so the last one stays below a
/// half, and an engine that counts its own steps comes after it. A client with that many notifications knows
/// that the queue moves.
const NOTICES_MAX: u32 = 400;

/// The progress of one call.
#[derive(Debug, Default)]
pub(crate) struct QueueProgress {
    token: Option<Raw>,
    notices: AtomicU32,
}

impl QueueProgress {
    /// For a call with these parameters.
    pub(crate) fn from_params(params: Option<&RawValue>) -> Self {
        // Most calls do not contain the word: do not parse those.
        let params = params.filter(|params| params.get().contains("progressToken"));
        let token = params.and_then(|params| route::progress_token(&Fields::open(params).ok()?));
        Self { token, notices: AtomicU32::new(0) }
    }

    /// Whether the client wants progress notifications.
    pub(crate) fn is_followed(&self) -> bool {
        self.token.is_some()
    }

    /// The parameters of the notification about the position, if one is due.
    pub(crate) fn notice(&self, queued: Queued<'_>) -> Option<Raw> {
        let progress_token = self.token.as_deref()?;
        let notices = self.notices.fetch_add(1, Ordering::Relaxed) + 1;
        if notices > NOTICES_MAX {
            // Keep the counter at its limit: it must not overflow however long the queue moves.
            self.notices.store(NOTICES_MAX, Ordering::Relaxed);
            return None;
        }
        let Queued { pool, position, waiting } = queued;
        let message = match index_of(pool) {
            Some(index) => format!("waiting for browser {index}: place {position} of {waiting}"),
            None => format!("waiting for a browser: place {position} of {waiting} in pool \"{pool}\""),
        };
        let progress = f64::from(notices) / 1000.0;
        Some(encode(&ProgressParams { progress_token, progress, total: None, message: Some(message) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(params: &str) -> QueueProgress {
        QueueProgress::from_params(Some(&greenroom_core::raw::parse(params.to_owned()).unwrap()))
    }

    /// A notification about the position has the client's own token and a growing value; none is sent without
    /// a token, nor without end.
    #[test]
    fn queue_position_is_notified() {
        let queued = |position| Queued { pool: "DEFAULT", position, waiting: 5 };
        let progress = waiting(r#"{"name":"t","_meta":{"progressToken":"a\u0062"}}"#);
        assert_eq!(
            progress.notice(queued(2)).unwrap().get(),
            r#"{"progressToken":"a\u0062","progress":0.001,"message":"waiting for a browser: place 2 of 5 in pool \"DEFAULT\""}"#
        );
        let attached = Queued { pool: "browser-3", position: 1, waiting: 2 };
        let attached = progress.notice(attached).unwrap();
        assert!(
            attached.get().contains(r#""progress":0.002,"message":"waiting for browser 3: place 1 of 2""#)
        );
        let more = (0..2 * NOTICES_MAX).filter_map(|_| progress.notice(queued(1))).count();
        assert_eq!(more, 398);
        for silent in [r#"{"name":"t"}"#, r#"{"_meta":{}}"#, r#"{"_meta":{"progressToken":null}}"#] {
            assert!(waiting(silent).notice(queued(1)).is_none(), "{silent}");
        }
    }
}
