//! A browser behind a proxy that wants credentials.

use greenroom_testkit::{Door, Site, Theirs};
use serde_json::json;

use super::{
    super::{house::Data, look},
    configured,
};

const KEY: &str = "s3cret-key";

/// Configured headers reach the debugger with every connection, greenroom's and the engines', and show nowhere else: in no
/// list, no log, and on no command line.
#[tokio::test]
async fn configured_headers_reach_the_debugger_and_stay_secret() {
    let site = Site::start().await;
    let theirs = Theirs::start().await;
    let url = Door::open(theirs.port(), &[&format!("x-key: {KEY}")]).await.url();
    for engine in ["playwright", "devtools"] {
        let data = Data::new();
        let entry = |more: &str| format!("[[browsers]]\nurl = \"{url}\"\nengine = \"{engine}\"\n{more}");
        let house = async |text: String| configured(&data, &text, &["--log", "trace"]).await;
        let (tool, arguments) = match engine {
            "playwright" => ("browser_navigate", json!({ "url": site.url("/title?t=in") })),
            _ => ("new_page", json!({ "url": site.url("/title?t=in") })),
        };
        let without = house(entry("")).await;
        let refused = without.call("", tool, arguments.clone()).await;
        assert!(refused.failed().contains("403"), "{}", refused.text());
        without.end().await;

        let with = house(entry(&format!("headers = {{ X-Key = \"{KEY}\" }}\n"))).await;
        with.call("", tool, arguments).await.ok();
        let listed = with.call("", "list_browsers", json!({})).await;
        assert!(listed.ok().contains("connected") && !listed.response.to_string().contains(KEY));
        for pid in look::tagged(&look::run_of(data.path(), with.client.pid())) {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            assert!(!String::from_utf8_lossy(&line).contains(KEY), "on a command line");
        }
        assert!(!with.client.stderr().contains(KEY), "in the log");
        with.end().await;
    }
}
