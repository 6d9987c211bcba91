//! How much of an answer is sent: `inline`, `refs`, `raw`; which setting decides; and where the rest is.

use std::collections::BTreeSet;

use greenroom_testkit::{Client, Launch, fake_engine_path, text_of};
use serde_json::{Value, json, value::RawValue};

use super::{
    super::fixture::{FakeEngineSetup, NEWEST, failure},
    read, ref_id,
};

/// A number of lines that no `inline` answer holds whole.
const MANY: usize = 5_000;

async fn form(client: &Client, mut arguments: Value) -> &'static str {
    arguments["count"] = json!(MANY);
    let answer = client.call("lines", arguments).await;
    let parts = answer["result"]["content"].as_array().unwrap();
    let text = parts[0]["text"].as_str().unwrap();
    match text.lines().count() {
        MANY => "raw",
        1 if text.starts_with("{\"ref_id\":") => "refs",
        _ if text_of(&answer).contains("answer cut: ") => "inline",
        _ => panic!("neither form: {answer}"),
    }
}

/// A call's setting takes precedence over its pool's, and a pool's over the server's.
#[tokio::test]
async fn call_setting_overrides_pool_and_server_settings() {
    let setup = FakeEngineSetup::new().set("inline_tokens", "200");
    let client = setup.client().await;
    assert_eq!(form(&client, json!({})).await, "inline");
    for wish in ["mode", "responses"] {
        for word in ["inline", "refs", "raw"] {
            assert_eq!(form(&client, json!({wish: word})).await, word);
        }
        assert_eq!(form(&client, json!({wish: null})).await, "inline");
        for wrong in [json!("all"), json!(7), json!(["raw"])] {
            let answer = client.call("lines", json!({"count": 1, wish: wrong})).await;
            let text = failure(&answer).1;
            assert!(
                text.contains(&format!("`{wish}` must be one of auto, diff, inline, refs, raw")),
                "{text}"
            );
        }
    }
    assert_eq!(form(&client, json!({"mode": "diff"})).await, "inline", "changes are of snapshots only");

    let setup = FakeEngineSetup::new()
        .set("inline_tokens", "200")
        .set("responses", "raw")
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("SHORT_INSTANCES", "1")
        .pools("SHORT_RESPONSES", "refs");
    let client = setup.client().await;
    assert_eq!(form(&client, json!({})).await, "raw");
    assert_eq!(form(&client, json!({"browser_pool": "SHORT"})).await, "refs");
    assert_eq!(form(&client, json!({"browser_pool": "SHORT", "mode": "inline"})).await, "inline");
    assert_eq!(form(&client, json!({"browser_pool": "SHORT", "responses": "raw"})).await, "raw");
    assert_eq!(form(&client, json!({"mode": "refs"})).await, "refs");
    assert_eq!(
        form(&client, json!({"mode": "refs", "responses": "raw"})).await,
        "refs",
        "`mode` is the later word"
    );
}

/// The `result` of a response line, as it was written.
fn result(line: &str) -> String {
    #[derive(serde::Deserialize)]
    struct Line<'a> {
        #[serde(borrow)]
        result: &'a RawValue,
    }
    serde_json::from_str::<Line<'_>>(line).unwrap().result.get().to_owned()
}

/// `raw` is the engine's answer byte for byte, with nothing but the name of its record added to `_meta`.
#[tokio::test]
async fn raw_answer_is_the_engines_bytes() {
    let engine = Launch::new(fake_engine_path()).spawn();
    engine.initialize(NEWEST, json!({})).await;
    let setup = FakeEngineSetup::new().set("responses", "raw").set("inline_tokens", "200");
    let client = setup.client().await;
    let calls = [
        ("echo", json!({"text": "a \u{1F600} \\ \" \u{7}", "rich": true, "payload": {"n": 1}})),
        ("lines", json!({"count": MANY})),
        ("picture", json!({"number": 7, "bytes": 3_000})),
        ("structured", json!({"n": 1.5})),
        ("fail", json!({"message": "no luck"})),
    ];
    for (tool, arguments) in calls {
        let own = result(&engine.call_line(tool, arguments.clone()).await);
        let line = client.call_line(tool, arguments).await;
        let id = ref_id(&serde_json::from_str(&line).unwrap());
        let added = format!("\"greenroom/ref_id\":\"{id}\"");
        let expected =
            match own.rfind("\"_meta\":{\"fake/n\":1.50}").or(own.rfind("\"_meta\":{\"fake/n\":1.5}")) {
                None => format!("{},\"_meta\":{{{added}}}}}", own.strip_suffix('}').unwrap()),
                Some(meta) => {
                    let end = meta + own[meta..].find('}').unwrap();
                    format!("{},{added}{}", &own[..end], &own[end..])
                }
            };
        assert_eq!(result(&line), expected, "{tool}");
    }
}

/// With `refs` an answer has the outcome of the call and the `ref_id` of its record, and nothing else.
#[tokio::test]
async fn refs_answer_has_only_outcome_and_ref_id() {
    let setup = FakeEngineSetup::new().set("responses", "refs");
    let client = setup.client().await;
    let names = |summary: &Value| summary.as_object().unwrap().keys().cloned().collect::<BTreeSet<_>>();
    let all = ["ref_id", "session_id", "status", "timestamp", "metadata"];
    for (tool, arguments, status) in [
        ("lines", json!({"count": MANY}), "success"),
        ("picture", json!({}), "success"),
        ("fail", json!({"message": "no luck", "sessionId": "named"}), "error"),
    ] {
        let name = arguments.get("sessionId").cloned();
        let answer = client.call(tool, arguments).await;
        let parts = answer["result"]["content"].as_array().unwrap();
        assert_eq!(parts.len(), 1, "{answer}");
        let summary: Value = serde_json::from_str(parts[0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(summary["ref_id"], json!(ref_id(&answer)));
        assert_eq!(summary["status"], status);
        let mut expected = json!({
            "tool": tool, "has_snapshot": false, "has_console_logs": false, "console_error_count": 0,
        });
        // A call can name the session by this, and by `session_id`.
        if let Some(name) = name {
            expected["session"] = name;
        }
        let mut metadata = summary["metadata"].clone();
        let blobs = metadata.as_object_mut().unwrap().remove("blobs");
        assert_eq!(blobs.is_some(), tool == "picture", "{summary}");
        assert_eq!(metadata, expected);
        let mut members: BTreeSet<_> = all.map(str::to_owned).into();
        if status == "error" {
            members.insert("error".to_owned());
            assert_eq!(summary["error"], "no luck");
            assert_eq!(answer["result"]["isError"], true);
        }
        assert_eq!(names(&summary), members);
        assert!(uuid::Uuid::try_parse(summary["session_id"].as_str().unwrap()).is_ok(), "{summary}");
        let timestamp = summary["timestamp"].as_str().unwrap();
        assert!(timestamp.len() == 24 && timestamp.ends_with('Z') && timestamp.contains('T'), "{timestamp}");
    }
}

/// Of an answer beyond the budget the beginning is sent, with its size and how to get the rest, which is there.
#[tokio::test]
async fn long_answer_is_cut_and_the_rest_recalled() {
    let setup = FakeEngineSetup::new().set("inline_tokens", "200");
    let client = setup.client().await;
    let answer = client.call("lines", json!({"count": MANY})).await;
    let id = ref_id(&answer);
    let text = text_of(&answer);
    assert!(text.starts_with("line 1 of 5000\nline 2 of 5000\n"), "{text}");
    assert!(text.len() < 2_000, "{} bytes are sent", text.len());
    let shown = text.lines().take_while(|line| line.starts_with("line ")).count();
    let note = text.lines().find(|line| line.starts_with("answer cut: ")).unwrap_or_else(|| panic!("{text}"));
    for part in ["tokens are left out", &id, "search_for", "offset", "limit"] {
        assert!(note.contains(part), "no `{part}`: {note}");
    }
    let mut rest: Vec<_> = text.lines().take(shown).map(str::to_owned).collect();
    while rest.len() < MANY {
        let page = json!({"ref_id": id, "offset": rest.len(), "limit": 1_500});
        let (lines, note) = read(&client, page).await;
        rest.extend(lines.lines().map(str::to_owned));
        assert_eq!(note.contains("next: offset"), rest.len() < MANY, "{note}");
    }
    let expected: Vec<_> = (1..=MANY).map(|n| format!("line {n} of {MANY}")).collect();
    assert_eq!(rest, expected);
    let (found, _) = read(&client, json!({"ref_id": id, "search_for": "line 4321 "})).await;
    assert!(found.contains("line 4321 of 5000"), "{found}");

    // A single endless line is cut in the middle, and is kept whole as well.
    let answer = client.call("big", json!({"bytes": 1_000_000})).await;
    let sent = text_of(&answer);
    assert!(sent.len() < 5_000 && sent.contains("answer cut: "), "{} bytes: {sent:.300}", sent.len());
    let (whole, _) = read(&client, json!({"ref_id": ref_id(&answer)})).await;
    assert_eq!(whole, "x".repeat(1_000_000));
    // An answer that fits is not changed.
    let answer = client.call("lines", json!({"count": 20})).await;
    assert_eq!(text_of(&answer).lines().count(), 20, "{answer}");
}
