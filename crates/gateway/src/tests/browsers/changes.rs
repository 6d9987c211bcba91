//! Agents list, reconnect, attach and detach browsers.

use super::*;

/// The list has the state of each browser, for people and for programs.
#[tokio::test]
async fn browsers_are_listed() {
    let client = attached(&[], &[ONE, WORK]);
    let list = client.call("list_browsers", json!({})).await;
    assert_eq!(
        text(&list),
        "Total browsers: 2\n\n[1] http://127.0.0.1:9222 - pending\n[2] ws://10.0.0.7:9222/devtools - pending (work; tags: a, b)\n\nMultiple browsers detected. You MUST specify browserIndex parameter in all tool calls to target a specific browser."
    );
    client.ran("t", json!({"sessionId": "s", "browserIndex": "work"})).await;
    let list = client.call("list_browsers", json!({})).await;
    let work = &list["structuredContent"]["browsers"][1];
    assert_eq!(
        (&work["index"], &work["label"], &work["tags"]),
        (&json!(2), &json!("work"), &json!(["a", "b"]))
    );
    assert_eq!((&work["state"], &work["engine"]), (&json!("connected"), &json!("playwright")));
    assert_eq!((&work["sessions"], &work["leasedSlots"]), (&json!(1), &json!(1)));
    assert_eq!((&work["lastError"], &work["retryInSeconds"]), (&Value::Null, &Value::Null));
    assert_eq!(text(&client.call("list_browsers", json!({})).await).lines().count(), 6);
}

/// `reconnect_browser` names its browser by the same rules as any call.
#[tokio::test]
async fn browsers_are_reconnected() {
    let single = attached(&[], &[ONE]);
    single.ran("t", json!({})).await;
    assert_eq!(single.ran("reconnect_browser", json!({})).await, "[1] http://127.0.0.1:9222 - connected");
    let (_, reply_text) = single.fails("reconnect_browser", json!({"browserIndex": 1})).await;
    assert!(reply_text.starts_with("browserIndex must NOT be specified"), "{reply_text}");
    let several = attached(&[], &[ONE, WORK]);
    let (_, reply_text) = several.fails("reconnect_browser", json!({})).await;
    assert!(reply_text.starts_with("browserIndex parameter is required"), "{reply_text}");
    several.ran("t", json!({"browserIndex": 2})).await;
    let again = several.ran("reconnect_browser", json!({"browserIndex": "work"})).await;
    assert_eq!(again, "[2] ws://10.0.0.7:9222/devtools - connected (work; tags: a, b)");
    let (code, reply_text) = attached(&[BUILT_IN], &[]).fails("reconnect_browser", json!({})).await;
    assert_eq!(code, "browser_index");
    assert!(reply_text.contains("no browser is attached"), "{reply_text}");
}

/// A new browser changes which calls must name one, and clients are notified; its removal changes that back. Indices
/// are not reused, the tools of a new engine are listed, and the error for a forbidden browser says why.
#[tokio::test(start_paused = true)]
async fn attach_and_detach_change_required_index() {
    let client = attached(&[], &[ONE]);
    client.shown().await;
    let changes = client.gateway.catalog.changes();
    let count = || *changes.borrow();
    assert!(!client.names().await.contains("find"));
    let two = json!({"url": "http://127.0.0.1:9223", "label": "second", "tags": ["x"], "engine": "devtools"});
    let reply_text = client.ran("connect_browser", two.clone()).await;
    assert!(
        reply_text.starts_with("[2] http://127.0.0.1:9223 - ") && reply_text.ends_with(" (second; tags: x)"),
        "{reply_text}"
    );
    assert!(count() > 0, "clients are notified");
    assert!(client.names().await.contains("find"), "its engine was asked");
    assert_eq!(client.fails("t", json!({})).await.0, "browser_index");
    assert_eq!(client.ran("find", json!({"browserIndex": "second"})).await, "browser-2/0 find");
    let (code, reply_text) = client.fails("connect_browser", two).await;
    assert_eq!(code, "browser_exists");
    assert!(reply_text.contains("as browser 2"), "{reply_text}");
    for (arguments, code, says) in [
        (json!({"url": "http://127.0.0.1:1|chrome"}), "bad_browser", "start command"),
        (json!({"url": "http://forbidden/"}), "bad_browser", "may not be attached"),
        (json!({"url": "http://down/"}), "browser_down", "no browser answers; it was not attached"),
        (json!({"url": "http://127.0.0.1:1", "label": "7"}), "bad_browser", "number"),
        (json!({"url": "http://127.0.0.1:1", "headers": {}}), "invalid_arguments", "headers"),
        (json!({"url": "http://127.0.0.1:1", "engine": "custom"}), "invalid_arguments", "custom"),
    ] {
        let (error_code, reply_text) = client.fails("connect_browser", arguments).await;
        assert_eq!(error_code, code, "{reply_text}");
        assert!(reply_text.contains(says), "{reply_text}");
    }
    let (_, reply_text) = client.fails("disconnect_browser", json!({})).await;
    assert!(reply_text.starts_with("browserIndex parameter is required"), "{reply_text}");
    let before = count();
    let reply_text = client.ran("disconnect_browser", json!({"browserIndex": "second"})).await;
    assert_eq!(reply_text, "browser 2 is no longer attached: http://127.0.0.1:9223");
    assert!(count() > before);
    assert!(!client.names().await.contains("find"));
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t");
    let reply_text = client.ran("connect_browser", json!({"url": "http://127.0.0.1:9223"})).await;
    assert!(reply_text.starts_with("[4] "), "{reply_text}");
    client.ran("disconnect_browser", json!({"browserIndex": 1})).await;
    client.ran("disconnect_browser", json!({})).await;
    let (code, reply_text) = client.fails("t", json!({})).await;
    assert_eq!(code, "no_browser");
    assert!(reply_text.contains("connect_browser"), "{reply_text}");
    assert!(
        client.names().await.contains("connect_browser")
            && !client.names().await.contains("disconnect_browser")
    );
}

/// A browser whose caller left before it was connected is removed, so other callers still need not name a browser.
#[tokio::test(start_paused = true)]
async fn abandoned_attach_is_undone() {
    let client = attached(&[], &[ONE]);
    client.shown().await;
    let asked = client.call("connect_browser", json!({"url": "http://hangs/"}));
    assert!(timeout(Duration::from_millis(1), asked).await.is_err(), "it never answers");
    // The paused clock does not advance while a task is ready: count steps instead.
    for _ in 0..1_000 {
        if client.gateway.fleet.browsers().len() == 1 {
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!(client.ran("t", json!({})).await, "browser-1/0 t");
    let shown = client.parameters("t").await;
    assert_eq!(shown["properties"].get("browserIndex"), None, "{shown}");
}
