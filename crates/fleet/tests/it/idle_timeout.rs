//! Idle time and lifetime.

use std::time::Duration;

use greenroom_core::Owner;
use greenroom_fleet::{EndReason, Note};
use tokio::time::{Instant, advance, sleep, sleep_until};

use crate::fixture::{CALL, FleetFixture, IDLE, MS, settle, with_call_timeout};

const LIFETIME: Duration = Duration::from_secs(400);

fn with_lifetimes() -> FleetFixture {
    FleetFixture::tuned(1, 1, |settings| settings.max_lifetime = Some(LIFETIME))
}

/// An idle session ends exactly when its time is over, and the next call carries a note.
#[tokio::test(start_paused = true)]
async fn idle_sessions_end() {
    let fixture = FleetFixture::new(1, 1);
    fixture.call("a", "click").await.unwrap();
    advance(IDLE - MS).await;
    settle().await;
    assert_eq!(fixture.sessions(), 1);
    advance(MS).await;
    settle().await;
    assert_eq!((fixture.sessions(), fixture.leased()), (0, 0));
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Idle(IDLE))));
    assert!(said.notes[0].to_string().contains("it was closed after 5 min without a call"));
    fixture.end().await;
}

/// A call restarts the idle time, and a call longer than the idle time keeps its session alive.
#[tokio::test(start_paused = true)]
async fn call_restarts_the_idle_time() {
    let fixture = FleetFixture::tuned(1, 1, |settings| with_call_timeout(settings, IDLE * 4));
    fixture.call("a", "click").await.unwrap();
    sleep(IDLE - MS).await;
    fixture.call("a", "click").await.unwrap();
    sleep(IDLE - MS).await;
    let long = fixture.begin("a", "hold").await;
    sleep(IDLE * 3).await;
    assert_eq!(fixture.sessions(), 1);
    fixture.world.held().await.answer();
    let said = long.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    sleep(IDLE - MS).await;
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A long call keeps its session even when its caller left.
#[tokio::test(start_paused = true)]
async fn cancelled_call_keeps_its_session() {
    let fixture = FleetFixture::tuned(1, 1, |settings| with_call_timeout(settings, IDLE * 4));
    fixture.begin("a", "hold").await.abort();
    sleep(IDLE * 2).await;
    fixture.world.held().await.answer();
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A call that races with the expiry is answered, by the old seat without a note or by a new one with it.
#[tokio::test(start_paused = true)]
async fn call_racing_with_expiry_is_answered() {
    let fixture = FleetFixture::new(1, 1);
    let mut kept = 0;
    let mut restarted = 0;
    let mut seat = fixture.call("a", "click").await.unwrap().seat;
    for round in 0..200 {
        let expiry = Instant::now() + IDLE;
        // The caller's timer was made before or after the session's, and its task takes more or fewer turns.
        let call = tokio::spawn({
            let fixture = fixture.clone();
            async move {
                sleep_until(expiry).await;
                for _ in 0..round % 5 {
                    tokio::task::yield_now().await;
                }
                fixture.call("a", "click").await
            }
        });
        let said = call.await.unwrap().unwrap();
        match said.restarted() {
            None => {
                assert_eq!(said.seat, seat);
                kept += 1;
            }
            Some(ended) => {
                assert_eq!((said.seat, ended), (seat + 1, &EndReason::Idle(IDLE)));
                restarted += 1;
            }
        }
        seat = said.seat;
    }
    assert_eq!(kept + restarted, 200);
    assert!(restarted > 0);
    fixture.end().await;
}

/// A call queued before the session's task sees that its time is over keeps it.
#[tokio::test(start_paused = true)]
async fn call_queued_at_expiry_keeps_the_session() {
    let fixture = FleetFixture::new(1, 1);
    fixture.call("a", "click").await.unwrap();
    // The call is queued and the clock passes the expiry, both before the session's task runs.
    let (said, ()) = tokio::join!(biased; fixture.call("a", "click"), advance(IDLE));
    let said = said.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    fixture.end().await;
}

/// A renewal that comes as the session's time runs out takes effect.
#[tokio::test(start_paused = true)]
async fn renewal_racing_with_expiry_takes_effect() {
    let fixture = FleetFixture::new(1, 1);
    let mut renewals = 0;
    for round in 0..100 {
        let seat = fixture.call("a", "click").await.unwrap().seat;
        let expiry = Instant::now() + IDLE;
        let renewed = tokio::spawn({
            let fixture = fixture.clone();
            async move {
                sleep_until(expiry).await;
                for _ in 0..round % 5 {
                    tokio::task::yield_now().await;
                }
                fixture.renew("a")
            }
        });
        let renewed = renewed.await.unwrap();
        settle().await;
        let said = fixture.call("a", "click").await.unwrap();
        assert_eq!(renewed.is_ok(), said.seat == seat, "the session lives as long as the renewal said");
        renewals += u32::from(renewed.is_ok());
    }
    assert!(renewals < 100);
    fixture.end().await;
}

/// Answers warn near the end of a session's lifetime, and not before; at its end the session ends, and the next call
/// carries a note.
#[tokio::test(start_paused = true)]
async fn session_ends_with_its_lifetime() {
    let fixture = with_lifetimes();
    let began = Instant::now();
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
    sleep_until(began + LIFETIME / 2).await;
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
    sleep_until(began + LIFETIME - Duration::from_secs(41)).await;
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
    sleep_until(began + LIFETIME - Duration::from_secs(40)).await;
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!(said.notes, [Note::Expiring(Duration::from_secs(40))]);
    assert_eq!(said.notes[0].to_string(), "session ends in 40 s: call session_renew to keep it");
    sleep_until(began + LIFETIME - MS).await;
    assert_eq!(fixture.sessions(), 1);
    advance(MS).await;
    settle().await;
    assert_eq!((fixture.sessions(), fixture.leased()), (0, 0));
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Lifetime(LIFETIME))));
    fixture.end().await;
}

/// A lifetime never ends during a call; the session ends right after it.
#[tokio::test(start_paused = true)]
async fn lifetime_ends_after_the_running_call() {
    let fixture = with_lifetimes();
    fixture.call("a", "click").await.unwrap();
    sleep(IDLE - MS).await;
    fixture.call("a", "click").await.unwrap();
    sleep(LIFETIME - IDLE - MS * 100).await;
    let running = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    sleep(CALL - MS).await;
    assert_eq!((fixture.sessions(), held.is_awaited()), (1, true));
    held.answer();
    let said = running.await.unwrap().unwrap();
    assert_eq!(said.notes, [Note::Expiring(Duration::ZERO)]);
    settle().await;
    assert_eq!(fixture.sessions(), 0);
    fixture.end().await;
}

/// A queue that never empties does not keep a session past its lifetime: queued calls run in the next one.
#[tokio::test(start_paused = true)]
async fn busy_session_ends_with_its_lifetime() {
    let fixture = with_lifetimes();
    fixture.call("a", "click").await.unwrap();
    sleep(IDLE - MS).await;
    fixture.call("a", "click").await.unwrap();
    sleep(LIFETIME - IDLE - MS).await;
    let running = fixture.begin("a", "hold").await;
    let queued = [fixture.begin("a", "one").await, fixture.begin("a", "two").await];
    let held = fixture.world.held().await;
    sleep(MS * 2).await;
    held.answer();
    assert_eq!(running.await.unwrap().unwrap().seat, 1);
    let [one, two] = queued;
    let one = one.await.unwrap().unwrap();
    assert_eq!((one.seat, one.restarted()), (2, Some(&EndReason::Lifetime(LIFETIME))));
    let two = two.await.unwrap().unwrap();
    assert_eq!((two.seat, two.notes), (2, vec![]));
    fixture.end().await;
}

/// A renewal restarts both clocks and returns when the session would end.
#[tokio::test(start_paused = true)]
async fn renewal_restarts_idle_time_and_lifetime() {
    let fixture = with_lifetimes();
    fixture.call("a", "click").await.unwrap();
    for _ in 0..5 {
        sleep(IDLE - MS).await;
        assert_eq!(fixture.renew("a").unwrap(), IDLE);
    }
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]), "far past both, and no warning");
    sleep(IDLE).await;
    settle().await;
    assert_eq!(fixture.sessions(), 0, "the last renewal ends as well");
    let short = FleetFixture::tuned(1, 1, |settings| settings.max_lifetime = Some(MS * 500));
    short.create("a").await.unwrap();
    assert_eq!(short.renew("a").unwrap(), MS * 500, "whichever comes first");
    short.end().await;
    fixture.end().await;
}

/// `expires_in` is the time left on the shorter of both clocks, and absent while a call is in flight.
#[tokio::test(start_paused = true)]
async fn expires_in_is_the_time_left() {
    let fixture = with_lifetimes();
    let expires_in = || fixture.fleet.list(&Owner::local())[0].expires_in;
    fixture.call("a", "click").await.unwrap();
    assert_eq!(expires_in(), Some(IDLE));
    advance(Duration::from_secs(250)).await;
    assert_eq!(expires_in(), Some(Duration::from_secs(50)));
    let running = fixture.begin("a", "hold").await;
    assert_eq!(expires_in(), None);
    fixture.world.held().await.answer();
    running.await.unwrap().unwrap();
    assert_eq!(expires_in(), Some(Duration::from_secs(150)), "the lifetime comes first now");
    fixture.renew("a").unwrap();
    assert_eq!(expires_in(), Some(IDLE));
    fixture.end().await;
}
