//! Nothing is lost on the way: the client reads what the engine wrote, and the other way round.

use greenroom_testkit::{Client, Launch, fake_engine_path, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, NEWEST};

/// The fake engine itself, for comparison.
async fn engine() -> Client {
    let engine = Launch::new(fake_engine_path()).spawn();
    engine.initialize(NEWEST, json!({})).await;
    engine
}

/// A response line without its id.
fn body(line: &str) -> &str {
    let at =
        line.find(r#""result":"#).or_else(|| line.find(r#""error":"#)).unwrap_or_else(|| panic!("{line}"));
    &line[at..]
}

/// A result without the name of its record.
fn without_ref_id(body: &str) -> String {
    let Some((before, rest)) = body.split_once(r#""greenroom/ref_id":""#) else { return body.to_owned() };
    let after = rest.split_once('"').unwrap().1;
    format!("{}{after}", before.trim_end_matches(',')).replace(r#","_meta":{}"#, "")
}

async fn call(client: &Client, tool: &str, arguments: &str) -> String {
    let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
    client.start_raw("tools/call", Some(&params)).await.line().await
}

/// Every kind of answer is the engine's own, byte for byte: rich content, unknown fields and types, number formats,
/// failures, JSON-RPC errors.
#[tokio::test]
async fn answers_pass_byte_for_byte() {
    let setup = FakeEngineSetup::new().set("responses", "raw");
    let client = setup.client().await;
    let engine = engine().await;
    for (tool, arguments) in [
        ("echo", r#"{"text":"plain \u00e4 ä \ud83d\ude00 \n \"quoted\""}"#),
        ("echo", r#"{"rich":true,"text":"t"}"#),
        (
            "echo",
            r#"{"rich":true,"payload":{"n":1.50,"big":12345678901234567890123,"far":1e300,"neg":-0.0}}"#,
        ),
        ("echo", r#"{"rich":true,"payload":[1E+2, 0.10,  {"k" : null}]}"#),
        ("echo", r#"{"payload":1e300}"#),
        ("fail", r#"{"message":"an ordinary failure"}"#),
        ("rpc_error", r#"{"code":-32602,"message":"bad","data":{"n":1.50,"x":[ ]}}"#),
        ("rpc_error", r#"{"code":7,"message":"seven"}"#),
    ] {
        let through = call(&client, tool, arguments).await;
        let direct = call(&engine, tool, arguments).await;
        assert_eq!(without_ref_id(body(&through)), body(&direct), "{tool} {arguments}");
    }
    let rich = call(&client, "echo", r#"{"rich":true,"payload":{"far":1e300}}"#).await;
    let rich = without_ref_id(&rich);
    for kept in [
        r#"{"type":"x-hologram","frames":[1,2.50],"x-deep":{"kept":true}}"#,
        r#""annotations":{"audience":["user"],"priority":0.50},"_meta":{"part":1.50}"#,
        r#""payload":{"far":1e300}}"#,
        r#""isError":false,"_meta":{"fake/n":1.50},"x-unknown":{"kept":[1e2,12345678901234567890123]}"#,
    ] {
        assert!(rich.contains(kept), "{kept}");
    }
}

/// With `tools.profile = "full"` greenroom lists tools as the engine describes them, and adds only `sessionId`, in
/// front of their own parameters.
#[tokio::test]
async fn tools_are_listed_as_the_engine_describes_them() {
    let setup = FakeEngineSetup::new().set("tools.profile", "full");
    let client = setup.client().await;
    let engine = engine().await;
    let proxied = client.start("tools/list", Value::Null).await.line().await;
    let original = engine.start("tools/list", Value::Null).await.line().await;
    let added = r#""sessionId":{"type":"string","description":"Your own browser, by any id"}"#;
    let without = proxied.replace(&format!("{added},"), "").replace(added, "");
    let original = body(&original).trim_end_matches("]}}");
    let own = r#"{"name":"session_list""#;
    let rest = body(&without).strip_prefix(original).unwrap_or_else(|| panic!("{without}\n\n{original}"));
    assert!(rest.starts_with(&format!(",{own}")), "greenroom's own tools come last: {rest}");
    assert!(
        proxied.contains(
            r#""_meta":{"fake/tool":{"n":1.50}},"x-vendor":{"n":1.50,"big":12345678901234567890123}"#
        )
    );
}

/// The engine gets the call's parameters as the client wrote them, without `sessionId`.
#[tokio::test]
async fn call_parameters_pass_as_written() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for (sent, expected) in [
        (
            r#"{"x-new": 1.50,"name":"params","arguments":{"any":{"a":1e300, "b":[1.0]},"sessionId":"s"},"_meta":{"k":[1,  2],"progressToken":"p"}}"#,
            r#"{"x-new":1.50,"name":"params","arguments":{"any":{"a":1e300, "b":[1.0]}},"_meta":{"k":[1,  2],"progressToken":"p"}}"#,
        ),
        (r#"{"name":"params","arguments":{"sessionId":"s"}}"#, r#"{"name":"params","arguments":{}}"#),
        (r#"{"name":"params"}"#, r#"{"name":"params"}"#),
        (r#"{"name":"params","arguments":null}"#, r#"{"name":"params","arguments":null}"#),
        (
            r#"{"name":"params","arguments":{"any":"the word sessionId","sessionId":null}}"#,
            r#"{"name":"params","arguments":{"any":"the word sessionId"}}"#,
        ),
        (
            r#"{"name":"params","arguments":{"any":{"sessionId":"deep"}}}"#,
            r#"{"name":"params","arguments":{"any":{"sessionId":"deep"}}}"#,
        ),
    ] {
        let answer = client.start_raw("tools/call", Some(sent)).await.response().await;
        assert_eq!(text_of(&answer), expected);
    }
}
