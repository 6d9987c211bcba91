//! Several browsers at once, by a tag.

use greenroom_testkit::{Site, UserBrowser, unused_address};
use serde_json::json;

use super::{super::fixture::DataFolder, all_of, configured};

/// The commands run in every browser with the tag, in parallel, and in no other; one that is down fails alone.
#[tokio::test]
async fn tagged_bulk_runs_in_every_tagged_browser() {
    let site = Site::start().await;
    let user_browsers = all_of(3).await;
    let data = DataFolder::new();
    let down = format!("http://{}", unused_address());
    let entry = |url: &str, tags: &str| format!("[[browsers]]\nurl = \"{url}\"\ntags = {tags}\n");
    let [one, two, three] = [0, 1, 2].map(|n: usize| UserBrowser::url(&user_browsers[n]));
    let text = [
        entry(&one, "[\"shop\"]"),
        entry(&two, "[\"shop\", \"eu\"]"),
        entry(&three, "[]"),
        entry(&down, "[\"far\", \"eu\"]"),
    ];
    let gateway = configured(&data, &text.concat(), &[]).await;
    // Each page waits for the other: run one after the other, they would wait for ever.
    let commands = json!([{ "tool": "browser_navigate", "args": { "url": site.url("/meet?count=2") } }]);
    let shop =
        gateway.call("", "browser_execute_bulk", json!({ "browserTag": "shop", "commands": commands })).await;
    shop.ok();
    let bulk_result = &shop.response["result"]["structuredContent"];
    assert_eq!(
        (&bulk_result["success"], &bulk_result["browsers"][0]["browserIndex"]),
        (&json!(true), &json!(1)),
        "{bulk_result}"
    );
    assert_eq!((bulk_result["browsers"].as_array().unwrap().len(), site.hits("/meet")), (2, 2));
    assert_eq!(user_browsers[2].urls().await, ["about:blank"]);

    let commands = json!([{ "tool": "browser_navigate", "args": { "url": site.url("/title?t=eu") } }]);
    let eu = gateway
        .call("", "browser_execute_bulk", json!({ "browserTag": "eu", "commands": commands.clone() }))
        .await;
    eu.failed();
    let bulk_result = &eu.response["result"]["structuredContent"];
    assert_eq!(bulk_result["browsers"][0]["success"], true, "{bulk_result}");
    assert_eq!(
        (&bulk_result["success"], &bulk_result["browsers"][1]["success"]),
        (&json!(false), &json!(false)),
        "{bulk_result}"
    );
    assert_eq!(site.hits("/title"), 1);

    let unknown =
        gateway.call("", "browser_execute_bulk", json!({ "browserTag": "us", "commands": commands })).await;
    let text = unknown.failed();
    assert!(text.contains("us") && text.contains("shop") && text.contains("eu"), "{text}");
    gateway.end().await;
}
