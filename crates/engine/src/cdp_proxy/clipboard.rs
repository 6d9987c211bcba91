//! A clipboard for each session of a browser: Chromium has one for all of them.
//!
//! A script in every document (`document.js`, in a world that pages cannot reach) takes copies and gives pastes in the
//! place of the browser, and `page.js` does so for scripts that write to the clipboard. What was copied is kept here, by the
//! browser context that it was copied in. Nothing of it reaches the browser's own clipboard, so there is nothing to be read
//! from that.
//!
//! A page cannot paste by itself: a key does, and keys come from the engine. So before such a key reaches the page, its
//! documents are asked which of them the user pastes into, and that one is given what is to be pasted. Until then the key
//! waits, with all that the engine says to that page after it. A page whose documents do not answer gets no such key.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use greenroom_cdp::link::Text;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Out,
    message::{Attached, Envelope, OwnIds, call, params, read, refusal},
};

/// How long documents may take to be ready for a paste. A busy one takes milliseconds; one that hangs would not take the
/// key either.
const READY: Duration = Duration::from_secs(2);

/// How much is kept of a copy. A page of a book has 3 KB.
const HELD_BYTES_MAX: usize = 1 << 20;

/// For how many contexts something is kept. A browser has some dozens; beyond that the oldest copy goes.
const HELD_MAX: usize = 256;

/// How many documents of a page are asked. A page can have any number of frames, and a user pastes into one of the first.
const DOCUMENTS_MAX: usize = 256;

/// How much of what an engine says may wait behind a key. An engine waits for the answer to one key before the next.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The world of `document.js`, and the names in it. Pages do not see them.
const WORLD: &str = "greenroom";
const COPIED: &str = "greenroomCopied";
const HOLD: &str = "greenroomHold";

const DOCUMENT: &str = include_str!("clipboard/document.js");
const PAGE: &str = include_str!("clipboard/page.js");

/// What was copied, by the kinds that are kept.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    #[serde(rename = "text/plain", default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(rename = "text/html", default, skip_serializing_if = "String::is_empty")]
    html: String,
}

pub(super) struct Clipboard {
    /// What was copied last in each context, by it, in the order of the copies.
    held: VecDeque<(String, Held)>,
    /// The event by which `page.js` tells `document.js`. No page knows it beforehand.
    told: String,
    /// Pages and frames that have a session, by it.
    frames: HashMap<String, Frame>,
    /// Keys that wait, by the session of their page.
    keys: HashMap<String, Key>,
    /// What the proxy asked for a key: the page's session by the number of the call.
    asked: HashMap<u32, Asked>,
}

struct Frame {
    /// The session of the page or frame that it is in.
    parent: Option<String>,
    /// The browser context that it is in.
    context: String,
    /// The worlds of its documents.
    worlds: Vec<i64>,
    /// Whether the scripts have been put into it.
    is_scripted: bool,
}

struct Key {
    since: Instant,
    /// The key, and what came after it.
    waiting: VecDeque<Text>,
    bytes: usize,
    id: u32,
    /// Questions that are not answered yet.
    open: usize,
    is_plain: bool,
}

struct Asked {
    page: String,
    /// The document that was asked whether it is the one, by its session and world; `None` where it was given what it is to
    /// hold.
    document: Option<(String, i64)>,
}

/// The parameters of `Input.dispatchKeyEvent` that decide whether a key pastes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pressed {
    r#type: String,
    #[serde(default)]
    modifiers: u32,
    #[serde(default)]
    windows_virtual_key_code: u32,
    #[serde(default)]
    key: String,
    #[serde(default)]
    code: String,
    #[serde(default)]
    commands: Vec<Value>,
}

impl Pressed {
    const CONTROL_OR_META: u32 = 2 | 4;
    const SHIFT: u32 = 8;
    const V: u32 = 86;
    const INSERT: u32 = 45;

    /// Whether it may paste.
    fn pastes(&self) -> bool {
        let names = |name: &str| self.key.eq_ignore_ascii_case(name) || self.code.eq_ignore_ascii_case(name);
        let is_v = self.windows_virtual_key_code == Self::V || names("v") || names("KeyV");
        let is_insert = self.windows_virtual_key_code == Self::INSERT || names("Insert");
        self.r#type != "keyUp"
            && ((is_v && self.modifiers & Self::CONTROL_OR_META != 0)
                || is_insert
                || names("Paste")
                || !self.commands.is_empty())
    }
}

#[derive(Deserialize)]
struct Bound {
    name: String,
    payload: String,
}

#[derive(Deserialize)]
struct Created {
    context: World,
}

#[derive(Deserialize)]
struct World {
    id: i64,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Destroyed {
    execution_context_id: i64,
}

#[derive(Deserialize)]
struct Evaluated {
    result: Remote,
}

#[derive(Deserialize)]
struct Remote {
    value: Option<bool>,
}

impl Clipboard {
    pub(super) fn new() -> Self {
        let told = uuid::Uuid::new_v4().simple().to_string();
        let (frames, keys, asked) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { held: VecDeque::new(), told, frames, keys, asked }
    }

    /// The browser attaches the engine to a page or frame.
    pub(super) fn attached(&mut self, parent: Option<String>, attached: &Attached) {
        // One whose context is unknown gets no scripts, and so no key that pastes.
        if matches!(&*attached.target_info.r#type, "page" | "iframe")
            && let Some(context) = attached.target_info.browser_context_id.clone()
        {
            let frame = Frame { parent, context, worlds: Vec::new(), is_scripted: false };
            self.frames.insert(attached.session_id.clone(), frame);
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.frames.remove(session);
        self.keys.remove(session);
        self.asked.retain(|_, asked| asked.page != session);
    }

    /// The engine calls a page. Says what goes to the browser instead, if it is not the call alone.
    pub(super) fn engine_says(
        &mut self,
        call: &Envelope<'_>,
        text: &Text,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Option<Vec<Out>> {
        let session = call.session.as_deref()?;
        if let Some(key) = self.keys.get_mut(session) {
            key.bytes += text.len();
            key.waiting.push_back(text.clone());
            let is_full = key.bytes > WAITING_BYTES_MAX;
            return Some(if is_full { self.refuse(session) } else { Vec::new() });
        }
        match call.method.as_deref()? {
            "Page.enable" => {
                // An engine says so many times.
                let frame = self.frames.get_mut(session).filter(|frame| !frame.is_scripted)?;
                frame.is_scripted = true;
                let mut out = vec![Out::ToBrowser(text.clone())];
                out.extend(self.scripts(session, ids));
                Some(out)
            }
            "Input.dispatchKeyEvent" => {
                // What cannot be read may be a key that pastes.
                let pressed = read::<Pressed>(call.params);
                if pressed.as_ref().is_some_and(|pressed| !pressed.pastes()) {
                    return None;
                }
                let is_plain = pressed.is_some_and(|pressed| pressed.modifiers & Pressed::SHIFT != 0);
                let waiting = VecDeque::from([text.clone()]);
                let id = call.id?;
                let key = Key { since: now, waiting, bytes: text.len(), id, open: 0, is_plain };
                Some(self.ask(session, key, ids))
            }
            _ => None,
        }
    }

    /// Puts the scripts into all documents of a page or frame, those that are there included.
    fn scripts(&self, session: &str, ids: &mut OwnIds) -> Vec<Out> {
        let told = &self.told;
        let document = format!("({})(\"{COPIED}\", \"{told}\", \"{HOLD}\")", without_comments(DOCUMENT));
        let page = format!("({})(\"{told}\")", without_comments(PAGE));
        let add = "Page.addScriptToEvaluateOnNewDocument";
        [
            ("Runtime.addBinding", json!({ "name": COPIED, "executionContextName": WORLD })),
            (add, json!({ "source": document, "worldName": WORLD, "runImmediately": true })),
            (add, json!({ "source": page, "runImmediately": true })),
        ]
        .iter()
        .map(|(method, params)| Out::ToBrowser(call(ids.next(), Some(session), method, params)))
        .collect()
    }

    /// Asks all documents of a page whether they are the one that the user pastes into.
    fn ask(&mut self, page: &str, mut key: Key, ids: &mut OwnIds) -> Vec<Out> {
        let sessions = self.within(page);
        let worlds = sessions.iter().flat_map(|session| {
            let worlds = self.frames.get(session).map(|frame| frame.worlds.as_slice()).unwrap_or_default();
            worlds.iter().map(|world| (session.clone(), *world))
        });
        let worlds: Vec<_> = worlds.take(DOCUMENTS_MAX).collect();
        key.open = worlds.len();
        self.keys.insert(page.to_owned(), key);
        if worlds.is_empty() {
            return self.refuse(page);
        }
        let ask = |(session, world): (String, i64)| {
            let id = ids.next();
            let text = evaluate(id, &session, world, &format!("{HOLD}()"));
            self.asked.insert(id, Asked { page: page.to_owned(), document: Some((session, world)) });
            Out::ToBrowser(text)
        };
        worlds.into_iter().map(ask).collect()
    }

    /// A page's session and those of the frames in it.
    fn within(&self, page: &str) -> Vec<String> {
        let mut sessions = vec![page.to_owned()];
        let mut seen = HashSet::from([page.to_owned()]);
        let mut next = 0;
        while let Some(parent) = sessions.get(next).cloned() {
            let inside = self.frames.iter().filter(|(_, frame)| frame.parent.as_ref() == Some(&parent));
            sessions.extend(
                inside.map(|(session, _)| session.clone()).filter(|session| seen.insert(session.clone())),
            );
            next += 1;
        }
        sessions
    }

    /// The browser answers a call of the proxy's own.
    pub(super) fn answered(&mut self, id: u32, text: &Text, ids: &mut OwnIds) -> Vec<Out> {
        let answer: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        let Some(Asked { page, document }) = self.asked.remove(&id) else {
            // A page that is gone already needs no scripts. One that stays without them gets no key that pastes.
            if let Some(error) = answer.and_then(|answer| answer.error) {
                tracing::debug!(error = error.get(), "a call of the CDP proxy's own failed");
            }
            return Vec::new();
        };
        let evaluated = answer.and_then(|answer| read::<Evaluated>(answer.result));
        let is_it = evaluated.and_then(|evaluated| evaluated.result.value).unwrap_or_default();
        let Some(key) = self.keys.get_mut(&page) else { return Vec::new() };
        if let Some((session, world)) = document.filter(|_| is_it) {
            let context = self.frames.get(&page).map(|frame| &frame.context);
            let held = self.held.iter().find(|(held_in, _)| Some(held_in) == context);
            let mut held = held.map(|(_, held)| held.clone()).unwrap_or_default();
            if key.is_plain {
                held.html.clear();
            }
            let id = ids.next();
            let expression = format!("{HOLD}({})", json!(held));
            self.asked.insert(id, Asked { page, document: None });
            return vec![Out::ToBrowser(evaluate(id, &session, world, &expression))];
        }
        key.open -= 1;
        if key.open > 0 {
            return Vec::new();
        }
        let waited = self.keys.remove(&page).map(|key| key.waiting).unwrap_or_default();
        waited.into_iter().map(Out::ToBrowser).collect()
    }

    /// Answers a key in the place of a page that is not ready for it. What came after it passes.
    fn refuse(&mut self, page: &str) -> Vec<Out> {
        self.asked.retain(|_, asked| asked.page != page);
        let Some(mut key) = self.keys.remove(page) else { return Vec::new() };
        key.waiting.pop_front();
        let why = "the page does not answer, so nothing can be pasted into it";
        let answer = Out::ToEngine(refusal(key.id, Some(page), why));
        std::iter::once(answer).chain(key.waiting.into_iter().map(Out::ToBrowser)).collect()
    }

    /// The browser tells of something. Says whether that is for the proxy alone.
    pub(super) fn event(&mut self, name: &str, text: &Text) -> bool {
        match name {
            "Runtime.bindingCalled" => match params::<Bound>(text) {
                Some((Some(session), bound)) if bound.name == COPIED => {
                    self.copied(&session, &bound.payload);
                    true
                }
                _ => false,
            },
            "Runtime.executionContextCreated" => match params::<Created>(text) {
                Some((Some(session), Created { context })) if context.name == WORLD => {
                    let frame = self.frames.get_mut(&session);
                    if let Some(frame) = frame.filter(|frame| frame.worlds.len() < DOCUMENTS_MAX) {
                        frame.worlds.push(context.id);
                    }
                    true
                }
                _ => false,
            },
            "Runtime.executionContextDestroyed" => {
                if let Some((Some(session), Destroyed { execution_context_id })) = params(text)
                    && let Some(frame) = self.frames.get_mut(&session)
                {
                    frame.worlds.retain(|world| *world != execution_context_id);
                }
                false
            }
            "Runtime.executionContextsCleared" => {
                if let Some((Some(session), Value::Object(_))) = params::<Value>(text)
                    && let Some(frame) = self.frames.get_mut(&session)
                {
                    frame.worlds.clear();
                }
                false
            }
            _ => false,
        }
    }

    fn copied(&mut self, session: &str, payload: &str) {
        let Some(context) = self.frames.get(session).map(|frame| frame.context.clone()) else { return };
        self.forget(&context);
        match serde_json::from_str::<Held>(payload) {
            Ok(held) if payload.len() <= HELD_BYTES_MAX => {
                self.held.push_back((context, held));
                if self.held.len() > HELD_MAX {
                    self.held.pop_front();
                }
            }
            // What was copied before is gone all the same: the user would paste it and take it for this.
            Ok(_) | Err(_) => tracing::debug!(bytes = payload.len(), "what was copied cannot be kept"),
        }
    }

    /// A context is gone.
    pub(super) fn forget(&mut self, context: &str) {
        self.held.retain(|(held_in, _)| held_in != context);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.keys.values().map(|key| key.since + READY).min()
    }

    pub(super) fn time_passed(&mut self, now: Instant) -> Vec<Out> {
        let late = self.keys.iter().filter(|(_, key)| key.since + READY <= now);
        let late: Vec<String> = late.map(|(page, _)| page.clone()).collect();
        late.iter().flat_map(|page| self.refuse(page)).collect()
    }
}

fn evaluate(id: u32, session: &str, world: i64, expression: &str) -> Text {
    let params = json!({ "expression": expression, "contextId": world, "returnByValue": true });
    call(id, Some(session), "Runtime.evaluate", &params)
}

/// A script as it is sent: see `document.js`.
fn without_comments(script: &str) -> String {
    let lines = script.lines().map(str::trim_start);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
