//! A Node that dies or hangs is noticed, reported, and replaced; a page that hangs costs only its own session.

use greenroom_testkit::{
    Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture, answer},
    inspect,
};

/// When a Node is killed, during a call and between calls, the sessions it served carry a note, and no others.
#[tokio::test]
async fn killed_engine_notes_only_its_sessions() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        gateway.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok();
    }
    let first = inspect::engines(gateway.client.pid());
    gateway.navigate("c", &site.url("/canary?name=c")).await.ok();
    assert_eq!((first.len(), inspect::engines(gateway.client.pid()).len()), (1, 2));

    let pending = gateway.hang("a", &site, "/hang-1").await;
    signal(first[0], Signal::KILL);
    answer(pending).await.lost("the engine process ended (signal: 9 (SIGKILL)");
    gateway.until_lost("b").await;
    for session in ["a", "b"] {
        let text = gateway.navigate(session, &site.url("/show")).await.restarted("the engine process ended");
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    let snapshot = gateway.call("c", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary c\""), "{snapshot}");

    for engine in inspect::engines(gateway.client.pid()) {
        signal(engine, Signal::KILL);
    }
    for session in ["a", "b", "c"] {
        gateway.until_lost(session).await;
        gateway.call(session, "browser_snapshot", json!({})).await.restarted("the engine process ended");
        gateway.call(session, "browser_snapshot", json!({})).await.ok_without_restart();
    }
    gateway.end().await;
}

/// A Node of one session that hangs fails its call at the deadline; health checks replace it, and others work meanwhile.
#[tokio::test]
async fn hanging_engine_of_one_session_is_replaced() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let flags = ["--pool-slots", "1", "--pool-timeout", "5s", "--pool-health-interval", "3s"];
    let gateway =
        GatewayFixture::start(&data, &[&flags[..], &["--pool-health-timeout", "2s"]].concat()).await;
    gateway.navigate("a", &site.url("/canary?name=a")).await.ok();
    check_hanging(&gateway, &site).await;
    gateway.end().await;
}

/// A Node of several sessions that hangs fails the call that meets it, at its deadline; new sessions get another one at
/// once, and health checks detect it for the others.
#[tokio::test]
async fn hanging_engine_of_several_sessions_is_replaced() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let flags = ["--pool-slots", "2", "--pool-timeout", "5s", "--pool-health-interval", "3s"];
    let gateway =
        GatewayFixture::start(&data, &[&flags[..], &["--pool-health-timeout", "2s"]].concat()).await;
    gateway.navigate("a", &site.url("/canary?name=a")).await.ok();
    gateway.navigate("b", &site.url("/canary?name=b")).await.ok();
    check_hanging(&gateway, &site).await;
    // The neighbour in the same engine need not wait for a deadline itself.
    gateway.call("b", "browser_snapshot", json!({})).await.restarted("the engine did not answer");
    gateway.end().await;
}

/// A stopped Node or browser costs the call that meets it, and no other: the next one gets another instance at once. When it
/// continues, its sessions are there as they were.
#[tokio::test]
async fn stopped_instance_costs_one_call() {
    for stop_browser in [false, true] {
        let data = DataFolder::new();
        let site = Site::start().await;
        let flags = ["--pool-slots", "3", "--pool-timeout", "5s", "--pool-health-interval", "1h"];
        let gateway = GatewayFixture::start(&data, &flags).await;
        gateway.navigate("kept", &site.url("/canary?name=kept")).await.ok();
        gateway.navigate("a", &site.url("/canary?name=a")).await.ok();
        let find = if stop_browser { inspect::browsers } else { inspect::engines };
        let stopped = find(gateway.client.pid());
        assert_eq!(stopped.len(), 1);
        signal(stopped[0], Signal::STOP);
        gateway.call("a", "browser_snapshot", json!({})).await.lost("the engine did not answer within 5 s");
        // greenroom logs this whenever a call or a new session meets the stopped one: this call did, no session may.
        let met = "health check failed; the instance gets no new sessions until it answers";
        let withheld = || gateway.client.stderr().contains(met).then_some(());
        greenroom_testkit::eventually("its withholding", withheld).await;
        for session in ["a", "b", "c"] {
            gateway.navigate(session, &site.url("/show")).await.ok();
        }
        assert_eq!(find(gateway.client.pid()).len(), 2);
        signal(stopped[0], Signal::CONT);
        let snapshot = gateway.call("kept", "browser_snapshot", json!({})).await.ok_without_restart();
        assert!(snapshot.contains("heading \"canary kept\""), "{snapshot}");
        let can_lease = || {
            gateway
                .client
                .stderr()
                .contains("health check passed; the instance gets new sessions again")
                .then_some(())
        };
        greenroom_testkit::eventually("its return", can_lease).await;
        assert_eq!(
            gateway.client.stderr().matches(met).count(),
            1,
            "a session was given the stopped one first"
        );
        // The second one is full, and two more sessions fit into the free slots of the first.
        for session in ["d", "e"] {
            gateway.navigate(session, &site.url("/show")).await.ok();
        }
        assert_eq!(find(gateway.client.pid()).len(), 2, "no third one was needed");
        gateway.end().await;
    }
}

/// Hangs the engine that all sessions so far live on.
async fn check_hanging(gateway: &GatewayFixture, site: &Site) {
    let hanging = inspect::engines(gateway.client.pid());
    gateway.navigate("c", &site.url("/canary?name=c")).await.ok();
    assert_eq!((hanging.len(), inspect::engines(gateway.client.pid()).len()), (1, 2));

    signal(hanging[0], Signal::STOP);
    let pending = gateway.start_call("a", "browser_snapshot", json!({})).await;
    let snapshot = gateway.call("c", "browser_snapshot", json!({})).await.ok_without_restart();
    assert!(snapshot.contains("heading \"canary c\""), "{snapshot}");
    answer(pending).await.lost("the engine did not answer within 5 s");
    let text =
        gateway.navigate("a", &site.url("/show")).await.restarted("the engine did not answer within 5 s");
    assert!(!text.contains("canary="), "an old cookie: {text}");
    gateway.call("a", "browser_snapshot", json!({})).await.ok_without_restart();
    gateway.call("c", "browser_snapshot", json!({})).await.ok_without_restart();
    greenroom_testkit::process::wait_gone(hanging[0]).await;
}

/// A page that never answers costs its own session, at the deadline; its neighbour in the same browser works.
#[tokio::test]
async fn hanging_page_costs_only_its_session() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &["--pool-slots", "4", "--pool-timeout", "5s"]).await;
    for session in ["a", "b"] {
        gateway.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok();
    }
    let function = "() => { fetch('/spinning'); for (;;) {} }";
    let spinning = gateway.start_call("a", "browser_evaluate", json!({ "function": function })).await;
    let pending = gateway.hang("b", &site, "/hang-1").await;
    answer(spinning).await.lost("the engine did not answer within 5 s");
    answer(pending).await.lost("the engine did not answer within 5 s");
    for session in ["a", "b"] {
        let text = gateway.navigate(session, &site.url("/show")).await.restarted("did not answer within 5 s");
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    assert_eq!(inspect::browsers(gateway.client.pid()).len(), 1, "the browser is still the same one");
    gateway.end().await;
}
