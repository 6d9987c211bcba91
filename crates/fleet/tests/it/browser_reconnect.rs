//! Reconnecting an attached browser by hand: in every state, once for all callers, and always with an end.

use std::time::Duration;

use greenroom_core::{InstanceId, Lost};
use greenroom_fleet::{BrowserState, BrowserStatus, FleetError};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};

use crate::{
    browser_fixture::{BrowserFixture, COOLDOWN, SERIES, took, url},
    fake::{HealthProbe, Revival},
    fixture::{MS, crash, settle},
};

use BrowserState::{Connected, Connecting, Disconnected, Pending};

type Task = JoinHandle<Result<BrowserStatus, FleetError>>;

async fn state(task: Task) -> BrowserState {
    task.await.unwrap().unwrap().state
}

/// A browser that is connected and answers stays as it is, with its tabs.
#[tokio::test(start_paused = true)]
async fn reconnect_keeps_a_responsive_browser() {
    let browser_fixture = BrowserFixture::new(1);
    let seat = browser_fixture.fixture.call("a", "click").await.unwrap().seat;
    for _ in 0..3 {
        assert_eq!(browser_fixture.reconnect_browser("1").await.unwrap().state, Connected);
    }
    let counts = browser_fixture.world(1).counts();
    assert_eq!((counts.starts, counts.pings, counts.revives), (1, 3, 0));
    let said = browser_fixture.fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (seat, vec![]));
    assert!(matches!(browser_fixture.reconnect_browser("2").await, Err(FleetError::NotChosen(_))));
    browser_fixture.end().await;
}

/// A browser that is connected and does not answer is given up and connected to again, at once.
#[tokio::test(start_paused = true)]
async fn reconnect_replaces_an_unresponsive_connection() {
    for (pulse, takes) in
        [(HealthProbe::HealthCheckFailed, Duration::ZERO), (HealthProbe::Hangs, Duration::from_secs(5))]
    {
        let browser_fixture = BrowserFixture::new(1);
        browser_fixture.fixture.call("a", "click").await.unwrap();
        browser_fixture.world(1).set_pulse(0, Some(pulse));
        let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
        let status = status.unwrap();
        assert_eq!((status.state, status.reconnects, waited), (Connected, 1, takes));
        let counts = browser_fixture.world(1).counts();
        assert_eq!((counts.starts, counts.stops, counts.revives), (2, 1, 1));
        browser_fixture.world(1).set_pulse(0, None);
        let said = browser_fixture.fixture.call("a", "click").await.unwrap();
        assert!((said.seat, said.restarted().is_some()) == (2, true), "{said:?}");
        browser_fixture.end().await;
    }
}

/// A browser that no call has needed yet, and a browser that rests, are connected now. Only this order brings the browser
/// back first: neither a first call nor a loss nor the end of a rest does so.
#[tokio::test(start_paused = true)]
async fn reconnect_runs_the_start_command_first() {
    let browser_fixture = BrowserFixture::new(1);
    assert_eq!(browser_fixture.reconnect_browser("1").await.unwrap().state, Connected);
    assert_eq!(browser_fixture.world(1).counts().revives, 1, "greenroom cannot know whether it runs");
    browser_fixture.world(1).break_instance(0);
    browser_fixture.world(1).set_revival(Revival::Mends);
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    drop(browser_fixture.fixture.call_ephemeral("click").await.unwrap_err());
    sleep(COOLDOWN * 3).await;
    assert_eq!(browser_fixture.world(1).counts().revives, 1);
    assert_eq!(
        (browser_fixture.world(1).counts().starts > 10, browser_fixture.states()),
        (true, vec![Disconnected])
    );

    let starts = browser_fixture.world(1).counts().starts;
    let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
    let status = status.unwrap();
    assert_eq!((status.state, status.last_error, waited), (Connected, None, Duration::ZERO));
    assert_eq!(
        (browser_fixture.world(1).counts().starts, browser_fixture.world(1).counts().revives),
        (starts + 1, 2)
    );
    browser_fixture.fixture.call_ephemeral("click").await.unwrap();
    browser_fixture.end().await;
}

/// The caller gets the error of a failed attempt at once, and the rest of a whole series follows in the background.
#[tokio::test(start_paused = true)]
async fn failed_reconnect_is_reported_at_once() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).break_instance(0);
    drop(browser_fixture.fixture.call_ephemeral("click").await.unwrap_err());
    sleep(COOLDOWN / 2).await;
    for (revival, words) in [
        (Revival::Nothing, "it is broken"),
        (Revival::Fails("no such program: chrome"), "no such program: chrome; it is broken"),
        (Revival::Fails("panic"), "the engine's adapter panicked; it is broken"),
    ] {
        browser_fixture.world(1).set_revival(revival);
        let began = Instant::now();
        let starts = browser_fixture.world(1).counts().starts;
        let error = browser_fixture.reconnect_browser("1").await.unwrap_err();
        assert_eq!(error.to_string(), format!("browser 1 cannot be reached: {}: {words}", url(1)));
        let FleetError::BrowserDown { retry_in: Some(retry_in), .. } = error else { panic!("{error:?}") };
        assert_eq!((retry_in.as_millis(), began.elapsed()), (250, Duration::ZERO));
        assert_eq!(browser_fixture.states(), [Disconnected]);
        sleep(SERIES + MS).await;
        let status = browser_fixture.status(1);
        assert_eq!((status.state, status.retry_in), (Disconnected, Some(COOLDOWN - MS)), "renewed");
        assert_eq!(browser_fixture.world(1).counts().starts, starts + 4);
        assert_eq!(status.last_error.as_deref(), Some("it is broken"));
    }
    browser_fixture.end().await;
}

/// The fleet waits for a start command that takes all of its time: the engine's error is better than a limit above it.
#[tokio::test(start_paused = true)]
async fn reconnect_waits_for_a_slow_start_command() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).break_instance(0);
    browser_fixture.world(1).set_revival(Revival::Fails("it did not answer within 30 s"));
    browser_fixture.world(1).reviving.shut();
    let order = browser_fixture.begin_reconnect("1").await;
    // A silent address is given up after 15 s, then the command has its 30 s.
    sleep(Duration::from_secs(45)).await;
    browser_fixture.world(1).reviving.open();
    let error = order.await.unwrap().err().unwrap().to_string();
    assert!(error.ends_with(": it did not answer within 30 s; it is broken"), "{error}");
    browser_fixture.end().await;
}

/// Callers that ask during an attempt share it, also several at once; those who ask later get another attempt.
#[tokio::test(start_paused = true)]
async fn concurrent_reconnects_share_one_attempt() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).reviving.shut();
    let first = browser_fixture.begin_reconnect("1").await;
    let second = browser_fixture.begin_reconnect("1").await;
    assert_eq!((browser_fixture.states(), browser_fixture.world(1).counts().starts), (vec![Connecting], 0));
    browser_fixture.world(1).starting.shut();
    browser_fixture.world(1).reviving.open();
    settle().await;
    let third = browser_fixture.begin_reconnect("1").await;
    assert!(!first.is_finished() && !second.is_finished() && !third.is_finished());
    browser_fixture.world(1).starting.open();
    for task in [first, second, third] {
        assert_eq!(state(task).await, Connected);
    }
    let counts = browser_fixture.world(1).counts();
    assert_eq!((counts.revives, counts.starts, counts.pings), (1, 1, 0));

    browser_fixture.world(1).break_instance(0);
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    settle().await;
    for round in 2..5 {
        let both = [browser_fixture.begin_reconnect("1").await, browser_fixture.begin_reconnect("1").await];
        for (nth, task) in both.into_iter().enumerate() {
            assert!(matches!(task.await.unwrap(), Err(FleetError::BrowserDown { .. })), "{nth}");
        }
        // The second caller came after the first was done.
        assert_eq!(browser_fixture.world(1).counts().revives, 1 + (round - 1) * 2);
    }
    browser_fixture.end().await;
}

/// An order during a series begins an attempt at once instead of after the pause, and breaks off an attempt that
/// hangs, so that there is never more than one.
#[tokio::test(start_paused = true)]
async fn reconnect_during_a_series_starts_at_once() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).break_instance(0);
    let call = browser_fixture
        .fixture
        .begin_as(&greenroom_core::Owner::local(), greenroom_fleet::SessionKey::Ephemeral, "click")
        .await;
    sleep(Duration::from_millis(800)).await;
    assert_eq!((browser_fixture.states(), browser_fixture.world(1).counts().starts), (vec![Disconnected], 3));
    drop(browser_fixture.reconnect_browser("1").await.unwrap_err());
    sleep(SERIES - MS).await;
    assert_eq!(
        (browser_fixture.states(), browser_fixture.world(1).counts().starts),
        (vec![Disconnected], 6),
        "a whole series"
    );
    browser_fixture.world(1).mend();
    let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
    assert_eq!((status.unwrap().state, waited), (Connected, Duration::ZERO));
    call.await.unwrap().unwrap();

    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    browser_fixture.world(1).starting.shut();
    let call = browser_fixture.fixture.begin("a", "click").await;
    sleep(Duration::from_secs(2)).await;
    assert_eq!(
        (browser_fixture.states(), browser_fixture.world(1).counts().starting),
        (vec![Connecting], 1),
        "it hangs"
    );
    let again = browser_fixture.begin_reconnect("1").await;
    let counts = browser_fixture.world(1).counts();
    assert_eq!((counts.starting, counts.starting_max, counts.revives), (1, 1, 3));
    browser_fixture.world(1).starting.open();
    assert_eq!(state(again).await, Connected);
    assert_eq!(call.await.unwrap().unwrap().pool, "browser-1");
    browser_fixture.end().await;
}

/// A reconnect that is ordered at any moment of a loss ends with a connected browser, and every call is answered.
#[tokio::test(start_paused = true)]
async fn reconnect_during_a_loss_ends_connected() {
    for turns in 0..60 {
        let browser_fixture = BrowserFixture::new(1);
        let call = browser_fixture.fixture.begin("a", "hold").await;
        drop(browser_fixture.world(1).held().await);
        browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
        let status = status.unwrap();
        assert_eq!((status.state, status.reconnects, waited), (Connected, 1, Duration::ZERO), "{turns}");
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::Lost(Lost::Browser { .. })), "{error}");
        browser_fixture.fixture.call("a", "click").await.unwrap();
        assert_eq!(browser_fixture.world(1).counts().starting_max, 1);
        browser_fixture.end().await;
    }
}

/// A caller gets an answer whatever hangs: bringing the browser back, connecting to it, or clearing up after the last
/// connection.
#[tokio::test(start_paused = true)]
async fn hanging_reconnect_is_ended() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).reviving.shut();
    let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
    assert_eq!((status.unwrap().state, waited.as_secs()), (Connected, 50));

    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    browser_fixture.world(1).starting.shut();
    let (error, waited) = took(browser_fixture.reconnect_browser("1")).await;
    let words = "the browser could not be started within 50 s; it could not be connected to within 30 s";
    let error = error.unwrap_err().to_string();
    assert_eq!((error, waited.as_secs()), (format!("browser 1 cannot be reached: {}: {words}", url(1)), 80));

    browser_fixture.world(1).starting.open();
    browser_fixture.world(1).reviving.open();
    browser_fixture.reconnect_browser("1").await.unwrap();
    browser_fixture.world(1).stopping.shut();
    browser_fixture.world(1).lose_instance(InstanceId(0), &crash());
    let (status, waited) = took(browser_fixture.reconnect_browser("1")).await;
    assert_eq!((status.unwrap().state, waited.as_secs()), (Connected, 15));
    browser_fixture.world(1).stopping.open();
    browser_fixture.end().await;
}

/// A caller that leaves meanwhile changes nothing; a caller that waits during a shutdown gets an error.
#[tokio::test(start_paused = true)]
async fn departed_reconnect_caller_changes_nothing() {
    let browser_fixture = BrowserFixture::new(2);
    browser_fixture.world(1).reviving.shut();
    browser_fixture.begin_reconnect("1").await.abort();
    browser_fixture.world(1).reviving.open();
    settle().await;
    assert_eq!(browser_fixture.states(), [Connected, Pending]);
    browser_fixture.world(2).reviving.shut();
    let waiting = browser_fixture.begin_reconnect("2").await;
    browser_fixture.end().await;
    assert!(matches!(waiting.await.unwrap(), Err(FleetError::ShuttingDown)));
}
