//! Mistakes of a client. Each has its own clear answer, and the connection lives on.

use greenroom_testkit::{Client, text_of};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, batch_answer, error, failure};

/// The connection still works.
async fn connection_works(client: &Client) {
    assert_eq!(text_of(&client.call("echo", json!({"text": "alive"})).await), "alive");
    assert_eq!(client.unmatched_left(), 0);
}

/// Sends a line that is not a request, and returns the error that answers it.
async fn refused(client: &Client, line: impl AsRef<[u8]>) -> (i64, String) {
    client.send_line(line).await;
    let answer = client.next_unmatched().await;
    assert_eq!(answer["id"], Value::Null, "{answer}");
    error(&answer)
}

/// A line that is not JSON and JSON that is not a message get different errors, with the id where there is one.
#[tokio::test]
async fn invalid_json_and_invalid_messages_get_distinct_errors() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for line in ["nonsense", "{", r#"{"jsonrpc":"2.0","id":1,"method":"ping"} x"#, "{'a':1}", "[1,"] {
        let (code, message) = refused(&client, line).await;
        assert_eq!((code, message.starts_with("not JSON")), (-32_700, true), "{line}: {message}");
    }
    client.send_line(b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"\xff\xfe\"}").await;
    let answer = client.next_unmatched().await;
    assert_eq!((error(&answer).0, &answer["id"]), (-32_700, &json!("x")), "{answer}");
    assert!(error(&answer).1.starts_with("not JSON"), "{answer}");
    for line in [
        "7",
        "null",
        r#""ping""#,
        "{}",
        r#"{"jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","method":7}"#,
    ] {
        let (code, message) = refused(&client, line).await;
        assert_eq!(
            (code, message.starts_with("not a JSON-RPC message")),
            (-32_600, true),
            "{line}: {message}"
        );
    }
    for line in [
        r#"{"id":"x","method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":"x","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"x"}"#,
        r#"{"jsonrpc":"2.0","id":"x","result":1,"error":2}"#,
        r#"{"jsonrpc":"2.0","id":"x","method":"ping","result":1}"#,
    ] {
        client.send_line(line).await;
        let answer = client.next_unmatched().await;
        assert_eq!((error(&answer).0, &answer["id"]), (-32_600, &json!("x")), "{line}");
    }
    connection_works(&client).await;
}

/// A message is an object: an array with the same values in order is not a message, alone or in a batch.
#[tokio::test]
async fn array_is_not_a_message() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let before = client.transcript().len();
    client.send_line(r#"[["2.0",7,"ping"]]"#).await;
    let answers = batch_answer(&client, before).await;
    assert_eq!((answers.len(), error(&answers[0]).0), (1, -32_600), "{answers:?}");
}

/// A line over 16 MiB is refused with its size, without being kept; the next one is read whole.
#[tokio::test]
async fn line_over_the_limit_is_refused() {
    const LIMIT: usize = 16 * 1024 * 1024;
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let (code, message) = refused(&client, vec![b'x'; LIMIT + 1]).await;
    let expected = format!("the message has {} bytes, at most {LIMIT} are taken", LIMIT + 1);
    assert_eq!((code, message), (-32_600, expected));
    connection_works(&client).await;
}

/// JSON nested a hundred thousand deep costs an error at most, whether it is the message or an argument.
#[tokio::test]
async fn deeply_nested_json_is_refused() {
    const DEPTH: usize = 100_000;
    let setup = FakeEngineSetup::new().set("responses", "raw");
    let client = setup.client().await;
    let open = "[".repeat(DEPTH);
    let close = "]".repeat(DEPTH);
    assert_eq!(refused(&client, &open).await.0, -32_700);
    let before = client.transcript().len();
    client.send_line(format!("{open}{close}")).await;
    let answers = batch_answer(&client, before).await;
    assert_eq!((answers.len(), error(&answers[0]).0), (1, -32_600));
    let objects = format!("{}1{}", r#"{"a":"#.repeat(DEPTH), "}".repeat(DEPTH));
    assert_eq!(refused(&client, &objects).await.0, -32_600);

    let params = format!(r#"{{"name":"params","arguments":{{"any":{open}{close}}}}}"#);
    let answer = client.start_raw("tools/call", Some(&params)).await.response().await;
    let (code, message) = error(&answer);
    assert_eq!((code, message.contains("is nested too deep")), (-32_602, true), "{message}");
    assert!(message.len() < 500, "{message}");
    let open = "[".repeat(90);
    let close = "]".repeat(90);
    let params = format!(r#"{{"name":"params","arguments":{{"any":{open}{close}}}}}"#);
    let answer = client.start_raw("tools/call", Some(&params)).await.response().await;
    assert_eq!(text_of(&answer), params, "what greenroom does not look into passes as it is");
    connection_works(&client).await;
}

/// Arguments that two programs could read differently reach no engine: they are refused with their place, at any depth, and
/// the connection lives on.
#[tokio::test]
async fn ambiguous_arguments_are_refused() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    connection_works(&client).await;
    let before = setup.log().count("tools/call echo");
    for (params, place, why) in [
        (r#"{"name":"echo","arguments":{"text":"\ud800"}}"#, "arguments.text", "is not valid Unicode"),
        (r#"{"name":"echo","arguments":{"t\udc00":1}}"#, r"arguments.t\udc00", "is not valid Unicode"),
        (
            r#"{"name":"echo","arguments":{"text":"a","sessionId":"\ud800"}}"#,
            "arguments.sessionId",
            "is not valid",
        ),
        (
            r#"{"name":"echo","arguments":{"payload":{"a":[1,{"b":"\ud800\ud800"}]}}}"#,
            "arguments.payload.a[1].b",
            "is not",
        ),
        (r#"{"name":"echo","arguments":{"text":"a","text":"b"}}"#, "arguments.text", "is given twice"),
        (
            r#"{"name":"echo","arguments":{"text":"a"},"arguments":{"text":"b"}}"#,
            "arguments",
            "is given twice",
        ),
        (
            r#"{"name":"echo","arguments":{"sessionId":"a","session\u0049d":"b"}}"#,
            r"arguments.session\u0049d",
            "is given",
        ),
        (r#"{"name":"echo","arguments":{"__proto__":{"text":"b"}}}"#, "arguments.__proto__", "is a name"),
        (
            r#"{"name":"browser_execute_bulk","arguments":{"commands":[{"tool":"echo","args":{"text":"\ud800"}}]}}"#,
            "arguments.commands[0].args.text",
            "is not valid Unicode",
        ),
    ] {
        let (code, message) = error(&client.start_raw("tools/call", Some(params)).await.response().await);
        let expected = format!("the parameters of `tools/call` cannot be taken: `{place}` {why}");
        assert!(code == -32_602 && message.starts_with(&expected), "{params}: {message}");
    }
    assert_eq!(setup.log().count("tools/call echo"), before, "an engine has seen one of them");
    connection_works(&client).await;
}

/// Selectors that cannot be read, or are spelt with escapes, never send a call to another session.
#[tokio::test]
async fn malformed_selectors_reach_no_other_session() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("set", json!({"key": "k", "value": "own"})).await;
    client.call("set", json!({"key": "k", "value": "named", "sessionId": "s"})).await;
    let get = r#"{"name":"get","arguments":{"key":"k","session\u0049d":"\u0073"}}"#;
    let answer = client.start_raw("tools/call", Some(get)).await.response().await;
    assert_eq!(text_of(&answer), "named");
    for odd in ["5", "[]", "{}", "true", "[\"s\"]"] {
        let get = format!(r#"{{"name":"get","arguments":{{"key":"k","sessionId":{odd}}}}}"#);
        let answer = client.start_raw("tools/call", Some(&get)).await.response().await;
        assert_eq!(failure(&answer).0, "invalid_session_id", "{odd}");
    }
    connection_works(&client).await;
}

/// The error for an unknown tool suggests the nearest name, if one is near.
#[tokio::test]
async fn unknown_tool_error_suggests_the_nearest() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for (wrong, right) in [("ecko", "echo"), ("session_lst", "session_list")] {
        let (code, message) = error(&client.call(wrong, json!({})).await);
        assert_eq!(
            (code, message),
            (-32_602, format!("unknown tool: \"{wrong}\"; did you mean \"{right}\"?"))
        );
    }
    let (code, message) = error(&client.call("zzz", json!({})).await);
    assert_eq!((code, message.as_str()), (-32_602, "unknown tool: \"zzz\""));
    connection_works(&client).await;
}

/// Arguments are checked before an engine sees them: the error names unknown, missing and wrong ones.
#[tokio::test]
async fn arguments_are_checked_against_the_schema() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for (tool, arguments, expected) in [
        (
            "echo",
            json!({"txt": "a"}),
            "unknown argument: `txt` (tool \"echo\")\n\nhint: this tool takes `text`, `payload`, `rich`, `sessionId`",
        ),
        ("pid", json!({"x": 1}), "unknown argument: `x` (tool \"pid\")\n\nhint: this tool takes `sessionId`"),
        ("get", json!({}), "missing argument: `key` (tool \"get\")"),
        ("get", json!({"sessionId": "s"}), "missing argument: `key` (tool \"get\")"),
        ("get", json!({"key": 7}), "wrong argument: `key`: 7 is not of type \"string\" (tool \"get\")"),
        (
            "big",
            json!({"bytes": -1}),
            "wrong argument: `bytes`: -1 is less than the minimum of 0 (tool \"big\")",
        ),
        (
            "session_list",
            json!({"sessionId": "s"}),
            "unknown argument: `sessionId` (tool \"session_list\")\n\nhint: this tool takes no arguments",
        ),
        (
            "session_close",
            json!({"id": "s"}),
            "unknown argument: `id` (tool \"session_close\")\n\nhint: this tool takes `sessionId`",
        ),
    ] {
        let (code, text) = failure(&client.call(tool, arguments).await);
        assert_eq!((code.as_str(), text.as_str()), ("invalid_arguments", expected));
    }
    assert_eq!(setup.log().count("initialize"), 1, "only the list was asked for");
    connection_works(&client).await;
}

/// An invalid `sessionId` is refused with the reason; `null` counts as absent.
#[tokio::test]
async fn invalid_session_id_is_refused() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    for (id, expected) in [
        (json!(""), "sessionId is empty: give any text of 1 to 256 bytes"),
        (json!("x".repeat(257)), "sessionId is too long: 257 bytes, at most 256 are allowed"),
        (json!("ä".repeat(129)), "sessionId is too long: 258 bytes, at most 256 are allowed"),
        (json!(7), "`sessionId` must be text"),
        (json!(["a"]), "`sessionId` must be text"),
        (
            json!("#12"),
            "sessionId cannot be `#12`: that is the number of a connection's own session\n\nhint: choose any other text; a connection's own session is meant by leaving `sessionId` out",
        ),
    ] {
        for tool in ["pid", "session_close", "create_new_session"] {
            let (code, text) = failure(&client.call(tool, json!({"sessionId": id})).await);
            assert_eq!((code.as_str(), text.as_str()), ("invalid_session_id", expected), "{tool}");
        }
    }
    let own = client.call("pid", json!({})).await;
    let null = client.call("pid", json!({"sessionId": null})).await;
    assert_eq!(text_of(&own), text_of(&null));
    for id in ["x".repeat(256), " ".to_owned(), "a/../b\n\"ü".to_owned(), "0".to_owned(), "#a".to_owned()] {
        assert_ne!(text_of(&client.call("pid", json!({"sessionId": id})).await), text_of(&own));
    }
    connection_works(&client).await;
}

/// Parameters that are not a call are a mistake of the client program, and a JSON-RPC error.
#[tokio::test]
async fn invalid_call_parameters_are_a_json_rpc_error() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let no_name = "`params` must be an object with the `name` of a tool";
    for params in [None, Some("null"), Some("[]"), Some("{}"), Some(r#"{"name":7}"#), Some(r#""echo""#)] {
        let answer = client.start_raw("tools/call", params).await.response().await;
        assert_eq!(error(&answer), (-32_602, no_name.to_owned()), "{params:?}");
    }
    for tool in ["echo", "session_list"] {
        for arguments in ["[]", r#"["sessionId"]"#, "7", r#""text""#] {
            let params = format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#);
            let answer = client.start_raw("tools/call", Some(&params)).await.response().await;
            assert_eq!(error(&answer), (-32_602, "`arguments` must be an object".to_owned()), "{params}");
        }
    }
    let answer =
        client.start_raw("tools/call", Some(r#"{"name":"pid","arguments":null}"#)).await.response().await;
    assert!(answer["error"].is_null(), "{answer}");
    for cursor in [json!("2"), json!(2)] {
        let (code, message) = error(&client.request("tools/list", json!({"cursor": cursor})).await);
        assert_eq!((code, message), (-32_602, format!("unknown cursor: `{cursor}`; the list has one page")));
    }
    let (code, message) = error(&client.request("logging/setLevel", json!({"level": "loud"})).await);
    assert_eq!((code, message.starts_with("`level` must be one of debug,")), (-32_602, true), "{message}");
    connection_works(&client).await;
}

/// An id that is in use by a call in flight is refused; the call itself is answered once.
#[tokio::test]
async fn request_id_in_use_is_refused() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let call = |id: &str, file: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"wait","arguments":{{"file":"{file}"}}}}}}"#
        )
    };
    client.send_line(call("\"x\"", gate.path())).await;
    gate.arrived(1).await;
    client.send_line(call("\"x\"", gate.path())).await;
    let answer = client.next_unmatched().await;
    assert_eq!(error(&answer), (-32_600, "the id \"x\" is already in use by a call in flight".to_owned()));
    gate.open();
    assert_eq!(text_of(&client.next_unmatched().await), "released");
    client.send_line(call("\"x\"", gate.path())).await;
    assert_eq!(text_of(&client.next_unmatched().await), "released", "answered, the id is free again");
    assert_eq!(gate.arrivals(), 2);
    connection_works(&client).await;
}

/// An error repeats a name that a client gave, but not a megabyte of it.
#[tokio::test]
async fn errors_shorten_long_names() {
    let setup = super::pools::two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let long = "n".repeat(1 << 20);
    let call = |tool: &str, arguments: Value| {
        ("tools/call".to_owned(), json!({"name": tool, "arguments": arguments}))
    };
    for (what, (method, params)) in [
        ("tool", call(&long, json!({}))),
        ("method", (long.clone(), json!({}))),
        ("argument", call("pid", json!({&long: 1}))),
        ("value", call("get", json!({"key": [&long]}))),
        ("session", call("pid", json!({"sessionId": &long}))),
        ("pool", call("pid", json!({"browser_pool": &long}))),
        ("instance", call("pid", json!({"browser_instance": &long}))),
        ("browser", call("pid", json!({"browserIndex": &long}))),
        ("record", call("get_content", json!({"ref_id": &long}))),
        ("command", call("browser_execute_bulk", json!({"commands": [{"tool": &long}]}))),
        (
            "command's argument",
            call("browser_execute_bulk", json!({"commands": [{"tool": "pid", "args": {&long: 1}}]})),
        ),
        ("cursor", ("tools/list".to_owned(), json!({"cursor": &long}))),
        ("resources' cursor", ("resources/list".to_owned(), json!({"cursor": &long}))),
        ("resource", ("resources/read".to_owned(), json!({"uri": &long}))),
        ("prompt", ("prompts/get".to_owned(), json!({"name": &long}))),
        ("twice given", (long.clone(), json!({"__proto__": 1}))),
    ] {
        let answer = client.request(&method, params).await;
        let is_error = !answer["error"].is_null() || answer["result"]["isError"] == json!(true);
        assert!(is_error && answer.to_string().len() < 2_000, "{what}: {} bytes", answer.to_string().len());
    }
    connection_works(&client).await;
}

/// greenroom does not answer unknown notifications, cancellations of unknown calls, and answers to no question.
#[tokio::test]
async fn notifications_and_stray_responses_get_no_response() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let before = client.transcript().len();
    let silent = [
        r#"{"jsonrpc":"2.0","method":"notifications/no/such","params":{"a":1}}"#,
        r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"echo"}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x","error":{"code":1,"message":"m"}}"#,
        "",
        "   ",
    ];
    for line in silent {
        client.send_line(line).await;
    }
    client.request("ping", Value::Null).await;
    let came =
        client.transcript().split_off(before).into_iter().filter(|line| line.starts_with("<--")).count();
    assert_eq!(came, 1, "the ping's answer");
    connection_works(&client).await;
}
