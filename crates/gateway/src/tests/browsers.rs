//! Attached browsers, as agents see them: which browser a call means, and which parameters and tools are shown to whom.

mod changes;
mod figures;
mod tags;

use std::collections::BTreeSet;

use greenroom_core::{Records, record::Filter, settings::When};
use tokio::time::timeout;

use super::*;
use crate::testing::{DEVTOOLS, MemoryRecords, PLAYWRIGHT, TestBrowser};

const ONE: TestBrowser = TestBrowser {
    url: "http://127.0.0.1:9222",
    label: None,
    tags: &[],
    tools: PLAYWRIGHT,
    down: false,
    meeting: None,
};
const TWO: TestBrowser = TestBrowser { url: "http://127.0.0.1:9223", tools: DEVTOOLS, ..ONE };
const WORK: TestBrowser =
    TestBrowser { url: "ws://10.0.0.7:9222/devtools", label: Some("work"), tags: &["a", "b"], ..ONE };

fn attached(pools: &[TestPool], browsers: &[TestBrowser]) -> TestClient {
    let (gateway, folder) = testing::attached(pools, browsers, Scope::Call);
    TestClient { gateway, is_here: true, _folder: folder }
}

impl TestClient {
    async fn shown(&self) -> Vec<Value> {
        let list =
            list_tools(&self.gateway, &Owner::local(), self.is_here, self.gateway.scope).await.unwrap();
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

/// The four rows: a call must not name the only browser, must name one of several, and gets an error before anything
/// runs.
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

/// A session stays in its browser and needs no index; the error for another index says where the session lives.
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

/// With attached browsers a call uses a pool by its name alone, and never together with an index.
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

/// The tools are the union over engines; the error for a tool that a browser lacks names the browsers and pools that
/// have it, and arguments are checked against the chosen one's definition.
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

/// A call for an unavailable browser is recorded, like any other refused call, and so is the first step of a bulk.
#[tokio::test]
async fn refused_calls_are_kept() {
    let (gateway, folder) = testing::attached(&[], &[ONE, TWO], Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    let kept = MemoryRecords::new();
    gateway.recall.records = Some(kept.clone());
    let client = TestClient { gateway: Arc::new(gateway), is_here: true, _folder: folder };
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

/// Every tool that runs in a browser shows `browserIndex`, only if there are several, and never as required; it is a
/// number until a browser has a label. Pools say that none of them is the default.
#[tokio::test]
async fn what_is_shown() {
    let index = async |browsers: &[TestBrowser], tool: &str| {
        attached(&[], browsers).parameters(tool).await["properties"]["browserIndex"].clone()
    };
    for tool in ["t", "browser_execute_bulk", "create_new_session", "reconnect_browser", "disconnect_browser"]
    {
        assert_eq!(index(&[ONE], tool).await, Value::Null, "{tool}");
        assert_eq!(index(&[ONE, TWO], tool).await["type"], "integer", "{tool}");
        let labelled = index(&[ONE, WORK], tool).await;
        assert_eq!(
            (&labelled["anyOf"][0]["type"], &labelled["anyOf"][1]["type"]),
            (&json!("integer"), &json!("string"))
        );
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

/// Each of the tools is shown where it can be used, and refused to callers that may not use it.
#[tokio::test]
async fn who_sees_what() {
    let own = ["list_browsers", "reconnect_browser", "connect_browser", "disconnect_browser"];
    let check = async |changes: When, configured: bool, is_here: bool, expected: &[&str]| {
        let browsers = if configured { &[ONE][..] } else { &[] };
        let (gateway, folder) = testing::attached(&[BUILT_IN], browsers, Scope::Call);
        let mut gateway = Arc::into_inner(gateway).unwrap();
        gateway.attaching.changes = changes;
        let client = TestClient { gateway: Arc::new(gateway), is_here, _folder: folder };
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

/// Changes are found in a session's records: a call without a session is refused before it runs, with a hint how to get
/// one, and so is a step of a bulk.
#[tokio::test]
async fn changes_are_a_sessions() {
    let client = attached(&[], &[ONE]);
    let bulk = json!({"commands": [{"tool": "t"}, {"tool": "t", "args": {"mode": "diff"}}]});
    for (tool, arguments, begins) in [
        ("t", json!({"mode": "diff"}), "`mode: \"diff\"` compares with"),
        ("browser_execute_bulk", bulk.clone(), "commands[1]: `mode: \"diff\"` compares with"),
    ] {
        let (code, said) = client.fails(tool, arguments).await;
        assert_eq!(code, "session_required");
        assert!(said.starts_with(begins) && said.contains("give a `sessionId`"), "{said}");
    }
    assert_eq!(
        client.gateway.fleet.browsers()[0].state,
        greenroom_fleet::BrowserState::Pending,
        "nothing ran"
    );
    assert_eq!(client.ran("t", json!({"mode": "inline"})).await, "browser-1/0 t");
    assert_eq!(client.ran("t", json!({"mode": "diff", "sessionId": "s"})).await, "browser-1/0 t");
    let mut named = bulk;
    named["sessionId"] = json!("s");
    assert_ne!(client.call("browser_execute_bulk", named).await["isError"], true);
}
