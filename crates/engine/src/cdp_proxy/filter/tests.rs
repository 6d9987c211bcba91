use std::sync::Arc;

use serde_json::{Value, json};

use super::{super::message::unknown_session, *};
use crate::downloads::Downloads;

fn rules(targets: Targets) -> EngineRules {
    EngineRules {
        targets,
        downloads: None,
        context_ports: None,
        forgets_crashed_pages: true,
        send_within: super::super::SEND_WITHIN,
    }
}

fn filter(targets: Targets) -> Filter {
    Filter::new(&rules(targets))
}

fn engine(filter: &mut Filter, call: &Value) -> Vec<ProxyMessage> {
    filter.on_engine_call(&call.to_string().into(), Instant::now()).unwrap()
}

fn browser(filter: &mut Filter, message: &Value) -> Vec<ProxyMessage> {
    filter.on_browser_message(message.to_string().into(), Instant::now())
}

/// The methods of the calls that go to the browser.
fn methods_to_browser(out: &[ProxyMessage]) -> Vec<String> {
    let method = |out: &ProxyMessage| match out {
        ProxyMessage::ToEngine(text) => panic!("the engine gets this: {text}"),
        ProxyMessage::ToBrowser(text) => {
            serde_json::from_str::<Value>(text).unwrap()["method"].as_str().unwrap().to_owned()
        }
    };
    out.iter().map(method).collect()
}

fn attached(session: &str, context: &str) -> Value {
    let info = json!({ "targetId": session, "type": "page", "browserContextId": context });
    json!({
        "method": "Target.attachedToTarget",
        "params": { "sessionId": session, "targetInfo": info, "waitingForDebugger": true },
    })
}

/// A refused call does not reach the browser, whatever its kind, and the engine gets an error.
#[test]
fn refused_calls_are_answered_with_an_error() {
    for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
        let call =
            json!({ "id": 3, "sessionId": "S", "method": "Page.navigate", "params": { "url": "file:///x" } });
        let out = engine(&mut filter(targets.clone()), &call);
        let [ProxyMessage::ToEngine(text)] = &out[..] else { panic!("{out:?}") };
        let answer: Value = serde_json::from_str(text).unwrap();
        assert_eq!((&answer["id"], &answer["sessionId"]), (&json!(3), &json!("S")));
        assert!(answer["error"]["message"].as_str().unwrap().contains("`file:`"), "{answer}");
    }
}

/// Wherever others have pages in the same browser, no page is granted its clipboard.
#[test]
fn clipboard_permissions_are_withheld() {
    for (targets, is_granted) in
        [(Targets::All, true), (Targets::OwnContexts, false), (Targets::responsive(), false)]
    {
        let params = json!({ "permissions": ["clipboardReadWrite"] });
        let call = json!({ "id": 1, "method": "Browser.grantPermissions", "params": params });
        let out = engine(&mut filter(targets.clone()), &call);
        let [ProxyMessage::ToBrowser(text)] = &out[..] else { panic!("{out:?}") };
        assert_eq!(text.contains("clipboard"), is_granted, "{text}");
    }
}

/// Sizes are reduced on their way; a call without a rule passes unchanged.
#[test]
fn calls_are_rewritten_or_pass() {
    let mut filter = filter(Targets::All);
    let bounds = json!({ "windowId": 1, "bounds": { "width": 100_000 } });
    let out = engine(&mut filter, &json!({ "id": 1, "method": "Browser.setWindowBounds", "params": bounds }));
    let [ProxyMessage::ToBrowser(text)] = &out[..] else { panic!("{out:?}") };
    assert_eq!(serde_json::from_str::<Value>(text).unwrap()["params"]["bounds"]["width"], 16_384);
    let odd: Text = r#"{"id":1, "method":"Input.insertText","params":{"text":"\ud800"}}"#.into();
    assert_eq!(filter.on_engine_call(&odd, Instant::now()), Ok(vec![ProxyMessage::ToBrowser(odd)]));
}

/// Any other answer that is too long becomes an error, whatever the engine's targets are: a tree of accessible elements is as
/// long as a page makes its labels.
#[test]
fn long_answers_become_errors() {
    for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
        let mut filter = filter(targets);
        for (body, error) in [
            (r#"{"nodes":[{"name":""#, "the browser's answer is too long"),
            (r#"{"result":{"type":"string","value":""#, "the page's value is too long"),
        ] {
            let mut heard = |bytes: usize| {
                let text = format!(r#"{{"id":7,"result":{body}{}"}},"sessionId":"S"}}"#, "a".repeat(bytes));
                let out = filter.on_browser_message(text.into(), Instant::now());
                let [ProxyMessage::ToEngine(heard)] = &out[..] else { panic!("{} messages", out.len()) };
                heard.get(..300).unwrap_or(heard).contains(error)
            };
            assert!(!heard((16 << 20) - 200) && heard(16 << 20), "{error}");
        }
    }
}

/// Requests without end and long texts are bounded whatever the engine's targets are; a navigation resets the count, and the
/// answers to the proxy's own calls do not reach the engine.
#[test]
fn requests_and_texts_are_bounded() {
    for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
        let mut filter = filter(targets.clone());
        let sent = |id: u32, url: &str| {
            let params = json!({ "requestId": id.to_string(), "request": { "url": url } });
            json!({ "method": "Network.requestWillBeSent", "params": params, "sessionId": "S" })
        };
        let mut passed = 0;
        let out = loop {
            let out = browser(&mut filter, &sent(passed, "http://a/"));
            match &out[..] {
                [ProxyMessage::ToEngine(text)] if text.contains("requestWillBeSent") => passed += 1,
                _ => break out,
            }
        };
        assert!(passed > 1_000 && out.len() == 1, "{out:?}");
        assert_eq!(browser(&mut filter, &sent(passed, "http://a/")), []);
        let waits =
            json!({ "requestId": "i", "networkId": passed.to_string(), "request": { "url": "http://a/" } });
        let paused = json!({ "method": "Fetch.requestPaused", "params": waits, "sessionId": "S" });
        assert_eq!(methods_to_browser(&browser(&mut filter, &paused)), ["Fetch.failRequest"]);
        let id = OwnIds::default().next();
        assert_eq!(browser(&mut filter, &json!({ "id": id, "result": {}, "sessionId": "S" })), []);

        let go = json!({ "url": "http://b/" });
        engine(&mut filter, &json!({ "id": 1, "sessionId": "S", "method": "Page.navigate", "params": go }));
        let out = browser(&mut filter, &sent(passed, &"a".repeat(2_000_000)));
        let [ProxyMessage::ToEngine(text)] = &out[..] else { panic!("{out:?}") };
        assert!(text.len() < 200_000, "{} bytes", text.len());
    }
}

/// Messages of a page's workers, and of their workers, count for the limits of the page: a page does not get around a limit
/// by starting workers. Another page's messages pass.
#[test]
fn workers_count_for_their_page() {
    for targets in [Targets::All, Targets::OwnContexts, Targets::responsive()] {
        let mut filter = filter(targets.clone());
        let now = Instant::now();
        engine(&mut filter, &json!({ "id": 5, "method": "Target.createBrowserContext" }));
        browser(&mut filter, &json!({ "id": 5, "result": { "browserContextId": "C" } }));
        let worker = |session: &str, parent: &str| {
            let mut worker = attached(session, "C");
            worker["sessionId"] = json!(parent);
            worker["params"]["targetInfo"]["type"] = json!("worker");
            worker
        };
        for target in [attached("S", "C"), worker("W1", "S"), worker("W2", "W1"), attached("T", "C")] {
            browser(&mut filter, &target);
        }
        let message = |session: &str| {
            let params = json!({ "type": "log", "args": [], "executionContextId": 1, "timestamp": 0 });
            json!({ "method": "Runtime.consoleAPICalled", "params": params, "sessionId": session })
                .to_string()
        };
        let sent = |session: &str, id: u32| {
            let params = json!({ "requestId": id.to_string(), "request": { "url": "http://a/" } });
            json!({ "method": "Network.requestWillBeSent", "params": params, "sessionId": session })
                .to_string()
        };
        // All at one moment, since some is forgiven over time.
        let mut passes = |text: String| {
            filter.on_browser_message(text.clone().into(), now) == [ProxyMessage::ToEngine(text.into())]
        };
        let mut until_full = |say: &dyn Fn(&str, u32) -> String| {
            let by_turns = (0..).zip(["S", "W1", "W2"].into_iter().cycle());
            let passed = by_turns.take_while(|(n, session)| passes(say(session, *n))).count();
            for session in ["S", "W1", "W2"] {
                assert!(!passes(say(session, u32::MAX)), "{session} after {passed}");
            }
            passed
        };
        assert_eq!(until_full(&|session, _| message(session)), 500);
        assert_eq!(until_full(&sent), 4_000);
        assert!(passes(message("T")));
    }
}

/// A message that is not a call ends the connection.
#[test]
fn unreadable_calls_end_the_connection() {
    for text in [
        "",
        "7",
        "{}",
        r#"{"id":1}"#,
        r#"{"id":1,"method":"a","method":"b"}"#,
        r#"{"id":1,"method":"\ud800"}"#,
    ] {
        let outcome = filter(Targets::All).on_engine_call(&text.into(), Instant::now());
        assert_eq!(outcome, Err(UnreadableCall), "{text}");
    }
}

/// An engine gets only pages in contexts that it made. The proxy resumes and detaches from those of others, before and after
/// the engine made a context, and the engine sees nothing of it.
#[test]
fn only_own_contexts_are_shown() {
    let mut filter = filter(Targets::OwnContexts);
    let detached = ["Runtime.runIfWaitingForDebugger", "Target.detachFromTarget"];
    assert_eq!(methods_to_browser(&browser(&mut filter, &attached("S1", "C1"))), detached);
    engine(&mut filter, &json!({ "id": 5, "method": "Target.createBrowserContext" }));
    let made = json!({ "id": 5, "result": { "browserContextId": "C2" } });
    assert_eq!(browser(&mut filter, &made), [ProxyMessage::ToEngine(made.to_string().into())]);
    for own_message in [attached("S2", "C2"), json!({ "method": "Target.targetCreated", "params": {} })] {
        assert_eq!(
            browser(&mut filter, &own_message),
            [ProxyMessage::ToEngine(own_message.to_string().into())]
        );
    }
    assert_eq!(methods_to_browser(&browser(&mut filter, &attached("S3", "C1"))), detached);
    let other = json!({ "method": "Inspector.detached", "params": {}, "sessionId": "S3" });
    assert_eq!(browser(&mut filter, &other), []);
    for (id, session) in [(OwnIds::default().next(), "S1"), (OwnIds::default().next() - 1, "S3")] {
        assert_eq!(browser(&mut filter, &json!({ "id": id, "result": {} })), []);
        let gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": session } });
        assert_eq!(browser(&mut filter, &gone), []);
    }
    let own_gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S2" } });
    assert_eq!(browser(&mut filter, &own_gone), [ProxyMessage::ToEngine(own_gone.to_string().into())]);
    engine(
        &mut filter,
        &json!({ "id": 6, "method": "Target.disposeBrowserContext", "params": { "browserContextId": "C2" } }),
    );
    assert_eq!(
        methods_to_browser(&browser(&mut filter, &attached("S4", "C2"))),
        detached,
        "it is no longer its own"
    );
}

/// Pages of a context open a few tabs in ten seconds; the browser closes further ones, and the engine does not see them.
/// Tabs that the engine opens count only for the number of tabs per session.
#[test]
fn tabs_opened_by_pages_are_limited() {
    let mut filter = filter(Targets::OwnContexts);
    engine(&mut filter, &json!({ "id": 1, "method": "Target.createBrowserContext" }));
    browser(&mut filter, &json!({ "id": 1, "result": { "browserContextId": "C" } }));
    let mut now = Instant::now();
    let opens = |filter: &mut Filter, session: &str, now| {
        filter.on_browser_message(attached(session, "C").to_string().into(), now)
    };
    let own_message = |id: u32| {
        let params = json!({ "url": "about:blank", "browserContextId": "C" });
        json!({ "id": id, "method": "Target.createTarget", "params": params })
    };
    for id in 2..50 {
        assert!(matches!(engine(&mut filter, &own_message(id))[..], [ProxyMessage::ToBrowser(_)]), "{id}");
        assert!(
            matches!(opens(&mut filter, &format!("own {id}"), now)[..], [ProxyMessage::ToEngine(_)]),
            "{id}"
        );
        browser(&mut filter, &json!({ "id": id, "result": { "targetId": "T" } }));
    }
    for round in 0..2 {
        for popup in 0..8 {
            let popup = format!("{round} {popup}");
            assert!(
                matches!(opens(&mut filter, &format!("popup {popup}"), now)[..], [ProxyMessage::ToEngine(_)]),
                "{popup}"
            );
        }
        let closed = ["Runtime.runIfWaitingForDebugger", "Target.closeTarget"];
        assert_eq!(methods_to_browser(&opens(&mut filter, "one too many", now)), closed);
        now += std::time::Duration::from_secs(10);
    }
    let out = engine(&mut filter, &own_message(50));
    assert!(
        matches!(&out[..], [ProxyMessage::ToEngine(text)] if text.contains("at most 64 tabs")),
        "{out:?}"
    );
    let gone = json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "own 2" } });
    browser(&mut filter, &gone);
    assert!(
        matches!(engine(&mut filter, &own_message(51))[..], [ProxyMessage::ToBrowser(_)]),
        "one was closed"
    );
}

/// Downloads in a context that the engine made are counted until it disposes of it, and stopped when they are too much.
#[test]
fn downloads_of_own_contexts_are_counted() {
    let downloads = Arc::new(Downloads::new(1 << 20));
    let mut filter =
        Filter::new(&EngineRules { downloads: Some(downloads.clone()), ..rules(Targets::OwnContexts) });
    engine(&mut filter, &json!({ "id": 5, "method": "Target.createBrowserContext" }));
    browser(&mut filter, &json!({ "id": 5, "result": { "browserContextId": "C" } }));
    browser(&mut filter, &attached("S", "C"));
    let send_event = |filter: &mut Filter, event: &str, guid: &str| {
        let params = json!({
            "guid": guid, "frameId": "S", "url": "http://a/", "suggestedFilename": "x",
            "totalBytes": 2 << 20, "receivedBytes": 0, "state": "inProgress",
        });
        let message = json!({ "method": format!("Page.{event}"), "params": params, "sessionId": "S" });
        let mut out = browser(filter, &message);
        assert_eq!(
            out.remove(0),
            ProxyMessage::ToEngine(message.to_string().into()),
            "the engine gets the event first"
        );
        methods_to_browser(&out)
    };
    assert!(send_event(&mut filter, "downloadWillBegin", "x").is_empty());
    let stop = ["Browser.setDownloadBehavior", "Browser.cancelDownload"];
    assert_eq!(send_event(&mut filter, "downloadProgress", "x"), stop);
    let dispose = json!({ "browserContextId": "C" });
    engine(&mut filter, &json!({ "id": 6, "method": "Target.disposeBrowserContext", "params": dispose }));
    assert!(send_event(&mut filter, "downloadWillBegin", "y").is_empty());
    assert!(!downloads.is_announced("x") && !downloads.is_announced("y"));
}

/// After a page's crash no answer to a call of that page reaches Playwright, since it would end Node: neither the
/// browser's, nor a held one, nor the proxy's own refusal. A browser that loads the page again changes nothing. Other pages
/// and a restarted service worker get their answers.
#[test]
fn answers_of_crashed_pages_become_errors() {
    let crashed = json!({ "method": "Inspector.targetCrashed", "params": {}, "sessionId": "S" });
    let navigate = |id: u32, url: &str| json!({ "id": id, "sessionId": "S", "method": "Page.navigate", "params": { "url": url } });
    let answer = |id: u32, session: &str| json!({ "id": id, "result": {}, "sessionId": session });
    let failure = json!({
        "id": 1,
        "result": { "frameId": "F", "loaderId": "L", "errorText": "net::ERR_FAILED" },
        "sessionId": "S",
    });
    let parsed = |out: &[ProxyMessage]| -> Vec<Value> {
        let text = |out: &ProxyMessage| match out {
            ProxyMessage::ToEngine(text) => serde_json::from_str(text).unwrap(),
            ProxyMessage::ToBrowser(text) => panic!("the browser gets this: {text}"),
        };
        out.iter().map(text).collect()
    };
    let unknown = |id: u32| -> Value { serde_json::from_str(&unknown_session(id, "S")).unwrap() };

    let filter = &mut filter(Targets::All);
    engine(filter, &navigate(1, "http://127.0.0.1/"));
    assert_eq!(browser(filter, &failure), [], "the answer is held");
    assert_eq!(parsed(&browser(filter, &crashed)), [crashed.clone(), unknown(1)]);
    assert_eq!(parsed(&browser(filter, &answer(2, "S"))), [unknown(2)]);
    assert_eq!(parsed(&engine(filter, &navigate(3, "file:///x"))), [unknown(3)]);
    assert_eq!(parsed(&browser(filter, &answer(4, "T"))), [answer(4, "T")]);
    let reloaded = json!({ "method": "Inspector.targetReloadedAfterCrash", "params": {}, "sessionId": "S" });
    browser(filter, &reloaded);
    assert_eq!(parsed(&browser(filter, &answer(5, "S"))), [unknown(5)]);
    let mut worker = attached("W", "C");
    worker["params"]["targetInfo"]["type"] = "service_worker".into();
    browser(filter, &worker);
    browser(filter, &json!({ "method": "Inspector.targetCrashed", "params": {}, "sessionId": "W" }));
    assert_eq!(parsed(&browser(filter, &answer(6, "W"))), [answer(6, "W")]);
    browser(filter, &json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S" } }));
    assert_eq!(parsed(&browser(filter, &answer(7, "S"))), [answer(7, "S")]);

    // Puppeteer goes on with the session.
    let filter = &mut Filter::new(&EngineRules { forgets_crashed_pages: false, ..rules(Targets::All) });
    browser(filter, &crashed);
    assert_eq!(parsed(&browser(filter, &answer(2, "S"))), [answer(2, "S")]);
}
