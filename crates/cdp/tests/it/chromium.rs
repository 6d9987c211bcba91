//! Against Debian's headless Chromium.

use std::process::Stdio;

use greenroom_cdp::{CdpClient, Closed, Error, discover};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use crate::within;

const CHROMIUM: &str = "/usr/lib/chromium/chromium-headless-shell";

/// Starts a browser and waits for the line that says where it listens.
async fn chromium(profile: &std::path::Path) -> (Child, String) {
    let mut child = Command::new(CHROMIUM)
        .args(["--no-sandbox", "--headless", "--remote-debugging-port=0", "--no-first-run", "--disable-quic"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("about:blank")
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let url = loop {
        let line = lines.next_line().await.unwrap().expect("Chromium ended before it listened");
        if let Some(url) = line.strip_prefix("DevTools listening on ") {
            break url.to_owned();
        }
    };
    // The pipe must be read on, or a talkative browser would block when it is full.
    tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    (child, url)
}

fn value(raw: &serde_json::value::RawValue) -> Value {
    serde_json::from_str(raw.get()).unwrap()
}

/// A real browser is found by its port, answers, makes a context and a page, announces it, and runs code in its flattened
/// session; the client notices its death.
#[tokio::test]
async fn real_browser_from_start_to_exit() {
    within(async {
        let profile = tempfile::tempdir().unwrap();
        let (mut browser, url) = chromium(profile.path()).await;
        let port = url.split([':', '/']).nth(4).unwrap();
        assert_eq!(
            discover(&format!("http://localhost:{port}"), &[]).await.unwrap(),
            url.replace("127.0.0.1", "localhost")
        );
        let (client, mut events) = CdpClient::connect(&url).await.unwrap();
        assert_eq!(client.local_port().unwrap().to_string(), port);

        let version = value(&client.call("Browser.getVersion", &()).await.unwrap());
        assert!(version["product"].as_str().unwrap().contains("Chrome/"), "{version}");

        client.call("Target.setDiscoverTargets", &json!({"discover": true})).await.unwrap();
        let context = value(&client.call("Target.createBrowserContext", &json!({})).await.unwrap());
        let context = context["browserContextId"].as_str().unwrap();
        let page = json!({"url": "about:blank", "browserContextId": context});
        let target = value(&client.call("Target.createTarget", &page).await.unwrap());
        let target = target["targetId"].as_str().unwrap();
        loop {
            let event = events.next().await.unwrap();
            let params = value(&event.params);
            if event.method == "Target.targetCreated" && params["targetInfo"]["targetId"] == target {
                assert_eq!(params["targetInfo"]["browserContextId"], context);
                assert_eq!(event.session, None);
                break;
            }
        }

        let attach = json!({"targetId": target, "flatten": true});
        let session = value(&client.call("Target.attachToTarget", &attach).await.unwrap());
        let session = session["sessionId"].as_str().unwrap();
        client.call_in(session, "Runtime.enable", &()).await.unwrap();
        let event = loop {
            let event = events.next().await.unwrap();
            if event.method == "Runtime.executionContextCreated" {
                break event;
            }
        };
        assert_eq!(event.session.as_deref(), Some(session));
        let code = json!({"expression": "6 * 7"});
        let result = value(&client.call_in(session, "Runtime.evaluate", &code).await.unwrap());
        assert_eq!(result["result"]["value"], 42);

        let refused = client.call("Target.attachToTarget", &json!({"targetId": 7})).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { code: -32602, .. }), "{refused}");
        let refused = client.call_in("nobody", "Runtime.enable", &()).await.unwrap_err();
        assert!(matches!(&refused, Error::Refused { code: -32001, .. }), "{refused}");

        let closed = client.closed();
        browser.kill().await.unwrap();
        let why = closed.await;
        assert!(matches!(why, Closed::ByBrowser | Closed::Broken(_)), "{why}");
        while events.next().await.is_ok() {}
        assert!(matches!(client.call("Browser.getVersion", &()).await, Err(Error::Closed(_))));
    })
    .await;
}
