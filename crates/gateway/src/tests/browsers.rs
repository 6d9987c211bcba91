//! Attached browsers, as agents see them: which browser a call means, and which parameters and tools are shown to whom.

mod changes;
mod figures;
mod tags;

use std::collections::BTreeSet;

use greenroom_core::{Records, record::RecordFilter, settings::AutoOnOff};
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
    TestClient { gateway, is_local: true, _folder: folder }
}

impl TestClient {
    async fn shown(&self) -> Vec<Value> {
        let list =
            list_tools(&self.gateway, &Owner::local(), self.is_local, self.gateway.scope).await.unwrap();
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

/// A call must not name the only browser and must name one of several; otherwise it gets an error before anything
/// runs.
#[tokio::test]
async fn browser_index_is_required_with_several() {
    let single = attached(&[], &[ONE]);
    let (code, reply_text) = single.fails("t", json!({"browserIndex": 1})).await;
    assert_eq!(code, "browser_index");
    assert!(reply_text.starts_with("browserIndex must NOT be specified"), "{reply_text}");
    assert_eq!(single.ran("t", json!({})).await, "browser-1/0 t");
    let several = attached(&[], &[ONE, TWO, WORK]);
    let (code, reply_text) = several.fails("t", json!({})).await;
    assert_eq!(code, "browser_index");
    assert!(
        reply_text.starts_with("browserIndex parameter is required when multiple browsers are connected"),
        "{reply_text}"
    );
    assert!(
        reply_text.contains("1, 2, 3 (\"work\")") && reply_text.contains("list_browsers"),
        "{reply_text}"
    );
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
        let (code, reply_text) = several.fails("t", json!({"browserIndex": odd})).await;
        assert_eq!(code, "browser_index", "{odd}");
        assert!(reply_text.contains(says), "{reply_text}");
    }
    let bulk = json!({"commands": [{"tool": "t"}]});
    assert_eq!(several.fails("browser_execute_bulk", bulk).await.0, "browser_index");
    let (_, reply_text) = several.fails("create_new_session", json!({"sessionId": "s"})).await;
    assert!(reply_text.starts_with("browserIndex parameter is required"), "{reply_text}");
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
async fn pools_are_reachable_by_name_only() {
    let client = attached(&[CHROMIUM], &[ONE]);
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t", "no pool is the default");
    assert_eq!(
        client.ran("t", json!({"browser_pool": "CHROMIUM", "browser_instance": 1})).await,
        "CHROMIUM/1 t"
    );
    let both = json!({"browser_pool": "CHROMIUM", "browserIndex": 1});
    let (code, reply_text) = client.fails("t", both).await;
    assert_eq!(code, "browser_index");
    assert!(reply_text.contains("two places"), "{reply_text}");
    let none = attached(&[CHROMIUM], &[]);
    let (_, reply_text) = none.fails("t", json!({"browserIndex": 1})).await;
    assert!(reply_text.contains("browserIndex must NOT be specified"), "{reply_text}");
}

/// The tools are the union over engines; the error for a tool that a browser lacks names the browsers and pools that
/// have it, and arguments are checked against the chosen one's definition.
#[tokio::test]
async fn missing_tool_error_names_browsers_that_have_it() {
    let client = attached(&[FIREFOX], &[WORK, TWO]);
    let names = client.names().await;
    assert!(["t", "find", "pdf", "fail"].iter().all(|name| names.contains(*name)), "{names:?}");
    let (code, reply_text) = client.fails("find", json!({"browserIndex": "work"})).await;
    assert_eq!(code, "tool_not_in_browser");
    assert!(reply_text.starts_with(r#"browser 1 ("work") has no tool "find""#), "{reply_text}");
    assert!(
        reply_text.contains(r#"it is in pool "FIREFOX", browser 2"#) && reply_text.contains("`browserIndex`"),
        "{reply_text}"
    );
    let (code, reply_text) = client.fails("pdf", json!({"browser_pool": "FIREFOX"})).await;
    assert_eq!(code, "tool_not_in_pool");
    assert!(reply_text.contains(r#"it is in browser 1 ("work")"#), "{reply_text}");
    let commands = json!({"commands": [{"tool": "t"}, {"tool": "pdf"}], "browserIndex": 2});
    let (_, reply_text) = client.fails("browser_execute_bulk", commands).await;
    assert!(reply_text.starts_with(r#"commands[1]: browser 2 has no tool "pdf""#), "{reply_text}");
    let inside = json!({"commands": [{"tool": "t", "args": {"browserIndex": 1}}], "browserIndex": 2});
    let (_, reply_text) = client.fails("browser_execute_bulk", inside).await;
    assert!(reply_text.contains("give `browserIndex` next to `commands`"), "{reply_text}");
}

/// A call for an unavailable browser is recorded, like any other refused call, and so is the first step of a bulk.
#[tokio::test]
async fn refused_calls_are_recorded() {
    let (gateway, folder) = testing::attached(&[], &[ONE, TWO], Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    let records = MemoryRecords::new();
    gateway.recall.records = Some(records.clone());
    let client = TestClient { gateway: Arc::new(gateway), is_local: true, _folder: folder };
    client.fails("t", json!({})).await;
    client.fails("find", json!({"browserIndex": 1})).await;
    let bulk = json!({"commands": [{"tool": "pdf"}, {"tool": "t"}]});
    client.fails("browser_execute_bulk", bulk).await;
    let filter = RecordFilter { limit: 10, ..RecordFilter::default() };
    let calls = records.list(&Owner::local(), filter).await.unwrap();
    let errors: Vec<_> = calls
        .iter()
        .map(|call| (&*call.tool, call.outcome.as_ref().and_then(|outcome| outcome.error.clone()).unwrap()))
        .collect();
    assert_eq!(errors.iter().map(|(tool, _)| *tool).collect::<Vec<_>>(), ["pdf", "find", "t"]);
    assert!(errors[0].1.starts_with("browserIndex parameter is required"), "{errors:?}");
    assert!(errors[1].1.starts_with("browser 1 has no tool"), "{errors:?}");
}

/// Every tool that runs in a browser shows `browserIndex`, only if there are several, and never as required; it is a
/// number until a browser has a label. The description of the pools says that none of them is the default.
#[tokio::test]
async fn browser_index_is_shown_with_several() {
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

/// Each tool for attached browsers is shown where it can be used, and refused to callers that may not use it.
#[tokio::test]
async fn attach_tools_are_shown_to_allowed_callers() {
    let own = ["list_browsers", "reconnect_browser", "connect_browser", "disconnect_browser"];
    let check = async |changes: AutoOnOff, configured: bool, is_local: bool, expected: &[&str]| {
        let browsers = if configured { &[ONE][..] } else { &[] };
        let (gateway, folder) = testing::attached(&[BUILT_IN], browsers, Scope::Call);
        let mut gateway = Arc::into_inner(gateway).unwrap();
        gateway.attaching.allowed = changes;
        let client = TestClient { gateway: Arc::new(gateway), is_local, _folder: folder };
        let names = client.names().await;
        let shown: Vec<_> = own.into_iter().filter(|name| names.contains(*name)).collect();
        assert_eq!(shown, expected, "{changes:?} {configured} {is_local}");
        let may = expected.contains(&"connect_browser");
        let connect = client.call("connect_browser", json!({"url": "http://127.0.0.1:1"})).await;
        assert_eq!(connect["isError"] == true, !may, "{connect}");
        if !may {
            for (tool, arguments) in
                [("connect_browser", json!({"url": "u"})), ("disconnect_browser", json!({}))]
            {
                let (code, reply_text) = client.fails(tool, arguments).await;
                assert_eq!(code, "changes_refused");
                assert!(reply_text.contains("`attach.changes`"), "{reply_text}");
            }
        }
    };
    check(AutoOnOff::Auto, true, true, &own).await;
    check(AutoOnOff::Auto, true, false, &own[..2]).await;
    check(AutoOnOff::Auto, false, true, &[]).await;
    check(AutoOnOff::On, false, false, &own[..3]).await;
    check(AutoOnOff::Off, true, true, &own[..2]).await;
}

/// Changes are found in a session's records: a call without a session is refused before it runs, with a hint how to get
/// one, and so is a step of a bulk.
#[tokio::test]
async fn diff_mode_needs_a_session() {
    let client = attached(&[], &[ONE]);
    let bulk = json!({"commands": [{"tool": "t"}, {"tool": "t", "args": {"mode": "diff"}}]});
    for (tool, arguments, begins) in [
        ("t", json!({"mode": "diff"}), "`mode: \"diff\"` compares with"),
        ("browser_execute_bulk", bulk.clone(), "commands[1]: `mode: \"diff\"` compares with"),
    ] {
        let (code, reply_text) = client.fails(tool, arguments).await;
        assert_eq!(code, "session_required");
        assert!(reply_text.starts_with(begins) && reply_text.contains("give a `sessionId`"), "{reply_text}");
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
