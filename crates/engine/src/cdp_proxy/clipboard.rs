//! A clipboard for each session of a browser: Chromium has one for all of them.
//!
//! A script in every document (`document.js`, in a world that pages cannot reach) takes copies and gives pastes in the
//! place of the browser, and `page.js` does so for scripts that write to the clipboard. What was copied is kept here, by the
//! browser context that it was copied in. Nothing of it reaches the browser's own clipboard, so there is nothing to be read
//! from that.
//!
//! Nor is anything read from it: a page cannot paste by itself, a key does, and keys come from the engine. The browser gets
//! such a key without what makes it paste. Once the page has taken it, the proxy asks the page's documents which of them
//! has the focus, and has that one paste what was copied in its context. What the engine says to the page meanwhile waits.
//! So whatever a page does to the listeners in its documents, it costs that page a copy, and shows it nothing of others.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use greenroom_cdp::link::Text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    Out,
    message::{Attached, Envelope, OwnIds, call, params, read, refusal, rewritten},
    script::without_comments,
};

/// How long documents may take to copy or paste. A busy one takes milliseconds; one that takes longer does without.
const READY: Duration = Duration::from_secs(2);

/// How much is kept of a copy. A page of a book has 3 KB.
const HELD_BYTES_MAX: usize = 1 << 20;

/// For how many contexts something is kept. A browser has some dozens; beyond that the oldest copy goes.
const HELD_MAX: usize = 256;

/// How many documents of a page are asked. A page can have any number of frames, and a user pastes into one of the first.
const DOCUMENTS_MAX: usize = 256;

/// How much of what an engine says may wait behind a key. An engine waits for the answer to one key before the next.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The world of `document.js`, and the functions in it: one that `document.js` calls, one that it has. Pages do not see them.
const WORLD: &str = "greenroom";
const COPIED: &str = "greenroomCopied";
const PASTE: &str = "greenroomPaste";

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

/// A key that copies or pastes, until the page has done so.
struct Key {
    since: Instant,
    /// What the engine said to the page meanwhile, after the key itself if it copies.
    waiting: VecDeque<Text>,
    bytes: usize,
    /// The number of the engine's call, of a key that pastes and that the page has not taken yet.
    call: Option<u32>,
    /// What a key that pastes does, until a document was told to paste.
    paste: Option<Paste>,
    /// Questions that are not answered yet.
    open: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Paste {
    Formatted,
    /// Without its format.
    Plain,
}

struct Asked {
    page: String,
    /// The document that was asked whether it has the focus, by its session and world; `None` where it was told to paste.
    document: Option<(String, i64)>,
}

/// The parameters of `Input.dispatchKeyEvent` that decide what a key does with the clipboard.
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

/// What a key does with the clipboard.
enum Use {
    Nothing,
    Copies,
    Pastes(Paste),
}

impl Pressed {
    const CONTROL_OR_META: u32 = 2 | 4;
    const SHIFT: u32 = 8;

    /// What it may do. What it is said to be named and what the browser goes by, its number, both count.
    fn uses(&self) -> Use {
        let is = |number: u32, key: &str, code: &str| {
            let is_named = self.key.eq_ignore_ascii_case(key) || self.code.eq_ignore_ascii_case(code);
            self.windows_virtual_key_code == number || is_named
        };
        let has_control = self.modifiers & Self::CONTROL_OR_META != 0;
        let has_shift = self.modifiers & Self::SHIFT != 0;
        let has_command = |part: &str| {
            self.commands.iter().any(|command| command.to_string().to_ascii_lowercase().contains(part))
        };
        if self.r#type == "keyUp" {
            Use::Nothing
        } else if (has_control && is(86, "v", "KeyV"))
            || (has_shift && is(45, "Insert", "Insert"))
            || is(PASTE_KEY, "Paste", "Paste")
            || has_command("paste")
        {
            Use::Pastes(if has_control && has_shift { Paste::Plain } else { Paste::Formatted })
        } else if (has_control && (is(67, "c", "KeyC") || is(88, "x", "KeyX") || is(45, "Insert", "Insert")))
            || (has_shift && is(46, "Delete", "Delete"))
            || has_command("copy")
            || has_command("cut")
        {
            Use::Copies
        } else {
            Use::Nothing
        }
    }
}

/// No number that a key has: those that paste without others have a name only.
const PASTE_KEY: u32 = u32::MAX;

/// The answer to a key that may paste and cannot be read.
fn unreadable_key(id: u32, page: &str) -> Out {
    Out::ToEngine(refusal(id, Some(page), "the parameters of the key cannot be read"))
}

/// A key that the page sees and that pastes nothing: the browser goes by its number and its commands.
fn without_paste(id: u32, page: &str, params: Option<&RawValue>) -> Option<Text> {
    let mut params: Map<String, Value> = read(params)?;
    for name in ["commands", "text", "unmodifiedText", "nativeVirtualKeyCode"] {
        params.remove(name);
    }
    params.insert("type".to_owned(), "rawKeyDown".into());
    params.insert("windowsVirtualKeyCode".to_owned(), 0.into());
    Some(rewritten(id, Some(page), "Input.dispatchKeyEvent", params))
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
        // One whose context is unknown gets no scripts, and nothing is pasted into it.
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
            // A second key that pastes comes through here when the engine does not wait for the first. It pastes nothing.
            let waits = match (call.method.as_deref(), call.id) {
                (Some("Input.dispatchKeyEvent"), Some(id)) => {
                    match read::<Pressed>(call.params).map(|key| key.uses()) {
                        Some(Use::Nothing | Use::Copies) => Some(text.clone()),
                        Some(Use::Pastes(_)) => without_paste(id, session, call.params),
                        None => None,
                    }
                }
                _ => Some(text.clone()),
            };
            let Some(waits) = waits else {
                return Some(call.id.map(|id| unreadable_key(id, session)).into_iter().collect());
            };
            key.bytes += waits.len();
            key.waiting.push_back(waits);
            let is_full = key.bytes > WAITING_BYTES_MAX;
            return Some(if is_full { self.release(session) } else { Vec::new() });
        }
        match call.method.as_deref()? {
            // The engine has enabled the page before. The world gets its function only where this one comes first.
            "Runtime.enable" => {
                let frame = self.frames.get_mut(session).filter(|frame| !frame.is_scripted)?;
                frame.is_scripted = true;
                let mut out = vec![Out::ToBrowser(text.clone())];
                out.extend(self.scripts(session, ids));
                Some(out)
            }
            "Input.dispatchKeyEvent" => {
                let id = call.id?;
                let Some(pressed) = read::<Pressed>(call.params) else {
                    return Some(vec![unreadable_key(id, session)]);
                };
                let mut key =
                    Key { since: now, waiting: VecDeque::new(), bytes: 0, call: None, paste: None, open: 0 };
                match pressed.uses() {
                    Use::Nothing => None,
                    Use::Copies => {
                        key.waiting.push_back(text.clone());
                        self.keys.insert(session.to_owned(), key);
                        Some(self.ask(session, ids))
                    }
                    Use::Pastes(paste) => {
                        let Some(harmless) = without_paste(id, session, call.params) else {
                            return Some(vec![unreadable_key(id, session)]);
                        };
                        (key.call, key.paste) = (Some(id), Some(paste));
                        self.keys.insert(session.to_owned(), key);
                        Some(vec![Out::ToBrowser(harmless)])
                    }
                }
            }
            _ => None,
        }
    }

    /// The browser answers a call of the engine's. If that was a key that pastes, the page has taken it.
    pub(super) fn engine_is_answered(&mut self, id: u32, ids: &mut OwnIds) -> Vec<Out> {
        let taken = self.keys.iter_mut().find(|(_, key)| key.call == Some(id));
        let Some(page) = taken.map(|(page, key)| {
            key.call = None;
            page.clone()
        }) else {
            return Vec::new();
        };
        self.ask(&page, ids)
    }

    /// Puts the scripts into all documents of a page or frame, those that are there included.
    fn scripts(&self, session: &str, ids: &mut OwnIds) -> Vec<Out> {
        let told = &self.told;
        let document = format!("({})(\"{COPIED}\", \"{told}\", \"{PASTE}\")", without_comments(DOCUMENT));
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

    /// Asks all documents of a page which of them has the focus. Each sees to its listeners before it answers.
    fn ask(&mut self, page: &str, ids: &mut OwnIds) -> Vec<Out> {
        let sessions = self.within(page);
        let worlds = sessions.iter().flat_map(|session| {
            let worlds = self.frames.get(session).map(|frame| frame.worlds.as_slice()).unwrap_or_default();
            worlds.iter().map(|world| (session.clone(), *world))
        });
        let worlds: Vec<_> = worlds.take(DOCUMENTS_MAX).collect();
        match self.keys.get_mut(page) {
            Some(key) if !worlds.is_empty() => key.open = worlds.len(),
            _ => return self.release(page),
        }
        let ask = |(session, world): (String, i64)| {
            let id = ids.next();
            let text = evaluate(id, &session, world, &format!("{PASTE}()"));
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
            // A page that is gone already needs no scripts. Into one that stays without them nothing is pasted.
            if let Some(error) = answer.and_then(|answer| answer.error) {
                tracing::debug!(error = error.get(), "a call of the CDP proxy's own failed");
            }
            return Vec::new();
        };
        let evaluated = answer.and_then(|answer| read::<Evaluated>(answer.result));
        let has_focus = evaluated.and_then(|evaluated| evaluated.result.value).unwrap_or_default();
        let Some(key) = self.keys.get_mut(&page) else { return Vec::new() };
        if let Some((session, world)) = document.filter(|_| has_focus)
            && let Some(paste) = key.paste.take()
        {
            let context = self.frames.get(&page).map(|frame| &frame.context);
            let held = self.held.iter().find(|(held_in, _)| Some(held_in) == context);
            let mut held = held.map(|(_, held)| held.clone()).unwrap_or_default();
            if paste == Paste::Plain {
                held.html.clear();
            }
            let id = ids.next();
            let expression = format!("{PASTE}({})", json!(held));
            self.asked.insert(id, Asked { page, document: None });
            return vec![Out::ToBrowser(evaluate(id, &session, world, &expression))];
        }
        key.open -= 1;
        if key.open > 0 { Vec::new() } else { self.release(&page) }
    }

    /// A page has done what a key is for, or does without: what the engine said meanwhile passes.
    fn release(&mut self, page: &str) -> Vec<Out> {
        self.asked.retain(|_, asked| asked.page != page);
        let waited = self.keys.remove(page).map(|key| key.waiting).unwrap_or_default();
        waited.into_iter().map(Out::ToBrowser).collect()
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
        late.iter().flat_map(|page| self.release(page)).collect()
    }
}

fn evaluate(id: u32, session: &str, world: i64, expression: &str) -> Text {
    let params = json!({ "expression": expression, "contextId": world, "returnByValue": true });
    call(id, Some(session), "Runtime.evaluate", &params)
}

#[cfg(test)]
mod tests;
