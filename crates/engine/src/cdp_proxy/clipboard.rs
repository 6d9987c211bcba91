//! A clipboard for each session of a browser: Chromium itself has one for all of them.
//!
//! A script in every document (`document.js`, in a world that pages cannot reach) handles copies and pastes instead of the
//! browser, and `page.js` does so for scripts that write to the clipboard. The proxy keeps copied text here, by the browser
//! context in which it was copied. None of it reaches the browser's own clipboard, so nothing can be read from there.
//!
//! Nothing is pasted from the browser's clipboard either: a page cannot paste by itself, only a key does, and keys come from
//! the engine. The proxy removes from such a key what makes the browser paste. Once the page has handled the key, the proxy
//! asks the page's documents which of them has the focus, and makes that one paste what was copied in its context. The
//! engine's other messages to the page wait meanwhile. So a page that breaks the listeners in its documents loses its own
//! copies, and sees nothing of others.

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

/// How long documents may take to copy or paste. A busy one takes milliseconds; without an answer in time nothing is pasted.
const READY: Duration = Duration::from_secs(2);

/// How many bytes of a copy are kept. A page of a book has 3 KB.
const HELD_BYTES_MAX: usize = 1 << 20;

/// For how many contexts a copy is kept. A browser has some dozens; beyond that the oldest copy is dropped.
const HELD_MAX: usize = 256;

/// How many documents of a page are asked. A page can have any number of frames, and a user pastes into one of the first.
const DOCUMENTS_MAX: usize = 256;

/// How many bytes of an engine's messages may wait behind a key. An engine waits for the answer to one key before the next.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// The world of `document.js`, and two functions there: one that `document.js` calls, one that it defines. Pages do not see
/// them.
const WORLD: &str = "greenroom";
const COPIED: &str = "greenroomCopied";
const PASTE: &str = "greenroomPaste";

const DOCUMENT: &str = include_str!("clipboard/document.js");
const PAGE: &str = include_str!("clipboard/page.js");

/// Copied text, by the MIME types that are kept.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Held {
    #[serde(rename = "text/plain", default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(rename = "text/html", default, skip_serializing_if = "String::is_empty")]
    html: String,
}

pub(super) struct Clipboard {
    /// The last copy of each context, by context, in the order of the copies.
    held: VecDeque<(String, Held)>,
    /// The event by which `page.js` sends a copy to `document.js`. Its name is random, so no page knows it beforehand.
    told: String,
    /// Pages and frames that have a session, by session.
    frames: HashMap<String, Frame>,
    /// Keys that wait, by the session of their page.
    keys: HashMap<String, Key>,
    /// The proxy's own calls for a key, by the number of the call.
    asked: HashMap<u32, Asked>,
}

struct Frame {
    /// The session of the parent page or frame.
    parent: Option<String>,
    /// Its browser context.
    context: String,
    /// The worlds of its documents.
    worlds: Vec<i64>,
    /// Whether the proxy has put the scripts into it.
    is_scripted: bool,
}

/// A key that copies or pastes, until the page has handled it.
struct Key {
    since: Instant,
    /// The engine's messages to the page meanwhile, after the key itself if it copies.
    waiting: VecDeque<Text>,
    bytes: usize,
    /// The number of the engine's call, for a key that pastes and that the page has not handled yet.
    call: Option<u32>,
    /// How a key pastes, until the proxy has made a document paste.
    paste: Option<Paste>,
    /// The number of questions without an answer.
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
    /// The session and world of the document that the proxy asked for the focus; `None` if the proxy made it paste.
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

    /// What the key may do. Both its name and its number, by which the browser goes, count.
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

/// Not the number of any key: keys that paste without modifiers have only a name.
const PASTE_KEY: u32 = u32::MAX;

/// The answer to a key that may paste and cannot be read.
fn unreadable_key(id: u32, page: &str) -> Out {
    Out::ToEngine(refusal(id, Some(page), "the parameters of the key cannot be read"))
}

/// The key as the page sees it, without its number and its commands, by which the browser would paste.
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
        Self {
            held: VecDeque::new(),
            told,
            frames: HashMap::new(),
            keys: HashMap::new(),
            asked: HashMap::new(),
        }
    }

    /// The browser attaches the engine to a page or frame.
    pub(super) fn attached(&mut self, parent: Option<String>, attached: &Attached) {
        // A target without a known context gets no scripts, and nothing is pasted into it.
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

    /// The engine calls a page. Returns what goes to the browser instead, if it is not the call alone.
    pub(super) fn engine_says(
        &mut self,
        call: &Envelope<'_>,
        text: &Text,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Option<Vec<Out>> {
        let session = call.session.as_deref()?;
        if let Some(key) = self.keys.get_mut(session) {
            // A second paste key comes through here if the engine does not wait for the first. It pastes nothing.
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
            // The engine has enabled the page before. The world gets its function only if this call comes before the scripts.
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

    /// The browser answers a call of the engine. If that call was a paste key, the page has handled it.
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

    /// Puts the scripts into all documents of a page or frame, existing ones included.
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

    /// Asks all documents of a page which of them has the focus. Each restores its listeners before it answers.
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

    /// The browser answers one of the proxy's own calls.
    pub(super) fn answered(&mut self, id: u32, text: &Text, ids: &mut OwnIds) -> Vec<Out> {
        let answer: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        let Some(Asked { page, document }) = self.asked.remove(&id) else {
            // A page that is already gone needs no scripts. Nothing is pasted into a page without them.
            if let Some(error) = answer.and_then(|answer| answer.error) {
                tracing::debug!(error = error.get(), "the CDP proxy's own call failed");
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

    /// A page has handled a key, or its time is over: the engine's messages that waited pass.
    fn release(&mut self, page: &str) -> Vec<Out> {
        self.asked.retain(|_, asked| asked.page != page);
        let waited = self.keys.remove(page).map(|key| key.waiting).unwrap_or_default();
        waited.into_iter().map(Out::ToBrowser).collect()
    }

    /// The browser sends an event. Returns whether the event is for the proxy alone.
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
            // The former copy is dropped all the same: the user would paste it and take it for this one.
            Ok(_) | Err(_) => tracing::debug!(bytes = payload.len(), "cannot keep a copy"),
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
