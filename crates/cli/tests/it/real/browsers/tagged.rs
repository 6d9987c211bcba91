//! Several browsers at once, by a tag.

use greenroom_testkit::{Site, Theirs, nobody};
use serde_json::json;

use super::{super::house::Data, all_of, configured};

/// The commands run in every browser with the tag, in parallel, and in no other; one that is down fails alone.
#[tokio::test]
async fn tagged_bulk_runs_in_every_tagged_browser() {
    let site = Site::start().await;
    let theirs = all_of(3).await;
    let data = Data::new();
    let down = format!("http://{}", nobody());
    let entry = |url: &str, tags: &str| format!("[[browsers]]\nurl = \"{url}\"\ntags = {tags}\n");
    let [one, two, three] = [0, 1, 2].map(|n: usize| Theirs::url(&theirs[n]));
    let text = [
        entry(&one, "[\"shop\"]"),
        entry(&two, "[\"shop\", \"eu\"]"),
        entry(&three, "[]"),
        entry(&down, "[\"far\", \"eu\"]"),
    ];
    let house = configured(&data, &text.concat(), &[]).await;
    // Each page waits for the other: run one after the other, they would wait for ever.
    let commands = json!([{ "tool": "browser_navigate", "args": { "url": site.url("/meet?count=2") } }]);
    let shop =
        house.call("", "browser_execute_bulk", json!({ "browserTag": "shop", "commands": commands })).await;
    shop.ok();
    let said = &shop.response["result"]["structuredContent"];
    assert_eq!((&said["success"], &said["browsers"][0]["browserIndex"]), (&json!(true), &json!(1)), "{said}");
    assert_eq!((said["browsers"].as_array().unwrap().len(), site.hits("/meet")), (2, 2));
    assert_eq!(theirs[2].urls().await, ["about:blank"]);

    let commands = json!([{ "tool": "browser_navigate", "args": { "url": site.url("/title?t=eu") } }]);
    let eu = house
        .call("", "browser_execute_bulk", json!({ "browserTag": "eu", "commands": commands.clone() }))
        .await;
    eu.failed();
    let said = &eu.response["result"]["structuredContent"];
    assert_eq!(said["browsers"][0]["success"], true, "{said}");
    assert_eq!((&said["success"], &said["browsers"][1]["success"]), (&json!(false), &json!(false)), "{said}");
    assert_eq!(site.hits("/title"), 1);

    let unknown =
        house.call("", "browser_execute_bulk", json!({ "browserTag": "us", "commands": commands })).await;
    let text = unknown.failed();
    assert!(text.contains("us") && text.contains("shop") && text.contains("eu"), "{text}");
    house.end().await;
}
