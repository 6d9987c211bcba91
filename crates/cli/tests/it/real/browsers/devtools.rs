//! The devtools engine in browsers that already run.

use greenroom_testkit::{Launch, Site, UserBrowser};
use serde_json::json;

use super::{
    super::fixture::{DataFolder, GatewayFixture},
    AttachedFixture, all_of, with,
};

/// The engine's tools have their own names and work in a tab of greenroom's own; the person's tabs and the browser
/// stay.
#[tokio::test]
async fn devtools_engine_works_in_its_own_tab() {
    let site = Site::start().await;
    let user_browsers = all_of(2).await;
    let data = DataFolder::new();
    let launch =
        Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(["mcp", "--engine", "devtools", "--data-dir"]);
    let urls: Vec<_> = user_browsers.iter().map(UserBrowser::url).collect();
    let gateway = GatewayFixture::spawn(with(launch.arg(data.path()), &urls)).await;
    let attached = AttachedFixture { gateway, user_browsers, _data: data };
    let user_browser = &attached.user_browsers[0];
    let before = user_browser.tabs().await;
    let listed = attached.call(1, "list_pages", json!({})).await.ok();
    assert!(listed.contains("about:blank"), "{listed}");
    let opened = attached.call(1, "new_page", json!({ "url": site.url("/title?t=devtools") })).await.ok();
    assert!(opened.contains("t=devtools"), "{opened}");
    let shot = attached.call(2, "list_pages", json!({})).await.ok();
    assert!(!shot.contains("t=devtools"), "{shot}");
    let AttachedFixture { gateway, user_browsers, .. } = attached;
    gateway.end().await;
    assert_eq!(user_browsers[0].tabs().await, before);
    assert!(user_browsers[0].runs());
}
