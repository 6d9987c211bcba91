//! `greenroom sessions`: which session an argument means.

use serde_json::json;

use super::run_verb::run_verb;
use crate::front::fixture::{FakeEngineSetup, sessions};

/// Any id that an agent may choose can be shown and closed.
#[tokio::test]
async fn any_session_id_can_be_shown_and_closed() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let longest = "ä".repeat(128);
    let ids = [
        "plain",
        "price check",
        " ",
        "a/b",
        "../..",
        "?x=1&y=%2F#z",
        "it's \"quoted\"",
        "line\nbreak",
        "\u{1b}[31mred",
        "茶 🍵",
        "-",
        "local:plain",
        "connection 2",
        &longest,
    ];
    for id in ids {
        client.call("echo", json!({"sessionId": id, "text": "a"})).await;
    }
    for id in ids {
        let shown = run_verb(&setup, &["sessions", "show", "--json", "--", id]).await;
        assert_eq!(shown.json()["id"], id, "{shown:?}");
        let closed = run_verb(&setup, &["sessions", "close", "--json", "--", id]).await;
        assert_eq!((closed.code, &closed.json()["gone"]), (0, &json!(true)), "{closed:?}");
        assert_eq!(closed.json()["pid"], client.pid());
    }
    assert_eq!(sessions(&client).await.len(), 0);
}

/// The error for an unknown session names the nearest known one.
#[tokio::test]
async fn unknown_session_error_names_the_nearest() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["sessions", "show", "prices"]).await.check("no_session_without_a_greenroom", &setup);
    let client = setup.client().await;
    run_verb(&setup, &["sessions", "close", "prices"]).await.check("no_session", &setup);
    client.call("echo", json!({"sessionId": "prices", "text": "a"})).await;
    run_verb(&setup, &["sessions", "close", "prics"]).await.check("no_session_nearest", &setup);
    run_verb(&setup, &["sessions", "show", "prices", "--owner", "ann"])
        .await
        .check("no_session_of_owner", &setup);
    run_verb(&setup, &["sessions", "show", "prices"]).await.check("session_shown", &setup);
    assert_eq!(sessions(&client).await.len(), 1);
}

/// Where several sessions have one id, none of them is touched until the user chooses.
#[tokio::test]
async fn ambiguous_session_id_needs_a_process() {
    let setup = FakeEngineSetup::new();
    let one = setup.client().await;
    let two = setup.client().await;
    for client in [&one, &two] {
        client.call("echo", json!({"sessionId": "prices", "text": "a"})).await;
    }
    run_verb(&setup, &["sessions", "close", "prices"]).await.check("ambiguous", &setup);
    let closed = run_verb(&setup, &["sessions", "close", "prices", "--pid", &two.pid().to_string()]).await;
    assert_eq!(closed.code, 0, "{closed:?}");
    assert_eq!((sessions(&one).await.len(), sessions(&two).await.len()), (1, 0));
}

/// A connection's own session, and a named one with the same name, differ by their keys.
#[tokio::test]
async fn unnamed_and_named_sessions_have_distinct_keys() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    client.call("echo", json!({"text": "a"})).await;
    let own = run_verb(&setup, &["sessions", "show", "connection 1", "--json"]).await.json();
    assert_eq!((&own["key"], &own["id"], &own["connection"]), (&json!("local#1"), &json!(null), &json!(1)));
    let name = "greenroom-testkit 1";
    assert_eq!(own["client"], name);
    assert_eq!(run_verb(&setup, &["session", "show", name, "--json"]).await.json()["key"], own["key"]);
    let happened = run_verb(&setup, &["logs", "--session", name]).await;
    assert!(happened.code == 0 && happened.stdout.contains("echo"), "{happened:?}");
    client.call("echo", json!({"sessionId": name, "text": "a"})).await;
    run_verb(&setup, &["sessions", "close", name]).await.check("ambiguous_keys", &setup);
    assert_eq!(run_verb(&setup, &["sessions", "close", "local#1"]).await.code, 0);
    let left = sessions(&client).await;
    assert_eq!((left.len(), &left[0]["id"]), (1, &json!(name)));
}
