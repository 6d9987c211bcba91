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

mod hold_queue;
mod own;
mod tab;

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_cdp::link::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Out,
    message::{Attached, Detached, Envelope, Fault, Made, call, event, read},
};
use hold_queue::{Lane, Waiting};
pub(super) use own::Own;
use tab::{State, Tab};

/// How long a tab may take to give a sign of life. A busy tab takes a tenth of a second.
const ANSWER: Duration = Duration::from_secs(2);

/// How long an engine's call to a tab of the browser's user may take before the filter asks the tab for a sign of life.
const SLOW: Duration = Duration::from_secs(2);

/// How long messages may wait behind tabs that are being asked, however many these are, and how many bytes are kept.
const LANE_WAIT: Duration = Duration::from_secs(4);
const LANE_BYTES_MAX: usize = 8 << 20;

/// Methods that an engine calls only on a tab in which its agent works.
const USES: [&str; 5] = [
    "Page.bringToFront",
    "Page.navigate",
    "Page.reload",
    "Page.captureScreenshot",
    "Accessibility.getFullAXTree",
];

/// Asks the page's own process for something cheap that runs none of the page's code.
const ASK: &str = "Runtime.getHeapUsage";

/// The protocol's error for a session that has ended.
const NO_SESSION: i64 = -32001;

/// One connection of an engine.
pub(super) struct SilentTabs {
    own: Arc<Own>,
    /// The filter's own calls count down from the highest number, so that they never collide with the engine's.
    next: u32,
    asked: HashMap<u32, String>,
    /// By session.
    tabs: HashMap<String, Tab>,
    /// What the protocol calls tabs: a page's place in the tab strip, never silent. Their targets, by session.
    places: HashMap<String, String>,
    /// Messages that wait behind a tab that is being asked, by the session in which they came.
    lanes: HashMap<Option<String>, Lane>,
    /// The engine's calls that make a tab or context of its own.
    making: Vec<u32>,
    /// The engine's calls for a session of its own with a tab.
    attaching: HashMap<u32, String>,
    /// Whether the engine subscribed to tabs that come and go.
    discovers: bool,
}

impl SilentTabs {
    pub(super) fn new(own: Arc<Own>) -> Self {
        Self {
            own,
            next: i32::MAX.unsigned_abs(),
            asked: HashMap::new(),
            tabs: HashMap::new(),
            places: HashMap::new(),
            lanes: HashMap::new(),
            making: Vec::new(),
            attaching: HashMap::new(),
            discovers: false,
        }
    }

    /// Notes what the engine asks for. Every call passes.
    pub(super) fn engine_says(&mut self, call: &Envelope<'_>, now: Instant) {
        let Envelope { id, method: Some(method), session, params, .. } = call else { return };
        match (&**method, session.as_deref().and_then(|session| self.tabs.get_mut(session))) {
            ("Target.createTarget" | "Target.createBrowserContext", _) => self.making.extend(*id),
            ("Target.attachToTarget", _) => {
                let target = read::<Made>(*params).and_then(|asked| asked.target_id);
                self.attaching.extend(id.zip(target));
            }
            ("Target.setDiscoverTargets", _) => self.discovers = true,
            (uses, Some(tab)) if USES.contains(&uses) || uses.starts_with("Input.") => {
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
    pub(super) fn browser_says(&mut self, text: Text, now: Instant) -> Vec<Out> {
        let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&text) else {
            return vec![Out::ToEngine(text)];
        };
        let session = envelope.session.as_deref();
        if let Some(tab) = envelope.id.and_then(|id| self.asked.remove(&id)) {
            let error = read::<Fault>(envelope.error);
            return match error {
                Some(Fault { code: NO_SESSION }) => self.tab_goes(&tab).unwrap_or_default(),
                // A tab that does not know the question has answered, too.
                Some(_) | None => self.answered(&tab, now),
            };
        }
        match (envelope.id, envelope.method.as_deref()) {
            (Some(id), _) => self.engine_is_answered(id, &envelope, now),
            (None, Some("Target.attachedToTarget")) => {
                if let Some(attached) = read::<Attached>(envelope.params) {
                    let parent = session.map(ToOwned::to_owned);
                    return self.tab_comes(attached, parent, text.clone(), now);
                }
            }
            (None, Some("Target.detachedFromTarget")) => {
                if let Some(Detached { session_id }) = read(envelope.params) {
                    let taken = self.tabs.get(&session_id).filter(|tab| tab.state == State::Leaving);
                    let taken = taken.map(|tab| tab.target.clone());
                    if let Some(out) = self.tab_goes(&session_id) {
                        return out;
                    }
                    if let Some(target) = taken {
                        let lane = session.map(ToOwned::to_owned);
                        let mut out = self.pass(&lane, text.clone());
                        out.push(self.attach(&target));
                        return out;
                    }
                }
            }
            (None, Some(method)) => {
                if let Some(tab) = session.and_then(|session| self.tabs.get_mut(session)) {
                    match (method, tab.state) {
                        (_, State::Held(_) | State::Hidden) => return Vec::new(),
                        ("Page.javascriptDialogOpening", _) => tab.has_dialog = true,
                        ("Page.javascriptDialogClosed", state) => {
                            tab.has_dialog = false;
                            // The time that the dialog took does not count.
                            tab.since = tab.since.map(|_| now);
                            if let State::Asked(_) = state {
                                tab.state = State::Asked(now);
                            }
                        }
                        _ => {}
                    }
                }
            }
            (None, None) => {}
        }
        let lane = session.map(ToOwned::to_owned);
        self.pass(&lane, text)
    }

    /// Sends a message to the engine, after those that wait.
    fn pass(&mut self, lane: &Option<String>, text: Text) -> Vec<Out> {
        let Some(waiting) = self.lanes.get_mut(lane) else { return vec![Out::ToEngine(text)] };
        waiting.push(Waiting::Message(text));
        if waiting.bytes > LANE_BYTES_MAX { self.wait_no_longer(lane) } else { Vec::new() }
    }

    /// When time alone changes something, if no message comes before.
    pub(super) fn due(&self) -> Option<Instant> {
        let lanes = self.lanes.values().map(|lane| lane.since + LANE_WAIT);
        self.tabs.values().filter_map(|tab| self.due_of(tab)).chain(lanes).min()
    }

    fn due_of(&self, tab: &Tab) -> Option<Instant> {
        let due = match tab.state {
            State::Held(since) => return Some(since + ANSWER),
            State::Asked(since) => since + ANSWER,
            State::Shown => tab.since? + SLOW,
            State::Hidden | State::Leaving => return None,
        };
        // Last, since this is checked with every message, and most tabs owe no answer.
        let is_excused = tab.is_used || tab.has_dialog || self.own.has(&tab.target);
        (!is_excused).then_some(due)
    }

    pub(super) fn time_passed(&mut self, now: Instant) -> Vec<Out> {
        let is_due = |tab: &Tab| self.due_of(tab).is_some_and(|due| due <= now);
        let due = self.tabs.iter().filter(|(_, tab)| is_due(tab));
        let due: Vec<(String, State)> = due.map(|(session, tab)| (session.clone(), tab.state)).collect();
        let mut out = Vec::new();
        for (session, state) in due {
            match state {
                State::Held(_) => {
                    tracing::info!(
                        "a tab of the browser does not answer; it is hidden from the engine until it does"
                    );
                    out.extend(self.decide(&session, State::Hidden));
                }
                State::Asked(_) => {
                    tracing::info!("a tab of the browser no longer answers; it is taken from the engine");
                    out.extend(self.take_away(&session));
                }
                State::Shown => out.extend(self.ask(&session, State::Asked(now))),
                State::Hidden | State::Leaving => {}
            }
        }
        let lanes = self.lanes.iter().filter(|(_, lane)| lane.since + LANE_WAIT <= now);
        let lanes: Vec<_> = lanes.map(|(lane, _)| lane.clone()).collect();
        out.extend(lanes.iter().flat_map(|lane| self.wait_no_longer(lane)).collect::<Vec<_>>());
        out
    }

    /// Hides all tabs for which a lane still waits.
    fn wait_no_longer(&mut self, lane: &Option<String>) -> Vec<Out> {
        for tab in self.tabs.values_mut().filter(|tab| tab.parent == *lane) {
            if let State::Held(_) = tab.state {
                tab.state = State::Hidden;
            }
        }
        self.let_pass(lane)
    }

    /// Makes the browser announce a tab again.
    fn attach(&mut self, target: &str) -> Out {
        let id = self.next_id();
        // The result comes as an event.
        self.asked.insert(id, String::new());
        let params = json!({ "targetId": target, "flatten": true });
        Out::ToBrowser(call(id, None, "Target.attachToTarget", &params))
    }

    fn tab_comes(
        &mut self,
        attached: Attached,
        parent: Option<String>,
        text: Text,
        now: Instant,
    ) -> Vec<Out> {
        let Attached { session_id, target_info, waiting_for_debugger } = attached;
        if target_info.r#type == "tab" {
            self.places.insert(session_id, target_info.target_id);
        } else if target_info.r#type == "page" {
            self.own.meet(&target_info);
            let target = &target_info.target_id;
            let is_known =
                |tab: &Tab| tab.target == *target && !matches!(tab.state, State::Held(_) | State::Hidden);
            let is_wanted =
                self.attaching.values().any(|wanted| wanted == target) || self.tabs.values().any(is_known);
            // A tab that waits for the engine cannot answer the filter before.
            let is_asked = !waiting_for_debugger && !is_wanted && !self.own.has(target);
            let tab = Tab {
                target: target_info.target_id,
                parent: parent.clone(),
                attached: text.clone(),
                state: State::Shown,
                is_used: false,
                has_dialog: false,
                unanswered: Vec::new(),
                since: None,
            };
            self.tabs.insert(session_id.clone(), tab);
            if is_asked {
                let out = self.ask(&session_id, State::Held(now));
                let lane = self.lanes.entry(parent).or_insert_with(|| Lane::new(now));
                lane.push(Waiting::Tab(session_id));
                return out;
            }
        }
        self.pass(&parent, text)
    }

    /// A session has ended. Returns what to do instead of telling the engine, if the session was hidden from it.
    fn tab_goes(&mut self, session: &str) -> Option<Vec<Out>> {
        self.places.remove(session);
        self.lanes.remove(&Some(session.to_owned()));
        // Sessions that were attached within it end with it.
        self.tabs.retain(|_, tab| tab.parent.as_deref() != Some(session));
        self.asked.retain(|_, asked| asked.is_empty() || (asked != session && self.tabs.contains_key(asked)));
        let tab = self.tabs.remove(session)?;
        if self.tabs.values().all(|other| other.target != tab.target) {
            self.own.forget(&tab.target);
        }
        match tab.state {
            State::Held(_) => Some(self.let_pass(&tab.parent)),
            State::Hidden => Some(Vec::new()),
            State::Shown | State::Asked(_) | State::Leaving => None,
        }
    }

    fn ask(&mut self, session: &str, state: State) -> Vec<Out> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let id = self.next_id();
        self.asked.insert(id, session.to_owned());
        vec![Out::ToBrowser(call(id, Some(session), ASK, &json!({})))]
    }

    fn next_id(&mut self) -> u32 {
        self.next -= 1;
        self.next
    }

    fn answered(&mut self, session: &str, now: Instant) -> Vec<Out> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        match tab.state {
            State::Held(_) => self.decide(session, State::Shown),
            State::Hidden => {
                tab.state = State::Shown;
                let attached = tab.attached.clone();
                let mut out = Vec::new();
                if self.discovers {
                    out.extend(known_again(&attached));
                }
                out.push(Out::ToEngine(attached));
                out
            }
            State::Asked(_) => {
                tab.state = State::Shown;
                tab.since = (!tab.unanswered.is_empty()).then_some(now);
                Vec::new()
            }
            State::Shown | State::Leaving => Vec::new(),
        }
    }

    /// Decides whether a tab is shown, and releases the messages that waited for it.
    fn decide(&mut self, session: &str, state: State) -> Vec<Out> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = state;
        let parent = tab.parent.clone();
        self.let_pass(&parent)
    }

    /// Releases the messages of a lane, up to the first tab that is still being asked.
    fn let_pass(&mut self, lane: &Option<String>) -> Vec<Out> {
        let mut out = Vec::new();
        let Some(lane_of) = self.lanes.get_mut(lane) else { return out };
        while let Some(first) = lane_of.waiting.front() {
            let tab = match first {
                Waiting::Message(text) => {
                    out.push(Out::ToEngine(text.clone()));
                    lane_of.waiting.pop_front();
                    continue;
                }
                Waiting::Tab(session) => self.tabs.get(session),
            };
            match tab {
                Some(tab) if matches!(tab.state, State::Held(_)) => return out,
                Some(tab) if tab.state != State::Hidden => out.push(Out::ToEngine(tab.attached.clone())),
                Some(tab) if self.discovers => {
                    // An engine that waits for the page of this place must learn that none will come.
                    let place = lane.as_ref().and_then(|session| self.places.get(session));
                    let gone = json!({ "targetId": place.unwrap_or(&tab.target) });
                    out.push(Out::ToEngine(event("Target.targetDestroyed", &gone)));
                }
                // It is hidden, or gone already.
                Some(_) | None => {}
            }
            lane_of.waiting.pop_front();
        }
        self.lanes.remove(lane);
        out
    }

    fn take_away(&mut self, session: &str) -> Vec<Out> {
        let Some(tab) = self.tabs.get_mut(session) else { return Vec::new() };
        tab.state = State::Leaving;
        let parent = tab.parent.clone();
        let id = self.next_id();
        // The filter ignores the answer; the engine gets the event that the session has ended.
        self.asked.insert(id, String::new());
        let params = json!({ "sessionId": session });
        vec![Out::ToBrowser(call(id, parent.as_deref(), "Target.detachFromTarget", &params))]
    }

    /// The browser has answered a call of the engine.
    fn engine_is_answered(&mut self, id: u32, envelope: &Envelope<'_>, now: Instant) {
        if let Some(at) = self.making.iter().position(|making| *making == id) {
            self.making.swap_remove(at);
            let made = read::<Made>(envelope.result);
            if let Some(Made { target_id, browser_context_id }) = made {
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
fn known_again(attached: &Text) -> Option<Out> {
    let attached: Value = serde_json::from_str(attached).ok()?;
    let mut info = attached.get("params")?.get("targetInfo")?.clone();
    // It is not attached before the next message.
    info["attached"] = false.into();
    Some(Out::ToEngine(event("Target.targetCreated", &json!({ "targetInfo": info }))))
}

#[cfg(test)]
mod tests;
