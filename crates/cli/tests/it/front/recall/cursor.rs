//! `get_content`: everything at first, then only what is new; parts on request.

use serde_json::{Value, json};

use super::{
    super::fixture::{FakeEngineSetup, failure, retryable, tool_names},
    read, ref_id,
};
use crate::records::database::RecordsDb;

const TEN: &str = "line 1 of 10\nline 2 of 10\nline 3 of 10\nline 4 of 10\nline 5 of 10\n\
                   line 6 of 10\nline 7 of 10\nline 8 of 10\nline 9 of 10\nline 10 of 10";

/// The first read has everything, the second an empty text, which is no error, and a reset begins anew.
#[tokio::test]
async fn second_read_returns_only_new_content() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    assert!(tool_names(&client).await.contains(&"get_content".to_owned()));
    let id = ref_id(&client.call("lines", json!({"count": 10})).await);
    assert_eq!(read(&client, json!({"ref_id": id})).await, (TEN.to_owned(), String::new()));
    for _ in 0..2 {
        let (text, note) = read(&client, json!({"ref_id": id})).await;
        assert_eq!(text, "");
        assert!(note.contains("reset_cursor"), "{note}");
    }
    assert_eq!(read(&client, json!({"ref_id": id, "reset_cursor": true})).await.0, TEN);
    assert_eq!(read(&client, json!({"ref_id": id})).await.0, "");
    // Any spelling of a name is the same record with the same cursor.
    let spelled = format!("{{{}}}", id.to_uppercase());
    assert_eq!(read(&client, json!({"ref_id": spelled})).await.0, "");
}

/// Each record has its own cursor, and a greenroom that starts later finds it where it was.
#[tokio::test]
async fn cursor_survives_a_restart() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let read_before = ref_id(&client.call("lines", json!({"count": 10})).await);
    let unread = ref_id(&client.call("lines", json!({"count": 10})).await);
    assert_ne!(read_before, unread);
    assert_eq!(read(&client, json!({"ref_id": read_before})).await.0, TEN);
    client.close_stdin().await;
    assert!(client.wait().await.success());
    let starts = setup.log().count("start");

    let client = setup.client().await;
    assert_eq!(read(&client, json!({"ref_id": read_before})).await.0, "");
    assert_eq!(read(&client, json!({"ref_id": unread})).await.0, TEN);
    assert_eq!(read(&client, json!({"ref_id": read_before, "reset_cursor": true})).await.0, TEN);
    assert_eq!(setup.log().count("start"), starts, "no browser is needed to read what was kept");
}

/// Parts neither use nor move the cursor. Offsets and limits count lines, and the answer says where to go on.
#[tokio::test]
async fn reading_parts_does_not_move_the_cursor() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let id = ref_id(&client.call("lines", json!({"count": 10})).await);
    let other = ref_id(&client.call("lines", json!({"count": 10})).await);
    let wishes: [(Value, &str); 6] = [
        (json!({"offset": 8}), "line 9 of 10\nline 10 of 10"),
        (json!({"limit": 1}), "line 1 of 10"),
        (json!({"offset": 3, "limit": 2}), "line 4 of 10\nline 5 of 10"),
        (json!({"offset": 10}), ""),
        (json!({"search_for": "nothing like it"}), ""),
        (json!({"since": other}), ""),
    ];
    for round in 0..2 {
        for (wish, expected) in &wishes {
            let mut arguments = wish.clone();
            arguments["ref_id"] = json!(id);
            assert_eq!(read(&client, arguments).await.0, *expected, "{round}: {wish}");
        }
        let found = json!({"ref_id": id, "search_for": "line 7", "before_lines": 1, "after_lines": 2});
        let (text, _) = read(&client, found).await;
        for n in 6..=9 {
            assert!(text.contains(&format!("line {n} of 10")), "{text}");
        }
        assert!(!text.contains("line 5 ") && !text.contains("line 10 "), "{text}");
        let expected = if round == 0 { TEN } else { "" };
        assert_eq!(read(&client, json!({"ref_id": id})).await.0, expected, "parts moved the cursor");
    }
    let (_, note) = read(&client, json!({"ref_id": id, "offset": 3, "limit": 2})).await;
    assert!(note.contains("2 of 10 lines") && note.contains("offset 5"), "{note}");
    let (_, note) = read(&client, json!({"ref_id": id, "search_for": "nothing like it"})).await;
    assert!(note.contains("no line of 10"), "{note}");
}

/// The difference to another call is sent as changed lines.
#[tokio::test]
async fn diff_to_another_call_has_changed_lines() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let text: Vec<_> = (1..40).map(|n| format!("- item {n}")).collect();
    let text = text.join("\n");
    let changed = text.replace("- item 20\n", "- item twenty\n");
    let before = ref_id(&client.call("echo", json!({"text": text})).await);
    let after = ref_id(&client.call("echo", json!({"text": changed})).await);
    let (diff, _) = read(&client, json!({"ref_id": after, "since": before})).await;
    assert!(diff.contains("item twenty") && !diff.contains("item 5\n"), "{diff}");
    let (same, note) = read(&client, json!({"ref_id": after, "since": after})).await;
    assert_eq!((same.as_str(), note), ("", format!("no changes since ref_id {after}")));
    let other = ref_id(&client.call("echo", json!({"text": "quite another"})).await);
    let (whole, note) = read(&client, json!({"ref_id": other, "since": before})).await;
    assert_eq!(whole, "quite another");
    assert!(note.contains("all of it"), "{note}");
    assert_eq!(read(&client, json!({"ref_id": after})).await.0, changed, "a comparison moved the cursor");
}

/// Unknown and invalid names, and impossible requests, are refused with the mistake.
#[tokio::test]
async fn invalid_recall_requests_are_refused() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let id = ref_id(&client.call("lines", json!({"count": 10})).await);
    let nobodys = "0199f3a2-5b0c-4e1d-8f00-1c2d3e4f5a6b";
    for tool in ["get_content", "get_console_content"] {
        for name in [nobodys, "7", "", "../../etc/passwd", &"x".repeat(100_000)] {
            let (code, text) = failure(&client.call(tool, json!({"ref_id": name})).await);
            assert_eq!(code, "no_record", "{text}");
            assert!(text.contains("no record has this ref_id") && text.contains("hint: "), "{text}");
        }
        for wrong in [json!({}), json!({"ref_id": 7}), json!({"ref_id": id, "colour": "red"})] {
            assert_eq!(failure(&client.call(tool, wrong).await).0, "invalid_arguments");
        }
    }
    for wrong in
        [json!({"offset": -1}), json!({"limit": 0}), json!({"offset": "x"}), json!({"before_lines": 1.5})]
    {
        let mut arguments = wrong.clone();
        arguments["ref_id"] = json!(id);
        assert_eq!(failure(&client.call("get_content", arguments).await).0, "invalid_arguments", "{wrong}");
    }
    let (code, _) = failure(&client.call("get_content", json!({"ref_id": id, "since": nobodys})).await);
    assert_eq!(code, "no_record");
    let (code, _) =
        failure(&client.call("get_console_content", json!({"ref_id": id, "level": "loud"})).await);
    assert_eq!(code, "invalid_arguments");
    let far = json!({"ref_id": id, "offset": u64::MAX, "limit": u64::MAX});
    let (text, note) = read(&client, far).await;
    assert_eq!(text, "");
    assert!(note.contains("there are 10"), "{note}");
    assert_eq!(read(&client, json!({"ref_id": id})).await.0, TEN, "mistakes moved the cursor");
}

/// A call that still runs is known, and the error for its content says to wait.
#[tokio::test]
async fn content_of_a_running_call_is_refused() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "sessionId": "a"})).await;
    gate.arrived(1).await;
    // It is recorded before it runs.
    let id: String = RecordsDb::at(&setup.data()).one("SELECT ref_id FROM requests WHERE tool_name = 'wait'");
    let answer = client.call("get_content", json!({"ref_id": id})).await;
    assert_eq!(failure(&answer).0, "not_ended", "{answer}");
    assert!(retryable(&answer));
    gate.open();
    assert_eq!(ref_id(&held.response().await), id);
    assert_eq!(read(&client, json!({"ref_id": id})).await.0, "released");
}

/// Calls have no console lines where the engine reports none; the answer says so, and is no error.
#[tokio::test]
async fn missing_console_lines_are_no_error() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let id = ref_id(&client.call("lines", json!({"count": 1})).await);
    for level in ["", "debug", "info", "warn", "error"] {
        let answer = client.call("get_console_content", json!({"ref_id": id, "level": level})).await;
        assert_ne!(answer["result"]["isError"], true, "{answer}");
        assert_eq!(answer["result"]["content"][0]["text"], "", "{answer}");
    }
}
