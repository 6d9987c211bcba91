//! Callers that leave. A cancellation is a dropped future, nothing else.

use greenroom_core::{InstanceId, Lost};
use greenroom_fleet::{Ended, FleetError, Note};
use tokio::time::{Instant, advance};

use crate::stage::{CALL, LEASE, MS, Stage, crash, settle};

/// A queued call whose caller left is never run.
#[tokio::test(start_paused = true)]
async fn a_queued_call_whose_caller_left_is_not_run() {
    let stage = Stage::new(1, 1);
    let first = stage.begin("a", "hold").await;
    let left = stage.begin("a", "left").await;
    let last = stage.begin("a", "last").await;
    left.abort();
    stage.world.held().await.answer();
    first.await.unwrap().unwrap();
    last.await.unwrap().unwrap();
    let tools: Vec<_> = stage.world.log().into_iter().map(|(_, tool)| tool).collect();
    assert_eq!(tools, ["hold", "last"]);
    assert_eq!(stage.fleet.list(&greenroom_core::Owner::local())[0].calls_in_flight, 0);
    stage.end().await;
}

/// A running call whose caller left keeps its seat busy; the next call waits for it and runs on the same seat.
#[tokio::test(start_paused = true)]
async fn a_running_call_whose_caller_left_keeps_the_seat_busy() {
    let stage = Stage::new(1, 1);
    let left = stage.begin("a", "hold-1").await;
    let held = stage.world.held().await;
    left.abort();
    let next = stage.begin("a", "hold-2").await;
    assert!(held.is_awaited(), "the engine gets no cancellation");
    assert!(!stage.world.holds_any().await, "the next call waits");
    held.answer();
    stage.world.held().await.answer();
    let said = next.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!(stage.world.counts().opens, 1);
    stage.end().await;
}

/// A call that waited behind a cancelled one carries a note with the tool's name and the wait; the call after it does not,
/// nor a call that came after the engine was done.
#[tokio::test(start_paused = true)]
async fn a_call_behind_a_cancelled_one_hears_why_it_waited() {
    let stage = Stage::new(1, 1);
    let left = stage.begin("a", "hold-wait").await;
    let held = stage.world.held().await;
    left.abort();
    let next = stage.begin("a", "click").await;
    advance(MS * 12_000).await;
    held.answer();
    let said = next.await.unwrap().unwrap();
    let [note @ Note::HeldUp { tool, waited }] = said.notes.as_slice() else { panic!("{said:?}") };
    assert_eq!((&**tool, *waited), ("hold-wait", MS * 12_000));
    assert!(
        note.to_string().starts_with("this call waited 12 s for hold-wait, which was cancelled"),
        "{note}"
    );
    assert_eq!(stage.call("a", "click").await.unwrap().notes, vec![]);

    let left = stage.begin("a", "hold-again").await;
    let held = stage.world.held().await;
    left.abort();
    advance(MS * 12_000).await;
    held.answer();
    settle().await;
    assert_eq!(stage.call("a", "click").await.unwrap().notes, vec![], "it did not wait");
    stage.end().await;
}

/// A cancelled call that passes its deadline costs the seat; the next call gets a new one and a note.
#[tokio::test(start_paused = true)]
async fn a_cancelled_call_past_its_deadline_costs_the_seat() {
    let stage = Stage::new(1, 1);
    let left = stage.begin("a", "hold").await;
    let held = stage.world.held().await;
    left.abort();
    advance(CALL).await;
    settle().await;
    assert!(!held.is_awaited());
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!(said.seat, 2);
    assert_eq!(said.restarted(), Some(&Ended::Lost(Lost::Hung(CALL))));
    stage.end().await;
}

/// A call queued behind a cancelled one that hangs is not run, and the one after it gets a new seat.
#[tokio::test(start_paused = true)]
async fn calls_behind_a_hung_one_are_not_run() {
    let stage = Stage::new(1, 1);
    let left = stage.begin("a", "hold").await;
    let held = stage.world.held().await;
    left.abort();
    let error = stage.call("a", "behind").await.unwrap_err();
    assert!(matches!(error, FleetError::NotRun(Lost::Hung(_))), "{error}");
    assert!(stage.call("a", "click").await.unwrap().restarted().is_some());
    drop(held);
    stage.end().await;
}

/// A caller that leaves while it waits for a lease opens no seat, and leaves the queue.
#[tokio::test(start_paused = true)]
async fn a_caller_that_left_the_queue_opens_nothing() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    let left = stage.begin("b", "click").await;
    assert_eq!(stage.waiting(), 1);
    left.abort();
    settle().await;
    assert_eq!((stage.waiting(), stage.sessions()), (0, 1));
    stage.close("a").await.unwrap();
    settle().await;
    assert_eq!((stage.world.counts().opens, stage.leased()), (1, 0));
    stage.end().await;
}

/// A caller that leaves while an instance starts for it opens no seat; the instance serves the next one.
#[tokio::test(start_paused = true)]
async fn a_caller_that_left_a_starting_instance_opens_nothing() {
    let stage = Stage::new(1, 1);
    stage.world.starting.shut();
    stage.begin("a", "click").await.abort();
    settle().await;
    stage.world.starting.open();
    stage.world.until(|counts| counts.started == 1).await;
    settle().await;
    assert_eq!((stage.world.counts().opens, stage.leased(), stage.sessions()), (0, 0, 0));
    stage.call("b", "click").await.unwrap();
    assert_eq!(stage.world.counts().starts, 1);
    stage.end().await;
}

/// A waiter that leaves just as its slot is granted gives the slot back, and the next in line gets it.
#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_at_the_grant_gives_the_slot_back() {
    let stage = Stage::new(1, 1);
    for round in 0..100 {
        stage.create("a").await.unwrap();
        let leaves = stage.begin("b", "click").await;
        let stays = stage.begin("c", "click").await;
        stage.world.closing.shut();
        let closing = tokio::spawn({
            let stage = stage.clone();
            async move { stage.close("a").await }
        });
        settle().await;
        // The grant comes first and then the caller leaves, both before the waiter's task runs.
        stage.world.closing.open();
        leaves.abort();
        closing.await.unwrap().unwrap();
        stays.await.unwrap().unwrap();
        assert!(stage.world.log().iter().all(|(_, tool)| tool == "click"));
        assert_eq!(stage.world.counts().calls, round + 1, "only the caller that stayed was served");
        assert_eq!((stage.world.counts().opens, stage.leased()), (2 * (round + 1), 1));
        stage.close("c").await.unwrap();
    }
    stage.end().await;
}

/// When the first caller of a waiting session leaves, the next one takes its place in the queue, not a new one.
#[tokio::test(start_paused = true)]
async fn the_session_keeps_its_place_for_the_next_caller() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    let first = stage.begin("b", "one").await;
    let second = stage.begin("b", "two").await;
    let other = stage.begin("c", "hold").await;
    first.abort();
    settle().await;
    assert_eq!(stage.waiting(), 2);
    stage.close("a").await.unwrap();
    assert_eq!(second.await.unwrap().unwrap().seat, 2);
    assert!(!stage.world.holds_any().await);
    stage.close("b").await.unwrap();
    stage.world.held().await.answer();
    other.await.unwrap().unwrap();
    assert!(stage.world.log().iter().all(|(_, tool)| tool != "one"));
    stage.end().await;
}

/// A caller that leaves while its seat opens leaves an idle session behind, which the next call uses.
#[tokio::test(start_paused = true)]
async fn a_caller_that_left_an_opening_leaves_a_session() {
    let stage = Stage::new(1, 1);
    stage.world.opening.shut();
    stage.begin("a", "left").await.abort();
    stage.world.opening.open();
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    assert_eq!((stage.world.counts().opens, stage.world.counts().calls), (1, 1));
    stage.end().await;
}

/// A note that reached no caller, because the caller left, is in the next answer, and only once.
#[tokio::test(start_paused = true)]
async fn an_unheard_note_is_said_again() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    stage.world.lose_seat(1, crash());
    settle().await;
    let left = stage.begin("a", "hold").await;
    let held = stage.world.held().await;
    left.abort();
    held.answer();
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&Ended::Lost(crash()))));
    assert_eq!(stage.call("a", "click").await.unwrap().notes, []);
    stage.end().await;
}

/// A note survives successors that never began: their callers left in the queue, or their start failed.
#[tokio::test(start_paused = true)]
async fn a_note_survives_successors_that_never_began() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    stage.world.lose_instance(InstanceId(0), &crash());
    settle().await;
    stage.create("b").await.unwrap();
    stage.begin("a", "left").await.abort();
    settle().await;
    assert!(matches!(stage.call("a", "waits").await, Err(FleetError::Lease(_))));
    stage.close("b").await.unwrap();
    stage.world.fail_open(greenroom_core::StartError::new("no context"));
    assert!(matches!(stage.call("a", "fails").await, Err(FleetError::Start(_))));
    assert_eq!(stage.call("a", "click").await.unwrap().restarted(), Some(&Ended::Lost(crash())));
    stage.end().await;
}

/// A caller may leave just as its lease times out; nothing is left behind.
#[tokio::test(start_paused = true)]
async fn leaving_at_the_lease_timeout() {
    let stage = Stage::new(1, 1);
    stage.create("a").await.unwrap();
    let began = Instant::now();
    let left = stage.begin("b", "click").await;
    tokio::time::sleep_until(began + LEASE - MS).await;
    left.abort();
    advance(MS).await;
    settle().await;
    assert_eq!((stage.waiting(), stage.leased(), stage.sessions()), (0, 1, 1));
    stage.end().await;
}
