//! Callers that leave. A cancellation is a dropped future, nothing else.

use greenroom_core::{InstanceId, Lost};
use greenroom_fleet::{EndReason, FleetError, Note};
use tokio::time::{Instant, advance};

use crate::fixture::{CALL, FleetFixture, LEASE, MS, crash, settle};

/// A queued call whose caller left is never run.
#[tokio::test(start_paused = true)]
async fn queued_call_of_a_departed_caller_is_not_run() {
    let fixture = FleetFixture::new(1, 1);
    let first = fixture.begin("a", "hold").await;
    let left = fixture.begin("a", "left").await;
    let last = fixture.begin("a", "last").await;
    left.abort();
    fixture.world.held().await.answer();
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    let tools: Vec<_> = fixture.world.log().into_iter().map(|(_, tool)| tool).collect();
    assert_eq!(tools, ["hold", "last"]);
    assert_eq!(fixture.fleet.list(&greenroom_core::Owner::local())[0].calls_in_flight, 0);
    fixture.end().await;
}

/// A running call whose caller left keeps its seat busy; the next call waits for it and runs on the same seat.
#[tokio::test(start_paused = true)]
async fn running_call_of_a_departed_caller_keeps_the_seat_busy() {
    let fixture = FleetFixture::new(1, 1);
    let left = fixture.begin("a", "hold-1").await;
    let held = fixture.world.held().await;
    left.abort();
    let next = fixture.begin("a", "hold-2").await;
    assert!(held.is_awaited(), "the engine gets no cancellation");
    assert!(!fixture.world.holds_any().await, "the next call waits");
    held.answer();
    fixture.world.held().await.answer();
    let said = next.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!(fixture.world.counts().opens, 1);
    fixture.end().await;
}

/// A call that waited behind a cancelled one carries a note with the tool's name and the wait; the call after it does not,
/// nor a call that came after the engine was done.
#[tokio::test(start_paused = true)]
async fn call_behind_a_cancelled_one_gets_a_note() {
    let fixture = FleetFixture::new(1, 1);
    let left = fixture.begin("a", "hold-wait").await;
    let held = fixture.world.held().await;
    left.abort();
    let next = fixture.begin("a", "click").await;
    advance(MS * 12_000).await;
    held.answer();
    let said = next.await.unwrap().unwrap();
    let [note @ Note::HeldUp { tool, waited }] = said.notes.as_slice() else { panic!("{said:?}") };
    assert_eq!((&**tool, *waited), ("hold-wait", MS * 12_000));
    assert!(
        note.to_string().starts_with("this call waited 12 s for hold-wait, which was cancelled"),
        "{note}"
    );
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, vec![]);

    let left = fixture.begin("a", "hold-again").await;
    let held = fixture.world.held().await;
    left.abort();
    advance(MS * 12_000).await;
    held.answer();
    settle().await;
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, vec![], "it did not wait");
    fixture.end().await;
}

/// A cancelled call that passes its deadline costs the seat; the next call gets a new one and a note.
#[tokio::test(start_paused = true)]
async fn cancelled_call_past_its_deadline_loses_the_seat() {
    let fixture = FleetFixture::new(1, 1);
    let left = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    left.abort();
    advance(CALL).await;
    settle().await;
    assert!(!held.is_awaited());
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!(said.seat, 2);
    assert_eq!(said.restarted(), Some(&EndReason::Lost(Lost::Hung(CALL))));
    fixture.end().await;
}

/// A call queued behind a cancelled one that hangs is not run, and the one after it gets a new seat.
#[tokio::test(start_paused = true)]
async fn calls_behind_a_hung_one_are_not_run() {
    let fixture = FleetFixture::new(1, 1);
    let left = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    left.abort();
    let error = fixture.call("a", "behind").await.unwrap_err();
    assert!(matches!(error, FleetError::NotRun(Lost::Hung(_))), "{error}");
    assert!(fixture.call("a", "click").await.unwrap().restarted().is_some());
    drop(held);
    fixture.end().await;
}

/// A caller that leaves while it waits for a lease opens no seat, and leaves the queue.
#[tokio::test(start_paused = true)]
async fn caller_that_left_the_queue_opens_no_seat() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    let left = fixture.begin("b", "click").await;
    assert_eq!(fixture.waiting(), 1);
    left.abort();
    settle().await;
    assert_eq!((fixture.waiting(), fixture.sessions()), (0, 1));
    fixture.close("a").await.unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().opens, fixture.leased()), (1, 0));
    fixture.end().await;
}

/// A caller that leaves while an instance starts for it opens no seat; the instance serves the next one.
#[tokio::test(start_paused = true)]
async fn caller_that_left_a_starting_instance_opens_no_seat() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.starting.shut();
    fixture.begin("a", "click").await.abort();
    settle().await;
    fixture.world.starting.open();
    fixture.world.until(|counts| counts.started == 1).await;
    settle().await;
    assert_eq!((fixture.world.counts().opens, fixture.leased(), fixture.sessions()), (0, 0, 0));
    fixture.call("b", "click").await.unwrap();
    assert_eq!(fixture.world.counts().starts, 1);
    fixture.end().await;
}

/// A waiter that leaves just as its slot is granted gives the slot back, and the next in line gets it.
#[tokio::test(start_paused = true)]
async fn waiter_leaving_at_the_grant_returns_the_slot() {
    let fixture = FleetFixture::new(1, 1);
    for round in 0..100 {
        fixture.create("a").await.unwrap();
        let leaves = fixture.begin("b", "click").await;
        let stays = fixture.begin("c", "click").await;
        fixture.world.closing.shut();
        let closing = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.close("a").await }
        });
        settle().await;
        // The grant comes first and then the caller leaves, both before the waiter's task runs.
        fixture.world.closing.open();
        leaves.abort();
        closing.await.unwrap().unwrap();
        stays.await.unwrap().unwrap();
        assert!(fixture.world.log().iter().all(|(_, tool)| tool == "click"));
        assert_eq!(fixture.world.counts().calls, round + 1, "only the caller that stayed was served");
        assert_eq!((fixture.world.counts().opens, fixture.leased()), (2 * (round + 1), 1));
        fixture.close("c").await.unwrap();
    }
    fixture.end().await;
}

/// When the first caller of a waiting session leaves, the next one takes its place in the queue, not a new one.
#[tokio::test(start_paused = true)]
async fn session_keeps_its_queue_position_for_the_next_caller() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    let first = fixture.begin("b", "one").await;
    let second = fixture.begin("b", "two").await;
    let other = fixture.begin("c", "hold").await;
    first.abort();
    settle().await;
    assert_eq!(fixture.waiting(), 2);
    fixture.close("a").await.unwrap();
    assert_eq!(second.await.unwrap().unwrap().seat, 2);
    assert!(!fixture.world.holds_any().await);
    fixture.close("b").await.unwrap();
    fixture.world.held().await.answer();
    other.await.unwrap().unwrap();
    assert!(fixture.world.log().iter().all(|(_, tool)| tool != "one"));
    fixture.end().await;
}

/// A caller that leaves while its seat opens leaves an idle session behind, which the next call uses.
#[tokio::test(start_paused = true)]
async fn caller_that_left_an_opening_seat_leaves_a_session() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.opening.shut();
    fixture.begin("a", "left").await.abort();
    fixture.world.opening.open();
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    assert_eq!((fixture.world.counts().opens, fixture.world.counts().calls), (1, 1));
    fixture.end().await;
}

/// A note that reached no caller, because the caller left, is in the next answer, and only once.
#[tokio::test(start_paused = true)]
async fn undelivered_note_is_sent_again() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    fixture.world.lose_seat(1, crash());
    settle().await;
    let left = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    left.abort();
    held.answer();
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Lost(crash()))));
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
    fixture.end().await;
}

/// A note survives successors that never began: their callers left in the queue, or their start failed.
#[tokio::test(start_paused = true)]
async fn note_survives_sessions_that_never_began() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    fixture.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    fixture.create("b").await.unwrap();
    fixture.begin("a", "left").await.abort();
    settle().await;
    assert!(matches!(fixture.call("a", "waits").await, Err(FleetError::Lease(_))));
    fixture.close("b").await.unwrap();
    fixture.world.fail_open(greenroom_core::StartError::new("no context"));
    assert!(matches!(fixture.call("a", "fails").await, Err(FleetError::Start(_))));
    assert_eq!(fixture.call("a", "click").await.unwrap().restarted(), Some(&EndReason::Lost(crash())));
    fixture.end().await;
}

/// A caller may leave just as its lease times out; nothing is left behind.
#[tokio::test(start_paused = true)]
async fn caller_leaving_at_the_lease_timeout_leaves_nothing() {
    let fixture = FleetFixture::new(1, 1);
    fixture.create("a").await.unwrap();
    let began = Instant::now();
    let left = fixture.begin("b", "click").await;
    tokio::time::sleep_until(began + LEASE - MS).await;
    left.abort();
    advance(MS).await;
    settle().await;
    assert_eq!((fixture.waiting(), fixture.leased(), fixture.sessions()), (0, 1, 1));
    fixture.end().await;
}
