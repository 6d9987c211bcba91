//! `responses = auto`: a page that the agent has just been sent comes as its changes, any other whole.

use greenroom_testkit::{
    Client, Launch, Site,
    http::{Server, stateless},
    process::{Signal, signal},
    text_of,
};
use serde_json::{Value, json};

use tiktoken_rs::o200k_base_singleton;

use super::{
    fixture::{DataFolder, GatewayFixture, REVISION, launch},
    inspect,
    task::engine,
};
use crate::records::database::RecordsDb;

/// The line of an answer that has changes only.
const CHANGES: &str = "since the page you were last sent (whole page: mode inline)";

fn is_whole(text: &str) -> bool {
    text.contains("```yaml") && !text.contains(CHANGES)
}

/// The ref of the first element with these words.
fn ref_of(text: &str, words: &str) -> String {
    let line = text.lines().find(|line| line.contains(words)).unwrap_or_else(|| panic!("no {words}: {text}"));
    line.split("[ref=").nth(1).unwrap().split(']').next().unwrap().to_owned()
}

/// A click on a page that the agent has shows what changed; a new document, another tab, a snapshot, `mode: "inline"` and
/// an element that the page does not have bring the page whole; bulk commands keep to the same.
#[tokio::test]
async fn pages_are_sent_once() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &[]).await;
    let table = site.url("/table?rows=60");
    let first = gateway.navigate("a", &table).await.ok();
    assert!(is_whole(&first), "{first}");
    let click = |text: &str| json!({ "target": ref_of(text, "button \"open 7\""), "element": "open" });
    let clicked = gateway.call("a", "browser_click", click(&first)).await.ok();
    assert!(clicked.contains(CHANGES) && clicked.len() < first.len() / 2, "{clicked}");
    assert!(clicked.contains("ref_id: "), "{clicked}");

    let mut whole = click(&first);
    whole["mode"] = json!("inline");
    let whole = gateway.call("a", "browser_click", whole).await.ok();
    assert!(is_whole(&whole), "{whole}");
    assert!(is_whole(&gateway.call("a", "browser_snapshot", json!({})).await.ok()), "it asked for the page");

    let missing =
        gateway.call("a", "browser_click", json!({ "target": "e99999", "element": "none" })).await.failed();
    assert!(missing.contains("Ref e99999 not found") && is_whole(&missing), "{missing}");
    assert!(missing.contains("button \"open 60\""), "{missing}");

    let again = gateway.navigate("a", &table).await.ok();
    assert!(is_whole(&again), "another document at the same address: {again}");
    let clicked = gateway.call("a", "browser_click", click(&again)).await.ok();
    assert!(clicked.contains(CHANGES), "{clicked}");
    let tab = gateway.call("a", "browser_tabs", json!({ "action": "new", "url": table })).await.ok();
    assert!(is_whole(&tab), "another tab: {tab}");
    let other = gateway.navigate("b", &table).await.ok();
    assert!(is_whole(&other), "another session: {other}");

    let step = |target: &Value| json!({ "tool": "browser_click", "args": target, "return_result": true });
    let commands = json!({ "commands": [step(&click(&other)), step(&click(&other))] });
    let bulk = gateway.call("b", "browser_execute_bulk", commands).await.ok();
    assert_eq!(bulk.matches(CHANGES).count(), 2, "{bulk}");
    gateway.end().await;
}

/// After ten answers with changes the page comes whole again, and so does one whose record is gone; an agent that asks for
/// changes in its first call has nothing to compare with, and gets the page.
#[tokio::test]
async fn pages_come_whole_again() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &[]).await;
    let table = site.url("/table?rows=60");
    let first = gateway.call("a", "browser_navigate", json!({ "url": table, "mode": "diff" })).await.ok();
    assert!(is_whole(&first), "{first}");
    let button = json!({ "target": ref_of(&first, "button \"open 7\""), "element": "open" });
    for answer in 1..=10 {
        let clicked = gateway.call("a", "browser_click", button.clone()).await.ok();
        assert!(clicked.contains(CHANGES), "answer {answer}: {clicked}");
    }
    let eleventh = gateway.call("a", "browser_click", button.clone()).await.ok();
    assert!(is_whole(&eleventh), "{eleventh}");
    let changed = gateway.call("a", "browser_click", button.clone()).await.ok();
    assert!(changed.contains(CHANGES), "{changed}");

    // As retention removes them.
    RecordsDb::at(data.path()).run("DELETE FROM responses");
    let without_base = gateway.call("a", "browser_click", button.clone()).await.ok();
    assert!(is_whole(&without_base), "{without_base}");
    RecordsDb::at(data.path()).run("DELETE FROM responses");
    let mut asked = button;
    asked["mode"] = json!("diff");
    let asked = gateway.call("a", "browser_click", asked).await.ok();
    assert!(is_whole(&asked), "changes were asked for, and there is nothing to compare with: {asked}");
    gateway.end().await;
}

/// After a lost browser the page at the same address comes whole, with the note of the restart; then changes come again.
#[tokio::test]
async fn page_comes_whole_after_a_restart() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &[]).await;
    let table = site.url("/table?rows=60");
    let first = gateway.navigate("a", &table).await.ok();
    let button = json!({ "target": ref_of(&first, "button \"open 7\""), "element": "open" });
    let clicked = gateway.call("a", "browser_click", button.clone()).await.ok();
    assert!(clicked.contains(CHANGES), "{clicked}");
    for browser in inspect::browsers(gateway.client.pid()) {
        signal(browser, Signal::KILL);
    }
    gateway.until_lost("a").await;
    let again = gateway.navigate("a", &table).await.restarted("the browser ended");
    assert!(is_whole(&again) && again.contains("button \"open 60\""), "{again}");
    let button = json!({ "target": ref_of(&again, "button \"open 7\""), "element": "open" });
    let clicked = gateway.call("a", "browser_click", button).await.ok();
    assert!(clicked.contains(CHANGES), "{clicked}");
    gateway.end().await;
}

/// greenroom cannot say what a client without a connection was sent before: it gets the page whole each time.
#[tokio::test]
async fn clients_without_a_connection_get_whole_pages() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let flags = ["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"];
    let server =
        Server::start(Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(flags).arg(data.path())).await;
    let call = async |tool: &str, mut arguments: Value| {
        arguments["sessionId"] = json!("a");
        let params = json!({ "name": tool, "arguments": arguments });
        text_of(&server.post_stateless(&stateless(1, "tools/call", params, json!({}))).await.answer().await)
    };
    let first = call("browser_navigate", json!({ "url": site.url("/table?rows=60") })).await;
    assert!(is_whole(&first), "{first}");
    let button = json!({ "target": ref_of(&first, "button \"open 7\""), "element": "open" });
    let clicked = call("browser_click", button).await;
    assert!(is_whole(&clicked), "{clicked}");
}

/// The tokens of the tools and of the instructions that a conversation begins with, and the names of the tools.
async fn beginning(client: &Client) -> (usize, usize, Vec<String>) {
    let hello = client.initialize(REVISION, json!({})).await;
    let listed = client.request("tools/list", json!({})).await;
    let tools = listed["result"]["tools"].as_array().unwrap();
    let tokens = |text: &str| o200k_base_singleton().count_ordinary(text);
    let cost: usize = tools.iter().map(|tool| tokens(&tool.to_string())).sum();
    let instructions = tokens(hello["result"]["instructions"].as_str().unwrap_or_default());
    let names = tools.iter().map(|tool| tool["name"].as_str().unwrap().to_owned()).collect();
    client.close_stdin().await;
    client.wait().await;
    (cost, instructions, names)
}

/// A conversation begins with fewer tokens than with the engine alone, and with every tool of the engine. The core has a
/// dozen tools, of which all exist.
#[tokio::test]
async fn tools_cost_less_than_the_engines_own() {
    let data = DataFolder::new();
    let (alone, instructions, all) = beginning(&engine(data.path()).spawn()).await;
    let alone = alone + instructions;
    let (compact, instructions, names) = beginning(&launch(data.path(), &[]).spawn()).await;
    let compact = compact + instructions;
    assert!(compact <= alone, "{compact} tokens instead of {alone}");
    let unsafe_tools = ["browser_run_code_unsafe"];
    let missing: Vec<_> =
        all.iter().filter(|name| !names.contains(name) && !unsafe_tools.contains(&name.as_str())).collect();
    assert!(missing.is_empty(), "{missing:?}");
    let (core, _, names) = beginning(&launch(data.path(), &["--tools-profile", "core"]).spawn()).await;
    assert!(core <= 1_500 && names.len() == 12, "{core} tokens: {names:?}");
}
