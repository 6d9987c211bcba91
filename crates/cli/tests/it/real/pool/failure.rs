//! Instances that are killed: their calls fail with the reason, the others go on, and they restart or stay failed as the
//! settings say.

use greenroom_testkit::{
    Site,
    process::{alive, wait_gone},
};
use serde_json::{Value, json};

use super::{KillTarget, PoolFixture, call, navigate};
use crate::{
    control::run_verb::run_verb_in,
    http::pools::{JSON, post},
    real::fixture::ToolAnswer,
};

const HANG: &str = "() => { fetch('/hang'); return new Promise(() => {}); }";

/// A browser killed during a call costs that call alone; its instance leaves the pool at once, and is restarted.
#[tokio::test]
async fn killed_browser_costs_one_call_and_is_restarted() {
    let variables = [("PW_MCP_PROXY__X_INSTANCES", "3"), ("PW_MCP_PROXY__X_IS_DEFAULT", "true")];
    let site = Site::start().await;
    let fixture = PoolFixture::open("X", &variables).await;
    let agent = fixture.agent().await;
    let other = fixture.agent().await;
    navigate(&agent, &site.url("/title?t=before"), Some("1")).await.ok();
    let before = fixture.pool().await["instances"][1]["process_id"].clone();

    let hang = json!({ "function": HANG, "browser_instance": "1" });
    let (died, ()) = tokio::join!(call(&agent, "browser_evaluate", hang), async {
        site.wait_for_hit("/hang").await;
        let status = fixture.status(&other).await;
        let instance = &status["pools"][0]["instances"][1];
        assert_eq!((&instance["leased"], &instance["status"]), (&json!(true), &json!("healthy")));
        assert_eq!(status["summary"]["leased_instances"], 1, "{status}");
        fixture.kill(1, KillTarget::Browser).await;
    });
    died.lost("the browser ended (signal: 9 (SIGKILL)");

    let failed = fixture.until(|pool| pool["instances"][1]["status"] != "healthy").await;
    assert_eq!(
        (&failed["total_instances"], &failed["healthy_instances"]),
        (&json!(3), &json!(2)),
        "{failed}"
    );
    assert_eq!(
        (&failed["leased_instances"], &failed["available_instances"]),
        (&json!(0), &json!(2)),
        "{failed}"
    );
    assert_eq!(fixture.ready().await.0, 200, "two others are healthy");
    for _ in 0..3 {
        navigate(&other, &site.url("/title?t=others"), None).await.ok();
    }
    let again = fixture.until(|pool| pool["healthy_instances"] == 3).await;
    assert_ne!(again["instances"][1]["process_id"], before);
    let page = navigate(&agent, &site.url("/title?t=after"), Some("1")).await.ok();
    assert!(page.contains("after"), "{page}");
    fixture.close().await;
}

/// With no restarts an instance that dies stays failed; when none is left, agents and probes get the same error, until the
/// pool is restarted by hand.
#[tokio::test]
async fn pool_without_a_healthy_browser_refuses_until_restarted() {
    let variables = [
        ("PW_MCP_PROXY__X_INSTANCES", "2"),
        ("PW_MCP_PROXY__X_IS_DEFAULT", "true"),
        ("PW_MCP_PROXY__X_RESTARTS", "0"),
    ];
    let site = Site::start().await;
    let fixture = PoolFixture::open("X", &variables).await;
    let agent = fixture.agent().await;
    // The engine of one, the browser of the other: neither outlives its instance.
    let browser = fixture.browser(0);
    let node = fixture.kill(0, KillTarget::Node).await;
    fixture.until(|pool| pool["instances"][0]["status"] == "failed").await;
    wait_gone(browser).await;
    assert!(!alive(node));
    assert_eq!(fixture.ready().await.0, 200);
    navigate(&agent, &site.url("/title?t=left"), None).await.ok();
    let down = navigate(&agent, &site.url("/title"), Some("0")).await;
    assert_eq!(down.code(), "instance_down", "{}", down.text());

    fixture.kill(1, KillTarget::Browser).await;
    let failed = fixture.until(|pool| pool["healthy_instances"] == 0).await;
    let errors = failed["instances"].as_array().unwrap().iter().map(|one| &one["health_check"]["error"]);
    assert!(errors.clone().all(Value::is_string), "{failed}");
    let words =
        "Default pool 'X' has no healthy instances. Specify explicit pool or restart failed instances.";
    let refused = navigate(&agent, &site.url("/title"), None).await;
    assert!(refused.failed().starts_with(words), "{}", refused.text());
    assert_eq!(refused.code(), "no_healthy_instance");
    let body = json!({"session_id": "rest", "tool": "browser_snapshot"}).to_string();
    let (status, said) = post(&fixture.server, "/api/calls", &[JSON], &body).await;
    assert_eq!((status, &said["error"]), (503, &json!("no_healthy_instance")), "{said}");
    let (status, said) = fixture.ready().await;
    assert_eq!((status, said["message"].as_str().unwrap_or_default()), (503, words), "{said}");

    let output = run_verb_in(fixture.data(), &["pool", "restart", "X"]).await;
    assert_eq!(output.code, 0, "{output:?}");
    fixture.until(|pool| pool["healthy_instances"] == 2).await;
    assert_eq!(fixture.ready().await.0, 200);
    for instance in [None, Some("0"), Some("1")] {
        let page: ToolAnswer = navigate(&agent, &site.url("/title?t=again"), instance).await;
        assert!(page.ok().contains("again"), "{}", page.text());
    }
    fixture.close().await;
}
