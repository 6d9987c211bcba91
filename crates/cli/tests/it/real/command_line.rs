//! The command line with the real engine: one session that commands and MCP share, and what goes wrong there.

use greenroom_testkit::{
    Launch, Site,
    http::{HttpMcpClient, Server},
    shopping_agent::ref_of,
    text_of,
};
use serde_json::json;

use super::fixture::{DataFolder, REVISION};
use crate::control::run_verb::{VerbOutput, run_verb_in};

pub async fn serve(data: &DataFolder) -> Server {
    serve_with(data, &[]).await
}

/// A server with these flags.
async fn serve_with(data: &DataFolder, flags: &[&str]) -> Server {
    let launch = Launch::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"])
        .arg(data.path())
        .args(flags);
    Server::start(launch).await
}

fn check(said: &VerbOutput, code: i32, text: &str) {
    let all = format!("{}{}", said.stdout, said.stderr);
    assert!(said.code == code && all.contains(text), "`{text}`: {said:?}");
}

/// An MCP client and commands take turns in one session: each gets the page whole after the other has acted, and changes
/// after its own acts. Then what goes wrong: a stale ref, a host that does not answer, a search without a result.
#[tokio::test]
async fn mcp_client_and_commands_share_a_session() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve(&data).await;
    let client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let run =
        async |arguments: &[&str]| run_verb_in(data.path(), &[arguments, &["-s", "mix"]].concat()).await;
    let opened = text_of(
        &client.call("browser_navigate", json!({"url": site.url("/menu"), "sessionId": "mix"})).await,
    );
    assert!(opened.contains("item 60 that does not change"), "{opened}");
    let whole = run(&["snapshot"]).await;
    check(&whole, 0, "item 60 that does not change");
    let button = ref_of(&whole.stdout, "button \"Open menu\"").unwrap();
    let clicked = run(&["click", &format!("@{button}")]).await;
    check(&clicked, 0, "changes since the page you were last sent");
    assert!(
        clicked.stdout.contains("first entry") && !clicked.stdout.contains("item 30 that"),
        "{clicked:?}"
    );
    assert!(clicked.stdout.contains("ref_id: "), "{clicked:?}");
    check(&run(&["snapshot", "--mode", "inline"]).await, 0, "item 30 that");
    let mcp = text_of(&client.call("browser_snapshot", json!({"sessionId": "mix"})).await);
    assert!(mcp.contains("item 30 that") && mcp.contains("first entry"), "{mcp}");
    check(&run(&["snapshot"]).await, 0, "item 30 that");

    let stale = run(&["click", "e9999"]).await;
    check(&stale, 1, "item 30 that");
    check(&stale, 1, "e9999");
    check(&run(&["find", "FIRST ENTRY"]).await, 0, "[ref=");
    check(&run(&["find", "no such text anywhere"]).await, 1, "No matches");
    let misspelt = run(&["find", "Opne menu"]).await;
    check(&misspelt, 1, &format!("Nearest on the page:\n- button \"Open menu\" [ref={button}]"));
    check(&run(&["eval", "document.title.length + 1"]).await, 0, "### Result");
    check(&run(&["open", &site.url("/form")]).await, 0, "heading \"form\"");
    check(&run(&["back"]).await, 0, "Open menu");
    check(&run(&["wait", "--text", "item 60"]).await, 0, "");
    check(&run(&["press", "Tab"]).await, 0, "");
    check(&run(&["tabs", "new", "about:blank"]).await, 0, "about:blank");
    check(&run(&["tabs", "select", "0"]).await, 0, "");
    let unreachable = run(&["open", "http://127.0.0.1:1/"]).await;
    assert!(unreachable.code == 1 && unreachable.stderr.starts_with("error: "), "{unreachable:?}");
    let picture = data.path().join("page.png");
    let shot = run(&["screenshot", picture.to_str().unwrap(), "--full-page"]).await;
    check(&shot, 0, "page.png");
    let plain = std::fs::read(&picture).unwrap();
    assert!(plain.starts_with(b"\x89PNG"));
    check(&run(&["open", &site.url("/menu")]).await, 0, "Open menu");
    let marked = run(&["screenshot", picture.to_str().unwrap(), "--full-page", "--annotate"]).await;
    check(&marked, 0, "### Marked elements");
    check(&marked, 0, ": button \"Open menu\"");
    let annotated = std::fs::read(&picture).unwrap();
    assert!(annotated.starts_with(b"\x89PNG") && annotated != plain);
    let sessions = text_of(&client.call("session_list", json!({})).await);
    assert_eq!(sessions.matches("\"mix\"").count(), 1, "{sessions}");
    check(&run(&["close"]).await, 0, "");
    server.stop().await;
}

/// With `responses = refs` a command prints a `ref_id`; a search prints what it found, and its exit code says whether it did.
#[tokio::test]
async fn searches_print_their_results_whatever_responses_is() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let server = serve_with(&data, &["--responses", "refs"]).await;
    let run = async |arguments: &[&str]| run_verb_in(data.path(), arguments).await;
    let opened = run(&["open", &site.url("/menu")]).await;
    assert!(opened.code == 0 && opened.stdout.starts_with("{\"ref_id\":"), "{opened:?}");
    check(&run(&["find", "open menu"]).await, 0, "button \"Open menu\"");
    check(&run(&["find", "no such text anywhere"]).await, 1, "No matches");
    server.stop().await;
}
