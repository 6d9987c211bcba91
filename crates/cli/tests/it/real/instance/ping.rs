//! Pings of engine and browser, and the list of processes.

use std::{fs, sync::Arc, time::Duration};

use greenroom_core::Instance;
use greenroom_testkit::{
    Site,
    process::{Signal, alive, signal, wait_gone},
};
use serde_json::json;
use tokio::time::timeout;

use super::{super::inspect, GRACE, InstanceFixture, TestSeat};

/// A ping is answered during a call, over one connection that makes no context. It is not answered when the engine or the
/// browser is stopped, and the error says which of them was silent.
#[tokio::test]
async fn ping_names_the_silent_engine_or_browser() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let instance = fixture.start(fixture.options()).await;
    let [node, browser] = instance.process_ids()[..] else { panic!("{:?}", instance.process_ids()) };
    assert!(
        command(node).contains("@playwright/mcp") && command(browser).contains("--remote-debugging-pipe")
    );
    for _ in 0..3 {
        instance.ping().await.unwrap();
    }
    assert_eq!(contexts(node).await, 0);

    let mut seat = TestSeat::open(&instance).await;
    seat.navigate(&site.url("/title")).await.unwrap();
    let hang = "() => { fetch('/hang'); return new Promise(() => {}); }";
    let call = seat.call("browser_evaluate", json!({ "function": hang }));
    tokio::select! {
        answer = call => panic!("{answer:?}"),
        () = async {
            site.wait_for_hit("/hang").await;
            instance.ping().await.unwrap();
        } => {}
    }
    assert_eq!(contexts(node).await, 1, "only the seat's");

    for (pid, who) in [(node, "the engine did not answer"), (browser, "the browser did not answer")] {
        signal(pid, Signal::STOP);
        assert!(pinged(&instance, 500).await.is_err());
        assert_eq!(instance.silent().as_deref(), Some(who));
        signal(pid, Signal::CONT);
        instance.ping().await.unwrap();
        assert_eq!(instance.silent(), None);
    }
    seat.close().await;
    assert_eq!(contexts(node).await, 0);

    signal(node, Signal::KILL);
    wait_gone(node).await;
    let unwell = instance.ping().await.unwrap_err();
    assert!(unwell.to_string().starts_with("the engine is unwell"), "{unwell}");
    instance.stop(GRACE).await;
    assert!(!alive(browser));
}

/// With a Node for each seat, each seat has its own, listed before the browser, pinged, and ended with the seat.
#[tokio::test]
async fn each_seat_has_its_own_pinged_node() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let mut options = fixture.options();
    options.pool.slots = 2;
    options.settings_mut().tools.r#unsafe = true;
    let instance = fixture.start(options).await;
    let [browser] = instance.process_ids()[..] else { panic!("{:?}", instance.process_ids()) };
    instance.ping().await.unwrap();
    let mut one = TestSeat::open(&instance).await;
    let other = TestSeat::open(&instance).await;
    let [first, second, last] = instance.process_ids()[..] else { panic!("{:?}", instance.process_ids()) };
    assert!(command(first).contains("@playwright/mcp") && command(second).contains("@playwright/mcp"));
    assert_eq!(last, browser);
    one.navigate(&site.url("/title")).await.unwrap();
    instance.ping().await.unwrap();

    signal(second, Signal::STOP);
    assert!(pinged(&instance, 500).await.is_err());
    assert_eq!(instance.silent().as_deref(), Some("the engine did not answer"));
    signal(second, Signal::CONT);
    one.close().await;
    assert!(!alive(first) && alive(second));
    assert_eq!(instance.process_ids(), [second, browser]);
    other.close().await;
    instance.ping().await.unwrap();
    instance.stop(GRACE).await;
    assert!(!alive(browser));
}

/// A ping that is given up after this many milliseconds.
async fn pinged(instance: &Arc<dyn Instance>, ms: u64) -> Result<(), ()> {
    timeout(Duration::from_millis(ms), instance.ping()).await.map_err(drop)?.map_err(drop)
}

fn command(pid: u32) -> String {
    String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/cmdline")).unwrap()).into_owned()
}

/// How many contexts the browser of this engine has.
async fn contexts(engine: u32) -> usize {
    let contexts = inspect::call_browser_of(engine, "Target.getBrowserContexts").await;
    contexts["browserContextIds"].as_array().unwrap().len()
}
