//! The first example of the pools' specification: three browsers for any caller.

use std::collections::BTreeSet;

use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::{PoolFixture, call, navigate};
use crate::real::{fixture::all, inspect};

const EXAMPLE: [(&str, &str); 6] = [
    ("PW_MCP_PROXY_HEADLESS", "true"),
    ("PW_MCP_PROXY_BROWSER", "chromium"),
    ("PW_MCP_PROXY_TIMEOUT", "30000"),
    ("PW_MCP_PROXY__DEFAULT_INSTANCES", "3"),
    ("PW_MCP_PROXY__DEFAULT_IS_DEFAULT", "true"),
    ("PW_MCP_PROXY__DEFAULT__2_ALIAS", "main_browser"),
];

/// Three calls at once run in three browsers, a call that names one runs there, and several commands run in one.
#[tokio::test]
async fn calls_run_in_three_browsers_at_once() {
    let site = Site::start().await;
    let fixture = PoolFixture::open("DEFAULT", &EXAMPLE).await;
    let agents = all((0..3).map(|_| fixture.agent())).await;
    assert_eq!(inspect::browsers(fixture.server.pid()).len(), 3);
    // Each browser gets a cookie that identifies it from now on.
    for instance in ["0", "1", "2"] {
        let url = site.url(&format!("/canary?name={instance}"));
        navigate(&agents[0], &url, Some(instance)).await.ok();
    }

    // The page answers when all three have requested it: calls run one after the other would wait for ever.
    let meet = site.url("/meet?count=3");
    let pages = all(agents.iter().map(|agent| navigate(agent, &meet, None))).await;
    let seen: BTreeSet<_> = pages.iter().map(|page| cookie(&page.ok())).collect();
    assert_eq!(seen, ["0", "1", "2"].map(str::to_owned).into());
    let status = fixture.status(&agents[0]).await;
    let processes: BTreeSet<_> =
        status["pools"][0]["instances"].as_array().unwrap().iter().map(process).collect();
    assert_eq!(processes.len(), 3, "{status}");
    assert_eq!(status["summary"]["available_instances"], 3, "{status}");

    // By alias and by number it is the same browser; the next call for any gets the one that came back first.
    for name in ["main_browser", "2"] {
        let page = navigate(&agents[1], &site.url("/show"), Some(name)).await.ok();
        assert_eq!(cookie(&page), "2", "{name}");
    }
    let wrong = navigate(&agents[1], &site.url("/show"), Some("Main_Browser")).await;
    assert_eq!(wrong.code(), "no_such_instance", "{}", wrong.text());
    for instance in ["1", "0", "2"] {
        navigate(&agents[2], &site.url("/show"), Some(instance)).await.ok();
    }
    for expected in ["1", "0", "2", "1"] {
        assert_eq!(cookie(&navigate(&agents[0], &site.url("/show"), None).await.ok()), expected);
    }

    let commands = json!([
        { "tool": "browser_navigate", "args": { "url": site.url("/form") } },
        { "tool": "browser_type", "args": { "target": "input[name=name]", "element": "the name", "text": "Ada" } },
        { "tool": "browser_evaluate", "args": { "function": "() => document.cookie" }, "return_result": true },
        { "tool": "browser_snapshot", "return_result": true },
    ]);
    let bulk = json!({ "commands": commands, "browser_instance": "main_browser" });
    let bulk_result: Value =
        serde_json::from_str(&call(&agents[0], "browser_execute_bulk", bulk).await.ok()).unwrap();
    assert_eq!(
        (&bulk_result["success"], &bulk_result["executed_count"], &bulk_result["stopped_at"]),
        (&json!(true), &json!(4), &Value::Null)
    );
    assert_eq!(
        (&bulk_result["results"][0], &bulk_result["results"][1]),
        (&Value::Null, &Value::Null),
        "not wanted: {bulk_result}"
    );
    let result = |n: usize| bulk_result["results"][n]["content"][0]["text"].as_str().unwrap();
    assert!(result(2).contains("canary=2"), "{bulk_result}");
    assert!(result(3).contains("textbox \"Name\"") && result(3).contains("Ada"), "{bulk_result}");
    fixture.close().await;
}

/// The cookie that the server saw.
fn cookie(text: &str) -> String {
    let found = text.split("server saw: ").nth(1).and_then(|rest| rest.split("canary=").nth(1));
    found.unwrap_or_else(|| panic!("no cookie: {text}")).chars().take_while(char::is_ascii_digit).collect()
}

fn process(instance: &Value) -> u64 {
    instance["process_id"].as_u64().unwrap_or_else(|| panic!("no process: {instance}"))
}
