//! The metrics of attached browsers, their cost in tokens, and readiness.

use tiktoken_rs::{cl100k_base_singleton, o200k_base_singleton};

use super::*;
use crate::{instructions, tools};

/// States and calls of browsers are counted by index and label, and all of it disappears when a browser is removed.
#[tokio::test]
async fn browsers_are_counted() {
    let client = attached(&[], &[ONE, WORK, TestBrowser { down: true, ..TWO }]);
    client.ran("t", json!({"browserIndex": 2})).await;
    assert_eq!(client.fails("t", json!({"browserIndex": 3})).await.0, "browser_down");
    client.call("fail", json!({"browserIndex": 2})).await;
    let shown = || client.gateway.metrics.text(&client.gateway.fleet, 0, 0);
    let text = shown();
    for line in [
        r#"greenroom_browser_state{browser="2",label="work",state="connected"} 1"#,
        r#"greenroom_browser_state{browser="2",label="work",state="pending"} 0"#,
        r#"greenroom_browser_state{browser="1",label="",state="pending"} 1"#,
        r#"greenroom_browser_calls_total{browser="2",label="work",outcome="ok"} 1"#,
        r#"greenroom_browser_calls_total{browser="2",label="work",outcome="error"} 1"#,
        r#"greenroom_browser_attempts_total{browser="2",label="work",outcome="ok"} 1"#,
        r#"greenroom_browser_attempts_total{browser="3",label="",outcome="failed"} 1"#,
        r#"greenroom_browser_calls_total{browser="3",label="",outcome="refused"} 1"#,
        r#"greenroom_browser_reconnects_total{browser="1",label=""} 0"#,
        r#"greenroom_browser_slots_leased{browser="2",label="work"} 0"#,
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("browser-2"), "it does not appear as a pool: {text}");
    client.ran("disconnect_browser", json!({"browserIndex": 2})).await;
    assert!(!shown().contains(r#"browser="2""#), "{}", shown());
}

/// Readiness includes attached browsers: one that can be reached is enough, and with none the error says why.
#[tokio::test(start_paused = true)]
async fn readiness_includes_attached_browsers() {
    let down = TestBrowser { down: true, ..ONE };
    let mixed = attached(&[], &[down, TWO]);
    assert_eq!(mixed.gateway.readiness(), Ok(()), "no call has needed them yet");
    mixed.fails("t", json!({"browserIndex": 1})).await;
    assert_eq!(mixed.gateway.readiness(), Ok(()), "the other one can be had");
    let none = attached(&[], &[down]);
    none.fails("t", json!({})).await;
    let why = none.gateway.readiness().unwrap_err();
    assert!(why.starts_with("browser 1 cannot be reached: http://127.0.0.1:9222"), "{why}");
    assert!(why.contains("hint: reconnect_browser"), "{why}");
}

/// The most tokens that either tokenizer makes of a text.
fn tokens(text: &str) -> usize {
    let one = cl100k_base_singleton();
    let other = o200k_base_singleton();
    one.count_ordinary(text).max(other.count_ordinary(text))
}

/// The cost of attached browsers in every conversation: an index at most 20 tokens a tool, the instructions at most 60,
/// and all of greenroom's own tools together at most 1,200.
#[tokio::test]
async fn token_cost_of_browsers_is_limited() {
    let (gateway, folder) = testing::attached(&[CHROMIUM, FIREFOX], &[ONE, WORK], Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.facts.max_lifetime = Some(DAY);
    gateway.recall.records = Some(MemoryRecords::new());
    let all = TestClient { gateway: Arc::new(gateway), is_local: true, _folder: folder };
    let own: Vec<_> = all
        .shown()
        .await
        .into_iter()
        .filter(|tool| tool["name"].as_str().is_some_and(|name| tools::find(name).is_some()))
        .collect();
    assert_eq!(own.len(), 12);
    let cost: usize = own.iter().map(|tool| tokens(&tool.to_string())).sum();
    assert!(cost <= 1_200, "{cost} tokens");
    for browsers in [&[ONE, TWO][..], &[ONE, WORK]] {
        let index = attached(&[], browsers).parameters("t").await["properties"]["browserIndex"].clone();
        let cost = tokens(&format!("\"browserIndex\":{index},"));
        // A number with its minimum, or the choice between number and label.
        assert!(cost <= 48, "{cost} tokens: {index}");
    }
    let pool = all.parameters("t").await["properties"]["browser_pool"].clone();
    let cost = tokens(&format!("\"browser_pool\":{pool},"));
    assert!(cost <= 20 + tokens("CHROMIUM, FIREFOX"), "{cost} tokens: {pool}");
    let text = |client: &TestClient| instructions::text(&client.gateway, client.gateway.scope);
    let one = attached(&[BUILT_IN], &[ONE]);
    let none = attached(&[BUILT_IN], &[]);
    let more = tokens(&text(&one)) - tokens(&text(&none));
    assert!(more <= 60, "{more} tokens");
    let only = text(&attached(&[], &[ONE]));
    assert!(only.starts_with("greenroom drives browsers that people already run"), "{only}");
    assert!(only.contains("finds its tab again next time") && !only.contains("any free browser"), "{only}");
    assert!(only.contains("Up to 1 session;") && only.contains("list_browsers"), "{only}");
    assert!(!text(&none).contains("list_browsers"));
}
