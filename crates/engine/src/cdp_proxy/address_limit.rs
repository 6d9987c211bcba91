//! Ends pages whose frames and workers have too many long addresses. The browser copies each such address several times,
//! tens of megabytes in all, and answers no session meanwhile. Other messages of many megabytes, such as those of its console,
//! cost it less for each byte, and count less.
//!
//! The bytes of long addresses are counted per context, and forgotten over time. All tabs of a context count together, and
//! closing one subtracts nothing: a page can open and close tabs that each name a few. Beyond the limit, the proxy ends
//! the processes of the context's pages that named long addresses, and of the pages that opened those. A tab does not
//! always say which page opened it (`noopener`), so if the context goes on, the proxy ends all of its pages. It cannot
//! stop a page by a message: while the browser is busy, no message reaches a page.

use std::collections::HashMap;

use serde_json::json;
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{AttachedTarget, OwnIds, call},
};

/// The total length of a context's events that name long addresses. A frame with an address of 2 MB causes about five such
/// events. Pages that put a document or a worker's script into its address have few of these.
const BYTES_MAX: usize = 32 << 20;

/// How much is forgotten per second: little, since a busy browser names few addresses in a second. A session that lives for
/// hours is not ended for an occasional long address.
const BYTES_FORGOTTEN_PER_SECOND: usize = 128 << 10;

/// From this length on a message that a page writes itself counts, such as one of its console. The engine gets much shorter
/// ones only ([`super::answer_limit`], [`super::console_limit`]).
const LONG_MESSAGE_BYTES: usize = 32 << 20;

/// A long message counts as an address of this part of its length: 256 MiB of messages exceed the limit. The browser takes about
/// a second for 150 MB of them.
const LONG_MESSAGE_DIVISOR: usize = 8;

/// Whether a message without a long address counts.
pub(super) fn is_long_message(text: &str) -> bool {
    text.len() >= LONG_MESSAGE_BYTES
}

/// A tab, or a worker that belongs to no tab.
struct CountedPage {
    context: String,
    /// Its target, and the one that opened it.
    target: String,
    opener: Option<String>,
    is_tab: bool,
    /// Whether the page has named a long address.
    has_long_address: bool,
    /// Whether its process was ended and its agent has not navigated it since. A busy browser takes its time to end a
    /// process.
    is_process_ended: bool,
}

/// The bytes of a context's long addresses.
struct ContextTotal {
    bytes: usize,
    /// The time up to which bytes have been forgotten.
    forgotten_until: Instant,
    /// Whether pages have been ended since the context was last within the limit.
    has_ended_pages: bool,
}

#[derive(Default)]
pub(super) struct AddressLimit {
    /// By their sessions.
    pages: HashMap<String, CountedPage>,
    /// By their contexts.
    contexts: HashMap<String, ContextTotal>,
}

impl AddressLimit {
    /// The browser attaches the engine to a target.
    pub(super) fn attached(&mut self, parent: Option<&str>, attached: &AttachedTarget) {
        if !attached.is_page(parent) {
            return;
        }
        let info = &attached.target_info;
        let page = CountedPage {
            context: info.browser_context_id.clone().unwrap_or_default(),
            target: info.target_id.clone(),
            opener: info.opener_id.clone(),
            is_tab: info.r#type == "page",
            has_long_address: false,
            is_process_ended: false,
        };
        self.pages.insert(attached.session_id.clone(), page);
    }

    /// A page is gone; with a context's last page, its count is dropped.
    pub(super) fn detached(&mut self, session: &str) {
        let Some(gone) = self.pages.remove(session) else { return };
        if !self.pages.values().any(|page| page.context == gone.context) {
            self.contexts.remove(&gone.context);
        }
    }

    /// The engine navigates a page, which gets a new process if its old one was ended.
    pub(super) fn navigates(&mut self, session: &str) {
        if let Some(page) = self.pages.get_mut(session) {
            page.has_long_address = false;
            page.is_process_ended = false;
        }
    }

    /// A context is gone.
    pub(super) fn forget(&mut self, context: &str) {
        self.contexts.remove(context);
    }

    /// A page has written a long message of this many bytes. Returns the calls that end pages of the context, if the context
    /// exceeds its limit.
    pub(super) fn count_long_message(
        &mut self,
        session: &str,
        bytes: usize,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Vec<ProxyMessage> {
        self.count_long_address(session, bytes / LONG_MESSAGE_DIVISOR, now, ids)
    }

    /// An event of this many bytes names a long address of a frame or worker of a page. Returns the calls that end
    /// pages of the context, if the context exceeds its limit.
    pub(super) fn count_long_address(
        &mut self,
        session: &str,
        bytes: usize,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Vec<ProxyMessage> {
        let Some(page) = self.pages.get_mut(session).filter(|page| !page.is_process_ended) else {
            return Vec::new();
        };
        page.has_long_address = true;
        let context = page.context.clone();
        let is_tab = page.is_tab;
        let new_total = || ContextTotal { bytes: 0, forgotten_until: now, has_ended_pages: false };
        let total = self.contexts.entry(context.clone()).or_insert_with(new_total);
        if !total.add(bytes, now) {
            return Vec::new();
        }
        // For a shared worker the proxy does not know which of several pages started it.
        let is_known = is_tab && !std::mem::replace(&mut total.has_ended_pages, true);
        let ended_sessions =
            if is_known { self.pages_with_long_addresses(&context) } else { self.tabs(&context) };
        if !ended_sessions.is_empty() {
            tracing::warn!(
                context,
                pages = ended_sessions.len(),
                "pages of a session have too many long addresses or messages; greenroom ends their processes"
            );
        }
        let mut out = Vec::new();
        for session in ended_sessions {
            if let Some(page) = self.pages.get_mut(&session) {
                page.has_long_address = false;
                page.is_process_ended = true;
            }
            out.push(ProxyMessage::ToBrowser(call(ids.next(), Some(&session), "Page.crash", &json!({}))));
        }
        out
    }

    /// The sessions of a context's tabs that were not ended.
    fn tabs(&self, context: &str) -> Vec<String> {
        let is_open_tab =
            |page: &CountedPage| page.context == context && page.is_tab && !page.is_process_ended;
        let tabs = self.pages.iter().filter(|(_, page)| is_open_tab(page));
        tabs.map(|(session, _)| session.clone()).collect()
    }

    /// The sessions of the pages that named long addresses, and of the pages that opened these.
    fn pages_with_long_addresses(&self, context: &str) -> Vec<String> {
        let mut sessions = self.tabs(context);
        let mut found = Vec::new();
        let mut openers: Vec<&str> = Vec::new();
        loop {
            let is_found = |session: &mut String| {
                let page = &self.pages[session.as_str()];
                page.has_long_address || openers.contains(&&*page.target)
            };
            let more: Vec<String> = sessions.extract_if(.., is_found).collect();
            if more.is_empty() {
                return found;
            }
            openers.extend(more.iter().filter_map(|session| self.pages[session].opener.as_deref()));
            found.extend(more);
        }
    }
}

impl ContextTotal {
    /// Adds this many bytes, and says whether the limit is exceeded.
    fn add(&mut self, bytes: usize, now: Instant) -> bool {
        let seconds = now.saturating_duration_since(self.forgotten_until).as_secs();
        self.forgotten_until += std::time::Duration::from_secs(seconds);
        let forgotten =
            usize::try_from(seconds).unwrap_or(usize::MAX).saturating_mul(BYTES_FORGOTTEN_PER_SECOND);
        // With this bound a context that exceeded the limit may name long addresses again after a minute without any.
        let most = BYTES_MAX + 60 * BYTES_FORGOTTEN_PER_SECOND;
        self.bytes = self.bytes.saturating_sub(forgotten).saturating_add(bytes).min(most);
        let is_too_much = self.bytes > BYTES_MAX;
        self.has_ended_pages &= is_too_much;
        is_too_much
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cdp_proxy::message::session_of;

    /// The limit and its inputs.
    struct AddressFixture {
        limit: AddressLimit,
        ids: OwnIds,
        now: Instant,
    }

    impl AddressFixture {
        /// Tab `A` of context `1`, and tab `C` of context `2`.
        fn new() -> Self {
            let mut fixture =
                Self { limit: AddressLimit::default(), ids: OwnIds::default(), now: Instant::now() };
            fixture.attached("A", "page", "1", None);
            fixture.attached("C", "page", "2", None);
            fixture
        }

        fn attached(&mut self, session: &str, kind: &str, context: &str, opener: Option<&str>) {
            let info = json!({ "targetId": format!("t{session}"), "type": kind, "browserContextId": context,
                "openerId": opener });
            let attached = json!({ "sessionId": session, "targetInfo": info });
            self.limit.attached(None, &serde_json::from_value(attached).unwrap());
        }

        /// The pages that lose their processes when one names a long address.
        fn ended(&mut self, session: &str, bytes: usize) -> Vec<String> {
            let out = self.limit.count_long_address(session, bytes, self.now, &mut self.ids);
            let mut ended: Vec<_> = out
                .iter()
                .map(|out| match out {
                    ProxyMessage::ToBrowser(text) if text.contains("\"Page.crash\"") => {
                        session_of(text).unwrap().to_owned()
                    }
                    other => panic!("{other:?}"),
                })
                .collect();
            ended.sort();
            ended
        }
    }

    /// A page with frames of long addresses loses its process, however long each is; others keep theirs.
    #[test]
    fn page_with_many_long_addresses_is_ended() {
        for bytes in [2 << 20, 120 << 10] {
            let mut fixture = AddressFixture::new();
            for _ in 0..BYTES_MAX / bytes {
                assert_eq!(fixture.ended("A", bytes), [""; 0]);
            }
            assert_eq!(fixture.ended("C", bytes), [""; 0]);
            assert_eq!(fixture.ended("unknown", bytes), [""; 0]);
            assert_eq!(fixture.ended("A", bytes), ["A"]);
            assert_eq!(fixture.ended("A", bytes), [""; 0], "it is being ended");
            fixture.limit.navigates("A");
            assert_eq!(fixture.ended("A", bytes), ["A"], "it goes on");
        }
    }

    /// A page opens tab after tab, each of which names a few long addresses and closes: the page loses its process with the
    /// tab that exceeds the limit. An unrelated tab keeps its process until the next excess.
    #[test]
    fn tabs_of_a_context_count_together() {
        let mut fixture = AddressFixture::new();
        fixture.attached("B", "page", "1", None);
        for _ in 0..BYTES_MAX / (16 << 20) {
            fixture.attached("P", "page", "1", Some("tA"));
            assert_eq!(fixture.ended("P", 16 << 20), [""; 0]);
            fixture.limit.detached("P");
        }
        fixture.attached("P", "page", "1", Some("tA"));
        fixture.attached("Q", "page", "1", Some("tP"));
        assert_eq!(fixture.ended("Q", 2 << 20), ["A", "P", "Q"]);
        fixture.attached("R", "page", "1", Some("t gone"));
        assert_eq!(fixture.ended("R", 2 << 20), ["B", "R"], "B may have opened it");
    }

    /// A page that writes messages of many megabytes is ended.
    #[test]
    fn page_with_long_messages_is_ended() {
        for (bytes, ended_after) in [(100 << 20, Some(2)), (200 << 20, Some(1))] {
            let mut fixture = AddressFixture::new();
            let sent = |_| fixture.limit.count_long_message("A", bytes, fixture.now, &mut fixture.ids);
            assert_eq!((0..100).map(sent).position(|ends| !ends.is_empty()), ended_after, "{bytes}");
        }
    }

    /// A shared worker names long addresses: all tabs end, because any of them may have started it.
    #[test]
    fn all_tabs_end_for_a_shared_worker() {
        let mut fixture = AddressFixture::new();
        fixture.attached("B", "page", "1", None);
        fixture.attached("S", "shared_worker", "1", None);
        assert_eq!(fixture.ended("S", BYTES_MAX + 1), ["A", "B"]);
    }

    /// What a context has named is forgotten with time, and with the context.
    #[test]
    fn totals_are_forgotten_over_time() {
        let mut fixture = AddressFixture::new();
        assert_eq!(fixture.ended("A", BYTES_MAX), [""; 0]);
        fixture.now += Duration::from_secs(2);
        assert_eq!(fixture.ended("A", 2 * BYTES_FORGOTTEN_PER_SECOND), [""; 0]);
        assert_eq!(fixture.ended("A", 1), ["A"]);
        fixture.limit.navigates("A");
        fixture.limit.forget("1");
        assert_eq!(fixture.ended("A", BYTES_MAX), [""; 0]);
        for _ in 0..1_000 {
            fixture.now += Duration::from_secs(1);
            assert_eq!(fixture.ended("A", BYTES_FORGOTTEN_PER_SECOND), [""; 0]);
        }
    }
}
