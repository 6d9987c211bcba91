//! Unreachable browsers: one that is not there, one that never answers, one that refuses. Other browsers work.

use std::net::SocketAddr;

use greenroom_testkit::{Site, UserBrowser, unused_address};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::AttachedFixture;

/// Accepts connections and sends this, or nothing at all.
async fn listener(says: Option<&'static str>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        let mut open = Vec::new();
        while let Ok((mut stream, _)) = listener.accept().await {
            if let Some(says) = says {
                let _ = stream.read(&mut [0; 4096]).await;
                let _ = stream.write_all(says.as_bytes()).await;
            } else {
                open.push(stream);
            }
        }
    });
    address
}

/// One works, one is not there, one never answers, one refuses: each call's error is about its own browser, and the first
/// one works before, between and during the attempts of the others.
#[tokio::test]
async fn unreachable_browsers_do_not_disturb_a_working_one() {
    let site = Site::start().await;
    let missing = unused_address();
    let slow = listener(None).await;
    let refuses =
        listener(Some("HTTP/1.1 403 Forbidden\r\ncontent-length: 2\r\nconnection: close\r\n\r\nno")).await;
    let user_browser = UserBrowser::start().await;
    let urls = vec![
        user_browser.url(),
        format!("http://{missing}"),
        format!("http://{slow}"),
        format!("http://{refuses}"),
    ];
    let attached = AttachedFixture::to(vec![user_browser], &urls, &[]).await;

    let hanging = attached.begin(3, "browser_navigate", json!({ "url": site.url("/") })).await;
    attached.navigate(1, &site.url("/title?t=works")).await.ok();
    for (index, why) in [(2, "refused"), (4, "403")] {
        let down = attached.navigate(index, &site.url("/")).await;
        let text = down.failed();
        assert_eq!(down.code(), "browser_down", "{text}");
        assert!(text.contains(&format!("browser {index}")) && text.contains(&urls[index - 1]), "{text}");
        assert!(text.to_lowercase().contains(why), "{text}");
        assert!(text.contains("reconnect_browser"), "what to do: {text}");
    }
    let slow = super::super::fixture::answer(hanging).await;
    assert_eq!(slow.code(), "browser_down", "{}", slow.text());

    // During the rest its calls are refused at once, with the error and the time of the next attempt.
    let again = attached.navigate(2, &site.url("/")).await;
    assert!(again.failed().contains("tried again in"), "{}", again.text());
    assert_eq!(attached.states().await, ["connected", "disconnected", "disconnected", "disconnected"]);
    let (_, structured) = attached.list().await;
    let down = &structured["browsers"][1];
    assert!(down["lastError"].as_str().unwrap().to_lowercase().contains("refused"), "{down}");
    assert!(down["lastAttempt"].is_string() && down["retryInSeconds"].is_u64(), "{down}");
    assert_eq!(site.hits("/"), 0);
    attached.navigate(1, &site.url("/title?t=still")).await.ok();
    attached.gateway.end().await;
}
