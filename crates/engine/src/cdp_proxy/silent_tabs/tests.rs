//! The filter between a simulated browser and a simulated engine, with made-up times.

use super::*;

/// The filter, the messages that it passed, and the time.
struct SilentTabsFixture {
    tabs: SilentTabs,
    own: Arc<EngineTabs>,
    now: Instant,
    to_engine: Vec<String>,
    to_browser: Vec<String>,
}

impl SilentTabsFixture {
    fn new() -> Self {
        let own = Arc::<EngineTabs>::default();
        let tabs = SilentTabs::new(own.clone());
        Self { tabs, own, now: Instant::now(), to_engine: Vec::new(), to_browser: Vec::new() }
    }

    fn collect(&mut self, out: Vec<ProxyMessage>) {
        for out in out {
            match out {
                ProxyMessage::ToEngine(text) => self.to_engine.push(text.to_string()),
                ProxyMessage::ToBrowser(text) => self.to_browser.push(text.to_string()),
            }
        }
    }

    fn browser(&mut self, message: &Value) {
        let out = self.tabs.on_browser_message(message.to_string().into(), self.now);
        self.collect(out);
    }

    fn engine(&mut self, message: &Value) {
        let text = message.to_string();
        self.tabs.on_engine_call(&serde_json::from_str(&text).unwrap(), self.now);
        self.to_browser.push(text);
    }

    /// Advances the time to the filter's next deadline, once.
    fn advance_to_deadline(&mut self) {
        self.now = self.tabs.due().unwrap();
        let out = self.tabs.on_deadline(self.now);
        self.collect(out);
    }

    /// The id of the last question to this tab.
    fn probe_id(&self, session: &str) -> u64 {
        let own_calls = self.to_browser.iter().rev().map(|text| serde_json::from_str::<Value>(text).unwrap());
        let mut own_calls =
            own_calls.filter(|call| call["method"] == PROBE_METHOD && call["sessionId"] == session);
        own_calls.next().unwrap()["id"].as_u64().unwrap()
    }

    fn answer_probe(&mut self, session: &str) {
        let id = self.probe_id(session);
        self.browser(&json!({ "id": id, "sessionId": session, "result": {} }));
    }

    /// Checks that the filter remembers this many tabs and nothing else.
    #[track_caller]
    fn assert_tabs_only(&self, tabs: usize) {
        let SilentTabs {
            own_calls, tabs: known, tab_targets, queues, creating_calls, attaching_calls, ..
        } = &self.tabs;
        assert_eq!(known.len(), tabs);
        let rest =
            (own_calls.len(), tab_targets.len(), queues.len(), creating_calls.len(), attaching_calls.len());
        assert_eq!(rest, (0, 0, 0, 0, 0), "own calls, tab targets, queues, pending calls");
    }

    /// The messages that reached the engine since the last call, abbreviated.
    fn messages_to_engine(&mut self) -> Vec<String> {
        let short = |text: String| {
            let message: Value = serde_json::from_str(&text).unwrap();
            let of = |name: &str| message["params"][name].as_str().map(ToOwned::to_owned);
            let target = message["params"]["targetInfo"]["targetId"].as_str().map(ToOwned::to_owned);
            let what = target.or_else(|| of("targetId")).or_else(|| of("sessionId"));
            let name =
                message["method"].as_str().map_or_else(|| message["id"].to_string(), ToOwned::to_owned);
            format!("{} {}", name.trim_start_matches("Target."), what.unwrap_or_default()).trim().to_owned()
        };
        std::mem::take(&mut self.to_engine).into_iter().map(short).collect()
    }
}

/// A tab `T…` in its session `S…`.
fn attached(name: &str, waits: bool) -> Value {
    let info = json!({ "targetId": format!("T{name}"), "type": "page", "attached": true });
    let params = json!({ "sessionId": format!("S{name}"), "targetInfo": info, "waitingForDebugger": waits });
    json!({ "method": "Target.attachedToTarget", "params": params })
}

/// Tabs that answer are shown in the browser's order, with the messages after them; messages of other sessions do not wait.
#[test]
fn tabs_are_shown_in_the_browsers_order() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    fixture.browser(&attached("2", false));
    fixture.browser(&json!({ "id": 7, "result": {} }));
    fixture.browser(&json!({ "method": "Network.x", "sessionId": "elsewhere" }));
    assert_eq!(fixture.messages_to_engine(), ["Network.x"]);
    fixture.answer_probe("S2");
    assert_eq!(fixture.messages_to_engine(), [""; 0], "behind the first");
    fixture.answer_probe("S1");
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T1", "attachedToTarget T2", "7"]);
    fixture.browser(&json!({ "id": 8, "result": {} }));
    assert_eq!(fixture.messages_to_engine(), ["8"]);
    assert_eq!(fixture.tabs.due(), None);
}

/// A tab that does not answer in time is hidden, and no message waits for it any more; it is shown when it answers after
/// all. The engine gets neither its events meanwhile nor its end.
#[test]
fn silent_tabs_are_hidden_until_they_answer() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    fixture.browser(&attached("2", false));
    fixture.browser(&json!({ "id": 7, "result": {} }));
    fixture.answer_probe("S2");
    fixture.advance_to_deadline();
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T2", "7"]);
    fixture.browser(&json!({ "method": "Page.x", "sessionId": "S1" }));
    assert_eq!(fixture.messages_to_engine(), [""; 0]);
    fixture.answer_probe("S1");
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T1"]);

    for is_hidden in [false, true] {
        fixture.browser(&attached("3", false));
        if is_hidden {
            fixture.advance_to_deadline();
        }
        fixture.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S3" } }));
        fixture.browser(&json!({ "id": 9, "result": {} }));
        assert_eq!(fixture.messages_to_engine(), ["9"]);
    }
}

/// An engine that subscribed to tabs learns that a tab and its tab target are gone, and that the tab is back when it answers.
#[test]
fn subscribed_engine_learns_of_hidden_tabs() {
    let mut fixture = SilentTabsFixture::new();
    fixture.engine(&json!({ "id": 1, "method": "Target.setDiscoverTargets", "params": {} }));
    let tab_target = json!({ "targetId": "TAB", "type": "tab" });
    let params = json!({ "sessionId": "SP", "targetInfo": tab_target, "waitingForDebugger": false });
    fixture.browser(&json!({ "method": "Target.attachedToTarget", "params": params }));
    let mut page = attached("1", false);
    page["sessionId"] = "SP".into();
    fixture.browser(&page);
    fixture.browser(&json!({ "id": 2, "sessionId": "SP", "result": {} }));
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget TAB"]);
    fixture.advance_to_deadline();
    assert_eq!(fixture.messages_to_engine(), ["targetDestroyed TAB", "2"]);
    fixture.answer_probe("S1");
    assert_eq!(fixture.messages_to_engine(), ["targetCreated T1", "attachedToTarget T1"]);
}

/// The filter asks a tab that leaves an engine's call unanswered; a tab that answers stays, however long the call takes, and
/// a tab that does not is taken from the engine.
#[test]
fn tab_that_falls_silent_is_detached() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    fixture.answer_probe("S1");
    assert_eq!(fixture.tabs.due(), None, "it owes no answer");
    fixture.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    fixture.advance_to_deadline();
    fixture.answer_probe("S1");
    fixture.advance_to_deadline();
    let own_calls = fixture.to_browser.len();
    fixture.advance_to_deadline();
    assert_eq!(fixture.to_browser.len(), own_calls + 1);
    assert!(fixture.to_browser[own_calls].contains("Target.detachFromTarget"), "{:?}", fixture.to_browser);
    fixture.messages_to_engine();
    fixture.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1" } }));
    assert_eq!(fixture.messages_to_engine(), ["detachedFromTarget S1"]);
    assert_eq!(fixture.tabs.due(), None);

    fixture.browser(&attached("2", false));
    fixture.answer_probe("S2");
    fixture.engine(&json!({ "id": 2, "sessionId": "S2", "method": "Runtime.evaluate" }));
    fixture.browser(&json!({ "id": 2, "sessionId": "S2", "result": {} }));
    assert_eq!(fixture.tabs.due(), None, "it has answered");
}

/// The filter asks again for a tab that was taken away, and shows it when it answers.
#[test]
fn detached_tab_is_shown_again_when_it_answers() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    fixture.answer_probe("S1");
    fixture.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    fixture.advance_to_deadline();
    fixture.advance_to_deadline();
    fixture.messages_to_engine();
    let taken: Value = serde_json::from_str(fixture.to_browser.last().unwrap()).unwrap();
    fixture.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1" } }));
    fixture.browser(&json!({ "id": taken["id"], "result": {} }));
    assert_eq!(fixture.messages_to_engine(), ["detachedFromTarget S1"]);
    let own_calls: Value = serde_json::from_str(fixture.to_browser.last().unwrap()).unwrap();
    assert_eq!(
        (&own_calls["method"], &own_calls["params"]["targetId"]),
        (&"Target.attachToTarget".into(), &"T1".into())
    );
    let mut again = attached("1", false);
    again["params"]["sessionId"] = "S1b".into();
    fixture.browser(&again);
    fixture.browser(&json!({ "id": own_calls["id"], "result": { "sessionId": "S1b" } }));
    fixture.advance_to_deadline();
    assert_eq!(
        fixture.messages_to_engine(),
        [""; 0],
        "it does not answer yet, and the probe was the proxy's"
    );
    fixture.answer_probe("S1b");
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T1"]);
    fixture.assert_tabs_only(1);
}

/// A second session with a tab that the engine knows, and any session that the engine asks for, is not held; when it ends,
/// the tab remains the engine's own.
#[test]
fn further_sessions_are_not_held() {
    let mut fixture = SilentTabsFixture::new();
    fixture.own.add_tab("T1");
    fixture.browser(&attached("1", false));
    let mut second = attached("1", false);
    second["params"]["sessionId"] = "S1b".into();
    fixture.browser(&second);
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T1", "attachedToTarget T1"]);
    fixture.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1b" } }));
    fixture.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    assert_eq!(fixture.tabs.due(), None, "still its own");

    fixture.engine(&json!({ "id": 2, "method": "Target.attachToTarget", "params": { "targetId": "T2" } }));
    fixture.browser(&attached("2", false));
    fixture.browser(&json!({ "id": 2, "result": { "sessionId": "S2" } }));
    assert_eq!(fixture.messages_to_engine(), ["detachedFromTarget S1b", "attachedToTarget T2", "2"]);
    fixture.assert_tabs_only(2);
}

/// Sessions attached within a session end with it, and so do messages that waited there; a question to an ended session is
/// an error.
#[test]
fn state_of_ended_sessions_is_dropped() {
    let mut fixture = SilentTabsFixture::new();
    let tab_target = json!({ "targetId": "TAB", "type": "tab" });
    let params = json!({ "sessionId": "SP", "targetInfo": tab_target });
    fixture.browser(&json!({ "method": "Target.attachedToTarget", "params": params }));
    let mut page = attached("1", false);
    page["sessionId"] = "SP".into();
    fixture.browser(&page);
    fixture.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "SP" } }));
    fixture.assert_tabs_only(0);

    fixture.browser(&attached("2", false));
    fixture.browser(&json!({ "id": 7, "result": {} }));
    let id = fixture.probe_id("S2");
    fixture.browser(
        &json!({ "id": id, "error": { "code": -32001, "message": "Session with given id not found." } }),
    );
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget TAB", "detachedFromTarget SP", "7"]);
    fixture.assert_tabs_only(0);
}

/// In a browser that does not know the question, tabs count as answering.
#[test]
fn error_answer_to_a_probe_counts_as_an_answer() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    let id = fixture.probe_id("S1");
    fixture.browser(
        &json!({ "id": id, "sessionId": "S1", "error": { "code": -32601, "message": "not found" } }),
    );
    assert_eq!(fixture.messages_to_engine(), ["attachedToTarget T1"]);
    fixture.assert_tabs_only(1);
}

/// However many tabs are asked one after the other, and however many messages come meanwhile, the engine's wait is bounded.
#[test]
fn waits_are_bounded() {
    let mut fixture = SilentTabsFixture::new();
    let begun = fixture.now;
    let mut tabs = 0;
    fixture.browser(&json!({ "id": 1, "result": {} }));
    fixture.browser(&attached("0", false));
    fixture.browser(&json!({ "id": 2, "result": {} }));
    fixture.messages_to_engine();
    while fixture.messages_to_engine().is_empty() {
        tabs += 1;
        fixture.now += Duration::from_secs(1);
        fixture.browser(&attached(&tabs.to_string(), false));
        let out = fixture.tabs.on_deadline(fixture.now);
        fixture.collect(out);
    }
    assert!(fixture.now - begun <= QUEUE_WAIT_MAX, "{tabs} tabs");

    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("0", false));
    let big = json!({ "id": 1, "result": "x".repeat(QUEUE_BYTES_MAX) });
    fixture.browser(&big);
    assert_eq!(fixture.messages_to_engine(), ["1"]);
}

/// The time of a dialog does not count for its tab.
#[test]
fn dialog_time_does_not_count() {
    let mut fixture = SilentTabsFixture::new();
    fixture.browser(&attached("1", false));
    fixture.answer_probe("S1");
    fixture.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    fixture.advance_to_deadline();
    fixture.browser(&json!({ "method": "Page.javascriptDialogOpening", "sessionId": "S1", "params": {} }));
    fixture.now += Duration::from_secs(60);
    fixture.browser(&json!({ "method": "Page.javascriptDialogClosed", "sessionId": "S1", "params": {} }));
    assert_eq!(fixture.tabs.on_deadline(fixture.now), []);
    fixture.answer_probe("S1");
    assert_eq!(fixture.tabs.due(), Some(fixture.now + CALL_UNANSWERED_MAX));
}

/// The filter never asks the engine's own tabs: opened for it, made by it, opened by these, or in a context that it made;
/// nor a tab that waits for the engine, that it brought to the front, or whose dialog it knows of.
#[test]
fn own_used_and_dialog_tabs_are_not_probed() {
    let mut fixture = SilentTabsFixture::new();
    fixture.own.add_tab("T1");
    fixture.engine(&json!({ "id": 1, "method": "Target.createTarget" }));
    fixture.browser(&json!({ "id": 1, "result": { "targetId": "T2" } }));
    fixture.engine(&json!({ "id": 2, "method": "Target.createBrowserContext" }));
    fixture.browser(&json!({ "id": 2, "result": { "browserContextId": "C" } }));
    let mut opened = attached("3", false);
    opened["params"]["targetInfo"]["openerId"] = "T2".into();
    let mut inside = attached("4", false);
    inside["params"]["targetInfo"]["browserContextId"] = "C".into();
    for tab in [attached("1", false), attached("2", true), opened, inside, attached("5", true)] {
        fixture.browser(&tab);
    }
    fixture.browser(&attached("6", false));
    fixture.answer_probe("S6");
    fixture.browser(&json!({ "method": "Page.javascriptDialogOpening", "sessionId": "S6", "params": {} }));
    fixture.engine(&json!({ "id": 3, "sessionId": "S5", "method": "Page.bringToFront" }));
    for (id, session) in (10..).zip(["S1", "S2", "S3", "S4", "S5", "S6"]) {
        fixture.engine(&json!({ "id": id, "sessionId": session, "method": "Runtime.evaluate" }));
    }
    assert_eq!(fixture.tabs.due(), None);
    fixture.browser(&json!({ "method": "Page.javascriptDialogClosed", "sessionId": "S6", "params": {} }));
    assert!(fixture.tabs.due().is_some(), "the dialog was no excuse for what comes later");
}

/// A message that is not of the protocol passes to the engine unchanged.
#[test]
fn unreadable_messages_pass() {
    let mut fixture = SilentTabsFixture::new();
    for strange in ["", "{", "[]", "7", r#"{"method":"Target.attachedToTarget","params":7}"#] {
        assert_eq!(
            fixture.tabs.on_browser_message(strange.into(), fixture.now),
            [ProxyMessage::ToEngine(strange.into())]
        );
    }
}
