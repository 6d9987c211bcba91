//! Different engines in different browsers, named by address, by endpoint and by label.

use greenroom_testkit::Site;
use serde_json::json;

use super::{super::fixture::DataFolder, all_of, configured};

/// One browser by URL with playwright, one by WebSocket with devtools: each has its own tools, and the error for a tool of
/// the other names the browser that has it.
#[tokio::test]
async fn two_engines_drive_a_browser_each() {
    let site = Site::start().await;
    let user_browsers = all_of(2).await;
    let data = DataFolder::new();
    let text = format!(
        "[[browsers]]\nurl = \"{}\"\nlabel = \"shop\"\n[[browsers]]\nurl = \"{}\"\nlabel = \"lab\"\nengine = \"devtools\"\n",
        user_browsers[0].url(),
        user_browsers[1].ws_endpoint().await
    );
    let gateway = configured(&data, &text, &[]).await;
    let call = async |index: &str, tool: &str, mut arguments: serde_json::Value| {
        arguments["browserIndex"] = json!(index);
        gateway.call("", tool, arguments).await
    };
    call("shop", "browser_navigate", json!({ "url": site.url("/title?t=shop") })).await.ok();
    call("lab", "new_page", json!({ "url": site.url("/title?t=lab") })).await.ok();
    user_browsers[0].wait_for_urls(&["about:blank", &site.url("/title?t=shop")]).await;
    let refused = call("lab", "browser_navigate", json!({ "url": site.url("/") })).await;
    let text = refused.failed();
    assert!(text.contains("browser_navigate") && text.contains("shop"), "{text}");
    assert!(text.contains("browser 2 (\"lab\")"), "{text}");
    gateway.end().await;
}
