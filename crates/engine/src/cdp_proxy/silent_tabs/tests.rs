//! The filter between a simulated browser and a simulated engine, with made-up times.

use super::*;

/// The filter, the messages that it passed, and the time.
struct Play {
    tabs: SilentTabs,
    own: Arc<Own>,
    now: Instant,
    to_engine: Vec<String>,
    to_browser: Vec<String>,
}

impl Play {
    fn new() -> Self {
        let own = Arc::<Own>::default();
        let tabs = SilentTabs::new(own.clone());
        Self { tabs, own, now: Instant::now(), to_engine: Vec::new(), to_browser: Vec::new() }
    }

    fn take(&mut self, out: Vec<Out>) {
        for out in out {
            match out {
                Out::ToEngine(text) => self.to_engine.push(text.to_string()),
                Out::ToBrowser(text) => self.to_browser.push(text.to_string()),
            }
        }
    }

    fn browser(&mut self, message: &Value) {
        let out = self.tabs.browser_says(message.to_string().into(), self.now);
        self.take(out);
    }

    fn engine(&mut self, message: &Value) {
        let text = message.to_string();
        self.tabs.engine_says(&serde_json::from_str(&text).unwrap(), self.now);
        self.to_browser.push(text);
    }

    /// Advances the time to the filter's next deadline, once.
    fn wait(&mut self) {
        self.now = self.tabs.due().unwrap();
        let out = self.tabs.time_passed(self.now);
        self.take(out);
    }

    /// The id of the last question to this tab.
    fn question(&self, session: &str) -> u64 {
        let asked = self.to_browser.iter().rev().map(|text| serde_json::from_str::<Value>(text).unwrap());
        let mut asked = asked.filter(|call| call["method"] == ASK && call["sessionId"] == session);
        asked.next().unwrap()["id"].as_u64().unwrap()
    }

    fn answers(&mut self, session: &str) {
        let id = self.question(session);
        self.browser(&json!({ "id": id, "sessionId": session, "result": {} }));
    }

    /// Checks that the filter remembers this many tabs and nothing else.
    #[track_caller]
    fn is_empty_but(&self, tabs: usize) {
        let SilentTabs { asked, tabs: known, places, lanes, making, attaching, .. } = &self.tabs;
        assert_eq!(known.len(), tabs);
        let rest = (asked.len(), places.len(), lanes.len(), making.len(), attaching.len());
        assert_eq!(rest, (0, 0, 0, 0, 0), "questions, places, lanes, what is made and asked for");
    }

    /// The messages that reached the engine since the last call, abbreviated.
    fn heard(&mut self) -> Vec<String> {
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
fn order_is_kept() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    play.browser(&attached("2", false));
    play.browser(&json!({ "id": 7, "result": {} }));
    play.browser(&json!({ "method": "Network.x", "sessionId": "elsewhere" }));
    assert_eq!(play.heard(), ["Network.x"]);
    play.answers("S2");
    assert_eq!(play.heard(), [""; 0], "behind the first");
    play.answers("S1");
    assert_eq!(play.heard(), ["attachedToTarget T1", "attachedToTarget T2", "7"]);
    play.browser(&json!({ "id": 8, "result": {} }));
    assert_eq!(play.heard(), ["8"]);
    assert_eq!(play.tabs.due(), None);
}

/// A tab that does not answer in time is hidden, and no message waits for it any more; it is shown when it answers after
/// all. The engine gets neither its events meanwhile nor its end.
#[test]
fn silent_tabs_are_left_out() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    play.browser(&attached("2", false));
    play.browser(&json!({ "id": 7, "result": {} }));
    play.answers("S2");
    play.wait();
    assert_eq!(play.heard(), ["attachedToTarget T2", "7"]);
    play.browser(&json!({ "method": "Page.x", "sessionId": "S1" }));
    assert_eq!(play.heard(), [""; 0]);
    play.answers("S1");
    assert_eq!(play.heard(), ["attachedToTarget T1"]);

    for answers in [false, true] {
        play.browser(&attached("3", false));
        if answers {
            play.wait();
        }
        play.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S3" } }));
        play.browser(&json!({ "id": 9, "result": {} }));
        assert_eq!(play.heard(), ["9"]);
    }
}

/// An engine that subscribed to tabs learns that a tab and its place are gone, and that the tab is back when it answers.
#[test]
fn who_discovers_tabs_is_told() {
    let mut play = Play::new();
    play.engine(&json!({ "id": 1, "method": "Target.setDiscoverTargets", "params": {} }));
    let place = json!({ "targetId": "PLACE", "type": "tab" });
    let params = json!({ "sessionId": "SP", "targetInfo": place, "waitingForDebugger": false });
    play.browser(&json!({ "method": "Target.attachedToTarget", "params": params }));
    let mut page = attached("1", false);
    page["sessionId"] = "SP".into();
    play.browser(&page);
    play.browser(&json!({ "id": 2, "sessionId": "SP", "result": {} }));
    assert_eq!(play.heard(), ["attachedToTarget PLACE"]);
    play.wait();
    assert_eq!(play.heard(), ["targetDestroyed PLACE", "2"]);
    play.answers("S1");
    assert_eq!(play.heard(), ["targetCreated T1", "attachedToTarget T1"]);
}

/// The filter asks a tab that leaves an engine's call unanswered; a tab that answers stays, however long the call takes, and
/// a tab that does not is taken from the engine.
#[test]
fn a_tab_that_falls_silent_is_taken_away() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    play.answers("S1");
    assert_eq!(play.tabs.due(), None, "it owes no answer");
    play.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    play.wait();
    play.answers("S1");
    play.wait();
    let asked = play.to_browser.len();
    play.wait();
    assert_eq!(play.to_browser.len(), asked + 1);
    assert!(play.to_browser[asked].contains("Target.detachFromTarget"), "{:?}", play.to_browser);
    play.heard();
    play.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1" } }));
    assert_eq!(play.heard(), ["detachedFromTarget S1"]);
    assert_eq!(play.tabs.due(), None);

    play.browser(&attached("2", false));
    play.answers("S2");
    play.engine(&json!({ "id": 2, "sessionId": "S2", "method": "Runtime.evaluate" }));
    play.browser(&json!({ "id": 2, "sessionId": "S2", "result": {} }));
    assert_eq!(play.tabs.due(), None, "it has answered");
}

/// The filter asks again for a tab that was taken away, and shows it when it answers.
#[test]
fn a_tab_that_was_taken_away_comes_back() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    play.answers("S1");
    play.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    play.wait();
    play.wait();
    play.heard();
    let taken: Value = serde_json::from_str(play.to_browser.last().unwrap()).unwrap();
    play.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1" } }));
    play.browser(&json!({ "id": taken["id"], "result": {} }));
    assert_eq!(play.heard(), ["detachedFromTarget S1"]);
    let asked: Value = serde_json::from_str(play.to_browser.last().unwrap()).unwrap();
    assert_eq!(
        (&asked["method"], &asked["params"]["targetId"]),
        (&"Target.attachToTarget".into(), &"T1".into())
    );
    let mut again = attached("1", false);
    again["params"]["sessionId"] = "S1b".into();
    play.browser(&again);
    play.browser(&json!({ "id": asked["id"], "result": { "sessionId": "S1b" } }));
    play.wait();
    assert_eq!(play.heard(), [""; 0], "it does not answer yet, and the question was the proxy's");
    play.answers("S1b");
    assert_eq!(play.heard(), ["attachedToTarget T1"]);
    play.is_empty_but(1);
}

/// A second session with a tab that the engine knows, and any session that the engine asks for, is not held; when it ends,
/// the tab remains the engine's own.
#[test]
fn further_sessions() {
    let mut play = Play::new();
    play.own.add_tab("T1");
    play.browser(&attached("1", false));
    let mut second = attached("1", false);
    second["params"]["sessionId"] = "S1b".into();
    play.browser(&second);
    assert_eq!(play.heard(), ["attachedToTarget T1", "attachedToTarget T1"]);
    play.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "S1b" } }));
    play.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    assert_eq!(play.tabs.due(), None, "still its own");

    play.engine(&json!({ "id": 2, "method": "Target.attachToTarget", "params": { "targetId": "T2" } }));
    play.browser(&attached("2", false));
    play.browser(&json!({ "id": 2, "result": { "sessionId": "S2" } }));
    assert_eq!(play.heard(), ["detachedFromTarget S1b", "attachedToTarget T2", "2"]);
    play.is_empty_but(2);
}

/// Sessions attached within a session end with it, and so do messages that waited there; a question to an ended session is
/// an error.
#[test]
fn what_is_gone_is_forgotten() {
    let mut play = Play::new();
    let place = json!({ "targetId": "PLACE", "type": "tab" });
    let params = json!({ "sessionId": "SP", "targetInfo": place });
    play.browser(&json!({ "method": "Target.attachedToTarget", "params": params }));
    let mut page = attached("1", false);
    page["sessionId"] = "SP".into();
    play.browser(&page);
    play.browser(&json!({ "method": "Target.detachedFromTarget", "params": { "sessionId": "SP" } }));
    play.is_empty_but(0);

    play.browser(&attached("2", false));
    play.browser(&json!({ "id": 7, "result": {} }));
    let id = play.question("S2");
    play.browser(
        &json!({ "id": id, "error": { "code": -32001, "message": "Session with given id not found." } }),
    );
    assert_eq!(play.heard(), ["attachedToTarget PLACE", "detachedFromTarget SP", "7"]);
    play.is_empty_but(0);
}

/// In a browser that does not know the question, tabs count as answering.
#[test]
fn a_browser_of_another_kind() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    let id = play.question("S1");
    play.browser(
        &json!({ "id": id, "sessionId": "S1", "error": { "code": -32601, "message": "not found" } }),
    );
    assert_eq!(play.heard(), ["attachedToTarget T1"]);
    play.is_empty_but(1);
}

/// However many tabs are asked one after the other, and however many messages come meanwhile, the engine's wait is bounded.
#[test]
fn waits_are_bounded() {
    let mut play = Play::new();
    let begun = play.now;
    let mut tabs = 0;
    play.browser(&json!({ "id": 1, "result": {} }));
    play.browser(&attached("0", false));
    play.browser(&json!({ "id": 2, "result": {} }));
    play.heard();
    while play.heard().is_empty() {
        tabs += 1;
        play.now += Duration::from_secs(1);
        play.browser(&attached(&tabs.to_string(), false));
        let out = play.tabs.time_passed(play.now);
        play.take(out);
    }
    assert!(play.now - begun <= LANE_WAIT, "{tabs} tabs");

    let mut play = Play::new();
    play.browser(&attached("0", false));
    let big = json!({ "id": 1, "result": "x".repeat(LANE_BYTES_MAX) });
    play.browser(&big);
    assert_eq!(play.heard(), ["1"]);
}

/// The time of a dialog does not count for its tab.
#[test]
fn a_dialog_during_a_question() {
    let mut play = Play::new();
    play.browser(&attached("1", false));
    play.answers("S1");
    play.engine(&json!({ "id": 1, "sessionId": "S1", "method": "Runtime.evaluate" }));
    play.wait();
    play.browser(&json!({ "method": "Page.javascriptDialogOpening", "sessionId": "S1", "params": {} }));
    play.now += Duration::from_secs(60);
    play.browser(&json!({ "method": "Page.javascriptDialogClosed", "sessionId": "S1", "params": {} }));
    assert_eq!(play.tabs.time_passed(play.now), []);
    play.answers("S1");
    assert_eq!(play.tabs.due(), Some(play.now + SLOW));
}

/// The filter never asks the engine's own tabs: opened for it, made by it, opened by these, or in a context that it made;
/// nor a tab that waits for the engine, that it brought to the front, or whose dialog it knows of.
#[test]
fn whom_nobody_asks() {
    let mut play = Play::new();
    play.own.add_tab("T1");
    play.engine(&json!({ "id": 1, "method": "Target.createTarget" }));
    play.browser(&json!({ "id": 1, "result": { "targetId": "T2" } }));
    play.engine(&json!({ "id": 2, "method": "Target.createBrowserContext" }));
    play.browser(&json!({ "id": 2, "result": { "browserContextId": "C" } }));
    let mut opened = attached("3", false);
    opened["params"]["targetInfo"]["openerId"] = "T2".into();
    let mut inside = attached("4", false);
    inside["params"]["targetInfo"]["browserContextId"] = "C".into();
    for tab in [attached("1", false), attached("2", true), opened, inside, attached("5", true)] {
        play.browser(&tab);
    }
    play.browser(&attached("6", false));
    play.answers("S6");
    play.browser(&json!({ "method": "Page.javascriptDialogOpening", "sessionId": "S6", "params": {} }));
    play.engine(&json!({ "id": 3, "sessionId": "S5", "method": "Page.bringToFront" }));
    for (id, session) in (10..).zip(["S1", "S2", "S3", "S4", "S5", "S6"]) {
        play.engine(&json!({ "id": id, "sessionId": session, "method": "Runtime.evaluate" }));
    }
    assert_eq!(play.tabs.due(), None);
    play.browser(&json!({ "method": "Page.javascriptDialogClosed", "sessionId": "S6", "params": {} }));
    assert!(play.tabs.due().is_some(), "the dialog was no excuse for what comes later");
}

/// A message that is not of the protocol passes to the engine unchanged.
#[test]
fn strange_messages_pass() {
    let mut play = Play::new();
    for strange in ["", "{", "[]", "7", r#"{"method":"Target.attachedToTarget","params":7}"#] {
        assert_eq!(play.tabs.browser_says(strange.into(), play.now), [Out::ToEngine(strange.into())]);
    }
}
