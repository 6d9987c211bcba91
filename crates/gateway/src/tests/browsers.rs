//! Attached browsers, as agents meet them: which one a call means, what is shown, what comes and goes.

use std::collections::BTreeSet;

use greenroom_core::{Records, record::Filter, settings::When};
use tiktoken_rs::{cl100k_base_singleton, o200k_base_singleton};
use tokio::{sync::Barrier, time::timeout};

use super::*;
use crate::{
    instructions,
    testing::{Attached, DEVTOOLS, Kept, PLAYWRIGHT},
};

const ONE: Attached = Attached {
    url: "http://127.0.0.1:9222",
    label: None,
    tags: &[],
    tools: PLAYWRIGHT,
    down: false,
    meeting: None,
};
const TWO: Attached = Attached { url: "http://127.0.0.1:9223", tools: DEVTOOLS, ..ONE };
const WORK: Attached =
    Attached { url: "ws://10.0.0.7:9222/devtools", label: Some("work"), tags: &["a", "b"], ..ONE };

fn attached(pools: &[Pool], browsers: &[Attached]) -> Client {
    let (gateway, folder) = testing::attached(pools, browsers, Scope::Call);
    Client { gateway, is_here: true, _folder: folder }
}

impl Client {
    async fn shown(&self) -> Vec<Value> {
        let list = list_tools(&self.gateway, &Owner::local(), self.is_here).await.unwrap();
        serde_json::from_str::<Value>(list.to_raw().get()).unwrap()["tools"].as_array().unwrap().clone()
    }

    async fn names(&self) -> BTreeSet<String> {
        self.shown().await.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect()
    }

    /// The parameters of a tool.
    async fn parameters(&self, name: &str) -> Value {
        let tools = self.shown().await;
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        tool["inputSchema"].clone()
    }
}

/// The four rows: one browser must not be named, several must, and what is wrong is told before anything runs.
#[tokio::test]
async fn which_browser_is_meant() {
    let single = attached(&[], &[ONE]);
    let (code, said) = single.fails("t", json!({"browserIndex": 1})).await;
    assert_eq!(code, "browser_index");
    assert!(said.starts_with("browserIndex must NOT be specified"), "{said}");
    assert_eq!(single.ran("t", json!({})).await, "browser-1/0 t");
    let several = attached(&[], &[ONE, TWO, WORK]);
    let (code, said) = several.fails("t", json!({})).await;
    assert_eq!(code, "browser_index");
    assert!(
        said.starts_with("browserIndex parameter is required when multiple browsers are connected"),
        "{said}"
    );
    assert!(said.contains("1, 2, 3 (\"work\")") && said.contains("list_browsers"), "{said}");
    assert_eq!(several.ran("t", json!({"browserIndex": 2})).await, "browser-2/0 t");
    for named in [json!("2"), json!(2)] {
        assert_eq!(several.ran("t", json!({"browserIndex": named})).await, "browser-2/0 t");
    }
    assert_eq!(several.ran("t", json!({"browserIndex": "work"})).await, "browser-3/0 t");
    for (odd, says) in [
        (json!(4), "no such browser: \"4\""),
        (json!("home"), "no such browser: \"home\""),
        (json!(true), "`browserIndex` must be the index or the label"),
        (json!(1.5), "`browserIndex` must be"),
    ] {
        let (code, said) = several.fails("t", json!({"browserIndex": odd})).await;
        assert_eq!(code, "browser_index", "{odd}");
        assert!(said.contains(says), "{said}");
    }
    let bulk = json!({"commands": [{"tool": "t"}]});
    assert_eq!(several.fails("browser_execute_bulk", bulk).await.0, "browser_index");
    let (_, said) = several.fails("create_new_session", json!({"sessionId": "s"})).await;
    assert!(said.starts_with("browserIndex parameter is required"), "{said}");
}

/// A session stays in its browser and needs no index; another one is refused with where it lives.
#[tokio::test]
async fn sessions_stay_in_their_browser() {
    let client = attached(&[], &[ONE, TWO]);
    client.ran("create_new_session", json!({"sessionId": "s", "browserIndex": 2})).await;
    assert_eq!(client.ran("find", json!({"sessionId": "s"})).await, "browser-2/0 find");
    assert_eq!(client.ran("t", json!({"sessionId": "s", "browserIndex": 2})).await, "browser-2/0 t");
    assert_eq!(client.fails("t", json!({"sessionId": "s", "browserIndex": 1})).await.0, "session_elsewhere");
    let list = text(&client.call("session_list", json!({})).await);
    let list: Value = serde_json::from_str(&list).unwrap();
    assert_eq!(list["sessions"][0]["browserIndex"], 2);
}

/// Beside attached browsers a pool is used by its name alone, and never together with an index.
#[tokio::test]
async fn pools_beside_browsers() {
    let client = attached(&[CHROMIUM], &[ONE]);
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t", "no pool is the default");
    assert_eq!(
        client.ran("t", json!({"browser_pool": "CHROMIUM", "browser_instance": 1})).await,
        "CHROMIUM/1 t"
    );
    let both = json!({"browser_pool": "CHROMIUM", "browserIndex": 1});
    let (code, said) = client.fails("t", both).await;
    assert_eq!(code, "browser_index");
    assert!(said.contains("two places"), "{said}");
    let none = attached(&[CHROMIUM], &[]);
    let (_, said) = none.fails("t", json!({"browserIndex": 1})).await;
    assert!(said.contains("browserIndex must NOT be specified"), "{said}");
}

/// The tools are the union over engines; one that a browser lacks is refused, naming the browsers and pools that have
/// it, and arguments are checked as the chosen one describes them.
#[tokio::test]
async fn tools_of_another_engine() {
    let client = attached(&[FIREFOX], &[WORK, TWO]);
    let names = client.names().await;
    assert!(["t", "find", "pdf", "fail"].iter().all(|name| names.contains(*name)), "{names:?}");
    let (code, said) = client.fails("find", json!({"browserIndex": "work"})).await;
    assert_eq!(code, "tool_not_in_browser");
    assert!(said.starts_with(r#"browser 1 ("work") has no tool "find""#), "{said}");
    assert!(
        said.contains(r#"it is in pool "FIREFOX", browser 2"#) && said.contains("`browserIndex`"),
        "{said}"
    );
    let (code, said) = client.fails("pdf", json!({"browser_pool": "FIREFOX"})).await;
    assert_eq!(code, "tool_not_in_pool");
    assert!(said.contains(r#"it is in browser 1 ("work")"#), "{said}");
    let commands = json!({"commands": [{"tool": "t"}, {"tool": "pdf"}], "browserIndex": 2});
    let (_, said) = client.fails("browser_execute_bulk", commands).await;
    assert!(said.starts_with(r#"commands[1]: browser 2 has no tool "pdf""#), "{said}");
    let inside = json!({"commands": [{"tool": "t", "args": {"browserIndex": 1}}], "browserIndex": 2});
    let (_, said) = client.fails("browser_execute_bulk", inside).await;
    assert!(said.contains("`browserIndex` belongs beside `commands`"), "{said}");
}

/// A call for a place that cannot be had is kept, like any other that was refused, and so is the first of several.
#[tokio::test]
async fn refused_calls_are_kept() {
    let (gateway, folder) = testing::attached(&[], &[ONE, TWO], Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    let kept = Kept::new();
    gateway.recall.records = Some(kept.clone());
    let client = Client { gateway: Arc::new(gateway), is_here: true, _folder: folder };
    client.fails("t", json!({})).await;
    client.fails("find", json!({"browserIndex": 1})).await;
    let bulk = json!({"commands": [{"tool": "pdf"}, {"tool": "t"}]});
    client.fails("browser_execute_bulk", bulk).await;
    let filter = Filter { limit: 10, ..Filter::default() };
    let calls = kept.list(&Owner::local(), filter).await.unwrap();
    let told: Vec<_> = calls
        .iter()
        .map(|call| (&*call.tool, call.outcome.as_ref().and_then(|outcome| outcome.error.clone()).unwrap()))
        .collect();
    assert_eq!(told.iter().map(|(tool, _)| *tool).collect::<Vec<_>>(), ["pdf", "find", "t"]);
    assert!(told[0].1.starts_with("browserIndex parameter is required"), "{told:?}");
    assert!(told[1].1.starts_with("browser 1 has no tool"), "{told:?}");
}

/// `browserIndex` is shown on every tool that runs somewhere, only where there is a choice, and is never required; it is
/// a number until somebody has a label. Pools say that none of them is the default.
#[tokio::test]
async fn what_is_shown() {
    let index = async |browsers: &[Attached], tool: &str| {
        attached(&[], browsers).parameters(tool).await["properties"]["browserIndex"].clone()
    };
    for tool in ["t", "browser_execute_bulk", "create_new_session", "reconnect_browser", "disconnect_browser"]
    {
        assert_eq!(index(&[ONE], tool).await, Value::Null, "{tool}");
        assert_eq!(index(&[ONE, TWO], tool).await["type"], "integer", "{tool}");
        assert_eq!(index(&[ONE, WORK], tool).await["type"], "string", "{tool}");
    }
    assert_eq!(index(&[ONE, TWO], "session_close").await, Value::Null);
    let both = attached(&[CHROMIUM], &[ONE, TWO]);
    let shown = both.parameters("t").await;
    assert_eq!(shown.get("required"), None);
    let names: Vec<_> = shown["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["sessionId", "browser_pool", "browser_instance", "browserIndex"]);
    let pools = shown["properties"]["browser_pool"]["description"].as_str().unwrap();
    assert!(pools.ends_with("CHROMIUM") && !pools.contains("default"), "{pools}");
    assert_eq!(attached(&[], &[ONE]).parameters("t").await["properties"].get("browser_pool"), None);
    for (browsers, shown) in [(&[ONE, TWO][..], false), (&[ONE, WORK], true)] {
        let bulk = attached(&[], browsers).parameters("browser_execute_bulk").await;
        assert_eq!(bulk["properties"].get("browserTag").is_some(), shown);
    }
}

/// Each of the tools is shown where it can be used, and refused to whoever may not use it.
#[tokio::test]
async fn who_sees_what() {
    let own = ["list_browsers", "reconnect_browser", "connect_browser", "disconnect_browser"];
    let check = async |changes: When, configured: bool, is_here: bool, expected: &[&str]| {
        let browsers = if configured { &[ONE][..] } else { &[] };
        let (gateway, folder) = testing::attached(&[BUILT_IN], browsers, Scope::Call);
        let mut gateway = Arc::into_inner(gateway).unwrap();
        gateway.attaching.changes = changes;
        let client = Client { gateway: Arc::new(gateway), is_here, _folder: folder };
        let names = client.names().await;
        let shown: Vec<_> = own.into_iter().filter(|name| names.contains(*name)).collect();
        assert_eq!(shown, expected, "{changes:?} {configured} {is_here}");
        let may = expected.contains(&"connect_browser");
        let connect = client.call("connect_browser", json!({"url": "http://127.0.0.1:1"})).await;
        assert_eq!(connect["isError"] == true, !may, "{connect}");
        if !may {
            for (tool, arguments) in
                [("connect_browser", json!({"url": "u"})), ("disconnect_browser", json!({}))]
            {
                let (code, said) = client.fails(tool, arguments).await;
                assert_eq!(code, "changes_refused");
                assert!(said.contains("`attach.changes`"), "{said}");
            }
        }
    };
    check(When::Auto, true, true, &own).await;
    check(When::Auto, true, false, &own[..2]).await;
    check(When::Auto, false, true, &[]).await;
    check(When::On, false, false, &own[..3]).await;
    check(When::Off, true, true, &own[..2]).await;
}

/// The list says how each browser is, for people and for programs.
#[tokio::test]
async fn browsers_are_listed() {
    let client = attached(&[], &[ONE, WORK]);
    let list = client.call("list_browsers", json!({})).await;
    assert_eq!(
        text(&list),
        "Total browsers: 2\n\n[1] http://127.0.0.1:9222 - pending\n[2] ws://10.0.0.7:9222/devtools - pending (work; tags: a, b)\n\nMultiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
    );
    client.ran("t", json!({"sessionId": "s", "browserIndex": "work"})).await;
    let list = client.call("list_browsers", json!({})).await;
    let work = &list["structuredContent"]["browsers"][1];
    assert_eq!(
        (&work["index"], &work["label"], &work["tags"]),
        (&json!(2), &json!("work"), &json!(["a", "b"]))
    );
    assert_eq!((&work["state"], &work["engine"]), (&json!("connected"), &json!("playwright")));
    assert_eq!((&work["sessions"], &work["leasedSlots"]), (&json!(1), &json!(1)));
    assert_eq!((&work["lastError"], &work["retryInSeconds"]), (&Value::Null, &Value::Null));
    assert_eq!(text(&client.call("list_browsers", json!({})).await).lines().count(), 6);
}

/// Which browser is to be connected again is said by the same rules.
#[tokio::test]
async fn browsers_are_reconnected() {
    let single = attached(&[], &[ONE]);
    single.ran("t", json!({})).await;
    assert_eq!(single.ran("reconnect_browser", json!({})).await, "[1] http://127.0.0.1:9222 - connected");
    let (_, said) = single.fails("reconnect_browser", json!({"browserIndex": 1})).await;
    assert!(said.starts_with("browserIndex must NOT be specified"), "{said}");
    let several = attached(&[], &[ONE, WORK]);
    let (_, said) = several.fails("reconnect_browser", json!({})).await;
    assert!(said.starts_with("browserIndex parameter is required"), "{said}");
    several.ran("t", json!({"browserIndex": 2})).await;
    let again = several.ran("reconnect_browser", json!({"browserIndex": "work"})).await;
    assert_eq!(again, "[2] ws://10.0.0.7:9222/devtools - connected (work; tags: a, b)");
    let (code, said) = attached(&[BUILT_IN], &[]).fails("reconnect_browser", json!({})).await;
    assert_eq!(code, "browser_index");
    assert!(said.contains("no browser is attached"), "{said}");
}

/// A browser that comes changes what everybody must say, and clients hear of it; one that goes changes it back. Indices
/// are not used again, tools of a new engine are asked for, and what may not be attached is refused with why.
#[tokio::test(start_paused = true)]
async fn browsers_come_and_go() {
    let client = attached(&[], &[ONE]);
    client.shown().await;
    let changes = client.gateway.catalog.changes();
    let count = || *changes.borrow();
    assert!(!client.names().await.contains("find"));
    let two = json!({"url": "http://127.0.0.1:9223", "label": "second", "tags": ["x"], "engine": "devtools"});
    let said = client.ran("connect_browser", two.clone()).await;
    assert!(
        said.starts_with("[2] http://127.0.0.1:9223 - ") && said.ends_with(" (second; tags: x)"),
        "{said}"
    );
    assert!(count() > 0, "clients hear of it");
    assert!(client.names().await.contains("find"), "its engine was asked");
    assert_eq!(client.fails("t", json!({})).await.0, "browser_index");
    assert_eq!(client.ran("find", json!({"browserIndex": "second"})).await, "browser-2/0 find");
    let (code, said) = client.fails("connect_browser", two).await;
    assert_eq!(code, "browser_exists");
    assert!(said.contains("as browser 2"), "{said}");
    for (arguments, code, says) in [
        (json!({"url": "http://127.0.0.1:1|chrome"}), "bad_browser", "start command"),
        (json!({"url": "http://forbidden/"}), "bad_browser", "may not be attached"),
        (json!({"url": "http://nobody/"}), "browser_down", "nobody answers; it was not attached"),
        (json!({"url": "http://127.0.0.1:1", "label": "7"}), "bad_label", "number"),
        (json!({"url": "http://127.0.0.1:1", "headers": {}}), "invalid_arguments", "headers"),
        (json!({"url": "http://127.0.0.1:1", "engine": "custom"}), "invalid_arguments", "custom"),
    ] {
        let (told, said) = client.fails("connect_browser", arguments).await;
        assert_eq!(told, code, "{said}");
        assert!(said.contains(says), "{said}");
    }
    let (_, said) = client.fails("disconnect_browser", json!({})).await;
    assert!(said.starts_with("browserIndex parameter is required"), "{said}");
    let before = count();
    let said = client.ran("disconnect_browser", json!({"browserIndex": "second"})).await;
    assert_eq!(said, "browser 2 is no longer attached: http://127.0.0.1:9223");
    assert!(count() > before);
    assert!(!client.names().await.contains("find"));
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t");
    let said = client.ran("connect_browser", json!({"url": "http://127.0.0.1:9223"})).await;
    assert!(said.starts_with("[4] "), "{said}");
    client.ran("disconnect_browser", json!({"browserIndex": 1})).await;
    client.ran("disconnect_browser", json!({})).await;
    let (code, said) = client.fails("t", json!({})).await;
    assert_eq!(code, "no_browser");
    assert!(said.contains("connect_browser"), "{said}");
    assert!(
        client.names().await.contains("connect_browser")
            && !client.names().await.contains("disconnect_browser")
    );
}

/// A browser that somebody asked for and did not wait for is not kept: nobody else has to say which one they mean.
#[tokio::test(start_paused = true)]
async fn a_browser_that_nobody_waits_for() {
    let client = attached(&[], &[ONE]);
    client.shown().await;
    let asked = client.call("connect_browser", json!({"url": "http://hangs/"}));
    assert!(timeout(Duration::from_millis(1), asked).await.is_err(), "it never answers");
    // The clock stands still while anything can be done: steps are counted instead.
    for _ in 0..1_000 {
        if client.gateway.fleet.browsers().len() == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t");
    let shown = client.parameters("t").await;
    assert_eq!(shown["properties"].get("browserIndex"), None, "{shown}");
}

/// Commands run in every browser with the tag, in all of them at the same time, and each says what came of it.
#[tokio::test]
async fn a_tag_is_driven_in_parallel() {
    let meeting: &Barrier = Box::leak(Box::new(Barrier::new(2)));
    let tagged = Attached { tools: &["meet", "t"], meeting: Some(meeting), ..WORK };
    let other = Attached { url: "http://127.0.0.1:9224", label: None, ..tagged };
    let client = attached(&[], &[ONE, tagged, other]);
    let commands = json!([{"tool": "meet", "return_result": true}, {"tool": "t"}]);
    let bulk = client.call("browser_execute_bulk", json!({"commands": commands, "browserTag": "a"}));
    let answer = timeout(Duration::from_secs(10), bulk).await.expect("the first waits for the second inside");
    let said = &answer["structuredContent"];
    assert_eq!((&said["success"], &said["browserTag"]), (&json!(true), &json!("a")), "{answer}");
    assert_eq!(answer.get("isError"), None);
    let browsers = said["browsers"].as_array().unwrap();
    assert_eq!(browsers.iter().map(|one| one["browserIndex"].clone()).collect::<Vec<_>>(), [2, 3]);
    assert_eq!((&browsers[0]["label"], &browsers[1]["label"]), (&json!("work"), &Value::Null));
    for (n, one) in browsers.iter().enumerate() {
        assert_eq!(
            (&one["success"], &one["executed_count"], &one["total_count"]),
            (&json!(true), &json!(2), &json!(2))
        );
        assert_eq!(text(&one["results"][0]), format!("browser-{}/0 meet", n + 2));
        assert_eq!((&one["results"][1], &one["stopped_at"]), (&Value::Null, &Value::Null));
    }
}

/// A browser that is down fails alone; a mistake anywhere is told before any browser is touched.
#[tokio::test(start_paused = true)]
async fn a_tag_is_checked_whole() {
    let down = Attached { url: "http://127.0.0.1:9224", label: None, down: true, ..WORK };
    let devtools =
        Attached { url: "http://127.0.0.1:9225", label: None, tags: &["b"], tools: DEVTOOLS, ..WORK };
    let client = attached(&[CHROMIUM], &[WORK, down, devtools]);
    let bulk = |tag: &str, tools: &[&str]| {
        let commands: Vec<_> = tools.iter().map(|tool| json!({"tool": tool})).collect();
        json!({"commands": commands, "browserTag": tag})
    };
    let answer = client.call("browser_execute_bulk", bulk("a", &["t", "pdf"])).await;
    assert_eq!((&answer["isError"], &answer["structuredContent"]["success"]), (&json!(true), &json!(false)));
    let browsers = &answer["structuredContent"]["browsers"];
    assert_eq!((&browsers[0]["success"], &browsers[0]["executed_count"]), (&json!(true), &json!(2)));
    assert_eq!((&browsers[1]["success"], &browsers[1]["browserIndex"]), (&json!(false), &json!(2)));
    let error = browsers[1]["error"].as_str().unwrap();
    assert!(
        error.starts_with("browser 2 cannot be reached: http://127.0.0.1:9224: nobody answers"),
        "{error}"
    );
    assert_eq!(browsers[1].get("executed_count"), None);
    let (code, said) = client.fails("browser_execute_bulk", bulk("b", &["t", "pdf"])).await;
    assert_eq!(code, "tool_not_in_browser");
    assert!(
        said.starts_with("commands[1]: browser 3 has no tool \"pdf\"") && said.contains("no command was run"),
        "{said}"
    );
    let (code, said) = client.fails("browser_execute_bulk", bulk("c", &["t"])).await;
    assert_eq!(code, "no_such_tag");
    assert!(said.starts_with("no such tag: \"c\"; there is \"a\", \"b\""), "{said}");
    for (name, value) in
        [("browserIndex", json!(1)), ("browser_pool", json!("CHROMIUM")), ("sessionId", json!("s"))]
    {
        let mut arguments = bulk("a", &["t"]);
        arguments[name] = value;
        let (code, said) = client.fails("browser_execute_bulk", arguments).await;
        assert_eq!(code, "invalid_arguments");
        assert!(said.contains(&format!("`browserTag` and `{name}`")), "{said}");
    }
    let failing = client.call("browser_execute_bulk", bulk("a", &["fail", "t"])).await;
    let first = &failing["structuredContent"]["browsers"][0];
    assert_eq!((&first["executed_count"], &first["stopped_at"]), (&json!(1), &json!(0)));
    let only = attached(&[], &[WORK]);
    let answer = only.call("browser_execute_bulk", bulk("a", &["t"])).await;
    assert_eq!(answer["structuredContent"]["success"], true, "the only browser needs no name: {answer}");
}

/// How browsers are and what was done there is counted by index and label, and nothing of it stays when one is removed.
#[tokio::test]
async fn browsers_are_counted() {
    let client = attached(&[], &[ONE, WORK, Attached { down: true, ..TWO }]);
    client.ran("t", json!({"browserIndex": 2})).await;
    assert_eq!(client.fails("t", json!({"browserIndex": 3})).await.0, "browser_down");
    client.call("fail", json!({"browserIndex": 2})).await;
    let shown = || client.gateway.metrics.text(&client.gateway.fleet, 0);
    let text = shown();
    for line in [
        r#"greenroom_browser_state{browser="2",label="work",state="connected"} 1"#,
        r#"greenroom_browser_state{browser="2",label="work",state="pending"} 0"#,
        r#"greenroom_browser_state{browser="1",label="",state="pending"} 1"#,
        r#"greenroom_browser_calls_total{browser="2",label="work",outcome="ok"} 1"#,
        r#"greenroom_browser_calls_total{browser="2",label="work",outcome="error"} 1"#,
        r#"greenroom_browser_attempts_total{browser="2",label="work",outcome="ok"} 1"#,
        r#"greenroom_browser_attempts_total{browser="3",label="",outcome="failed"} 1"#,
        r#"greenroom_browser_calls_total{browser="3",label="",outcome="refused"} 1"#,
        r#"greenroom_browser_reconnects_total{browser="1",label=""} 0"#,
        r#"greenroom_browser_slots_leased{browser="2",label="work"} 0"#,
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("browser-2"), "it is no pool to those who count: {text}");
    client.ran("disconnect_browser", json!({"browserIndex": 2})).await;
    assert!(!shown().contains(r#"browser="2""#), "{}", shown());
}

/// Whoever asks whether a browser can be had hears of attached ones: one is enough, and with none it is told why.
#[tokio::test(start_paused = true)]
async fn readiness() {
    let down = Attached { down: true, ..ONE };
    let mixed = attached(&[], &[down, TWO]);
    assert_eq!(mixed.gateway.readiness(), Ok(()), "nobody has needed them yet");
    mixed.fails("t", json!({"browserIndex": 1})).await;
    assert_eq!(mixed.gateway.readiness(), Ok(()), "the other one can be had");
    let none = attached(&[], &[down]);
    none.fails("t", json!({})).await;
    let why = none.gateway.readiness().unwrap_err();
    assert!(why.starts_with("browser 1 cannot be reached: http://127.0.0.1:9222"), "{why}");
    assert!(why.contains("hint: reconnect_browser"), "{why}");
}

/// The most tokens that either tokenizer makes of a text.
fn tokens(text: &str) -> usize {
    let (one, other) = (cl100k_base_singleton(), o200k_base_singleton());
    one.count_ordinary(text).max(other.count_ordinary(text))
}

/// What attached browsers cost in every conversation: an index at most 20 tokens a tool, what must be known at most 60,
/// and all of greenroom's own tools together at most 1,200.
#[tokio::test]
async fn browsers_are_cheap() {
    let (gateway, folder) = testing::attached(&[CHROMIUM, FIREFOX], &[ONE, WORK], Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.facts.max_lifetime = Some(DAY);
    gateway.recall.records = Some(Kept::new());
    let all = Client { gateway: Arc::new(gateway), is_here: true, _folder: folder };
    let own: Vec<_> = all
        .shown()
        .await
        .into_iter()
        .filter(|tool| tool["annotations"]["readOnlyHint"].is_boolean())
        .collect();
    assert_eq!(own.len(), 12);
    let cost: usize = own.iter().map(|tool| tokens(&tool.to_string())).sum();
    assert!(cost <= 1_200, "{cost} tokens");
    for browsers in [&[ONE, TWO][..], &[ONE, WORK]] {
        let index = attached(&[], browsers).parameters("t").await["properties"]["browserIndex"].clone();
        let cost = tokens(&format!("\"browserIndex\":{index},"));
        assert!(cost <= 20, "{cost} tokens: {index}");
    }
    let pool = all.parameters("t").await["properties"]["browser_pool"].clone();
    let cost = tokens(&format!("\"browser_pool\":{pool},"));
    assert!(cost <= 20 + tokens("CHROMIUM, FIREFOX"), "{cost} tokens: {pool}");
    let (one, none) = (attached(&[BUILT_IN], &[ONE]), attached(&[BUILT_IN], &[]));
    let more = tokens(&instructions::text(&one.gateway)) - tokens(&instructions::text(&none.gateway));
    assert!(more <= 60, "{more} tokens");
    let only = instructions::text(&attached(&[], &[ONE]).gateway);
    assert!(only.starts_with("greenroom drives browsers that people already run"), "{only}");
    assert!(only.contains("Up to 1 session;") && only.contains("list_browsers"), "{only}");
    assert!(!instructions::text(&none.gateway).contains("list_browsers"));
}
