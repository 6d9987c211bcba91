//! No interface lets an agent read a file of this machine by arguments that greenroom and its engine could read differently:
//! over stdio, through a joined server, by `more_tools`, over HTTP with and without a handshake, over REST, by the command line,
//! in new tabs, in bulk.

use greenroom_testkit::{
    Launch,
    http::{HttpMcpClient, STATELESS, Server},
};
use serde_json::{Value, json};

use super::fixture::{DataFolder, GatewayFixture, REVISION};
use crate::control::run_verb::run_verb_in;

const SECRET: &str = "the words of a file that no browser may show";

/// Calls that would show the secret if greenroom's guard and the engine read them differently: tool and arguments.
fn attacks(secret: &str) -> Vec<(&'static str, String)> {
    let source = format!("view-source:file://{secret}");
    let addresses = [
        // Rust cannot read half a surrogate pair, Node can.
        format!(r#""url":"{source}#\ud800""#),
        format!(r#""url":"\udfff{source}""#),
        format!(r#""url":"about:blank","url":"{source}""#),
        format!(r#""url":"{source}","u\u0072l":"about:blank""#),
        format!(r#""u\u0072l":"about:blank","url":"{source}""#),
        format!(r#""\u0075rl":"{source}""#),
        format!(r#""url":"about:blank","__proto__":{{"url":"{source}"}}"#),
        format!(r#""url":["{source}"]"#),
        format!(r#""url":"\u0001 View-\tSource:fi\nle://{secret}""#),
        format!(r#""url":"{source}","x":1e400"#),
        format!(r#""url":"{source}","x":{}{}"#, "[".repeat(200), "]".repeat(200)),
    ];
    let mut attacks = Vec::new();
    for address in &addresses {
        attacks.push(("browser_navigate", format!("{{{address}}}")));
        attacks.push(("browser_tabs", format!(r#"{{"action":"new",{address}}}"#)));
        let command = format!(r#"{{"tool":"browser_navigate","args":{{{address}}}}}"#);
        attacks.push((
            "browser_execute_bulk",
            format!(r#"{{"commands":[{command},{{"tool":"browser_snapshot"}}],"stop_on_error":false,"return_all_results":true}}"#),
        ));
    }
    attacks.push(("browser_file_upload", format!(r#"{{"paths":["{secret}","\ud800"]}}"#)));
    attacks.push(("browser_snapshot", format!(r#"{{"filename":"{secret}\ud800"}}"#)));
    attacks
}

/// The arguments with the session they are for.
fn in_session(session: &str, arguments: &str) -> String {
    format!(r#"{{"sessionId":"{session}",{}"#, &arguments[1..])
}

/// An answer that is an error and does not contain the secret.
#[track_caller]
fn refused(way: &str, attack: &(&str, String), answer: &Value) {
    let failed = answer["error"].is_object() || answer["result"]["isError"] == true;
    assert!(failed, "{way}: {attack:?} is not refused: {answer}");
    assert!(!answer.to_string().contains(SECRET), "{way}: {attack:?} shows the file: {answer}");
}

/// What a session shows afterwards: a page without the secret. The connection still works, so this is answered.
#[track_caller]
fn harmless(way: &str, snapshot: &Value) {
    assert!(snapshot["result"]["content"].is_array(), "{way}: {snapshot}");
    assert!(!snapshot.to_string().contains(SECRET), "{way}: the page shows the file: {snapshot}");
}

async fn over_lines(way: &str, gateway: &GatewayFixture, attacks: &[(&'static str, String)]) {
    for attack in attacks {
        let (tool, arguments) = attack;
        let params = format!(r#"{{"name":"{tool}","arguments":{}}}"#, in_session(way, arguments));
        let answer = gateway.client.start_raw("tools/call", Some(&params)).await.response().await;
        refused(way, attack, &answer);
    }
    harmless(way, &gateway.call(way, "browser_snapshot", json!({})).await.response);
}

/// The same through the tool that runs the tools that are not listed.
async fn by_more_tools(gateway: &GatewayFixture, attacks: &[(&'static str, String)]) {
    let way = "more_tools";
    for attack in attacks {
        let (tool, arguments) = attack;
        let outer = format!(r#"{{"sessionId":"{way}","tool":"{tool}","arguments":{arguments}}}"#);
        let params = format!(r#"{{"name":"more_tools","arguments":{outer}}}"#);
        let answer = gateway.client.start_raw("tools/call", Some(&params)).await.response().await;
        refused(way, attack, &answer);
    }
    harmless(way, &gateway.call(way, "browser_snapshot", json!({})).await.response);
}

/// The same by `greenroom call`, and the addresses that a shell can pass by `greenroom open`.
async fn by_commands(data: &DataFolder, secret: &str, attacks: &[(&'static str, String)]) {
    let session = ["-s", "commands"];
    for (tool, arguments) in attacks {
        let said = run_verb_in(data.path(), &[&["call", tool, arguments], &session[..]].concat()).await;
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(said.code != 0 && !all.contains(SECRET), "call {tool} {arguments}: {said:?}");
    }
    for scheme in ["file://", "view-source:file://", "\u{1} View-\tSource:fi\nle://", "filesystem:file://"] {
        let address = format!("{scheme}{secret}");
        let said = run_verb_in(data.path(), &[&["open", &address], &session[..]].concat()).await;
        let all = format!("{}{}", said.stdout, said.stderr);
        assert!(said.code != 0 && !all.contains(SECRET), "open {address:?}: {said:?}");
    }
    let shown = run_verb_in(data.path(), &[&["snapshot"], &session[..]].concat()).await;
    assert!(shown.code == 0 && !shown.stdout.contains(SECRET), "{shown:?}");
}

async fn post(server: &Server, headers: &[(&str, &str)], body: &str) -> Value {
    let mut all =
        vec![("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    all.extend(headers);
    server.connection().await.request("POST", "/mcp", &all, Some(body)).await.answer().await
}

fn call(tool: &str, arguments: &str, meta: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}{meta}}}"#);
    format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#)
}

/// greenroom refuses arguments that once made an engine read any file, and similar ones, on every interface: no answer
/// contains the file, and the connection stays usable.
#[tokio::test]
async fn no_interface_reads_files_by_hostile_arguments() {
    let outside = tempfile::tempdir().unwrap();
    let secret = outside.path().canonicalize().unwrap().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let attacks = attacks(secret.to_str().unwrap());
    let data = DataFolder::new();
    let flags = ["serve", "--listen", "127.0.0.1:0", "--pool-timeout-settle", "0", "--data-dir"];
    let program = env!("CARGO_BIN_EXE_greenroom");
    let server = Server::start(Launch::new(program).args(flags).arg(data.path())).await;

    over_lines("stdio", &GatewayFixture::start(&data, &["--standalone"]).await, &attacks).await;
    over_lines("joined", &GatewayFixture::start(&data, &[]).await, &attacks).await;
    let core = GatewayFixture::start(&data, &["--standalone", "--tools-profile", "core"]).await;
    by_more_tools(&core, &attacks).await;
    by_commands(&data, secret.to_str().unwrap(), &attacks).await;

    let http_client = HttpMcpClient::open(&server, REVISION, json!({})).await;
    let headers = [("mcp-session-id", http_client.session.as_str()), ("mcp-protocol-version", REVISION)];
    for attack in &attacks {
        let body = call(attack.0, &in_session("http", &attack.1), "");
        refused("HTTP", attack, &post(&server, &headers, &body).await);
    }
    harmless("HTTP", &http_client.call("browser_snapshot", json!({ "sessionId": "http" })).await);

    let meta = format!(
        r#","_meta":{{"io.modelcontextprotocol/protocolVersion":"{STATELESS}","io.modelcontextprotocol/clientCapabilities":{{}}}}"#
    );
    let alone =
        |tool| [("mcp-protocol-version", STATELESS), ("mcp-method", "tools/call"), ("mcp-name", tool)];
    for attack in &attacks {
        let body = call(attack.0, &in_session("stateless", &attack.1), &meta);
        refused("stateless", attack, &post(&server, &alone(attack.0), &body).await);
    }
    let body = call("browser_snapshot", r#"{"sessionId":"stateless"}"#, &meta);
    harmless("stateless", &post(&server, &alone("browser_snapshot"), &body).await);

    let rest = async |tool: &str, params: &str| {
        let body = format!(r#"{{"session_id":"rest","tool":"{tool}","params":{params}}}"#);
        let headers = [("content-type", "application/json")];
        let mut reply = server.connection().await.request("POST", "/api/calls", &headers, Some(&body)).await;
        let error: Value = serde_json::from_str(&reply.body().await).unwrap();
        let mut shown = String::new();
        if let Some(ref_id) = error["ref_id"].as_str() {
            shown = server.get(&format!("/api/calls/{ref_id}/content")).await.body().await;
        }
        (error, shown)
    };
    for attack in &attacks {
        let (error, shown) = rest(attack.0, &attack.1).await;
        let failed = error["error"].is_string() || error["status"] == "error";
        assert!(failed, "REST: {attack:?} is not refused: {error}");
        assert!(!error.to_string().contains(SECRET) && !shown.contains(SECRET), "REST: {attack:?}: {shown}");
    }
    let (error, shown) = rest("browser_snapshot", "{}").await;
    assert!(error["status"] == "success" && !shown.contains(SECRET), "{error}: {shown}");
    assert!(server.stop().await.success());
}

/// The error for the exact payload names the argument that is wrong.
pub async fn error_names_the_argument(gateway: &GatewayFixture) {
    let params = r#"{"name":"browser_navigate","arguments":{"url":"view-source:file:///etc/passwd#\ud800"}}"#;
    let answer = gateway.client.start_raw("tools/call", Some(params)).await.response().await;
    assert_eq!(answer["error"]["code"], -32_602, "{answer}");
    let says = "the parameters of `tools/call` cannot be taken: `arguments.url` is not valid Unicode: it has half of a surrogate pair";
    assert_eq!(answer["error"]["message"], says);
}
