//! Attached browsers on real threads: whatever happens at the same moment, every call is answered and nothing is left.

use std::{sync::Arc, time::Duration};

use greenroom_core::InstanceId;
use greenroom_fleet::{BrowserState, Fleet, FleetError, SessionKey};
use tokio::{task::JoinSet, time::timeout};

use crate::{
    browser_fixture::{BrowserFixture, browser_in, on},
    fake::World,
    fixture::{crash, named},
};

/// The longest a round may take. A round needs only some pauses between tries, unless it hangs.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Adds, uses and removes a browser, as far as the fleet lets it.
async fn browsers_come_and_go(fleet: Fleet) -> Arc<World> {
    let world = World::new();
    if let Ok(added) = fleet.add_browser(|index| browser_in(&world, index)) {
        fleet.connect_browsers();
        let name = added.index.to_string();
        let _ = tokio::join!(fleet.reconnect_browser(&name), fleet.remove_browser(&name));
    }
    world
}

/// Calls, losses, reconnects, additions and removals meet a shutdown: all of them end, and no seat and no connection
/// outlives the fleet.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn races_with_a_shutdown_leave_nothing() {
    for round in 0..60 {
        let browser_fixture = BrowserFixture::new(3);
        let mut tasks = JoinSet::new();
        for nth in 0..12_u32 {
            let browser_fixture = browser_fixture.clone();
            let browser = (nth % 3 + 1).to_string();
            tasks.spawn(async move {
                let session_key = if nth < 6 { SessionKey::Ephemeral } else { named(&nth.to_string()) };
                let call = browser_fixture.fixture.call_at(session_key, on(&browser), "click");
                let _ =
                    if nth % 4 == 0 { Some(browser_fixture.reconnect_browser(&browser).await) } else { None };
                drop(call.await);
            });
        }
        let lost = browser_fixture.clone();
        let removed = browser_fixture.clone();
        tasks.spawn(async move { lost.world(1).lose_if_started(InstanceId(0), &crash()) });
        tasks.spawn(async move { drop(removed.remove_browser("2").await) });
        let mut worlds = JoinSet::new();
        for _ in 0..4 {
            worlds.spawn(browsers_come_and_go(browser_fixture.fixture.fleet.clone()));
        }
        for _ in 0..round % 20 {
            tokio::task::yield_now().await;
        }
        let ended = timeout(TEST_TIMEOUT, async {
            browser_fixture.shutdown().await;
            while tasks.join_next().await.is_some() {}
            worlds.join_all().await
        });
        let worlds = ended.await.unwrap_or_else(|_| panic!("round {round} hangs"));
        worlds.iter().for_each(|world| world.assert_left());
        browser_fixture.end_in(World::assert_left).await;
    }
}

/// Many callers reconnect while the browser dies again and again: all are answered, and it is connected in the end; there
/// is never more than one attempt at a time.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_reconnects_make_one_attempt_at_a_time() {
    for round in 0..40 {
        let browser_fixture = BrowserFixture::new(1);
        let mut tasks = JoinSet::new();
        for nth in 0..8_u32 {
            let browser_fixture = browser_fixture.clone();
            tasks.spawn(async move {
                if nth % 2 == 0 {
                    browser_fixture.world(1).lose_if_started(InstanceId(0), &crash());
                }
                browser_fixture.reconnect_browser("1").await.map(|status| status.index)
            });
        }
        let answers =
            timeout(TEST_TIMEOUT, tasks.join_all()).await.unwrap_or_else(|_| panic!("round {round} hangs"));
        assert!(answers.iter().all(|answer| matches!(answer, Ok(1))), "{answers:?}");
        let last = timeout(TEST_TIMEOUT, browser_fixture.reconnect_browser("1")).await.unwrap();
        assert!(matches!(&last, Ok(status) if status.state == BrowserState::Connected), "{last:?}");
        assert_eq!(browser_fixture.world(1).counts().starting_max, 1);
        browser_fixture.end_in(World::assert_left).await;
        assert!(matches!(browser_fixture.reconnect_browser("1").await, Err(FleetError::ShuttingDown)));
    }
}
