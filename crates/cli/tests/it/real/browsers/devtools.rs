//! The devtools engine in browsers that already run.

use greenroom_testkit::Site;
use serde_json::json;

use super::Attached;

/// Its own tools pass through under their own names, in a tab of their own; the person's tabs and the browser stay.
#[tokio::test]
async fn its_own_tools_in_a_tab_of_its_own() {
    let site = Site::start().await;
    let attached = Attached::start(2, &["--engine", "devtools"]).await;
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
