//! A Node that dies or hangs is noticed, reported, and replaced; a page that hangs costs only its own session.

use greenroom_testkit::{
    Site,
    process::{Signal, signal},
};
use serde_json::json;

use super::{
    house::{Data, GatewayFixture, answer},
    look,
};

/// When a Node is killed, during a call and between calls, the sessions it served carry a note, and no others.
#[tokio::test]
async fn killed_engine_notes_only_its_sessions() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-slots", "2"]).await;
    for session in ["a", "b"] {
        house.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok();
    }
    let first = look::engines(house.client.pid());
    house.navigate("c", &site.url("/canary?name=c")).await.ok();
    assert_eq!((first.len(), look::engines(house.client.pid()).len()), (1, 2));

    let pending = house.hang("a", &site, "/hang-1").await;
    signal(first[0], Signal::KILL);
    answer(pending).await.lost("the engine process ended (signal: 9 (SIGKILL)");
    house.until_lost("b").await;
    for session in ["a", "b"] {
        let text = house.navigate(session, &site.url("/show")).await.restarted("the engine process ended");
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    let kept = house.call("c", "browser_snapshot", json!({})).await.unbroken();
    assert!(kept.contains("heading \"canary c\""), "{kept}");

    for engine in look::engines(house.client.pid()) {
        signal(engine, Signal::KILL);
    }
    for session in ["a", "b", "c"] {
        house.until_lost(session).await;
        house.call(session, "browser_snapshot", json!({})).await.restarted("the engine process ended");
        house.call(session, "browser_snapshot", json!({})).await.unbroken();
    }
    house.end().await;
}

/// A Node of one session that hangs fails its call at the deadline; health checks replace it, and others work meanwhile.
#[tokio::test]
async fn hanging_engine_of_one_session_is_replaced() {
    let data = Data::new();
    let site = Site::start().await;
    let flags = ["--pool-slots", "1", "--pool-timeout", "5s", "--pool-health-interval", "3s"];
    let house = GatewayFixture::start(&data, &[&flags[..], &["--pool-health-timeout", "2s"]].concat()).await;
    house.navigate("a", &site.url("/canary?name=a")).await.ok();
    check_hanging(&house, &site).await;
    house.end().await;
}

/// A Node of several sessions that hangs fails the call that meets it, at its deadline; new sessions get another one at
/// once, and health checks detect it for the others.
#[tokio::test]
async fn hanging_engine_of_several_sessions_is_replaced() {
    let data = Data::new();
    let site = Site::start().await;
    let flags = ["--pool-slots", "2", "--pool-timeout", "5s", "--pool-health-interval", "3s"];
    let house = GatewayFixture::start(&data, &[&flags[..], &["--pool-health-timeout", "2s"]].concat()).await;
    house.navigate("a", &site.url("/canary?name=a")).await.ok();
    house.navigate("b", &site.url("/canary?name=b")).await.ok();
    check_hanging(&house, &site).await;
    // The neighbour in the same engine need not wait for a deadline itself.
    house.call("b", "browser_snapshot", json!({})).await.restarted("the engine did not answer");
    house.end().await;
}

/// A stopped Node or browser costs the call that meets it, and no other: the next one gets another instance at once. When it
/// continues, its sessions are there as they were.
#[tokio::test]
async fn stopped_instance_costs_one_call() {
    for stop_browser in [false, true] {
        let data = Data::new();
        let site = Site::start().await;
        let flags = ["--pool-slots", "3", "--pool-timeout", "5s", "--pool-health-interval", "1h"];
        let house = GatewayFixture::start(&data, &flags).await;
        house.navigate("kept", &site.url("/canary?name=kept")).await.ok();
        house.navigate("a", &site.url("/canary?name=a")).await.ok();
        let find = if stop_browser { look::browsers } else { look::engines };
        let stopped = find(house.client.pid());
        assert_eq!(stopped.len(), 1);
        signal(stopped[0], Signal::STOP);
        house.call("a", "browser_snapshot", json!({})).await.lost("the engine did not answer within 5 s");
        for session in ["a", "b", "c"] {
            let began = std::time::Instant::now();
            house.navigate(session, &site.url("/show")).await.ok();
            assert!(
                began.elapsed() < std::time::Duration::from_secs(15),
                "it was given the stopped one first"
            );
        }
        assert_eq!(find(house.client.pid()).len(), 2);
        signal(stopped[0], Signal::CONT);
        let kept = house.call("kept", "browser_snapshot", json!({})).await.unbroken();
        assert!(kept.contains("heading \"canary kept\""), "{kept}");
        let lends = || {
            house
                .client
                .stderr()
                .contains("health check passed; the instance gets new sessions again")
                .then_some(())
        };
        greenroom_testkit::eventually("its return", lends).await;
        // The second one is full, and two more sessions fit into the free slots of the first.
        for session in ["d", "e"] {
            house.navigate(session, &site.url("/show")).await.ok();
        }
        assert_eq!(find(house.client.pid()).len(), 2, "no third one was needed");
        house.end().await;
    }
}

/// Hangs the engine that all sessions so far live on.
async fn check_hanging(house: &GatewayFixture, site: &Site) {
    let hanging = look::engines(house.client.pid());
    house.navigate("c", &site.url("/canary?name=c")).await.ok();
    assert_eq!((hanging.len(), look::engines(house.client.pid()).len()), (1, 2));

    signal(hanging[0], Signal::STOP);
    let pending = house.start_call("a", "browser_snapshot", json!({})).await;
    let kept = house.call("c", "browser_snapshot", json!({})).await.unbroken();
    assert!(kept.contains("heading \"canary c\""), "{kept}");
    answer(pending).await.lost("the engine did not answer within 5 s");
    let text =
        house.navigate("a", &site.url("/show")).await.restarted("the engine did not answer within 5 s");
    assert!(!text.contains("canary="), "an old cookie: {text}");
    house.call("a", "browser_snapshot", json!({})).await.unbroken();
    house.call("c", "browser_snapshot", json!({})).await.unbroken();
    greenroom_testkit::process::wait_gone(hanging[0]).await;
}

/// A page that never answers costs its own session, at the deadline; its neighbour in the same browser works.
#[tokio::test]
async fn hanging_page_costs_only_its_session() {
    let data = Data::new();
    let site = Site::start().await;
    let house = GatewayFixture::start(&data, &["--pool-slots", "4", "--pool-timeout", "5s"]).await;
    for session in ["a", "b"] {
        house.navigate(session, &site.url(&format!("/canary?name={session}"))).await.ok();
    }
    let function = "() => { fetch('/spinning'); for (;;) {} }";
    let spinning = house.start_call("a", "browser_evaluate", json!({ "function": function })).await;
    let pending = house.hang("b", &site, "/hang-1").await;
    answer(spinning).await.lost("the engine did not answer within 5 s");
    answer(pending).await.lost("the engine did not answer within 5 s");
    for session in ["a", "b"] {
        let text = house.navigate(session, &site.url("/show")).await.restarted("did not answer within 5 s");
        assert!(!text.contains("canary="), "an old cookie: {text}");
    }
    assert_eq!(look::browsers(house.client.pid()).len(), 1, "the browser is still the same one");
    house.end().await;
}
