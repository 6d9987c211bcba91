//! Attached browsers as programs see them: the answer of `list_browsers`, of `/api/browsers` and of the control socket,
//! field for field. A field that another version does not send is empty here, so that versions can ask each other.

use greenroom_core::time::timestamp_ms;
use greenroom_fleet::{BrowserStatus, Fleet, pool_name};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// All attached browsers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(default)]
pub struct Browsers {
    pub browsers: Vec<Browser>,
}

/// An attached browser: a running browser that greenroom connects to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Browser {
    /// Its number, counted from 1. greenroom never gives it to another browser.
    pub index: u32,
    /// The address of its debugger.
    pub url: String,
    pub label: Option<String>,
    pub tags: Vec<String>,
    /// The engine that drives it.
    pub engine: String,
    /// `pending`, `connecting`, `connected` or `disconnected`.
    pub state: String,
    /// Why the last attempt to connect failed, or how the connection was lost.
    pub last_error: Option<String>,
    /// When greenroom last tried to connect.
    pub last_attempt: Option<String>,
    /// In how many seconds greenroom tries to connect again.
    pub retry_in_seconds: Option<u64>,
    /// How many times greenroom has reconnected.
    pub reconnects: u64,
    /// How many sessions use it.
    pub sessions: usize,
    pub slots: usize,
    pub leased_slots: usize,
    /// How many calls wait for it.
    pub waiting: usize,
}

impl Browsers {
    pub(crate) fn list(fleet: &Fleet) -> Self {
        Self {
            browsers: fleet
                .browsers()
                .into_iter()
                .map(|status| Browser::from_status(fleet, status))
                .collect(),
        }
    }
}

impl Browser {
    pub(crate) fn from_status(fleet: &Fleet, status: BrowserStatus) -> Self {
        let pool = pool_name(status.index);
        Self {
            index: status.index,
            state: status.state.as_str().to_owned(),
            last_attempt: status.last_attempt.map(timestamp_ms),
            // Round up: 0 would mean that greenroom tries now.
            retry_in_seconds: status.retry_in.map(|left| left.as_secs_f64().ceil() as u64),
            sessions: fleet.list_all().iter().filter(|(_, session)| session.pool == pool).count(),
            url: status.url,
            label: status.label,
            tags: status.tags,
            engine: status.engine,
            last_error: status.last_error,
            reconnects: status.reconnects,
            slots: status.slots,
            leased_slots: status.leased_slots,
            waiting: status.waiting,
        }
    }

    /// `[1] http://127.0.0.1:9222 - connected (work; tags: a, b)`.
    pub(crate) fn line(&self) -> String {
        let label = self.label.clone();
        let tags =
            Some(self.tags.join(", ")).filter(|tags| !tags.is_empty()).map(|tags| format!("tags: {tags}"));
        let names: Vec<_> = label.into_iter().chain(tags).collect();
        let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join("; ")) };
        let again = self.retry_in_seconds.filter(|_| self.state == "disconnected");
        let again = again.map(|seconds| format!(", tried again in {seconds} s")).unwrap_or_default();
        format!("[{}] {} - {}{again}{names}", self.index, self.url, self.state)
    }

    /// What is wrong with the connection; `None` when nothing is.
    pub(crate) fn connection_problem(&self) -> Option<String> {
        let error = self.last_error.as_ref().filter(|_| self.state != "connected")?;
        Some(format!("browser {}: {error}", self.index))
    }
}

/// The index of the attached browser that the fleet runs as the pool of this name.
pub(crate) fn index_of(pool: &str) -> Option<u32> {
    pool.strip_prefix("browser-")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A browser's pool is recognised by its name, and no other pool counts as one.
    #[test]
    fn browser_pool_is_recognised_by_its_name() {
        for index in [1, 64] {
            assert_eq!(index_of(&pool_name(index)), Some(index));
        }
        for other in ["DEFAULT", "browser-", "browser-x", "BROWSER-1"] {
            assert_eq!(index_of(other), None, "{other}");
        }
    }

    /// A browser is one line, its label and tags after its state; the problem with it is a text of its own.
    #[test]
    fn browser_line_has_label_tags_and_state() {
        let plain = Browser {
            index: 2,
            url: "http://127.0.0.1:9223".to_owned(),
            state: "connected".to_owned(),
            last_error: Some("refused".to_owned()),
            ..Browser::default()
        };
        assert_eq!(plain.line(), "[2] http://127.0.0.1:9223 - connected");
        assert_eq!(plain.connection_problem(), None, "it is connected again");
        let tags = vec!["a".to_owned(), "b".to_owned()];
        let named = Browser { label: Some("work".to_owned()), tags: tags.clone(), ..plain.clone() };
        assert_eq!(named.line(), "[2] http://127.0.0.1:9223 - connected (work; tags: a, b)");
        let down = Browser { state: "disconnected".to_owned(), tags, retry_in_seconds: Some(7), ..plain };
        assert_eq!(down.line(), "[2] http://127.0.0.1:9223 - disconnected, tried again in 7 s (tags: a, b)");
        assert_eq!(down.connection_problem().unwrap(), "browser 2: refused");
    }
}
