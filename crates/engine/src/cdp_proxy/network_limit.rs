//! Limits how many requests of pages reach the engine. The engine keeps every request of a tab until an agent navigates
//! that tab or closes it; navigations by the page itself make no difference. One Node process serves all sessions of a
//! browser: a page that makes requests without end would make it run out of memory.
//!
//! Beyond the limits whole requests are left out, from their first event to their last, so that the engine does not wait for
//! the end of a request that it knows. All tabs of a context count together, and with each tab its frames and workers. The
//! engine does not keep events that only report the progress of a request; a number of them passes per second.
//!
//! If the engine judges requests (`Fetch.requestPaused`), it needs the whole request: the proxy blocks a request that is
//! left out or too long to pass on.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    time::Duration,
};

use greenroom_cdp::message_stream::Text;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    ProxyMessage,
    long_events::EVENT_BYTES_MAX,
    message::{AttachedTarget, Envelope, OwnIds, call, read, session_of},
};

/// How many requests of a context reach the engine, which takes about 13 KB for each: 52 MB for every session of a browser.
/// A page of unbundled modules loads some 3,000 files. An agent does not read a longer list.
const REQUESTS_MAX: u32 = 4_000;

/// The total length of the events of these requests.
const BYTES_MAX: usize = 64 << 20;

/// How much of it is forgiven per context in each [`SECOND`], so that requests are not left out of a page on which an agent
/// stays for hours, and which polls its server now and then. The engine does not forget them: it grows by up to 50 MB an
/// hour, for [`FORGIVEN_MAX`] requests of a page.
const REQUESTS_FORGIVEN_PER_SECOND: u64 = 1;
const BYTES_FORGIVEN_PER_SECOND: u64 = 8 << 10;
const FORGIVEN_MAX: u64 = 20_000;

/// The engine detects documents by the events of navigations, so these pass up to this multiple of the limit.
const NAVIGATIONS_FACTOR: u32 = 2;

/// How many progress events of a page pass in each [`SECOND`], and how many bytes of them.
const PROGRESS_EVENTS_MAX: u32 = 1_000;
const PROGRESS_BYTES_MAX: usize = 4 << 20;
const SECOND: Duration = Duration::from_secs(1);

/// The requests that the engine got.
#[derive(Default, Clone, Copy)]
struct RequestTotals {
    requests: u32,
    bytes: usize,
}

/// A tab, or a worker that belongs to no tab.
struct PageRequests {
    /// Its context. Empty if the browser does not say.
    context: String,
    /// Requests since an agent last navigated it, less the forgiven ones.
    passed_totals: RequestTotals,
    /// The time up to which requests are forgiven, and how many were.
    forgiven_until: Instant,
    forgiven: u64,
    /// Requests that the engine got and that have not ended.
    open_requests: HashSet<String>,
    /// Whether the agent has a notice that requests are left out.
    has_notice: bool,
    /// Since when `progress` counts.
    progress_since: Instant,
    progress: RequestTotals,
}

/// What happens to an event.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum EventVerdict {
    /// The engine gets this.
    Pass(Text),
    /// This happens instead.
    Instead(Vec<ProxyMessage>),
}

impl EventVerdict {
    fn drop() -> Self {
        Self::Instead(Vec::new())
    }
}

#[derive(Default)]
pub(super) struct NetworkLimit {
    /// By their sessions.
    pages: HashMap<String, PageRequests>,
    /// The sessions of frames and workers, and the page of each.
    page_of_child_session: HashMap<String, String>,
}

/// The fields of an event that are read.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RequestEvent<'a> {
    #[serde(borrow)]
    request_id: Cow<'a, str>,
    /// The document's loader. It equals the number of the request that loaded the document.
    #[serde(borrow)]
    loader_id: Option<Cow<'a, str>>,
    /// The number at `Network` of a request that `Fetch` has paused.
    #[serde(borrow)]
    network_id: Option<Cow<'a, str>>,
    /// The resource type of a paused request.
    #[serde(borrow)]
    resource_type: Option<Cow<'a, str>>,
}

impl NetworkLimit {
    /// The browser attaches the engine to a target.
    pub(super) fn attached(&mut self, parent: Option<&str>, attached: &AttachedTarget, now: Instant) {
        let session = attached.session_id.clone();
        match parent {
            Some(parent) if !attached.is_page(Some(parent)) => {
                let page = self.page_session(parent).to_owned();
                self.page_of_child_session.insert(session, page);
            }
            Some(_) | None => {
                let context = attached.target_info.browser_context_id.clone().unwrap_or_default();
                self.pages.insert(session, PageRequests::new(context, now));
            }
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.page_of_child_session.remove(session);
        if self.pages.remove(session).is_some() {
            self.page_of_child_session.retain(|_, page| page != session);
        }
    }

    /// The engine navigates a page, and has forgotten its requests.
    pub(super) fn navigates(&mut self, session: &str) {
        if let Some(page) = self.pages.get_mut(session) {
            page.passed_totals = RequestTotals::default();
            page.has_notice = false;
            page.forgiven = 0;
        }
    }

    /// Decides on an event of the browser.
    pub(super) fn judge(&mut self, name: &str, text: Text, now: Instant, ids: &mut OwnIds) -> EventVerdict {
        match name {
            "Fetch.requestPaused" | "Fetch.authRequired" => self.judge_paused(name, text, now, ids),
            _ if name.starts_with("Network.") => self.judge_request_event(name, text, now),
            _ => EventVerdict::Pass(text),
        }
    }

    fn judge_request_event(&mut self, name: &str, text: Text, now: Instant) -> EventVerdict {
        let Some(event) = request_event(&text) else { return EventVerdict::Pass(text) };
        let session = self.page_of_event(&text, now);
        let is_navigation = event.loader_id.as_ref() == Some(&event.request_id);
        let is_limit_reached = self.is_limit_reached(&session, is_navigation, now);
        let Some(page) = self.pages.get_mut(&session) else { return EventVerdict::drop() };
        let is_open = match name {
            "Network.loadingFinished" | "Network.loadingFailed" | "Network.webSocketClosed" => {
                page.open_requests.remove(&*event.request_id)
            }
            _ => page.open_requests.contains(&*event.request_id),
        };
        if is_limit_reached && !is_open {
            return EventVerdict::Instead(page.drop_with_notice(&session));
        }
        match name {
            "Network.dataReceived"
            | "Network.eventSourceMessageReceived"
            | "Network.resourceChangedPriority"
            | "Network.webSocketFrameError"
            | "Network.webSocketFrameReceived"
            | "Network.webSocketFrameSent" => {
                return if page.admit_progress(text.len(), now) {
                    EventVerdict::Pass(text)
                } else {
                    EventVerdict::drop()
                };
            }
            // The engine takes a redirection for a request of its own, with the same number.
            "Network.requestWillBeSent" | "Network.webSocketCreated" => {
                page.passed_totals.requests = page.passed_totals.requests.saturating_add(1);
                page.open_requests.insert(event.request_id.into_owned());
            }
            _ => {}
        }
        page.passed_totals.bytes = page.passed_totals.bytes.saturating_add(text.len());
        EventVerdict::Pass(text)
    }

    /// A request waits for the engine's decision. Its first event at `Network` may come before this one or after it.
    fn judge_paused(&mut self, name: &str, text: Text, now: Instant, ids: &mut OwnIds) -> EventVerdict {
        let Some(paused) = request_event(&text) else { return EventVerdict::Pass(text) };
        let session = self.page_of_event(&text, now);
        let block = |ids: &mut OwnIds| {
            let (method, mut params) = match name {
                "Fetch.requestPaused" => ("Fetch.failRequest", json!({ "errorReason": "BlockedByClient" })),
                _ => {
                    let cancel = json!({ "response": "CancelAuth" });
                    ("Fetch.continueWithAuth", json!({ "authChallengeResponse": cancel }))
                }
            };
            params["requestId"] = Value::from(&*paused.request_id);
            ProxyMessage::ToBrowser(call(ids.next(), session_of(&text), method, &params))
        };
        let is_document = paused.network_id.is_some() && paused.resource_type.as_deref() == Some("Document");
        let is_limit_reached = self.is_limit_reached(&session, is_document, now);
        let Some(page) = self.pages.get_mut(&session) else { return EventVerdict::Instead(vec![block(ids)]) };
        // The engine continues a request without this number at once.
        if let Some(id) = paused.network_id.as_deref().filter(|_| name == "Fetch.requestPaused") {
            if is_limit_reached && !page.open_requests.contains(id) {
                let mut out = page.drop_with_notice(&session);
                out.push(block(ids));
                return EventVerdict::Instead(out);
            }
            page.open_requests.insert(id.to_owned());
        }
        let text = match text.len() {
            0..=EVENT_BYTES_MAX => text.clone(),
            _ => match without_body(&text) {
                Some(text) => text,
                None => return EventVerdict::Instead(vec![block(ids)]),
            },
        };
        page.passed_totals.bytes = page.passed_totals.bytes.saturating_add(text.len());
        EventVerdict::Pass(text)
    }

    /// The session of the page to which a session belongs: a frame's or a worker's page, or the page itself.
    pub(super) fn page_session<'a>(&'a self, session: &'a str) -> &'a str {
        self.page_of_child_session.get(session).map_or(session, String::as_str)
    }

    /// The session of the page to which an event belongs. A session that the browser has not named before is taken for a
    /// page.
    fn page_of_event(&mut self, text: &str, now: Instant) -> String {
        let page = self.page_session(session_of(text).unwrap_or_default()).to_owned();
        if !self.pages.contains_key(&page) {
            self.pages.insert(page.clone(), PageRequests::new(String::new(), now));
        }
        page
    }

    /// Whether the engine got as many requests of a page's context as it may.
    fn is_limit_reached(&mut self, session: &str, is_navigation: bool, now: Instant) -> bool {
        let Some(context) = self.pages.get(session).map(|page| page.context.clone()) else { return true };
        let factor = if is_navigation { NAVIGATIONS_FACTOR } else { 1 };
        let tabs = self.pages.values().filter(|page| page.context == context).count() as u64;
        let mut all = RequestTotals::default();
        for page in self.pages.values_mut().filter(|page| page.context == context) {
            page.forgive(now, tabs);
            all.requests = all.requests.saturating_add(page.passed_totals.requests);
            all.bytes = all.bytes.saturating_add(page.passed_totals.bytes);
        }
        all.requests >= REQUESTS_MAX * factor || all.bytes >= BYTES_MAX * factor as usize
    }
}

impl PageRequests {
    fn new(context: String, now: Instant) -> Self {
        Self {
            context,
            passed_totals: RequestTotals::default(),
            forgiven_until: now,
            forgiven: 0,
            open_requests: HashSet::new(),
            has_notice: false,
            progress_since: now,
            progress: RequestTotals::default(),
        }
    }

    /// Forgives requests for the time since the last call. The `tabs` of a context share the context's rate.
    fn forgive(&mut self, now: Instant, tabs: u64) {
        let seconds = now.saturating_duration_since(self.forgiven_until).as_secs() / tabs.max(1);
        self.forgiven_until += Duration::from_secs(seconds * tabs);
        let left = FORGIVEN_MAX.saturating_sub(self.forgiven) / REQUESTS_FORGIVEN_PER_SECOND;
        let seconds = seconds.min(left);
        let requests = u32::try_from(seconds * REQUESTS_FORGIVEN_PER_SECOND)
            .unwrap_or(u32::MAX)
            .min(self.passed_totals.requests);
        let bytes = usize::try_from(seconds * BYTES_FORGIVEN_PER_SECOND).unwrap_or(usize::MAX);
        self.passed_totals.requests -= requests;
        self.passed_totals.bytes = self.passed_totals.bytes.saturating_sub(bytes);
        self.forgiven += u64::from(requests);
    }

    /// Counts a progress event, and says whether it passes.
    fn admit_progress(&mut self, bytes: usize, now: Instant) -> bool {
        if now.duration_since(self.progress_since) >= SECOND {
            self.progress_since = now;
            self.progress = RequestTotals::default();
        }
        self.progress.requests = self.progress.requests.saturating_add(1);
        self.progress.bytes = self.progress.bytes.saturating_add(bytes);
        self.progress.requests <= PROGRESS_EVENTS_MAX && self.progress.bytes <= PROGRESS_BYTES_MAX
    }

    /// Drops an event. The first time, the engine gets a notice as a message of the page's console.
    fn drop_with_notice(&mut self, session: &str) -> Vec<ProxyMessage> {
        if std::mem::replace(&mut self.has_notice, true) || session.is_empty() {
            return Vec::new();
        }
        let text = format!(
            "greenroom: this session has made more than {REQUESTS_MAX} requests, or {} MiB of them, since its last navigation; \
             further ones are not listed, and are blocked where a route, allowed_origins or blocked_origins is set. Navigate \
             a tab, or close one.",
            BYTES_MAX >> 20
        );
        let entry = json!({ "source": "other", "level": "warning", "text": text, "timestamp": 0 });
        let event = json!({ "method": "Log.entryAdded", "params": { "entry": entry }, "sessionId": session });
        vec![ProxyMessage::ToEngine(event.to_string().into())]
    }
}

fn request_event(text: &str) -> Option<RequestEvent<'_>> {
    read(serde_json::from_str::<Envelope<'_>>(text).ok()?.params)
}

/// A paused request without its body, which the browser sends all the same. `None` if it is still too long: the engine
/// judges its address and headers, so these are not cut.
fn without_body(text: &str) -> Option<Text> {
    let mut event: Value = serde_json::from_str(text).ok()?;
    let request = event.get_mut("params")?.get_mut("request")?.as_object_mut()?;
    request.remove("postData");
    request.remove("postDataEntries");
    let text = event.to_string();
    (text.len() <= EVENT_BYTES_MAX).then(|| text.into())
}

#[cfg(test)]
mod tests;
