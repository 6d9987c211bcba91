//! Hides tabs that do not answer from an engine, in a browser whose tabs belong to its user. It has no socket and no clock:
//! messages and times come in, messages go out.
//!
//! Before the engine gets a tab, the filter asks the tab for a sign of life, in the very session that the engine would use.
//! A tab that answers is shown; until then all messages after it wait, so that the engine sees tabs in the browser's order.
//! A tab that does not answer in time is hidden, and shown when it answers after all. Later, when a tab leaves an engine's
//! call unanswered, the filter asks again; a tab that does not answer then is taken from the engine, and shown again when it
//! answers.
//!
//! The filter never asks the engine's own tabs, nor a tab that the engine uses for the agent, nor one whose dialog the
//! engine knows of: the engine has to cope with these. Nor does it hold a session that the engine asks for itself.

mod engine_tabs;
mod hold_queue;
mod tab;

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_cdp::link::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{AttachedTarget, CdpError, DetachedTarget, Envelope, TargetOrContext, call, event, read},
};
pub(super) use engine_tabs::EngineTabs;
use hold_queue::{HeldItem, HoldQueue};
use tab::{SessionTab, TabState};

/// How long a tab may take to give a sign of life. A busy tab takes a tenth of a second.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// How long an engine's call to a tab of the browser's user may take before the filter asks the tab for a sign of life.
const SLOW_CALL: Duration = Duration::from_secs(2);

/// How long messages may wait behind tabs that are being asked, however many these are, and how many bytes are kept.
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

/// Asks the page's own process for something cheap that runs none of the page's code.
const SIGN_OF_LIFE: &str = "Runtime.getHeapUsage";

/// The protocol's error for a session that has ended.
const NO_SESSION: i64 = -32001;

/// One connection of an engine.
pub(super) struct SilentTabs {
    own: Arc<EngineTabs>,
    /// The filter's own calls count down from the highest number, so that they never collide with the engine's.
    next: u32,
    questions: HashMap<u32, String>,
    /// By session.
    tabs: HashMap<String, SessionTab>,
    /// What the protocol calls tabs: a page's place in the tab strip, never silent. Their targets, by session.
    tab_targets: HashMap<String, String>,
    /// Messages that wait behind a tab that is being asked, by the session in which they came.
    queues: HashMap<Option<String>, HoldQueue>,
    /// The engine's calls that make a tab or context of its own.
    creating: Vec<u32>,
    /// The engine's calls for a session of its own with a tab.
    attaching: HashMap<u32, String>,
    /// Whether the engine subscribed to tabs that come and go.
    wants_target_events: bool,
}

impl SilentTabs {
    pub(super) fn new(own: Arc<EngineTabs>) -> Self {
        Self {
            own,
            next: i32::MAX.unsigned_abs(),
            questions: HashMap::new(),
            tabs: HashMap::new(),
            tab_targets: HashMap::new(),
            queues: HashMap::new(),
            creating: Vec::new(),
            attaching: HashMap::new(),
            wants_target_events: false,
        }
    }

    /// Notes what the engine asks for. Every call passes.
    pub(super) fn on_engine_call(&mut self, call: &Envelope<'_>, now: Instant) {
        let Envelope { id, method: Some(method), session, params, .. } = call else { return };
        match (&**method, session.as_deref().and_then(|session| self.tabs.get_mut(session))) {
            ("Target.createTarget" | "Target.createBrowserContext", _) => self.creating.extend(*id),
            ("Target.attachToTarget", _) => {
                let target = read::<TargetOrContext>(*params).and_then(|questions| questions.target_id);
                self.attaching.extend(id.zip(target));
            }
            ("Target.setDiscoverTargets", _) => self.wants_target_events = true,
            (uses, Some(tab)) if AGENT_METHODS.contains(&uses) || uses.starts_with("Input.") => {
                tab.is_used = true;
            }
            (_, Some(tab)) => {
                tab.unanswered.extend(*id);
                tab.since.get_or_insert(now);
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
        if let Some(tab) = envelope.id.and_then(|id| self.questions.remove(&id)) {
            let error = read::<CdpError>(envelope.error);
            return match error {
                Some(CdpError { code: NO_SESSION }) => self.tab_detached(&tab).unwrap_or_default(),
                // A tab that does not know the question has answered, too.
                Some(_) | None => self.answered(&tab, now),
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
                    let taken = self.tabs.get(&session_id).filter(|tab| tab.state == TabState::Leaving);
                    let taken = taken.map(|tab| tab.target.clone());
                    if let Some(out) = self.tab_detached(&session_id) {
                        return out;
                    }
                    if let Some(target) = taken {
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
                            tab.since = tab.since.map(|_| now);
                            if let TabState::Questioned(_) = state {
                                tab.state = TabState::Questioned(now);
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
        if waiting.bytes > QUEUE_BYTES_MAX { self.give_up_waiting(queue) } else { Vec::new() }
    }

    /// When time alone changes something, if no message comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        let queues = self.queues.values().map(|queue| queue.since + QUEUE_WAIT_MAX);
        self.tabs.values().filter_map(|tab| self.deadline_of(tab)).chain(queues).min()
    }

    fn deadline_of(&self, tab: &SessionTab) -> Option<Instant> {
        let due = match tab.state {
            TabState::Held(since) => return Some(since + ANSWER_WITHIN),
            TabState::Questioned(since) => since + ANSWER_WITHIN,
            TabState::Shown => tab.since? + SLOW_CALL,
            TabState::Hidden | TabState::Leaving => return None,
        };
        // Last, since this is checked with every message, and most tabs owe no answer.
        let is_exempt = tab.is_used || tab.has_dialog || self.own.contains(&tab.target);
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
                TabState::Questioned(_) => {
                    tracing::info!("a tab of the browser no longer answers; it is taken from the engine");
                    out.extend(self.detach_tab(&session));
                }
                TabState::Shown => out.extend(self.ask_for_sign_of_life(&session, TabState::Questioned(now))),
                TabState::Hidden | TabState::Leaving => {}
            }
        }
        let queues = self.queues.iter().filter(|(_, queue)| queue.since + QUEUE_WAIT_MAX <= now);
        let queues: Vec<_> = queues.map(|(queue, _)| queue.clone()).collect();
        out.extend(queues.iter().flat_map(|queue| self.give_up_waiting(queue)).collect::<Vec<_>>());
        out
    }

    /// Hides all tabs for which a lane still waits.
    fn give_up_waiting(&mut self, queue: &Option<String>) -> Vec<ProxyMessage> {
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
        self.questions.insert(id, String::new());
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
            self.own.add_if_own(&target_info);
            let target = &target_info.target_id;
            let is_known = |tab: &SessionTab| {
                tab.target == *target && !matches!(tab.state, TabState::Held(_) | TabState::Hidden)
            };
            let is_wanted =
                self.attaching.values().any(|wanted| wanted == target) || self.tabs.values().any(is_known);
            // A tab that waits for the engine cannot answer the filter before.
            let is_asked = !waiting_for_debugger && !is_wanted && !self.own.contains(target);
            let tab = SessionTab {
                target: target_info.target_id,
                parent: parent.clone(),
                attached: text.clone(),
                state: TabState::Shown,
                is_used: false,
                has_dialog: false,
                unanswered: Vec::new(),
                since: None,
            };
            self.tabs.insert(session_id.clone(), tab);
            if is_asked {
                let out = self.ask_for_sign_of_life(&session_id, TabState::Held(now));
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
        self.questions.retain(|_, questions| {
            questions.is_empty() || (questions != session && self.tabs.contains_key(questions))
        });
        let tab = self.tabs.remove(session)?;
        if self.tabs.values().all(|other| other.target != tab.target) {
            self.own.forget(&tab.target);
        }
        match tab.state {
            TabState::Held(_) => Some(self.release_queue(&tab.parent)),
            TabState::Hidden => Some(Vec::new()),
            TabState::Shown | TabState::Questioned(_) | TabState::Leaving => None,
        }
    }

    fn ask_for_sign_of_life(&mut self, session: &str, state: TabState) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let id = self.next_id();
        self.questions.insert(id, session.to_owned());
        vec![ProxyMessage::ToBrowser(call(id, Some(session), SIGN_OF_LIFE, &json!({})))]
    }

    fn next_id(&mut self) -> u32 {
        self.next -= 1;
        self.next
    }

    fn answered(&mut self, session: &str, now: Instant) -> Vec<ProxyMessage> {
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
            TabState::Questioned(_) => {
                tab.state = TabState::Shown;
                tab.since = (!tab.unanswered.is_empty()).then_some(now);
                Vec::new()
            }
            TabState::Shown | TabState::Leaving => Vec::new(),
        }
    }

    /// Decides whether a tab is shown, and releases the messages that waited for it.
    fn set_state(&mut self, session: &str, state: TabState) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let parent = tab.parent.clone();
        self.release_queue(&parent)
    }

    /// Releases the messages of a lane, up to the first tab that is still being asked.
    fn release_queue(&mut self, queue: &Option<String>) -> Vec<ProxyMessage> {
        let mut out = Vec::new();
        let Some(held) = self.queues.get_mut(queue) else { return out };
        while let Some(first) = held.waiting.front() {
            let tab = match first {
                HeldItem::Message(text) => {
                    out.push(ProxyMessage::ToEngine(text.clone()));
                    held.waiting.pop_front();
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
                    // An engine that waits for the page of this place must learn that none will come.
                    let place = queue.as_ref().and_then(|session| self.tab_targets.get(session));
                    let gone = json!({ "targetId": place.unwrap_or(&tab.target) });
                    out.push(ProxyMessage::ToEngine(event("Target.targetDestroyed", &gone)));
                }
                // It is hidden, or gone already.
                Some(_) | None => {}
            }
            held.waiting.pop_front();
        }
        self.queues.remove(queue);
        out
    }

    fn detach_tab(&mut self, session: &str) -> Vec<ProxyMessage> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = TabState::Leaving;
        let parent = tab.parent.clone();
        let id = self.next_id();
        // The filter ignores the answer; the engine gets the event that the session has ended.
        self.questions.insert(id, String::new());
        let params = json!({ "sessionId": session });
        vec![ProxyMessage::ToBrowser(call(id, parent.as_deref(), "Target.detachFromTarget", &params))]
    }

    /// The browser has answered a call of the engine.
    fn on_answer_to_engine(&mut self, id: u32, envelope: &Envelope<'_>, now: Instant) {
        if let Some(at) = self.creating.iter().position(|creating| *creating == id) {
            self.creating.swap_remove(at);
            let made = read::<TargetOrContext>(envelope.result);
            if let Some(TargetOrContext { target_id, browser_context_id }) = made {
                target_id.iter().for_each(|tab| self.own.add_tab(tab));
                browser_context_id.iter().for_each(|context| self.own.add_context(context));
            }
        }
        self.attaching.remove(&id);
        if let Some(tab) = envelope.session.as_deref().and_then(|session| self.tabs.get_mut(session)) {
            tab.unanswered.retain(|unanswered| *unanswered != id);
            tab.since = (!tab.unanswered.is_empty()).then_some(now);
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
