use super::*;

const SENT: &str = "Network.requestWillBeSent";
const FINISHED: &str = "Network.loadingFinished";
const PAUSED: &str = "Fetch.requestPaused";

/// The limit, and its inputs.
struct NetworkFixture {
    limit: NetworkLimit,
    ids: OwnIds,
    now: Instant,
    /// How many requests [`NetworkFixture::fill`] has made. They are numbered by it.
    made: u32,
}

impl NetworkFixture {
    /// Tabs `A` and `B` are in one context, `C` in another. `W` is a worker of `A`.
    fn new() -> Self {
        let mut fixture =
            Self { limit: NetworkLimit::default(), ids: OwnIds::default(), now: Instant::now(), made: 0 };
        for (session, parent, context) in
            [("A", None, "1"), ("B", None, "1"), ("C", None, "2"), ("W", Some("A"), "1")]
        {
            let kind = if parent.is_some() { "worker" } else { "page" };
            let info = json!({ "targetId": session, "type": kind, "browserContextId": context });
            let attached = json!({ "sessionId": session, "targetInfo": info });
            fixture.limit.attached(parent, &serde_json::from_value(attached).unwrap(), fixture.now);
        }
        fixture
    }

    fn judge_event(&mut self, session: &str, name: &str, params: &Value) -> EventVerdict {
        let text = json!({ "method": name, "params": params, "sessionId": session }).to_string();
        self.limit.judge(name, text.into(), self.now, &mut self.ids)
    }

    fn passes(&mut self, session: &str, name: &str, request: &str) -> bool {
        matches!(self.judge_event(session, name, &json!({ "requestId": request })), EventVerdict::Pass(_))
    }

    /// Makes new requests until one does not pass, and returns how many did.
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

/// The warning in the page's console that tells an engine once that a context is full.
fn is_notice(verdict: &EventVerdict, session: &str) -> bool {
    let EventVerdict::Instead(out) = verdict else { return false };
    let [ProxyMessage::ToEngine(text)] = &out[..] else { return false };
    text.contains("Log.entryAdded") && session_of(text) == Some(session)
}

/// A page makes requests without end, by itself, its workers and its popups: the engine gets a number of them, and of each
/// of these all events. For the others it gets one notice. Other contexts' requests pass.
#[test]
fn requests_beyond_the_limit_are_left_out() {
    let mut fixture = NetworkFixture::new();
    assert!(fixture.passes("W", SENT, "first") && fixture.passes("B", SENT, "second"));
    for number in 2..REQUESTS_MAX {
        assert!(fixture.passes("A", SENT, &number.to_string()));
    }
    assert!(is_notice(&fixture.judge_event("W", SENT, &json!({ "requestId": "more" })), "A"));
    for name in [SENT, "Network.requestWillBeSentExtraInfo", "Network.responseReceived", FINISHED] {
        for session in ["A", "W"] {
            assert_eq!(
                fixture.judge_event(session, name, &json!({ "requestId": "more" })),
                EventVerdict::drop(),
                "{name}"
            );
        }
    }
    assert!(is_notice(&fixture.judge_event("B", SENT, &json!({ "requestId": "more" })), "B"));
    // Redirected, answered, and over. A worker's request may end in the page's session.
    for name in [SENT, "Network.responseReceived", "Network.dataReceived", FINISHED] {
        assert!(fixture.passes("A", name, "first"), "{name}");
    }
    assert!(!fixture.passes("A", FINISHED, "first"), "it is over");
    assert!(fixture.passes("C", SENT, "more"));
    // An event that belongs to no request passes.
    assert!(matches!(fixture.judge_event("A", "Network.policyUpdated", &json!({})), EventVerdict::Pass(_)));
    assert!(matches!(fixture.judge_event("A", "Page.frameNavigated", &json!({})), EventVerdict::Pass(_)));
}

/// The engine forgets the requests of a tab when an agent navigates or closes it, and gets new ones.
#[test]
fn navigation_and_closing_reset_the_count() {
    let mut fixture = NetworkFixture::new();
    assert_eq!(fixture.fill("A"), REQUESTS_MAX);
    fixture.limit.navigates("A");
    assert_eq!(fixture.fill("A"), REQUESTS_MAX);
    fixture.limit.navigates("B");
    assert_eq!(fixture.fill("B"), 0, "these were not its own");
    fixture.limit.detached("W");
    assert_eq!(fixture.fill("A"), 0, "a worker that ends takes nothing with it");
    fixture.limit.detached("A");
    assert_eq!(fixture.fill("B"), REQUESTS_MAX);
    assert!(fixture.limit.page_of_child_session.is_empty() && fixture.limit.pages.len() == 2);
}

/// A page that makes a request now and then is listed for hours; a page that does not stop gets new requests through at the
/// same slow rate, however many tabs it has.
#[test]
fn requests_are_forgiven_over_time() {
    let mut fixture = NetworkFixture::new();
    let polled = (0..).take_while(|number| {
        fixture.now += SECOND;
        fixture.passes("C", SENT, &format!("polled {number}"))
    });
    // Not for ever: the engine forgets none of them.
    assert_eq!(polled.count() as u64, u64::from(REQUESTS_MAX) + FORGIVEN_MAX);
    let mut fixture = NetworkFixture::new();
    assert_eq!(fixture.fill("A"), REQUESTS_MAX);
    fixture.now += 100 * SECOND;
    let again = fixture.fill("A") + fixture.fill("B");
    assert_eq!(
        u64::from(again),
        100 / 2 * REQUESTS_FORGIVEN_PER_SECOND,
        "half of it is the other tab's, which has nothing to forget"
    );
}

/// With Puppeteer a page is attached in the session of its tab. Its requests and its worker's are forgotten when it
/// navigates.
#[test]
fn pages_attached_within_tabs_count() {
    let mut fixture = NetworkFixture::new();
    for (session, parent, kind) in [("T", None, "tab"), ("P", Some("T"), "page"), ("V", Some("P"), "worker")]
    {
        let info = json!({ "targetId": session, "type": kind, "browserContextId": "3" });
        let attached = json!({ "sessionId": session, "targetInfo": info });
        fixture.limit.attached(parent, &serde_json::from_value(attached).unwrap(), fixture.now);
    }
    assert_eq!((fixture.limit.page_session("P"), fixture.limit.page_session("V")), ("P", "P"));
    assert!(fixture.passes("V", SENT, "of the worker"));
    assert_eq!(fixture.fill("P"), REQUESTS_MAX - 1);
    fixture.limit.navigates("P");
    assert_eq!(fixture.fill("P"), REQUESTS_MAX);
}

/// A few long requests count for as much as many short ones. Documents pass for longer, but not for ever.
#[test]
fn long_requests_count_by_bytes_and_documents_pass_longer() {
    let mut fixture = NetworkFixture::new();
    let long = "a".repeat(EVENT_BYTES_MAX);
    let mut passed = 0;
    while let EventVerdict::Pass(text) =
        fixture.judge_event("A", SENT, &json!({ "requestId": passed.to_string(), "url": long }))
    {
        passed += text.len();
    }
    assert!(passed > BYTES_MAX - 2 * EVENT_BYTES_MAX && passed < BYTES_MAX + 2 * EVENT_BYTES_MAX, "{passed}");

    let mut fixture = NetworkFixture::new();
    assert_eq!(fixture.fill("A"), REQUESTS_MAX);
    let document =
        |number: u32| json!({ "requestId": format!("d{number}"), "loaderId": format!("d{number}") });
    let passed = (0..).take_while(|number| {
        matches!(fixture.judge_event("A", SENT, &document(*number)), EventVerdict::Pass(_))
    });
    assert_eq!(passed.count() as u32, REQUESTS_MAX * (NAVIGATIONS_FACTOR - 1));
}

/// Progress events pass up to the limit of each second, and count for nothing else.
#[test]
fn progress_events_are_limited_per_second() {
    let mut fixture = NetworkFixture::new();
    let frame = "Network.webSocketFrameReceived";
    assert!(fixture.passes("A", "Network.webSocketCreated", "socket"));
    for _ in 0..20 {
        let passed = (0..5_000).filter(|_| fixture.passes("A", frame, "socket")).count();
        assert_eq!(passed as u32, PROGRESS_EVENTS_MAX);
        fixture.now += SECOND;
    }
    let long = json!({ "requestId": "socket", "payloadData": "a".repeat(EVENT_BYTES_MAX / 2) });
    let passed = (0..100).filter(|_| matches!(fixture.judge_event("A", frame, &long), EventVerdict::Pass(_)));
    assert_eq!(passed.count(), 7);
    assert_eq!(fixture.limit.pages["A"].passed_totals.requests, 0, "the socket is forgiven");
}

/// The call to the browser, as method and parameters.
fn call_to_browser(verdict: &EventVerdict) -> Option<(String, Value)> {
    let EventVerdict::Instead(out) = verdict else { return None };
    let Some(ProxyMessage::ToBrowser(text)) = out.last() else { return None };
    let mut call: Value = serde_json::from_str(text).unwrap();
    assert_eq!(call["sessionId"], "A");
    Some((call["method"].as_str().unwrap().to_owned(), call["params"].take()))
}

/// A paused request is blocked if the engine will not get it, and never continued. A request that the engine knows from
/// either event passes.
#[test]
fn paused_requests_beyond_the_limit_are_blocked() {
    let mut fixture = NetworkFixture::new();
    let paused =
        |id: &str| json!({ "requestId": "interception", "networkId": id, "request": { "url": "http://a/" } });
    assert!(matches!(fixture.judge_event("A", PAUSED, &paused("early")), EventVerdict::Pass(_)));
    fixture.fill("A");
    assert!(fixture.passes("A", SENT, "early"));
    assert!(matches!(fixture.judge_event("A", PAUSED, &paused("0")), EventVerdict::Pass(_)), "it is known");
    let blocked = json!({ "requestId": "interception", "errorReason": "BlockedByClient" });
    let expected = Some(("Fetch.failRequest".to_owned(), blocked));
    assert_eq!(call_to_browser(&fixture.judge_event("A", PAUSED, &paused("more"))), expected);
    assert!(!fixture.passes("A", SENT, "more"));
    // The engine itself continues these.
    assert!(fixture.passes("A", PAUSED, "without a number at `Network`"));
}

/// The address and the headers of a paused request are never shortened. A long body is left out, and a request that is too
/// long without it is blocked.
#[test]
fn long_paused_requests_lose_their_body_or_are_blocked() {
    let mut fixture = NetworkFixture::new();
    let long = "a".repeat(2 * EVENT_BYTES_MAX);
    let upload = json!({ "url": "http://a/", "postData": long, "postDataEntries": [{ "bytes": long }] });
    let paused = json!({ "requestId": "interception", "networkId": "1", "request": upload });
    let EventVerdict::Pass(text) = fixture.judge_event("A", PAUSED, &paused) else {
        panic!("the request is blocked")
    };
    let passed: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&passed["params"]["request"], &passed["sessionId"]),
        (&json!({ "url": "http://a/" }), &json!("A"))
    );
    for request in [json!({ "url": long }), json!({ "url": "http://a/", "headers": { "a": long } })] {
        let paused = json!({ "requestId": "interception", "networkId": "2", "request": request });
        let (method, _) = call_to_browser(&fixture.judge_event("A", PAUSED, &paused)).unwrap();
        assert_eq!(method, "Fetch.failRequest");
        let (method, params) =
            call_to_browser(&fixture.judge_event("A", "Fetch.authRequired", &paused)).unwrap();
        assert_eq!(method, "Fetch.continueWithAuth");
        assert_eq!(params["authChallengeResponse"]["response"], "CancelAuth");
    }
}
