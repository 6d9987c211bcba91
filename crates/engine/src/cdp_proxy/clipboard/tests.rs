//! The clipboard between an engine and a browser that are both played here.

use super::*;

struct Play {
    clipboard: Clipboard,
    ids: OwnIds,
    now: Instant,
}

impl Play {
    /// A page with a document and a frame with another.
    fn new() -> Self {
        let mut play = Self { clipboard: Clipboard::new(), ids: OwnIds::default(), now: Instant::now() };
        for (session, parent, kind, world) in [("P", None, "page", 1), ("F", Some("P"), "iframe", 2)] {
            let info = json!({ "targetId": session, "type": kind, "browserContextId": "C1" });
            let attached = json!({ "sessionId": session, "targetInfo": info });
            let parent = parent.map(ToOwned::to_owned);
            play.clipboard.attached(parent, &serde_json::from_value(attached).unwrap());
            play.event(
                "Runtime.executionContextCreated",
                session,
                &json!({ "context": { "id": world, "name": WORLD } }),
            );
        }
        play
    }

    fn event(&mut self, method: &str, session: &str, params: &Value) -> bool {
        let text = json!({ "method": method, "params": params, "sessionId": session }).to_string();
        self.clipboard.event(method, &text.into())
    }

    fn copies(&mut self, payload: &str) {
        assert!(self.event("Runtime.bindingCalled", "F", &json!({ "name": COPIED, "payload": payload })));
    }

    /// What becomes of a call of the engine's; `None` if it passes alone.
    fn engine(&mut self, method: &str, params: &Value) -> Option<Vec<Value>> {
        let text: Text =
            json!({ "id": 7, "method": method, "params": params, "sessionId": "P" }).to_string().into();
        let call = serde_json::from_str(&text).unwrap();
        Some(values(self.clipboard.engine_says(&call, &text, self.now, &mut self.ids)?))
    }

    fn answers(&mut self, question: &Value, value: &Value) -> Vec<Value> {
        let id = u32::try_from(question["id"].as_u64().unwrap()).unwrap();
        let text = json!({ "id": id, "result": { "result": { "value": value } } }).to_string();
        values(self.clipboard.answered(id, &text.into(), &mut self.ids))
    }
}

fn values(out: Vec<Out>) -> Vec<Value> {
    let value = |out| match out {
        Out::ToEngine(text) => json!({ "engine": serde_json::from_str::<Value>(&text).unwrap() }),
        Out::ToBrowser(text) => serde_json::from_str(&text).unwrap(),
    };
    out.into_iter().map(value).collect()
}

fn pasting() -> Value {
    json!({ "type": "keyDown", "modifiers": 2, "windowsVirtualKeyCode": 86, "key": "v", "code": "KeyV" })
}

/// A key that pastes waits until the document that the user pastes into has what was copied; so does what comes after it.
#[test]
fn a_paste_waits_for_its_document() {
    let mut play = Play::new();
    play.copies(r#"{"text/plain":"a","text/html":"<b>a</b>","text/uri-list":"x"}"#);
    let questions = play.engine("Input.dispatchKeyEvent", &pasting()).unwrap();
    let asked: Vec<_> =
        questions.iter().map(|call| (&call["sessionId"], &call["params"]["contextId"])).collect();
    assert_eq!(asked, [(&json!("P"), &json!(1)), (&json!("F"), &json!(2))]);
    assert_eq!(play.engine("Runtime.evaluate", &json!({})), Some(Vec::new()), "it waits behind the key");

    assert_eq!(play.answers(&questions[0], &json!(false)), [0; 0]);
    let given = play.answers(&questions[1], &json!(true));
    let expression = given[0]["params"]["expression"].as_str().unwrap();
    assert_eq!(expression, format!(r#"{HOLD}({{"text/plain":"a","text/html":"<b>a</b>"}})"#));
    let passed = play.answers(&given[0], &json!(true));
    let methods: Vec<_> = passed.iter().map(|call| call["method"].as_str().unwrap()).collect();
    assert_eq!(methods, ["Input.dispatchKeyEvent", "Runtime.evaluate"]);
    assert!(play.clipboard.keys.is_empty() && play.clipboard.asked.is_empty());
    assert_eq!(play.engine("Runtime.evaluate", &json!({})), None);
}

/// With the shift key it is pasted without its format.
#[test]
fn plain() {
    let mut play = Play::new();
    play.copies(r#"{"text/plain":"a","text/html":"<b>a</b>"}"#);
    let mut key = pasting();
    key["modifiers"] = json!(2 | 8);
    let questions = play.engine("Input.dispatchKeyEvent", &key).unwrap();
    let given = play.answers(&questions[0], &json!(true));
    assert_eq!(given[0]["params"]["expression"], format!(r#"{HOLD}({{"text/plain":"a"}})"#));
}

/// Every key that may paste waits, and so does one that cannot be read; others pass.
#[test]
fn keys() {
    for (key, waits) in [
        (json!({ "type": "rawKeyDown", "modifiers": 4, "key": "V" }), true),
        (json!({ "type": "keyDown", "modifiers": 8, "windowsVirtualKeyCode": 45 }), true),
        (json!({ "type": "keyDown", "commands": ["paste"] }), true),
        (json!({ "type": "keyDown", "code": "Paste" }), true),
        (json!({ "type": "keyDown", "modifiers": "2" }), true),
        (json!({ "type": "keyDown", "key": "v" }), false),
        (json!({ "type": "keyDown", "modifiers": 2, "key": "c" }), false),
        (json!({ "type": "keyUp", "modifiers": 2, "key": "v" }), false),
    ] {
        assert_eq!(Play::new().engine("Input.dispatchKeyEvent", &key).is_some(), waits, "{key}");
    }
}

/// A page that does not answer in time, or has no document that could, does not get the key. The engine hears why.
#[test]
fn a_page_that_is_not_ready() {
    let is_refusal = |out: &[Value]| out.len() == 1 && out[0]["engine"]["error"]["message"].is_string();
    let mut play = Play::new();
    let questions = play.engine("Input.dispatchKeyEvent", &pasting()).unwrap();
    let due = play.clipboard.due().unwrap();
    assert_eq!(values(play.clipboard.time_passed(play.now)), [0; 0]);
    assert!(is_refusal(&values(play.clipboard.time_passed(due))));
    assert_eq!(play.answers(&questions[0], &json!(true)), [0; 0], "it comes too late");
    assert_eq!(play.clipboard.due(), None);

    play.event("Runtime.executionContextDestroyed", "P", &json!({ "executionContextId": 1 }));
    play.event("Runtime.executionContextsCleared", "F", &json!({}));
    assert!(is_refusal(&play.engine("Input.dispatchKeyEvent", &pasting()).unwrap()));
}

/// Scripts come into a page's documents when the engine turns to it, and the documents' answers are the proxy's alone.
#[test]
fn scripts_are_put_in() {
    let mut play = Play::new();
    let out = play.engine("Page.enable", &json!({})).unwrap();
    let methods: Vec<_> = out.iter().map(|call| call["method"].as_str().unwrap()).collect();
    let add = "Page.addScriptToEvaluateOnNewDocument";
    assert_eq!(methods, ["Page.enable", "Runtime.addBinding", add, add]);
    assert_eq!(play.engine("Page.enable", &json!({})), None, "they are there");
    assert!(play.event(
        "Runtime.executionContextCreated",
        "P",
        &json!({ "context": { "id": 3, "name": WORLD } })
    ));
    assert!(!play.event(
        "Runtime.executionContextCreated",
        "P",
        &json!({ "context": { "id": 4, "name": "" } })
    ));
    assert!(!play.event("Runtime.bindingCalled", "P", &json!({ "name": "other", "payload": "{}" })));
    for script in [DOCUMENT, PAGE] {
        assert!(without_comments(script).len() < 4_000, "it would cost a megabyte a page");
    }
}

/// What is too long, or is no clipboard, is not kept, and neither is what was there before.
#[test]
fn what_is_kept() {
    for strange in
        ["", "7", r#"{"text/plain":7}"#, &json!({ "text/plain": "x".repeat(HELD_BYTES_MAX) }).to_string()]
    {
        let mut play = Play::new();
        play.copies(r#"{"text/plain":"before"}"#);
        play.copies(strange);
        assert_eq!(play.clipboard.held.len(), 0, "{strange:.20}");
    }
}

/// What is copied in one context is pasted there and nowhere else, and goes with it. Of too many the oldest goes.
#[test]
fn a_context_each() {
    let mut play = Play::new();
    play.copies(r#"{"text/plain":"a"}"#);
    play.clipboard.frames.get_mut("P").unwrap().context = "C2".to_owned();
    let questions = play.engine("Input.dispatchKeyEvent", &pasting()).unwrap();
    let given = play.answers(&questions[0], &json!(true));
    assert_eq!(given[0]["params"]["expression"], format!("{HOLD}({{}})"));
    play.clipboard.forget("C1");
    assert_eq!(play.clipboard.held.len(), 0);
    for n in 0..=HELD_MAX {
        play.clipboard.frames.get_mut("F").unwrap().context = n.to_string();
        play.copies(r#"{"text/plain":"a"}"#);
    }
    assert_eq!(play.clipboard.held.len(), HELD_MAX);
    assert_eq!(play.clipboard.held[0].0, "1");
}

/// What goes with a page is forgotten.
#[test]
fn pages_go() {
    let mut play = Play::new();
    play.engine("Input.dispatchKeyEvent", &pasting());
    for session in ["F", "P"] {
        play.clipboard.detached(session);
    }
    let Clipboard { frames, keys, asked, .. } = &play.clipboard;
    assert_eq!((frames.len(), keys.len(), asked.len()), (0, 0, 0));
}
