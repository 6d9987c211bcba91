//! Hides tabs that do not answer from an engine, in a browser whose tabs belong to its user. It has no socket and no clock:
//! messages and times come in, messages go out.
//!
//! Before the engine gets a tab, the filter sends the tab a probe, in the very session that the engine would use. A tab
//! that answers is shown; until then all messages after it wait, so that the engine sees tabs in the browser's order. A tab
//! that does not answer in time is hidden, and shown when it answers after all. Later, when a tab leaves an engine's call
//! unanswered, the filter sends another probe; a tab that does not answer it is taken from the engine, and shown again when
//! it answers.
//!
//! The filter never probes the engine's own tabs, nor a tab that the engine uses for the agent, nor one whose dialog the
//! engine knows of: the engine has to cope with these. Nor does it hold a session that the engine asks for itself.

mod engine_tabs;
mod hold_queue;
mod tab;

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_cdp::message_stream::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{
        AttachedTarget, CdpError, DetachedTarget, Envelope, SESSION_NOT_FOUND, TargetOrContext, call, event,
        read,
    },
};
pub(super) use engine_tabs::EngineTabs;
use hold_queue::{HeldItem, HoldQueue};
use tab::{SessionTab, TabState};

/// How long a tab may take to answer a probe. A busy tab takes a tenth of a second.
const PROBE_WITHIN: Duration = Duration::from_secs(2);

/// How long an engine's call to a tab of the browser's user may take before the filter sends the tab a probe.
const CALL_UNANSWERED_MAX: Duration = Duration::from_secs(2);

/// How long messages may wait behind tabs that are being probed, however many these are, and how many bytes are kept.
const QUEUE_WAIT_MAX: Duration = Duration::from_secs(4);
const QUEUE_BYTES_MAX: usize = 8 << 20;

/// Methods that an engine calls only on a tab in which its agent works.
const AGENT_METHODS: [&str; 5] = [
    "Page.bringToFront",
    "Page.navigate",
    "Page.reload",
    "Page.captureScreenshot",
    "Accessibility.getFullAXTree",
];

/// The call that is the probe: it asks the page's own process for something cheap that runs none of the page's code.
const PROBE_METHOD: &str = "Runtime.getHeapUsage";

/// One connection of an engine.
pub(super) struct SilentTabs {
    engine_tabs: Arc<EngineTabs>,
    /// The filter's own calls count down from the highest number, so that they never collide with the engine's.
    next_call_id: u32,
    /// The session that each of the filter's own calls probes; empty if the filter ignores the answer.
    own_calls: HashMap<u32, String>,
    /// By session.
    tabs: HashMap<String, SessionTab>,
    /// What the protocol calls tabs: a page's place in the tab strip, never silent. Their targets, by session.
    tab_targets: HashMap<String, String>,
    /// Messages that wait behind a tab that is being probed, by the session in which they came.
    queues: HashMap<Option<String>, HoldQueue>,
    /// The engine's calls that make a tab or context of its own.
    creating_calls: Vec<u32>,
    /// The engine's calls for a session of its own with a tab.
    attaching_calls: HashMap<u32, String>,
    /// Whether the engine subscribed to tabs that come and go.
    wants_target_events: bool,
}

impl SilentTabs {
    pub(super) fn new(engine_tabs: Arc<EngineTabs>) -> Self {
        Self {
            engine_tabs,
            next_call_id: i32::MAX.unsigned_abs(),
            own_calls: HashMap::new(),
            tabs: HashMap::new(),
            tab_targets: HashMap::new(),
            queues: HashMap::new(),
            creating_calls: Vec::new(),
            attaching_calls: HashMap::new(),
            wants_target_events: false,
        }
    }

    /// Notes what the engine asks for. Every call passes.
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>, now: Instant) {
        let Envelope { id, method: Some(method), session, params, .. } = call else { return };
        match (&**method, session.as_deref().and_then(|session| self.tabs.get_mut(session))) {
            ("Target.createTarget" | "Target.createBrowserContext", _) => self.creating_calls.extend(*id),
            ("Target.attachToTarget", _) => {
                let target = read::<TargetOrContext>(*params).and_then(|params| params.target_id);
                self.attaching_calls.extend(id.zip(target));
            }
            ("Target.setDiscoverTargets", _) => self.wants_target_events = true,
            (method, Some(tab)) if AGENT_METHODS.contains(&method) || method.starts_with("Input.") => {
                tab.is_used_by_agent = true;
            }
            (_, Some(tab)) => {
                tab.unanswered.extend(*id);
                tab.unanswered_since.get_or_insert(now);
            }
            _ => {}
        }
    }

    /// The browser sends a message.
    pub(super) fn on_browser_message(&mut self, text: Text, now: Instant) -> Vec<ProxyMessage> {
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
            return vec![ProxyMessage::ToEngine(text)];
        };
        let session = envelope.session.as_deref();
        if let Some(tab) = envelope.id.and_then(|id| self.own_calls.remove(&id)) {
            let error = read::<CdpError>(envelope.error);
            return match error {
                Some(CdpError { code: SESSION_NOT_FOUND }) => self.tab_detached(&tab).unwrap_or_default(),
                // A tab that answers the probe with an error has answered, too.
                Some(_) | None => self.on_probe_answer(&tab, now),
            };
        }
        match (envelope.id, envelope.method.as_deref()) {
            (Some(id), _) => self.on_answer_to_engine(id, &envelope, now),
            (None, Some("Target.attachedToTarget")) => {
                if let Some(attached) = read::<AttachedTarget>(envelope.params) {
                    let parent = session.map(ToOwned::to_owned);
                    return self.tab_attached(attached, parent, text.clone(), now);
                }
            }
            (None, Some("Target.detachedFromTarget")) => {
                if let Some(DetachedTarget { session_id }) = read(envelope.params) {
                    let detaching = self.tabs.get(&session_id).filter(|tab| tab.state == TabState::Detaching);
                    let detaching = detaching.map(|tab| tab.target.clone());
                    if let Some(out) = self.tab_detached(&session_id) {
                        return out;
                    }
                    if let Some(target) = detaching {
                        let queue = session.map(ToOwned::to_owned);
                        let mut out = self.pass(&queue, text.clone());
                        out.push(self.reattach(&target));
                        return out;
                    }
                }
            }
            (None, Some(method)) => {
                if let Some(tab) = session.and_then(|session| self.tabs.get_mut(session)) {
                    match (method, tab.state) {
                        (_, TabState::Held(_) | TabState::Hidden) => return Vec::new(),
                        ("Page.javascriptDialogOpening", _) => tab.has_dialog = true,
                        ("Page.javascriptDialogClosed", state) => {
                            tab.has_dialog = false;
                            // The time that the dialog took does not count.
                            tab.unanswered_since = tab.unanswered_since.map(|_| now);
                            if let TabState::Probed(_) = state {
                                tab.state = TabState::Probed(now);
                            }
                        }
                        _ => {}
                    }
                }
            }
            (None, None) => {}
        }
        let queue = session.map(ToOwned::to_owned);
        self.pass(&queue, text)
    }

    /// Sends a message to the engine, after those that wait.
    fn pass(&mut self, queue: &Option<String>, text: Text) -> Vec<ProxyMessage> {
        let Some(waiting) = self.queues.get_mut(queue) else { return vec![ProxyMessage::ToEngine(text)] };
        waiting.push(HeldItem::Message(text));
        if waiting.bytes > QUEUE_BYTES_MAX { self.hide_held_tabs(queue) } else { Vec::new() }
    }

    /// When time alone changes something, if no message comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        let queues = self.queues.values().map(|queue| queue.since + QUEUE_WAIT_MAX);
        self.tabs.values().filter_map(|tab| self.deadline_of(tab)).chain(queues).min()
    }

    fn deadline_of(&self, tab: &SessionTab) -> Option<Instant> {
        let due = match tab.state {
            TabState::Held(since) => return Some(since + PROBE_WITHIN),
            TabState::Probed(since) => since + PROBE_WITHIN,
            TabState::Shown => tab.unanswered_since? + CALL_UNANSWERED_MAX,
            TabState::Hidden | TabState::Detaching => return None,
        };
        // Last, since this is checked with every message, and most tabs owe no answer.
        let is_exempt = tab.is_used_by_agent || tab.has_dialog || self.engine_tabs.contains(&tab.target);
        (!is_exempt).then_some(due)
    }

    pub(super) fn on_deadline(&mut self, now: Instant) -> Vec<ProxyMessage> {
        let is_due = |tab: &SessionTab| self.deadline_of(tab).is_some_and(|due| due <= now);
        let due = self.tabs.iter().filter(|(_, tab)| is_due(tab));
        let due: Vec<(String, TabState)> = due.map(|(session, tab)| (session.clone(), tab.state)).collect();
        let mut out = Vec::new();
        for (session, state) in due {
            match state {
                TabState::Held(_) => {
                    tracing::info!(
                        "a tab of the browser does not answer; it is hidden from the engine until it does"
                    );
                    out.extend(self.set_state(&session, TabState::Hidden));
                }
                TabState::Probed(_) => {
                    tracing::info!("a tab of the browser no longer answers; it is taken from the engine");
                    out.extend(self.detach_tab(&session));
                }
                TabState::Shown => out.extend(self.send_probe(&session, TabState::Probed(now))),
                TabState::Hidden | TabState::Detaching => {}
            }
        }
        let queues = self.queues.iter().filter(|(_, queue)| queue.since + QUEUE_WAIT_MAX <= now);
        let queues: Vec<_> = queues.map(|(queue, _)| queue.clone()).collect();
        out.extend(queues.iter().flat_map(|queue| self.hide_held_tabs(queue)).collect::<Vec<_>>());
        out
    }

    /// Hides all tabs for which this queue still waits.
    fn hide_held_tabs(&mut self, queue: &Option<String>) -> Vec<ProxyMessage> {
        for tab in self.tabs.values_mut().filter(|tab| tab.parent == *queue) {
            if let TabState::Held(_) = tab.state {
                tab.state = TabState::Hidden;
            }
        }
        self.release_queue(queue)
    }

    /// Makes the browser announce a tab again.
    fn reattach(&mut self, target: &str) -> ProxyMessage {
        let id = self.next_id();
        // The result comes as an event.
        self.own_calls.insert(id, String::new());
        let params = json!({ "targetId": target, "flatten": true });
        ProxyMessage::ToBrowser(call(id, None, "Target.attachToTarget", &params))
    }

    fn tab_attached(
        &mut self,
        attached: AttachedTarget,
        parent: Option<String>,
        text: Text,
        now: Instant,
    ) -> Vec<ProxyMessage> {
        let AttachedTarget { session_id, target_info, waiting_for_debugger } = attached;
        if target_info.r#type == "tab" {
            self.tab_targets.insert(session_id, target_info.target_id);
        } else if target_info.r#type == "page" {
            self.engine_tabs.add_if_own(&target_info);
            let target = &target_info.target_id;
            let is_known = |tab: &SessionTab| {
                tab.target == *target && !matches!(tab.state, TabState::Held(_) | TabState::Hidden)
            };
            let is_wanted = self.attaching_calls.values().any(|wanted| wanted == target)
                || self.tabs.values().any(is_known);
            // A tab that is paused until the engine resumes it cannot answer the filter.
            let is_probed = !waiting_for_debugger && !is_wanted && !self.engine_tabs.contains(target);
            let tab = SessionTab {
                target: target_info.target_id,
                parent: parent.clone(),
                attached: text.clone(),
                state: TabState::Shown,
                is_used_by_agent: false,
                has_dialog: false,
                unanswered: Vec::new(),
                unanswered_since: None,
            };
            self.tabs.insert(session_id.clone(), tab);
            if is_probed {
                let out = self.send_probe(&session_id, TabState::Held(now));
                let queue = self.queues.entry(parent).or_insert_with(|| HoldQueue::new(now));
                queue.push(HeldItem::Tab(session_id));
                return out;
            }
        }
        self.pass(&parent, text)
    }

    /// A session has ended. Returns what to do instead of telling the engine, if the session was hidden from it.
    fn tab_detached(&mut self, session: &str) -> Option<Vec<ProxyMessage>> {
        self.tab_targets.remove(session);
        self.queues.remove(&Some(session.to_owned()));
        // Sessions that were attached within it end with it.
        self.tabs.retain(|_, tab| tab.parent.as_deref() != Some(session));
        self.own_calls.retain(|_, session_asked| {
            session_asked.is_empty() || (session_asked != session && self.tabs.contains_key(session_asked))
        });
        let tab = self.tabs.remove(session)?;
        if self.tabs.values().all(|other| other.target != tab.target) {
            self.engine_tabs.forget(&tab.target);
        }
        match tab.state {
            TabState::Held(_) => Some(self.release_queue(&tab.parent)),
            TabState::Hidden => Some(Vec::new()),
            TabState::Shown | TabState::Probed(_) | TabState::Detaching => None,
        }
    }

    fn send_probe(&mut self, session: &str, state: TabState) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let id = self.next_id();
        self.own_calls.insert(id, session.to_owned());
        vec![ProxyMessage::ToBrowser(call(id, Some(session), PROBE_METHOD, &json!({})))]
    }

    fn next_id(&mut self) -> u32 {
        self.next_call_id -= 1;
        self.next_call_id
    }

    fn on_probe_answer(&mut self, session: &str, now: Instant) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        match tab.state {
            TabState::Held(_) => self.set_state(session, TabState::Shown),
            TabState::Hidden => {
                tab.state = TabState::Shown;
                let attached = tab.attached.clone();
                let mut out = Vec::new();
                if self.wants_target_events {
                    out.extend(target_created_event(&attached));
                }
                out.push(ProxyMessage::ToEngine(attached));
                out
            }
            TabState::Probed(_) => {
                tab.state = TabState::Shown;
                tab.unanswered_since = (!tab.unanswered.is_empty()).then_some(now);
                Vec::new()
            }
            TabState::Shown | TabState::Detaching => Vec::new(),
        }
    }

    /// Decides whether a tab is shown, and releases the messages that waited for it.
    fn set_state(&mut self, session: &str, state: TabState) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let parent = tab.parent.clone();
        self.release_queue(&parent)
    }

    /// Releases the messages of a queue, up to the first tab that is still being probed.
    fn release_queue(&mut self, queue: &Option<String>) -> Vec<ProxyMessage> {
        let mut out = Vec::new();
        let Some(held) = self.queues.get_mut(queue) else { return out };
        while let Some(first) = held.items.front() {
            let tab = match first {
                HeldItem::Message(text) => {
                    out.push(ProxyMessage::ToEngine(text.clone()));
                    held.items.pop_front();
                    continue;
                }
                HeldItem::Tab(session) => self.tabs.get(session),
            };
            match tab {
                Some(tab) if matches!(tab.state, TabState::Held(_)) => return out,
                Some(tab) if tab.state != TabState::Hidden => {
                    out.push(ProxyMessage::ToEngine(tab.attached.clone()));
                }
                Some(tab) if self.wants_target_events => {
                    // The engine has seen the tab target and waits for its page; it must learn that no page will come.
                    let tab_target = queue.as_ref().and_then(|session| self.tab_targets.get(session));
                    let destroyed = json!({ "targetId": tab_target.unwrap_or(&tab.target) });
                    out.push(ProxyMessage::ToEngine(event("Target.targetDestroyed", &destroyed)));
                }
                // It is hidden, or gone already.
                Some(_) | None => {}
            }
            held.items.pop_front();
        }
        self.queues.remove(queue);
        out
    }

    fn detach_tab(&mut self, session: &str) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = TabState::Detaching;
        let parent = tab.parent.clone();
        let id = self.next_id();
        // The filter ignores the answer; the engine gets the event that the session has ended.
        self.own_calls.insert(id, String::new());
        let params = json!({ "sessionId": session });
        vec![ProxyMessage::ToBrowser(call(id, parent.as_deref(), "Target.detachFromTarget", &params))]
    }

    /// The browser has answered a call of the engine.
    fn on_answer_to_engine(&mut self, id: u32, envelope: &Envelope<'_>, now: Instant) {
        if let Some(at) = self.creating_calls.iter().position(|creating_calls| *creating_calls == id) {
            self.creating_calls.swap_remove(at);
            let made = read::<TargetOrContext>(envelope.result);
            if let Some(TargetOrContext { target_id, browser_context_id }) = made {
                target_id.iter().for_each(|tab| self.engine_tabs.add_tab(tab));
                browser_context_id.iter().for_each(|context| self.engine_tabs.add_context(context));
            }
        }
        self.attaching_calls.remove(&id);
        if let Some(tab) = envelope.session.as_deref().and_then(|session| self.tabs.get_mut(session)) {
            tab.unanswered.retain(|unanswered| *unanswered != id);
            tab.unanswered_since = (!tab.unanswered.is_empty()).then_some(now);
        }
    }
}

/// Announces a tab to an engine that subscribed to tabs.
fn target_created_event(attached: &Text) -> Option<ProxyMessage> {
    let attached: Value = serde_json::from_str(attached).ok()?;
    let mut info = attached.get("params")?.get("targetInfo")?.clone();
    // It is not attached before the next message.
    info["attached"] = false.into();
    Some(ProxyMessage::ToEngine(event("Target.targetCreated", &json!({ "targetInfo": info }))))
}

#[cfg(test)]
mod tests;
