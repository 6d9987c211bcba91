//! The clipboard between a simulated engine and a simulated browser.

use super::*;

struct ClipboardFixture {
    clipboard: Clipboard,
    ids: OwnIds,
    now: Instant,
}

impl ClipboardFixture {
    /// A page with a document and a frame with another.
    fn new() -> Self {
        let mut fixture = Self { clipboard: Clipboard::new(), ids: OwnIds::default(), now: Instant::now() };
        for (session, parent, kind, world) in [("P", None, "page", 1), ("F", Some("P"), "iframe", 2)] {
            let info = json!({ "targetId": session, "type": kind, "browserContextId": "C1" });
            let attached = json!({ "sessionId": session, "targetInfo": info });
            let parent = parent.map(ToOwned::to_owned);
            fixture.clipboard.attached(parent, &serde_json::from_value(attached).unwrap());
            fixture.event(
                "Runtime.executionContextCreated",
                session,
                &json!({ "context": { "id": world, "name": WORLD } }),
            );
        }
        fixture
    }

    fn event(&mut self, method: &str, session: &str, params: &Value) -> bool {
        let text = json!({ "method": method, "params": params, "sessionId": session }).to_string();
        self.clipboard.event(method, &text.into())
    }

    fn copy(&mut self, payload: &str) {
        assert!(self.event("Runtime.bindingCalled", "F", &json!({ "name": COPIED, "payload": payload })));
    }

    /// What the proxy sends for a call of the engine; `None` if the call passes alone.
    fn engine(&mut self, method: &str, params: &Value) -> Option<Vec<Value>> {
        let text: Text =
            json!({ "id": 7, "method": method, "params": params, "sessionId": "P" }).to_string().into();
        let call = serde_json::from_str(&text).unwrap();
        Some(values(self.clipboard.on_engine_call(&call, &text, self.now, &mut self.ids)?))
    }

    fn answer_query(&mut self, query: &Value, value: &Value) -> Vec<Value> {
        let id = u32::try_from(query["id"].as_u64().unwrap()).unwrap();
        let text = json!({ "id": id, "result": { "result": { "value": value } } }).to_string();
        values(self.clipboard.answered(id, &text.into(), &mut self.ids))
    }
}

fn values(out: Vec<ProxyMessage>) -> Vec<Value> {
    let value = |out| match out {
        ProxyMessage::ToEngine(text) => json!({ "engine": serde_json::from_str::<Value>(&text).unwrap() }),
        ProxyMessage::ToBrowser(text) => serde_json::from_str(&text).unwrap(),
    };
    out.into_iter().map(value).collect()
}

fn pasting() -> Value {
    json!({ "type": "keyDown", "modifiers": 2, "windowsVirtualKeyCode": 86, "key": "v", "code": "KeyV" })
}

impl ClipboardFixture {
    /// Presses a key that pastes, and lets the page handle it. Returns the queries to the documents.
    fn press(&mut self, key: &Value) -> Vec<Value> {
        let sent = self.engine("Input.dispatchKeyEvent", key).unwrap();
        let params = &sent[0]["params"];
        assert_eq!((&sent[0]["id"], &params["windowsVirtualKeyCode"]), (&json!(7), &json!(0)), "it pastes");
        assert_eq!((&params["commands"], &params["text"]), (&Value::Null, &Value::Null), "it pastes");
        values(self.clipboard.on_answer_to_engine(7, &mut self.ids))
    }
}

/// The browser gets no key that pastes. When the page has handled the key, the document with the focus pastes the copy, and
/// the engine's other messages wait until then.
#[test]
fn proxy_pastes_into_the_focused_document() {
    let mut fixture = ClipboardFixture::new();
    fixture.copy(r#"{"text/plain":"a","text/html":"<b>a</b>","text/uri-list":"x"}"#);
    let document_queries = fixture.press(&pasting());
    let documents: Vec<_> =
        document_queries.iter().map(|call| (&call["sessionId"], &call["params"]["contextId"])).collect();
    assert_eq!(documents, [(&json!("P"), &json!(1)), (&json!("F"), &json!(2))]);
    assert_eq!(fixture.engine("Runtime.evaluate", &json!({})), Some(Vec::new()), "it waits for the paste");

    assert_eq!(fixture.answer_query(&document_queries[0], &json!(false)), [0; 0]);
    let sent = fixture.answer_query(&document_queries[1], &json!(true));
    let expression = sent[0]["params"]["expression"].as_str().unwrap();
    assert_eq!(expression, format!(r#"{PASTE}({{"text/plain":"a","text/html":"<b>a</b>"}})"#));
    let passed = fixture.answer_query(&sent[0], &json!(true));
    let methods: Vec<_> = passed.iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["Runtime.evaluate"]);
    assert!(fixture.clipboard.keys.is_empty() && fixture.clipboard.document_queries.is_empty());
    assert_eq!(fixture.engine("Runtime.evaluate", &json!({})), None);
    assert_eq!(fixture.clipboard.on_answer_to_engine(7, &mut fixture.ids), [], "it is answered once");
}

/// With the shift key the text is pasted without its format; and one document pastes, even if several claim the focus.
#[test]
fn shift_pastes_plain_text_once() {
    let mut fixture = ClipboardFixture::new();
    fixture.copy(r#"{"text/plain":"a","text/html":"<b>a</b>"}"#);
    let mut key = pasting();
    key["modifiers"] = json!(2 | 8);
    let document_queries = fixture.press(&key);
    let sent = fixture.answer_query(&document_queries[0], &json!(true));
    assert_eq!(sent[0]["params"]["expression"], format!(r#"{PASTE}({{"text/plain":"a"}})"#));
    assert_eq!(fixture.answer_query(&document_queries[1], &json!(true)), [0; 0]);
}

/// A key that copies waits until every document has restored its listeners, and then passes unchanged.
#[test]
fn copy_key_waits_for_the_documents() {
    let mut fixture = ClipboardFixture::new();
    let key = json!({ "type": "rawKeyDown", "modifiers": 2, "windowsVirtualKeyCode": 67 });
    let document_queries = fixture.engine("Input.dispatchKeyEvent", &key).unwrap();
    assert_eq!(fixture.answer_query(&document_queries[0], &json!(true)), [0; 0]);
    let passed = fixture.answer_query(&document_queries[1], &json!(false));
    assert_eq!((passed.len(), &passed[0]["params"]), (1, &key));
}

/// Every key that may paste is recognised by its number, its name or its command, and an unreadable key is refused.
#[test]
fn keys_are_classified() {
    for (key, clipboard_use) in [
        (json!({ "type": "rawKeyDown", "modifiers": 4, "key": "V" }), "pastes"),
        (json!({ "type": "keyDown", "modifiers": 2, "windowsVirtualKeyCode": 86, "key": "x" }), "pastes"),
        (json!({ "type": "keyDown", "modifiers": 8, "windowsVirtualKeyCode": 45 }), "pastes"),
        (json!({ "type": "keyDown", "commands": ["pasteAsPlainText:"] }), "pastes"),
        (json!({ "type": "keyDown", "code": "Paste" }), "pastes"),
        (json!({ "type": "keyDown", "modifiers": 2, "key": "c" }), "copies"),
        (json!({ "type": "keyDown", "modifiers": 8, "key": "Delete" }), "copies"),
        (json!({ "type": "keyDown", "modifiers": 2, "code": "Insert" }), "copies"),
        (json!({ "type": "keyDown", "key": "v" }), "passes"),
        (json!({ "type": "keyDown", "key": "Insert" }), "passes"),
        (json!({ "type": "keyUp", "modifiers": 2, "key": "v" }), "passes"),
        (json!({ "type": "keyDown", "modifiers": "2" }), "refused"),
    ] {
        let out = ClipboardFixture::new().engine("Input.dispatchKeyEvent", &key);
        let seen = match out.as_deref() {
            None => "passes",
            Some([one]) if one["engine"]["error"].is_object() => "refused",
            Some([one]) if one["method"] == "Input.dispatchKeyEvent" => "pastes",
            Some(_) => "copies",
        };
        assert_eq!(seen, clipboard_use, "{key}");
    }
}

/// A key that pastes never reaches the browser unchanged: not a key that the browser may be able to parse and the
/// proxy cannot, and not a second key while the proxy waits for the first.
#[test]
fn paste_keys_never_reach_the_browser_unchanged() {
    let mut fixture = ClipboardFixture::new();
    let text: Text = r#"{"id":7,"method":"Input.dispatchKeyEvent","sessionId":"P","params":{"type":"rawKeyDown","modifiers":2,"windowsVirtualKeyCode":86,"text":"\ud800"}}"#.into();
    for _ in 0..2 {
        let call = serde_json::from_str(&text).unwrap();
        let out =
            values(fixture.clipboard.on_engine_call(&call, &text, fixture.now, &mut fixture.ids).unwrap());
        assert!(out[0]["engine"]["error"].is_object(), "{out:?}");
        // The second iteration sends the key while the proxy waits for another one.
        fixture.engine("Input.dispatchKeyEvent", &pasting());
    }
    let waiting = &fixture.clipboard.keys["P"].waiting;
    assert_eq!(waiting.len(), 1);
    assert!(waiting[0].contains(r#""windowsVirtualKeyCode":0"#), "{}", waiting[0]);
}

/// Nothing is pasted into a page that does not answer in time or has no document that could.
#[test]
fn page_that_does_not_answer_gets_no_paste() {
    let mut fixture = ClipboardFixture::new();
    let document_queries = fixture.press(&pasting());
    assert_eq!(fixture.engine("Runtime.evaluate", &json!({})), Some(Vec::new()));
    let due = fixture.clipboard.due().unwrap();
    assert_eq!(values(fixture.clipboard.on_deadline(fixture.now)), [0; 0]);
    let passed = values(fixture.clipboard.on_deadline(due));
    assert_eq!(passed.iter().map(|call| &call["method"]).collect::<Vec<_>>(), ["Runtime.evaluate"]);
    assert_eq!(fixture.answer_query(&document_queries[0], &json!(true)), [0; 0], "it comes too late");
    assert_eq!(fixture.clipboard.due(), None);

    fixture.event("Runtime.executionContextDestroyed", "P", &json!({ "executionContextId": 1 }));
    fixture.event("Runtime.executionContextsCleared", "F", &json!({}));
    assert_eq!(fixture.press(&pasting()), [0; 0]);
    assert_eq!(fixture.engine("Runtime.evaluate", &json!({})), None);
}

/// The proxy puts its scripts into a page's documents when the engine enables it, and keeps the documents' answers to
/// itself.
#[test]
fn scripts_are_injected_when_a_page_is_enabled() {
    let mut fixture = ClipboardFixture::new();
    let out = fixture.engine("Runtime.enable", &json!({})).unwrap();
    let methods: Vec<_> = out.iter().map(|call| call["method"].as_str().unwrap()).collect();
    let add = "Page.addScriptToEvaluateOnNewDocument";
    assert_eq!(methods, ["Runtime.enable", "Runtime.addBinding", add, add]);
    assert_eq!(fixture.engine("Runtime.enable", &json!({})), None, "they are there");
    assert!(fixture.event(
        "Runtime.executionContextCreated",
        "P",
        &json!({ "context": { "id": 3, "name": WORLD } })
    ));
    assert!(!fixture.event(
        "Runtime.executionContextCreated",
        "P",
        &json!({ "context": { "id": 4, "name": "" } })
    ));
    assert!(!fixture.event("Runtime.bindingCalled", "P", &json!({ "name": "other", "payload": "{}" })));
    for script in [DOCUMENT, PAGE] {
        assert!(without_comments(script).len() < 4_000, "it would cost a megabyte a page");
    }
}

/// A copy that is too long, or that is no clipboard content, is not kept, and the former copy is dropped.
#[test]
fn invalid_copies_drop_the_former_copy() {
    for strange in
        ["", "7", r#"{"text/plain":7}"#, &json!({ "text/plain": "x".repeat(COPY_BYTES_MAX) }).to_string()]
    {
        let mut fixture = ClipboardFixture::new();
        fixture.copy(r#"{"text/plain":"before"}"#);
        fixture.copy(strange);
        assert_eq!(fixture.clipboard.copies.len(), 0, "{strange:.20}");
    }
}

/// What is copied in one context is pasted only there, and is dropped with it. If there are too many copies, the oldest is
/// dropped.
#[test]
fn copies_stay_in_their_context() {
    let mut fixture = ClipboardFixture::new();
    fixture.copy(r#"{"text/plain":"a"}"#);
    fixture.clipboard.frames.get_mut("P").unwrap().context = "C2".to_owned();
    let document_queries = fixture.press(&pasting());
    let pasted = fixture.answer_query(&document_queries[0], &json!(true));
    assert_eq!(pasted[0]["params"]["expression"], format!("{PASTE}({{}})"));
    fixture.clipboard.forget("C1");
    assert_eq!(fixture.clipboard.copies.len(), 0);
    for n in 0..=COPIES_MAX {
        fixture.clipboard.frames.get_mut("F").unwrap().context = n.to_string();
        fixture.copy(r#"{"text/plain":"a"}"#);
    }
    assert_eq!(fixture.clipboard.copies.len(), COPIES_MAX);
    assert_eq!(fixture.clipboard.copies[0].0, "1");
}

/// A closed page's state is dropped.
#[test]
fn state_of_closed_pages_is_dropped() {
    let mut fixture = ClipboardFixture::new();
    fixture.press(&pasting());
    for session in ["F", "P"] {
        fixture.clipboard.detached(session);
    }
    let Clipboard { frames, keys, document_queries, .. } = &fixture.clipboard;
    assert_eq!((frames.len(), keys.len(), document_queries.len()), (0, 0, 0));
}
