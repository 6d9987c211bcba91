//! The connection to an attached browser: when it is made, how often it is tried, and the errors of callers meanwhile.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost, StartError};
use greenroom_fleet::{BrowserState, CallTarget, FleetError, Readiness, SessionKey};
use tokio::time::{Instant, sleep};

use crate::{
    agents::Link,
    browser_fixture::{BrowserFixture, COOLDOWN, SERIES, browser_in, took, url},
    fake::{HealthProbe, World},
    fixture::{HEALTH, LEASE, MS, crash, named, settle, with_instances},
};

use BrowserState::{Connected, Connecting, Disconnected, Pending};

/// When connections were tried, counted from the first of these.
fn tries(world: &World, after: Instant) -> Vec<u128> {
    let starts = world.starts().into_iter().filter(|(_, at)| *at >= after);
    starts.map(|(_, at)| (at - after).as_millis()).collect()
}

/// The fleet connects with the first call, and many first calls make one attempt. Adding a browser does not connect it,
/// whatever its settings say of spares and laziness.
#[tokio::test(start_paused = true)]
async fn first_call_connects_the_browser() {
    let browser_fixture = BrowserFixture::tuned(2, |_, browser| {
        browser.pool.warm = 3;
        with_instances(&mut browser.pool, |_, instance| (instance.lazy, instance.slots) = (false, 8));
    });
    browser_fixture.start();
    sleep(Duration::from_secs(3600)).await;
    assert_eq!((browser_fixture.states(), browser_fixture.status(1).last_attempt), (vec![Pending; 2], None));
    browser_fixture.world(1).starting.shut();
    let mut calls = Vec::new();
    for id in ["a", "b", "c", "d"] {
        let target = crate::browser_fixture::on("1");
        calls.push(browser_fixture.fixture.begin_at(named(id), target, "click").await);
    }
    let status = browser_fixture.status(1);
    assert_eq!((status.state, status.waiting, status.last_error), (Connecting, 4, None));
    assert!(status.last_attempt.is_some());
    browser_fixture.world(1).starting.open();
    for call in calls {
        call.await.unwrap().unwrap();
    }
    let status = browser_fixture.status(1);
    let counts = browser_fixture.world(1).counts();
    assert_eq!((status.state, status.slots, status.leased_slots), (Connected, 8, 4));
    assert_eq!((status.reconnects, status.retry_in, counts.starts, counts.opens), (0, None, 1, 4));
    assert_eq!(
        (browser_fixture.states(), browser_fixture.world(2).counts().starts),
        (vec![Connected, Pending], 0)
    );
    browser_fixture.end().await;
}

/// The fleet tries an unreachable browser again after 250, 500 and 1,000 ms; a caller that came first waits for all of
/// that and then gets the last error. For a minute callers are refused at once, with the error and the time of the next
/// attempt; then the fleet tries again, and so on for ever.
#[tokio::test(start_paused = true)]
async fn unreachable_browser_is_retried_in_series() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).break_instance(0);
    let began = Instant::now();
    let first = browser_fixture.fixture.begin_at(SessionKey::Ephemeral, CallTarget::default(), "click").await;
    for _ in 0..6 {
        assert_eq!(browser_fixture.states(), [Disconnected]);
        sleep(SERIES / 7).await;
    }
    assert!(browser_fixture.status(1).retry_in.is_some_and(|pause| pause < Duration::from_secs(1)));
    assert_eq!(browser_fixture.status(1).last_error.as_deref(), Some("it is broken"));
    assert!(!first.is_finished(), "not refused at the first failure");
    let error = first.await.unwrap().unwrap_err();
    assert_eq!(began.elapsed(), SERIES);
    assert_eq!(error.to_string(), format!("browser 1 cannot be reached: {}: it is broken", url(1)));
    let FleetError::BrowserDown { index: 1, retry_in: Some(COOLDOWN), .. } = error else {
        panic!("{error:?}")
    };
    assert_eq!(tries(browser_fixture.world(1), began), [0, 250, 750, 1750]);

    for round in 0..5 {
        let status = browser_fixture.status(1);
        assert_eq!((status.state, status.retry_in), (Disconnected, Some(COOLDOWN)), "{round}");
        sleep(COOLDOWN / 2).await;
        for session_key in [SessionKey::Ephemeral, named("a")] {
            let (outcome, waited) =
                took(browser_fixture.fixture.call_at(session_key, CallTarget::default(), "click")).await;
            let FleetError::BrowserDown { why, retry_in, .. } = outcome.unwrap_err() else { panic!() };
            assert_eq!((why.as_deref(), retry_in), (Some("it is broken"), Some(COOLDOWN / 2)));
            assert_eq!(waited, Duration::ZERO);
        }
        sleep(COOLDOWN / 2 - MS).await;
        let again = Instant::now() + MS;
        sleep(MS * 2).await;
        assert_eq!(browser_fixture.states(), [Disconnected]);
        // A caller that comes during an attempt waits for it.
        let waiting = browser_fixture.fixture.begin_at(named("a"), CallTarget::default(), "click").await;
        assert!(matches!(waiting.await.unwrap(), Err(FleetError::BrowserDown { .. })));
        assert_eq!(tries(browser_fixture.world(1), again), [0, 250, 750, 1750]);
    }
    browser_fixture.world(1).mend();
    sleep(COOLDOWN).await;
    settle().await;
    let status = browser_fixture.status(1);
    assert_eq!((status.state, status.last_error, status.reconnects), (Connected, None, 0));
    browser_fixture.fixture.call_at(named("a"), CallTarget::default(), "click").await.unwrap();
    assert_eq!(browser_fixture.watcher().events().restarted, [], "nothing was started");
    browser_fixture.end().await;
}

/// A call that comes in the middle of a series is served by the attempt that succeeds.
#[tokio::test(start_paused = true)]
async fn call_during_a_series_is_served_by_a_later_attempt() {
    let browser_fixture = BrowserFixture::new(1);
    for _ in 0..3 {
        browser_fixture.world(1).fail_start("connection refused");
    }
    let (said, waited) = took(browser_fixture.fixture.call_ephemeral("click")).await;
    assert_eq!((said.unwrap().notes, waited), (vec![], SERIES));
    use Link::{Failed, Made, Tried};
    let links: Vec<_> = browser_fixture.watcher().events().links.into_iter().map(|(_, link)| link).collect();
    assert_eq!(links, [Failed, Failed, Failed, Tried, Made]);
    browser_fixture.end().await;
    assert_eq!(browser_fixture.watcher().events().links.last(), Some(&(1, Link::Over)));
}

/// The status shows a lost connection at once, and the fleet connects again after a quarter of a second; a call that comes
/// meanwhile waits for it. A failing reconnection is tried again like a first connection.
#[tokio::test(start_paused = true)]
async fn lost_connection_is_restored() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    sleep(COOLDOWN).await;
    for round in 1..=10 {
        browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
        assert_eq!(browser_fixture.states(), [Disconnected], "before the supervisor has noticed");
        assert_eq!(browser_fixture.status(1).last_error.as_deref(), Some("the browser ended (signal 9)"));
        let (said, waited) = took(browser_fixture.fixture.call_ephemeral("click")).await;
        assert_eq!((said.unwrap().seat, waited), (round + 1, Duration::from_millis(250)));
        let status = browser_fixture.status(1);
        assert_eq!((status.state, status.last_error, status.reconnects), (Connected, None, round));
        sleep(COOLDOWN).await;
    }
    browser_fixture.world(1).break_instance(0);
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    let began = Instant::now();
    settle().await;
    let status = browser_fixture.status(1);
    assert_eq!((status.state, status.retry_in), (Disconnected, Some(Duration::from_millis(250))));
    let (error, waited) = took(browser_fixture.fixture.call_ephemeral("click")).await;
    assert!(matches!(error, Err(FleetError::BrowserDown { .. })));
    assert_eq!(
        (waited.as_millis(), tries(browser_fixture.world(1), began)),
        (2000, vec![250, 500, 1000, 2000])
    );
    assert_eq!(
        (browser_fixture.states(), browser_fixture.status(1).retry_in),
        (vec![Disconnected], Some(COOLDOWN))
    );
    browser_fixture.end().await;
}

/// The fleet reconnects later and later to a browser whose connections do not hold, and after the fourth rests as for an
/// unreachable one: it never keeps a processor busy.
#[tokio::test(start_paused = true)]
async fn unstable_connection_is_retried_more_slowly() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.connect_browsers();
    settle().await;
    let mut last = Instant::now();
    for pauses in [[250, 500, 1_000, 60_000]; 3] {
        for pause in pauses {
            let starts = browser_fixture.world(1).counts().started;
            browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
            settle().await;
            let outcome =
                (pause == 60_000).then_some(browser_fixture.fixture.call_ephemeral("click")).map(took);
            if let Some(outcome) = outcome {
                let (error, waited) = outcome.await;
                assert!(matches!(error, Err(FleetError::BrowserDown { retry_in: Some(COOLDOWN), .. })));
                assert_eq!(waited, Duration::ZERO);
            }
            browser_fixture.world(1).until(|counts| counts.started > starts).await;
            assert_eq!(last.elapsed().as_millis(), pause);
            settle().await;
            last = Instant::now();
        }
    }
    browser_fixture.end().await;
}

/// A browser that does not answer delays no other, also when only one start at a time is allowed. Its caller waits no
/// longer than for a slot, and the error names the browser.
#[tokio::test(start_paused = true)]
async fn slow_browser_delays_no_other() {
    let browser_fixture = BrowserFixture::with_settings(
        3,
        |_, _| {},
        |settings| {
            settings.pools.clear();
            settings.starts_max = 1;
        },
    );
    browser_fixture.world(1).starting.shut();
    browser_fixture.world(2).break_instance(0);
    browser_fixture.connect_browsers();
    settle().await;
    assert_eq!(browser_fixture.states(), [Connecting, Disconnected, Connected]);
    let (error, waited) = took(browser_fixture.call_on("1", "click")).await;
    let words = format!("browser 1 cannot be reached: {}: no connection within 5 s", url(1));
    assert_eq!((error.unwrap_err().to_string(), waited), (words, LEASE));
    let ((), waited) = took(async { drop(browser_fixture.call_on("3", "click").await.unwrap()) }).await;
    assert_eq!(
        (waited, browser_fixture.states()),
        (Duration::ZERO, vec![Connecting, Disconnected, Connected])
    );
    // An attempt that hangs ends too, and is reported.
    sleep(Duration::from_secs(26)).await;
    assert_eq!(
        browser_fixture.status(1).last_error.as_deref(),
        Some("it could not be connected to within 30 s")
    );
    assert_eq!(browser_fixture.world(1).counts().starting, 1, "and the next one hangs as well, alone");
    browser_fixture.end().await;
}

/// `connect_browsers` connects once to each browser that no call has needed yet; a browser in its rest is left alone.
#[tokio::test(start_paused = true)]
async fn connect_browsers_connects_each_unused_browser_once() {
    let browser_fixture = BrowserFixture::new(3);
    browser_fixture.call_on("1", "click").await.unwrap();
    browser_fixture.world(2).break_instance(0);
    drop(browser_fixture.call_on("2", "click").await.unwrap_err());
    let began = Instant::now();
    for _ in 0..3 {
        browser_fixture.connect_browsers();
        settle().await;
    }
    assert_eq!(browser_fixture.states(), [Connected, Disconnected, Connected]);
    assert_eq!([1, 2, 3].map(|nth| browser_fixture.world(nth).counts().starts), [1, 4, 1]);
    assert_eq!(
        (began.elapsed(), browser_fixture.world(3).counts().opens),
        (Duration::ZERO, 0),
        "no tab is opened"
    );
    browser_fixture.end().await;
}

/// A browser that misses three health checks in a row is given up and connected to again; one miss shows in the status.
#[tokio::test(start_paused = true)]
async fn unresponsive_browser_is_reconnected() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    browser_fixture.world(1).set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH + MS).await;
    let status = browser_fixture.status(1);
    assert_eq!((status.state, status.last_error.as_deref()), (Connected, Some("it feels faint")));
    sleep(HEALTH * 2).await;
    settle().await;
    assert_eq!(browser_fixture.states(), [Disconnected]);
    browser_fixture.world(1).set_pulse(0, None);
    sleep(Duration::from_millis(250)).await;
    settle().await;
    let status = browser_fixture.status(1);
    assert_eq!((status.state, status.reconnects, status.last_error), (Connected, 1, None));
    browser_fixture.end().await;
}

/// A browser in which no tab opens counts as unreachable, and so does one that dies while a tab opens.
#[tokio::test(start_paused = true)]
async fn browser_without_a_new_tab_counts_as_unreachable() {
    let browser_fixture = BrowserFixture::new(1);
    let hint = StartError::new("it has no windows").hint("open one");
    browser_fixture.world(1).fail_open(hint);
    let error = browser_fixture.fixture.call_ephemeral("click").await.unwrap_err();
    let words = format!("browser 1 cannot be reached: {}: it has no windows; open one", url(1));
    assert_eq!(error.to_string(), words);
    for _ in 0..2 {
        browser_fixture.world(1).fail_open(Lost::Page("crashed".into()));
    }
    let error = browser_fixture.fixture.call("a", "click").await.unwrap_err();
    assert!(matches!(error, FleetError::BrowserDown { .. }), "{error}");
    assert_eq!(browser_fixture.fixture.call("a", "click").await.unwrap().notes, []);
    browser_fixture.end().await;
}

/// The fleet is ready as long as a browser is connected or was never needed; it is starting during the first attempts, and
/// failed when no browser could be reached, also during further attempts.
#[tokio::test(start_paused = true)]
async fn fleet_is_ready_with_one_usable_browser() {
    let browser_fixture = BrowserFixture::new(2);
    let is = |wanted: &str| {
        let readiness = format!("{:?}", browser_fixture.readiness());
        assert!(readiness.starts_with(wanted), "{wanted}: {readiness}");
    };
    is("Ready");
    browser_fixture.world(1).break_instance(0);
    browser_fixture.world(2).break_instance(0);
    browser_fixture.connect_browsers();
    settle().await;
    is("Starting");
    sleep(SERIES + MS).await;
    is("Failed");
    let Readiness::Failed(error) = browser_fixture.readiness() else { panic!() };
    assert_eq!(error.message, format!("browser 1 cannot be reached: {}: it is broken", url(1)));
    sleep(COOLDOWN).await;
    assert_eq!(browser_fixture.states(), [Disconnected; 2]);
    is("Failed");
    browser_fixture.world(2).mend();
    sleep(SERIES).await;
    is("Ready");
    browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
    settle().await;
    is("Starting");
    sleep(SERIES).await;
    is("Ready");
    browser_fixture.remove_browser("2").await.unwrap();
    is("Failed");
    browser_fixture.remove_browser("1").await.unwrap();
    is("Failed");
    browser_fixture.end().await;
}

/// A browser that is connected and does not answer does not make the fleet ready.
#[tokio::test(start_paused = true)]
async fn unresponsive_browser_makes_the_fleet_unready() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.connect_browsers();
    settle().await;
    assert!(matches!(browser_fixture.readiness(), Readiness::Ready));
    browser_fixture.world(1).set_pulse(0, Some(HealthProbe::HealthCheckFailed));
    sleep(HEALTH + MS).await;
    settle().await;
    assert_eq!(browser_fixture.states(), [Connected]);
    assert!(matches!(browser_fixture.readiness(), Readiness::Unresponsive(why) if why == "it feels faint"));
    browser_fixture.world(1).set_pulse(0, None);
    sleep(HEALTH + MS).await;
    settle().await;
    assert!(matches!(browser_fixture.readiness(), Readiness::Ready));
    browser_fixture.end().await;
}

/// A fleet with a pool and a browser is ready if either of them is.
#[tokio::test(start_paused = true)]
async fn fleet_is_ready_if_pool_or_browser_is() {
    let mut browser_fixture = BrowserFixture::with_a_pool(0);
    assert!(matches!(browser_fixture.readiness(), Readiness::Starting));
    browser_fixture.add(|_| {}).unwrap();
    assert!(matches!(browser_fixture.readiness(), Readiness::Ready));
    browser_fixture.world(1).break_instance(0);
    drop(browser_fixture.call_on("1", "click").await);
    drop(browser_fixture.fixture.call_ephemeral("click").await.unwrap_err());
    assert!(matches!(browser_fixture.readiness(), Readiness::Starting));
    browser_fixture.start();
    settle().await;
    assert!(matches!(browser_fixture.readiness(), Readiness::Ready));
    browser_fixture.end().await;
}

/// A fleet whose browsers are all attached drains and shuts down like any other: it waits for calls that run, and refuses
/// at once those that wait for a connection.
#[tokio::test(start_paused = true)]
async fn attached_browsers_drain_and_shut_down() {
    let mut browser_fixture = BrowserFixture::new(2);
    let running = browser_fixture.begin_on("1", "hold").await;
    let held = browser_fixture.world(1).held().await;
    browser_fixture.world(2).starting.shut();
    let waiting = browser_fixture.begin_on("2", "click").await;
    let draining = tokio::spawn({
        let fleet = browser_fixture.fixture.fleet.clone();
        async move { fleet.drain_calls(Duration::from_secs(60)).await }
    });
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::ShuttingDown)));
    assert!(browser_fixture.is_stopping() && !draining.is_finished());
    held.answer();
    running.await.unwrap().unwrap();
    assert!(draining.await.unwrap());
    assert!(matches!(browser_fixture.add(|_| {}), Err(FleetError::ShuttingDown)));
    assert!(matches!(browser_fixture.reconnect_browser("1").await, Err(FleetError::ShuttingDown)));
    browser_fixture.end().await;
}

/// A browser that is added during a shutdown is refused, or shut down with the rest.
#[tokio::test(start_paused = true)]
async fn browser_added_during_shutdown_is_refused_or_ended() {
    for turns in 0..40 {
        let browser_fixture = BrowserFixture::new(1);
        browser_fixture.fixture.call_ephemeral("click").await.unwrap();
        let ending = tokio::spawn({
            let fleet = browser_fixture.fixture.fleet.clone();
            async move { fleet.shutdown().await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let world = World::new();
        let _ = browser_fixture.add_browser(|index| browser_in(&world, index));
        browser_fixture.connect_browsers();
        let called = browser_fixture.call_on("2", "click").await;
        ending.await.unwrap();
        settle().await;
        assert!(called.is_err(), "{turns}");
        world.assert_empty();
        browser_fixture.end().await;
    }
}
