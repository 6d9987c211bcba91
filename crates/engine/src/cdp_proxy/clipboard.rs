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

use greenroom_cdp::message_stream::Text;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json, value::RawValue};
use tokio::time::Instant;

use super::{
    ProxyMessage,
    message::{
        AttachedTarget, Envelope, ExecutionContextCreated, ExecutionContextDestroyed, OwnIds, call, params,
        read, refusal, rewritten,
    },
    script::without_comments,
};

/// How long documents may take to copy or paste. A busy one takes milliseconds; without an answer in time nothing is pasted.
const HANDLE_KEY_WITHIN: Duration = Duration::from_secs(2);

/// How many bytes of a copy are kept. A page of a book has 3 KB.
const COPY_BYTES_MAX: usize = 1 << 20;

/// For how many contexts a copy is kept. A browser has some dozens; beyond that the oldest copy is dropped.
const COPIES_MAX: usize = 256;

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
struct CopiedText {
    #[serde(rename = "text/plain", default, skip_serializing_if = "String::is_empty")]
    text: String,
    #[serde(rename = "text/html", default, skip_serializing_if = "String::is_empty")]
    html: String,
}

pub(super) struct Clipboard {
    /// The last copy of each context, by context, in the order of the copies.
    copies: VecDeque<(String, CopiedText)>,
    /// The event by which `page.js` sends a copy to `document.js`. Its name is random, so no page knows it beforehand.
    copy_event: String,
    /// Pages and frames that have a session, by session.
    frames: HashMap<String, ClipboardFrame>,
    /// Keys that wait, by the session of their page.
    keys: HashMap<String, PendingKey>,
    /// The proxy's own calls for a key, by the number of the call.
    document_queries: HashMap<u32, DocumentQuery>,
}

struct ClipboardFrame {
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
struct PendingKey {
    since: Instant,
    /// The engine's messages to the page meanwhile, after the key itself if it copies.
    waiting: VecDeque<Text>,
    bytes: usize,
    /// The number of the engine's call, for a key that pastes and that the page has not handled yet.
    call: Option<u32>,
    /// How a key pastes, until the proxy has made a document paste.
    paste: Option<PasteFormat>,
    /// The number of queries without an answer.
    open_queries: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum PasteFormat {
    Formatted,
    /// Without its format.
    Plain,
}

struct DocumentQuery {
    page: String,
    /// The session and world of the document that the proxy asked for the focus; `None` if the proxy made it paste.
    document: Option<(String, i64)>,
}

/// The parameters of `Input.dispatchKeyEvent` that decide what a key does with the clipboard.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KeyEvent {
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
enum ClipboardUse {
    Nothing,
    Copies,
    Pastes(PasteFormat),
}

impl KeyEvent {
    const CONTROL_OR_META: u32 = 2 | 4;
    const SHIFT: u32 = 8;

    /// What the key may do. It is recognised by its name or by its number; the browser uses the number.
    fn clipboard_use(&self) -> ClipboardUse {
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
            ClipboardUse::Nothing
        } else if (has_control && is(86, "v", "KeyV"))
            || (has_shift && is(45, "Insert", "Insert"))
            || is(PASTE_KEY, "Paste", "Paste")
            || has_command("paste")
        {
            ClipboardUse::Pastes(if has_control && has_shift {
                PasteFormat::Plain
            } else {
                PasteFormat::Formatted
            })
        } else if (has_control && (is(67, "c", "KeyC") || is(88, "x", "KeyX") || is(45, "Insert", "Insert")))
            || (has_shift && is(46, "Delete", "Delete"))
            || has_command("copy")
            || has_command("cut")
        {
            ClipboardUse::Copies
        } else {
            ClipboardUse::Nothing
        }
    }
}

/// Not the number of any key: the key `Paste`, which needs no modifiers, has only a name.
const PASTE_KEY: u32 = u32::MAX;

/// The answer to a key that may paste and cannot be read.
fn unreadable_key_error(id: u32, page: &str) -> ProxyMessage {
    ProxyMessage::ToEngine(refusal(id, Some(page), "the parameters of the key cannot be read"))
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
struct BindingCalled {
    name: String,
    payload: String,
}

#[derive(Deserialize)]
struct EvaluateResult {
    result: RemoteValue,
}

#[derive(Deserialize)]
struct RemoteValue {
    value: Option<bool>,
}

impl Clipboard {
    pub(super) fn new() -> Self {
        let copy_event = uuid::Uuid::new_v4().simple().to_string();
        Self {
            copies: VecDeque::new(),
            copy_event,
            frames: HashMap::new(),
            keys: HashMap::new(),
            document_queries: HashMap::new(),
        }
    }

    /// The browser attaches the engine to a page or frame.
    pub(super) fn attached(&mut self, parent: Option<String>, attached: &AttachedTarget) {
        // A target without a known context gets no scripts, and nothing is pasted into it.
        if matches!(&*attached.target_info.r#type, "page" | "iframe")
            && let Some(context) = attached.target_info.browser_context_id.clone()
        {
            let frame = ClipboardFrame { parent, context, worlds: Vec::new(), is_scripted: false };
            self.frames.insert(attached.session_id.clone(), frame);
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.frames.remove(session);
        self.keys.remove(session);
        self.document_queries.retain(|_, query| query.page != session);
    }

    /// The engine calls a page. Returns the messages that replace the call; with `None` the call passes unchanged.
    pub(super) fn on_engine_call(
        &mut self,
        call: &Envelope<'_>,
        text: &Text,
        now: Instant,
        ids: &mut OwnIds,
    ) -> Option<Vec<ProxyMessage>> {
        let session = call.session.as_deref()?;
        if let Some(key) = self.keys.get_mut(session) {
            // A second paste key comes through here if the engine does not wait for the first. It pastes nothing.
            let waits = match (call.method.as_deref(), call.id) {
                (Some("Input.dispatchKeyEvent"), Some(id)) => {
                    match read::<KeyEvent>(call.params).map(|key| key.clipboard_use()) {
                        Some(ClipboardUse::Nothing | ClipboardUse::Copies) => Some(text.clone()),
                        Some(ClipboardUse::Pastes(_)) => without_paste(id, session, call.params),
                        None => None,
                    }
                }
                _ => Some(text.clone()),
            };
            let Some(waits) = waits else {
                return Some(call.id.map(|id| unreadable_key_error(id, session)).into_iter().collect());
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
                let mut out = vec![ProxyMessage::ToBrowser(text.clone())];
                out.extend(self.scripts(session, ids));
                Some(out)
            }
            "Input.dispatchKeyEvent" => {
                let id = call.id?;
                let Some(pressed) = read::<KeyEvent>(call.params) else {
                    return Some(vec![unreadable_key_error(id, session)]);
                };
                let mut key = PendingKey {
                    since: now,
                    waiting: VecDeque::new(),
                    bytes: 0,
                    call: None,
                    paste: None,
                    open_queries: 0,
                };
                match pressed.clipboard_use() {
                    ClipboardUse::Nothing => None,
                    ClipboardUse::Copies => {
                        key.waiting.push_back(text.clone());
                        self.keys.insert(session.to_owned(), key);
                        Some(self.ask_documents(session, ids))
                    }
                    ClipboardUse::Pastes(paste) => {
                        let Some(harmless) = without_paste(id, session, call.params) else {
                            return Some(vec![unreadable_key_error(id, session)]);
                        };
                        key.call = Some(id);
                        key.paste = Some(paste);
                        self.keys.insert(session.to_owned(), key);
                        Some(vec![ProxyMessage::ToBrowser(harmless)])
                    }
                }
            }
            _ => None,
        }
    }

    /// The browser answers a call of the engine. If that call was a paste key, the page has handled it.
    pub(super) fn on_answer_to_engine(&mut self, id: u32, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let taken = self.keys.iter_mut().find(|(_, key)| key.call == Some(id));
        let Some(page) = taken.map(|(page, key)| {
            key.call = None;
            page.clone()
        }) else {
            return Vec::new();
        };
        self.ask_documents(&page, ids)
    }

    /// Puts the scripts into all documents of a page or frame, existing ones included.
    fn scripts(&self, session: &str, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let copy_event = &self.copy_event;
        let document =
            format!("({})(\"{COPIED}\", \"{copy_event}\", \"{PASTE}\")", without_comments(DOCUMENT));
        let page = format!("({})(\"{copy_event}\")", without_comments(PAGE));
        let add = "Page.addScriptToEvaluateOnNewDocument";
        [
            ("Runtime.addBinding", json!({ "name": COPIED, "executionContextName": WORLD })),
            (add, json!({ "source": document, "worldName": WORLD, "runImmediately": true })),
            (add, json!({ "source": page, "runImmediately": true })),
        ]
        .iter()
        .map(|(method, params)| ProxyMessage::ToBrowser(call(ids.next(), Some(session), method, params)))
        .collect()
    }

    /// Asks all documents of a page which of them has the focus. Each restores its listeners before it answers.
    fn ask_documents(&mut self, page: &str, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let sessions = self.sessions_of_page(page);
        let worlds = sessions.iter().flat_map(|session| {
            let worlds = self.frames.get(session).map(|frame| frame.worlds.as_slice()).unwrap_or_default();
            worlds.iter().map(|world| (session.clone(), *world))
        });
        let worlds: Vec<_> = worlds.take(DOCUMENTS_MAX).collect();
        match self.keys.get_mut(page) {
            Some(key) if !worlds.is_empty() => key.open_queries = worlds.len(),
            _ => return self.release(page),
        }
        let ask = |(session, world): (String, i64)| {
            let id = ids.next();
            let text = evaluate(id, &session, world, &format!("{PASTE}()"));
            self.document_queries
                .insert(id, DocumentQuery { page: page.to_owned(), document: Some((session, world)) });
            ProxyMessage::ToBrowser(text)
        };
        worlds.into_iter().map(ask).collect()
    }

    /// A page's session and those of the frames in it.
    fn sessions_of_page(&self, page: &str) -> Vec<String> {
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
    pub(super) fn answered(&mut self, id: u32, text: &Text, ids: &mut OwnIds) -> Vec<ProxyMessage> {
        let answer: Option<Envelope<'_>> = serde_json::from_str(text).ok();
        let Some(DocumentQuery { page, document }) = self.document_queries.remove(&id) else {
            // A page that is already gone needs no scripts. Nothing is pasted into a page without them.
            if let Some(error) = answer.and_then(|answer| answer.error) {
                tracing::debug!(error = error.get(), "the CDP proxy's own call failed");
            }
            return Vec::new();
        };
        let evaluated = answer.and_then(|answer| read::<EvaluateResult>(answer.result));
        let has_focus = evaluated.and_then(|evaluated| evaluated.result.value).unwrap_or_default();
        let Some(key) = self.keys.get_mut(&page) else { return Vec::new() };
        if let Some((session, world)) = document.filter(|_| has_focus)
            && let Some(paste) = key.paste.take()
        {
            let context = self.frames.get(&page).map(|frame| &frame.context);
            let copied = self.copies.iter().find(|(copied_in, _)| Some(copied_in) == context);
            let mut copied = copied.map(|(_, copied)| copied.clone()).unwrap_or_default();
            if paste == PasteFormat::Plain {
                copied.html.clear();
            }
            let id = ids.next();
            let expression = format!("{PASTE}({})", json!(copied));
            self.document_queries.insert(id, DocumentQuery { page, document: None });
            return vec![ProxyMessage::ToBrowser(evaluate(id, &session, world, &expression))];
        }
        key.open_queries -= 1;
        if key.open_queries > 0 { Vec::new() } else { self.release(&page) }
    }

    /// A page has handled a key, or its time is over: the engine's messages that waited pass.
    fn release(&mut self, page: &str) -> Vec<ProxyMessage> {
        self.document_queries.retain(|_, query| query.page != page);
        let waited = self.keys.remove(page).map(|key| key.waiting).unwrap_or_default();
        waited.into_iter().map(ProxyMessage::ToBrowser).collect()
    }

    /// The browser sends an event. Returns whether the event is for the proxy alone.
    pub(super) fn event(&mut self, name: &str, text: &Text) -> bool {
        match name {
            "Runtime.bindingCalled" => match params::<BindingCalled>(text) {
                Some((Some(session), bound)) if bound.name == COPIED => {
                    self.on_copied(&session, &bound.payload);
                    true
                }
                _ => false,
            },
            "Runtime.executionContextCreated" => match params::<ExecutionContextCreated>(text) {
                Some((Some(session), ExecutionContextCreated { context })) if context.name == WORLD => {
                    let frame = self.frames.get_mut(&session);
                    if let Some(frame) = frame.filter(|frame| frame.worlds.len() < DOCUMENTS_MAX) {
                        frame.worlds.push(context.id);
                    }
                    true
                }
                _ => false,
            },
            "Runtime.executionContextDestroyed" => {
                if let Some((Some(session), ExecutionContextDestroyed { execution_context_id })) =
                    params(text)
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

    fn on_copied(&mut self, session: &str, payload: &str) {
        let Some(context) = self.frames.get(session).map(|frame| frame.context.clone()) else { return };
        self.forget(&context);
        match serde_json::from_str::<CopiedText>(payload) {
            Ok(copied) if payload.len() <= COPY_BYTES_MAX => {
                self.copies.push_back((context, copied));
                if self.copies.len() > COPIES_MAX {
                    self.copies.pop_front();
                }
            }
            // The former copy is dropped all the same: the user would paste it and take it for this one.
            Ok(_) | Err(_) => tracing::debug!(bytes = payload.len(), "cannot keep a copy"),
        }
    }

    /// A context is gone.
    pub(super) fn forget(&mut self, context: &str) {
        self.copies.retain(|(copied_in, _)| copied_in != context);
    }

    pub(super) fn due(&self) -> Option<Instant> {
        self.keys.values().map(|key| key.since + HANDLE_KEY_WITHIN).min()
    }

    pub(super) fn on_deadline(&mut self, now: Instant) -> Vec<ProxyMessage> {
        let late = self.keys.iter().filter(|(_, key)| key.since + HANDLE_KEY_WITHIN <= now);
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
