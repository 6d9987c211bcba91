use super::*;

const SENT: &str = "Network.requestWillBeSent";
const FINISHED: &str = "Network.loadingFinished";
const PAUSED: &str = "Fetch.requestPaused";

/// The limit, and what it needs.
struct Stage {
    limit: NetworkLimit,
    ids: OwnIds,
    now: Instant,
    /// How many requests [`Stage::fill`] has made, which has these numbers for them.
    made: u32,
}

impl Stage {
    /// Tabs `A` and `B` are in one context, `C` in another. `W` is a worker of `A`.
    fn new() -> Self {
        let mut stage =
            Self { limit: NetworkLimit::default(), ids: OwnIds::default(), now: Instant::now(), made: 0 };
        for (session, parent, context) in
            [("A", None, "1"), ("B", None, "1"), ("C", None, "2"), ("W", Some("A"), "1")]
        {
            let kind = if parent.is_some() { "worker" } else { "page" };
            let info = json!({ "targetId": session, "type": kind, "browserContextId": context });
            let attached = json!({ "sessionId": session, "targetInfo": info });
            stage.limit.attached(parent, &serde_json::from_value(attached).unwrap(), stage.now);
        }
        stage
    }

    fn says(&mut self, session: &str, name: &str, params: &Value) -> Verdict {
        let text = json!({ "method": name, "params": params, "sessionId": session }).to_string();
        self.limit.judge(name, text.into(), self.now, &mut self.ids)
    }

    fn passes(&mut self, session: &str, name: &str, request: &str) -> bool {
        matches!(self.says(session, name, &json!({ "requestId": request })), Verdict::Pass(_))
    }

    /// Makes new requests until one is not told of, and says how many were.
    fn fill(&mut self, session: &str) -> u32 {
        let first = self.made;
        loop {
            let request = self.made.to_string();
            if !self.passes(session, SENT, &request) {
                return self.made - first;
            }
            self.made += 1;
        }
    }
}

/// The warning in the page's console by which an engine hears once that a context is full.
fn is_notice(verdict: &Verdict, session: &str) -> bool {
    let Verdict::Instead(out) = verdict else { return false };
    let [Out::ToEngine(text)] = &out[..] else { return false };
    text.contains("Log.entryAdded") && session_of(text) == Some(session)
}

/// A page makes requests without end, by itself, its workers and its popups: the engine hears of so many, and of each of
/// these until its end. Of others it hears nothing but that there are some. Other contexts are heard as ever.
#[test]
fn a_storm() {
    let mut stage = Stage::new();
    assert!(stage.passes("W", SENT, "first") && stage.passes("B", SENT, "second"));
    for number in 2..REQUESTS_MAX {
        assert!(stage.passes("A", SENT, &number.to_string()));
    }
    assert!(is_notice(&stage.says("W", SENT, &json!({ "requestId": "more" })), "A"));
    for name in [SENT, "Network.requestWillBeSentExtraInfo", "Network.responseReceived", FINISHED] {
        for session in ["A", "W"] {
            assert_eq!(stage.says(session, name, &json!({ "requestId": "more" })), Verdict::drop(), "{name}");
        }
    }
    assert!(is_notice(&stage.says("B", SENT, &json!({ "requestId": "more" })), "B"));
    // Redirected, answered, and over. A worker's request may end in the page's session.
    for name in [SENT, "Network.responseReceived", "Network.dataReceived", FINISHED] {
        assert!(stage.passes("A", name, "first"), "{name}");
    }
    assert!(!stage.passes("A", FINISHED, "first"), "it is over");
    assert!(stage.passes("C", SENT, "more"));
    // What is not of a request passes.
    assert!(matches!(stage.says("A", "Network.policyUpdated", &json!({})), Verdict::Pass(_)));
    assert!(matches!(stage.says("A", "Page.frameNavigated", &json!({})), Verdict::Pass(_)));
}

/// The engine forgets the requests of a tab when an agent sends it elsewhere or closes it, and hears of new ones.
#[test]
fn forgotten() {
    let mut stage = Stage::new();
    assert_eq!(stage.fill("A"), REQUESTS_MAX);
    stage.limit.navigates("A");
    assert_eq!(stage.fill("A"), REQUESTS_MAX);
    stage.limit.navigates("B");
    assert_eq!(stage.fill("B"), 0, "these were not its own");
    stage.limit.detached("W");
    assert_eq!(stage.fill("A"), 0, "a worker that ends takes nothing with it");
    stage.limit.detached("A");
    assert_eq!(stage.fill("B"), REQUESTS_MAX);
    assert!(stage.limit.parts.is_empty() && stage.limit.pages.len() == 2);
}

/// A page that makes a request now and then is listed for hours; one that does not stop is let in again as slowly, however
/// many tabs it has.
#[test]
fn forgiven() {
    let mut stage = Stage::new();
    let polled = (0..).take_while(|number| {
        stage.now += SECOND;
        stage.passes("C", SENT, &format!("polled {number}"))
    });
    // Not for ever: the engine forgets nothing of it.
    assert_eq!(polled.count() as u64, u64::from(REQUESTS_MAX) + FORGIVEN_MAX);
    let mut stage = Stage::new();
    assert_eq!(stage.fill("A"), REQUESTS_MAX);
    stage.now += 100 * SECOND;
    let again = stage.fill("A") + stage.fill("B");
    assert_eq!(
        u64::from(again),
        100 / 2 * REQUESTS_FORGIVEN,
        "half of it is the other tab's, which has nothing to forget"
    );
}

/// In the layout of Puppeteer a page is attached in the session of its tab. What it and its worker do is forgotten when it
/// navigates.
#[test]
fn pages_in_tabs() {
    let mut stage = Stage::new();
    for (session, parent, kind) in [("T", None, "tab"), ("P", Some("T"), "page"), ("V", Some("P"), "worker")]
    {
        let info = json!({ "targetId": session, "type": kind, "browserContextId": "3" });
        let attached = json!({ "sessionId": session, "targetInfo": info });
        stage.limit.attached(parent, &serde_json::from_value(attached).unwrap(), stage.now);
    }
    assert_eq!((stage.limit.page("P"), stage.limit.page("V")), ("P", "P"));
    assert!(stage.passes("V", SENT, "of the worker"));
    assert_eq!(stage.fill("P"), REQUESTS_MAX - 1);
    stage.limit.navigates("P");
    assert_eq!(stage.fill("P"), REQUESTS_MAX);
}

/// Few requests that say a lot count for as much as many. Documents are told of for longer, but not for ever.
#[test]
fn long_requests_and_documents() {
    let mut stage = Stage::new();
    let long = "a".repeat(EVENT_BYTES_MAX);
    let mut told = 0;
    while let Verdict::Pass(text) =
        stage.says("A", SENT, &json!({ "requestId": told.to_string(), "url": long }))
    {
        told += text.len();
    }
    assert!(told > BYTES_MAX - 2 * EVENT_BYTES_MAX && told < BYTES_MAX + 2 * EVENT_BYTES_MAX, "{told}");

    let mut stage = Stage::new();
    assert_eq!(stage.fill("A"), REQUESTS_MAX);
    let document =
        |number: u32| json!({ "requestId": format!("d{number}"), "loaderId": format!("d{number}") });
    let told =
        (0..).take_while(|number| matches!(stage.says("A", SENT, &document(*number)), Verdict::Pass(_)));
    assert_eq!(told.count() as u32, REQUESTS_MAX * (NAVIGATIONS_FACTOR - 1));
}

/// Progress is told as far as the engine can follow, in each second anew, and counts for nothing else.
#[test]
fn progress() {
    let mut stage = Stage::new();
    let frame = "Network.webSocketFrameReceived";
    assert!(stage.passes("A", "Network.webSocketCreated", "socket"));
    for _ in 0..20 {
        let told = (0..5_000).filter(|_| stage.passes("A", frame, "socket")).count();
        assert_eq!(told as u32, PROGRESS_EVENTS_MAX);
        stage.now += SECOND;
    }
    let long = json!({ "requestId": "socket", "payloadData": "a".repeat(EVENT_BYTES_MAX / 2) });
    let told = (0..100).filter(|_| matches!(stage.says("A", frame, &long), Verdict::Pass(_)));
    assert_eq!(told.count(), 7);
    assert_eq!(stage.limit.pages["A"].heard.requests, 0, "the socket is forgiven");
}

/// What goes to the browser, as method and parameters.
fn answered(verdict: &Verdict) -> Option<(String, Value)> {
    let Verdict::Instead(out) = verdict else { return None };
    let Some(Out::ToBrowser(text)) = out.last() else { return None };
    let mut call: Value = serde_json::from_str(text).unwrap();
    assert_eq!(call["sessionId"], "A");
    Some((call["method"].as_str().unwrap().to_owned(), call["params"].take()))
}

/// A request that waits for the engine is blocked where the engine will not hear of it, never let go on. One that the
/// engine knows from either event goes its way.
#[test]
fn paused_requests() {
    let mut stage = Stage::new();
    let paused =
        |id: &str| json!({ "requestId": "interception", "networkId": id, "request": { "url": "http://a/" } });
    assert!(matches!(stage.says("A", PAUSED, &paused("early")), Verdict::Pass(_)));
    stage.fill("A");
    assert!(stage.passes("A", SENT, "early"));
    assert!(matches!(stage.says("A", PAUSED, &paused("0")), Verdict::Pass(_)), "it is known");
    let blocked = json!({ "requestId": "interception", "errorReason": "BlockedByClient" });
    let expected = Some(("Fetch.failRequest".to_owned(), blocked));
    assert_eq!(answered(&stage.says("A", PAUSED, &paused("more"))), expected);
    assert!(!stage.passes("A", SENT, "more"));
    // The engine itself has these go on.
    assert!(stage.passes("A", PAUSED, "without a number at `Network`"));
}

/// The address and the headers of a request that waits are never shortened. What it sends is left out if it is long, and
/// a request that is too long without it is blocked.
#[test]
fn long_paused_requests() {
    let mut stage = Stage::new();
    let long = "a".repeat(2 * EVENT_BYTES_MAX);
    let upload = json!({ "url": "http://a/", "postData": long, "postDataEntries": [{ "bytes": long }] });
    let paused = json!({ "requestId": "interception", "networkId": "1", "request": upload });
    let Verdict::Pass(text) = stage.says("A", PAUSED, &paused) else { panic!("it is blocked") };
    let told: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&told["params"]["request"], &told["sessionId"]),
        (&json!({ "url": "http://a/" }), &json!("A"))
    );
    for request in [json!({ "url": long }), json!({ "url": "http://a/", "headers": { "a": long } })] {
        let paused = json!({ "requestId": "interception", "networkId": "2", "request": request });
        let (method, _) = answered(&stage.says("A", PAUSED, &paused)).unwrap();
        assert_eq!(method, "Fetch.failRequest");
        let (method, params) = answered(&stage.says("A", "Fetch.authRequired", &paused)).unwrap();
        assert_eq!(method, "Fetch.continueWithAuth");
        assert_eq!(params["authChallengeResponse"]["response"], "CancelAuth");
    }
}
