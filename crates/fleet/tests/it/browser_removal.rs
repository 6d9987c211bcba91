//! Browsers come and go while others are used: indices are never used again, sessions end with their browser, and their
//! seats are closed.

use std::time::Duration;

use greenroom_core::{InstanceId, Owner};
use greenroom_fleet::{BrowserName, BrowserState, CallTarget, EndReason, FleetError, NotChosen, SessionKey};
use tokio::time::Instant;

use crate::{
    browser_fixture::{BrowserFixture, browser_in, on, took, url},
    fake::World,
    fixture::{at, connection, crash, named, settle, with_instances},
};

fn indices(browser_fixture: &BrowserFixture) -> Vec<u32> {
    browser_fixture.browsers().iter().map(|browser| browser.index).collect()
}

/// A browser is added while sessions run; its index is one that no browser ever had, and a refused browser uses none up.
#[tokio::test(start_paused = true)]
async fn browser_indices_are_never_reused() {
    let mut browser_fixture = BrowserFixture::new(2);
    browser_fixture.fixture.call_at(named("a"), on("1"), "click").await.unwrap();
    browser_fixture.remove_browser("2").await.unwrap();
    assert_eq!(browser_fixture.add(|_| {}).unwrap(), 3);
    let label = |label: &str| Some(label.to_owned());
    assert_eq!(browser_fixture.add(|(_, browser)| browser.label = label("work")).unwrap(), 4);
    let same_url = browser_fixture.add(|(_, browser)| browser.address = url(3) + "/").unwrap_err();
    assert_eq!(same_url.to_string(), format!("\"{}\" is attached already, as browser 3", url(5)));
    let same_label = browser_fixture.add(|(_, browser)| browser.label = label("work")).unwrap_err();
    assert_eq!(same_label.to_string(), "\"work\" is attached already, as browser 4");
    for bad in ["1", "9", "-1", ""] {
        let error = browser_fixture.add(|(_, browser)| browser.label = label(bad)).unwrap_err();
        assert!(matches!(error, FleetError::BadLabel { .. }), "{error}");
    }
    assert_eq!(browser_fixture.add(|_| {}).unwrap(), 5);
    assert_eq!(indices(&browser_fixture), [1, 3, 4, 5]);
    let error = browser_fixture.call_on("2", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no such browser: \"2\"; there are 1, 3, 4 (\"work\"), 5");
    assert_eq!(browser_fixture.fixture.call("a", "click").await.unwrap().notes, []);
    browser_fixture.remove_browser("work").await.unwrap();
    // Label and address are free again, but not the index.
    assert_eq!(browser_fixture.add(|(_, browser)| browser.label = label("work")).unwrap(), 6);
    browser_fixture.end().await;
}

/// A removed browser is out at once; its sessions end, with their seats closed before the connection; calls that run or
/// wait there get an error; others go on.
#[tokio::test(start_paused = true)]
async fn sessions_end_with_their_browser() {
    let browser_fixture = BrowserFixture::tuned(2, |index, browser| {
        browser.label = Some(format!("b{index}"));
        with_instances(&mut browser.pool, |_, instance| instance.slots = 2);
    });
    let other = browser_fixture.fixture.call_at(named("other"), on("1"), "click").await.unwrap().seat;
    browser_fixture.fixture.call_at(named("idle"), on("2"), "click").await.unwrap();
    let running = browser_fixture.fixture.begin_at(named("busy"), on("2"), "hold").await;
    let _held = browser_fixture.world(2).held().await;
    let behind = browser_fixture.fixture.begin_at(named("busy"), CallTarget::default(), "click").await;
    let waiting = browser_fixture.begin_on("2", "click").await;
    assert_eq!(browser_fixture.status(2).waiting, 1);
    browser_fixture.world(2).closing.shut();
    let removal = browser_fixture.begin_removal("b2").await;
    assert_eq!(indices(&browser_fixture), [1], "at once");
    assert!(browser_fixture.browser("b2").is_err());
    for call in [running, behind, waiting] {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(error, FleetError::BrowserRemoved { .. }), "{error}");
        let words = "browser 2 (\"b2\") was removed: greenroom does not drive it any more";
        assert_eq!(error.to_string(), words);
    }
    assert!(!removal.is_finished(), "its tabs are being closed");
    assert_eq!((browser_fixture.world(2).counts().closes, browser_fixture.world(2).counts().stops), (2, 0));
    browser_fixture.world(2).closing.open();
    let gone = removal.await.unwrap().unwrap();
    assert_eq!((gone.index, gone.state, gone.leased_slots), (2, BrowserState::Disconnected, 0));
    browser_fixture.world(2).assert_empty();
    assert_eq!(browser_fixture.fixture.call("other", "click").await.unwrap().seat, other);
    browser_fixture.end().await;
}

/// A session of a removed browser begins anew by the usual rules, with a note why; one that had ended there before does
/// not bring the browser back either.
#[tokio::test(start_paused = true)]
async fn an_end_note_does_not_restore_a_removed_browser() {
    let browser_fixture = BrowserFixture::new(3);
    browser_fixture.fixture.call_at(named("a"), on("2"), "click").await.unwrap();
    browser_fixture.world(2).lose_instance(InstanceId(0), &crash());
    settle().await;
    browser_fixture.fixture.call_at(connection(1), on("2"), "click").await.unwrap();
    browser_fixture.remove_browser("2").await.unwrap();
    for session_key in [named("a"), connection(1)] {
        let error =
            browser_fixture.fixture.call_at(session_key, CallTarget::default(), "click").await.unwrap_err();
        assert!(matches!(error, FleetError::NotChosen(NotChosen::Required { .. })), "{error}");
    }
    let said = browser_fixture.fixture.call_at(named("a"), on("1"), "click").await.unwrap();
    assert_eq!((said.pool.as_str(), said.restarted()), ("browser-1", Some(&EndReason::Lost(crash()))));
    browser_fixture.fixture.close("a").await.unwrap();
    browser_fixture.remove_browser("3").await.unwrap();
    let said = browser_fixture.fixture.call_at(connection(1), CallTarget::default(), "click").await.unwrap();
    let removed = EndReason::Removed(BrowserName { index: 2, label: None }.into());
    assert_eq!((said.pool.as_str(), said.restarted()), ("browser-1", Some(&removed)));
    assert_eq!(
        said.notes[0].to_string(),
        "session restarted: browser 2, where it lived, was removed; this is another browser, earlier tabs, cookies and refs are not in it"
    );
    browser_fixture.world(2).assert_empty();
    browser_fixture.end().await;
}

/// A removal breaks off a connection that is being made; callers that wait for it, by a call or by a reconnect, get an
/// error.
#[tokio::test(start_paused = true)]
async fn removal_cancels_a_pending_connection() {
    for turns in 0..30 {
        let browser_fixture = BrowserFixture::new(2);
        browser_fixture.world(2).starting.shut();
        let call = browser_fixture.begin_on("2", "click").await;
        let reconnect = browser_fixture.begin_reconnect("2").await;
        if turns % 2 == 0 {
            browser_fixture.world(2).starting.open();
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let (status, waited) = took(browser_fixture.remove_browser("2")).await;
        assert_eq!((status.unwrap().state, waited), (BrowserState::Disconnected, Duration::ZERO), "{turns}");
        // The call or the removal may be faster.
        if let Err(error) = call.await.unwrap() {
            assert!(matches!(error, FleetError::BrowserRemoved { .. }), "{turns}: {error}");
        }
        if let Err(error) = reconnect.await.unwrap() {
            assert!(matches!(error, FleetError::BrowserRemoved { .. }), "{turns}: {error}");
        }
        browser_fixture.world(2).assert_empty();
        browser_fixture.end().await;
    }
}

/// A call that comes at the moment of a removal is served or refused, and opens nothing there afterwards.
#[tokio::test(start_paused = true)]
async fn calls_racing_with_a_removal_open_nothing_afterwards() {
    for turns in 0..40 {
        let browser_fixture = BrowserFixture::new(2);
        browser_fixture.call_on("2", "click").await.unwrap();
        let mut calls = Vec::new();
        for session_key in [named("a"), SessionKey::Ephemeral, named("b")] {
            let fixture = browser_fixture.fixture.clone();
            calls.push(tokio::spawn(async move { fixture.call_at(session_key, on("2"), "click").await }));
        }
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        browser_fixture.remove_browser("2").await.unwrap();
        browser_fixture.world(2).assert_empty();
        for call in calls {
            match call.await.unwrap() {
                Ok(_) | Err(FleetError::BrowserRemoved { .. }) => {}
                // The call came when one browser was left, which a call must not name.
                Err(FleetError::NotChosen(NotChosen::OnlyOne)) => {}
                Err(error) => panic!("{turns}: {error}"),
            }
        }
        browser_fixture.world(2).assert_empty();
        browser_fixture.end().await;
    }
}

/// Two removals at once remove a browser once; a caller may leave without harm.
#[tokio::test(start_paused = true)]
async fn concurrent_removals_remove_once() {
    let browser_fixture = BrowserFixture::new(2);
    browser_fixture.fixture.call_at(named("a"), on("2"), "click").await.unwrap();
    browser_fixture.world(2).closing.shut();
    let removal = browser_fixture.begin_removal("2").await;
    let again = browser_fixture.remove_browser("2").await.unwrap_err();
    assert!(matches!(again, FleetError::NotChosen(NotChosen::Unknown { .. })), "{again}");
    removal.abort();
    browser_fixture.world(2).closing.open();
    settle().await;
    browser_fixture.world(2).assert_empty();
    browser_fixture.end().await;
}

/// A browser whose connection does not end keeps the caller of its removal no longer than a minute, and is removed in
/// the end.
#[tokio::test(start_paused = true)]
async fn hanging_removal_is_bounded() {
    let browser_fixture = BrowserFixture::new(1);
    browser_fixture.world(1).opening.shut();
    let call = browser_fixture.fixture.begin("a", "click").await;
    browser_fixture.world(1).stopping.shut();
    browser_fixture.world(1).closing.shut();
    let began = Instant::now();
    browser_fixture.remove_browser("1").await.unwrap();
    assert!(began.elapsed() <= Duration::from_secs(60), "{:?}", began.elapsed());
    assert!(matches!(
        call.await.unwrap(),
        Err(FleetError::BrowserRemoved { .. } | FleetError::BrowserDown { .. })
    ));
    for gate in [
        &browser_fixture.world(1).opening,
        &browser_fixture.world(1).stopping,
        &browser_fixture.world(1).closing,
    ] {
        gate.open();
    }
    browser_fixture.end().await;
}

/// A shutdown in the middle of a removal waits for it: nothing is left, whichever came first.
#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_a_removal() {
    for turns in 0..40 {
        let browser_fixture = BrowserFixture::new(1);
        browser_fixture.fixture.call("a", "click").await.unwrap();
        browser_fixture.fixture.close("a").await.unwrap();
        browser_fixture.fixture.call_ephemeral("click").await.unwrap();
        let ending = tokio::spawn({
            let fleet = browser_fixture.fixture.fleet.clone();
            async move { fleet.shutdown().await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        let removal = browser_fixture.begin_removal("1").await;
        ending.await.unwrap();
        browser_fixture.world(1).assert_empty();
        let removed = removal.await.unwrap();
        assert!(matches!(removed, Ok(_) | Err(FleetError::ShuttingDown)), "{turns}: {removed:?}");
        browser_fixture.end().await;
    }
}

/// With the last browser gone, the pool serves calls that name nothing, and indices count on.
#[tokio::test(start_paused = true)]
async fn pool_serves_calls_after_the_last_browser_is_removed() {
    let browser_fixture = BrowserFixture::with_a_pool(1);
    assert_eq!(browser_fixture.fixture.call("a", "click").await.unwrap().pool, "browser-1");
    browser_fixture.remove_browser("1").await.unwrap();
    let said = browser_fixture.fixture.call("a", "click").await.unwrap();
    assert_eq!((said.pool.as_str(), said.restarted().is_some()), ("DEFAULT", true));
    assert!(
        said.notes[0]
            .to_string()
            .ends_with("this is a new, empty browser, earlier pages, cookies and refs are gone")
    );
    let world = World::new();
    assert_eq!(browser_fixture.add_browser(|index| browser_in(&world, index)).unwrap().index, 2);
    let bob = Owner::new("bob");
    assert!(matches!(
        browser_fixture.call_as(&bob, SessionKey::Ephemeral, at("", "")).await,
        Err(FleetError::NotYours { .. })
    ));
    browser_fixture.end().await;
}
