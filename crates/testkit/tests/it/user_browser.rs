//! `UserBrowser`, the stand-in for a person's own browser, without greenroom.

use greenroom_testkit::{DebuggerProxy, UserBrowser, http::HttpConnection, process::alive};

/// It lists its tabs, is killed with nothing left, and comes back at its old address with its old profile.
#[tokio::test]
async fn killed_browser_restarts_at_its_address() {
    let mut user_browser = UserBrowser::start().await;
    let url = user_browser.url();
    let pid = user_browser.pid().unwrap();
    assert_eq!(user_browser.urls().await, ["about:blank"]);
    let tab = user_browser.open("about:blank?mine").await;
    user_browser.wait_for_urls(&["about:blank", "about:blank?mine"]).await;
    user_browser.close(&tab).await;
    user_browser.wait_for_urls(&["about:blank"]).await;
    let before = user_browser.ws_endpoint().await;

    user_browser.kill().await;
    assert!(!alive(pid) && !user_browser.runs());

    user_browser.start_again().await;
    assert_eq!(user_browser.url(), url);
    assert_ne!(user_browser.pid().unwrap(), pid);
    assert_ne!(user_browser.ws_endpoint().await, before);
}

/// A test reads and changes a tab over the debugger, in headless and in full Chromium; `tabs` lists no tab of another
/// context, and still lists a tab that crashed.
#[tokio::test]
async fn tabs_are_driven_over_the_debugger() {
    for user_browser in [UserBrowser::start().await, UserBrowser::showing("about:blank").await] {
        let first = user_browser.tabs().await;
        let tab = user_browser.open("about:blank?mine").await;
        assert_eq!(user_browser.evaluate(&tab, "Promise.resolve(location.search)").await, "?mine");
        user_browser.navigate(&tab, "about:blank?else").await;
        user_browser.wait_for_urls(&["about:blank", "about:blank?else"]).await;
        let context = user_browser.make_context().await;
        assert_eq!(user_browser.contexts().await, [context]);
        user_browser.crash(&tab).await;
        assert_eq!(user_browser.tabs().await.len(), 2);
        user_browser.close(&tab).await;
        assert_eq!(user_browser.until(|tabs| tabs.len() == 1).await, first);
    }
}

/// The proxy admits connections whose first request has the required headers, and records those requests.
#[tokio::test]
async fn debugger_proxy_admits_matching_headers() {
    let user_browser = UserBrowser::start().await;
    let proxy = DebuggerProxy::open(user_browser.port(), &["X-Key: sesame"]).await;
    let ask = async |key: &str| {
        let connection =
            HttpConnection::connect(proxy.url().trim_start_matches("http://").parse().unwrap()).await;
        connection.request("GET", "/json/version", &[("x-key", key)], None).await.status
    };
    assert_eq!((ask("sesam").await, proxy.heads().len()), (403, 0));
    assert_eq!((ask("sesame").await, proxy.heads().len()), (200, 1));
    assert!(proxy.heads()[0].starts_with("get /json/version http/1.1\r\n"), "{:?}", proxy.heads());
}
