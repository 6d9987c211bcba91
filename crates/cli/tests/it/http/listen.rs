//! The stream that belongs to no request.

use greenroom_testkit::{http::HttpMcpClient, text_of};
use serde_json::json;

use crate::front::fixture::{FakeEngineSetup, NEWEST};

/// A listening client learns that the list of tools has changed; one that listens later learns it once, however often
/// the list changed.
#[tokio::test]
async fn listener_gets_one_tool_list_change() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let late = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let mut stream = client.listen(None).await;
    assert_eq!(stream.event().await.unwrap().id.as_deref(), Some("0-start"));
    for count in 1..=3 {
        let answer = client.call("change_tools", json!({"sessionId": "a"})).await;
        assert_eq!(text_of(&answer), format!("extra_{count}"));
        assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    }
    let mut stream = late.listen(None).await;
    assert_eq!(stream.message().await["method"], "notifications/tools/list_changed");
    late.delete().await;
    // The last change may have been on its way to this client when it began to listen. The others came together.
    let more = stream.messages().await;
    assert!(more.len() <= 1, "the stream ends with its client, and says it once: {more:?}");
}

/// One stream has one reader: the newest. The earlier one ends.
#[tokio::test]
async fn newest_listener_replaces_the_earlier() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = HttpMcpClient::open(&server, NEWEST, json!({})).await;
    let mut first = client.listen(None).await;
    let mut second = client.listen(None).await;
    assert_eq!(first.next().await, None);
    client.call("change_tools", json!({"sessionId": "a"})).await;
    assert_eq!(second.message().await["method"], "notifications/tools/list_changed");
}
