//! A browser behind a proxy that wants credentials.

use greenroom_testkit::{DebuggerProxy, Site, UserBrowser};
use serde_json::json;

use super::{
    super::{fixture::DataFolder, inspect},
    configured,
};

const KEY: &str = "s3cret-key";

/// Configured headers reach the debugger with every connection, greenroom's and the engines', and show nowhere else: in no
/// list, no log, and on no command line.
#[tokio::test]
async fn configured_headers_reach_the_debugger_and_stay_secret() {
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    let url = DebuggerProxy::open(user_browser.port(), &[&format!("x-key: {KEY}")]).await.url();
    for engine in ["playwright", "devtools"] {
        let data = DataFolder::new();
        let entry = |more: &str| format!("[[browsers]]\nurl = \"{url}\"\nengine = \"{engine}\"\n{more}");
        let gateway = async |text: String| configured(&data, &text, &["--log", "trace"]).await;
        let (tool, arguments) = match engine {
            "playwright" => ("browser_navigate", json!({ "url": site.url("/title?t=in") })),
            _ => ("new_page", json!({ "url": site.url("/title?t=in") })),
        };
        let without = gateway(entry("")).await;
        let refused = without.call("", tool, arguments.clone()).await;
        assert!(refused.failed().contains("403"), "{}", refused.text());
        without.end().await;

        let with = gateway(entry(&format!("headers = {{ X-Key = \"{KEY}\" }}\n"))).await;
        with.call("", tool, arguments).await.ok();
        let listed = with.call("", "list_browsers", json!({})).await;
        assert!(listed.ok().contains("connected") && !listed.response.to_string().contains(KEY));
        for pid in inspect::tagged(&inspect::run_of(data.path(), with.client.pid())) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(KEY), "on a command line");
        }
        assert!(!with.client.stderr().contains(KEY), "in the log");
        with.end().await;
    }
}
