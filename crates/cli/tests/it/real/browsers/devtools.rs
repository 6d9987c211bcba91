//! The devtools engine in browsers that already run.

use greenroom_testkit::{Launch, Site, Theirs};
use serde_json::json;

use super::{
    super::house::{Data, GatewayFixture},
    Attached, all_of, with,
};

/// Its own tools pass through under their own names, in a tab of their own; the person's tabs and the browser stay.
#[tokio::test]
async fn devtools_engine_works_in_its_own_tab() {
    let site = Site::start().await;
    let theirs = all_of(2).await;
    let data = Data::new();
    let launch =
        Launch::new(env!("CARGO_BIN_EXE_greenroom")).args(["mcp", "--engine", "devtools", "--data-dir"]);
    let urls: Vec<_> = theirs.iter().map(Theirs::url).collect();
    let house = GatewayFixture::of(with(launch.arg(data.path()), &urls)).await;
    let attached = Attached { house, theirs, _data: data };
    let theirs = &attached.theirs[0];
    let before = theirs.tabs().await;
    let listed = attached.call(1, "list_pages", json!({})).await.ok();
    assert!(listed.contains("about:blank"), "{listed}");
    let opened = attached.call(1, "new_page", json!({ "url": site.url("/title?t=devtools") })).await.ok();
    assert!(opened.contains("t=devtools"), "{opened}");
    let shot = attached.call(2, "list_pages", json!({})).await.ok();
    assert!(!shot.contains("t=devtools"), "{shot}");
    let Attached { house, theirs, .. } = attached;
    house.end().await;
    assert_eq!(theirs[0].tabs().await, before);
    assert!(theirs[0].runs());
}
