//! A custom MCP server in a fleet with a pool of browsers.

use greenroom_testkit::Site;
use serde_json::json;

use super::fixture::{DataFolder, GatewayFixture, launch};
use crate::reference_server;

/// A request to a server never becomes a call of a browser's tool, whatever session it names: refused tools stay refused,
/// and every call is recorded.
#[tokio::test]
async fn passthrough_requests_never_call_browser_tools() {
    let site = Site::start().await;
    let data = DataFolder::new();
    let config = data.path().join("two.toml");
    let server = json!(["node", reference_server::path()]);
    let text = format!(
        "[pools.MAIN]\ninstances = 1\nis_default = true\nisolated = true\n[pools.SERVER]\nengine = \"custom\"\ncommand = {server}\ninstances = 1\nisolated = true\n"
    );
    std::fs::write(&config, text).unwrap();
    let gateway = GatewayFixture::spawn(launch(data.path(), &["--config", config.to_str().unwrap()])).await;
    gateway.navigate("s", &site.url("/title?t=home")).await.ok();
    let listed = gateway.client.request("prompts/list", json!({})).await;
    assert_eq!(listed["result"]["prompts"][0]["name"], "simple-prompt", "{listed}");

    let meta = json!({ "greenroom/sessionId": "s" });
    for (tool, arguments) in [
        ("browser_navigate", json!({ "url": site.url("/title?t=sneaked") })),
        ("browser_run_code_unsafe", json!({ "code": "async (page) => page.goto('/title?t=sneaked')" })),
    ] {
        for method in ["prompts/get", "prompts/list", "completion/complete", "tasks/get"] {
            let params = json!({ "name": tool, "arguments": arguments, "_meta": meta });
            let refused = gateway.client.request(method, params).await;
            let why = refused["error"]["message"].as_str().unwrap_or_else(|| panic!("{method}: {refused}"));
            assert!(why.contains("this session lives in pool \"MAIN\""), "{method}: {why}");
        }
    }
    assert_eq!(site.hits("/title"), 1);
    gateway.end().await;
}
