//! Calls of one session run in order, those of different sessions side by side.

use greenroom_fleet::FleetError;

use crate::fixture::{FleetFixture, settle};

/// Calls of one session run one at a time, in the order in which they came.
#[tokio::test(start_paused = true)]
async fn calls_of_a_session_run_in_order() {
    let fixture = FleetFixture::new(4, 1);
    let mut calls = Vec::new();
    for n in 0..10 {
        calls.push(fixture.begin("a", &format!("hold-{n}")).await);
    }
    for n in 0..10 {
        let held = fixture.world.held().await;
        assert_eq!(held.tool, format!("hold-{n}"));
        settle().await;
        assert!(!fixture.world.holds_any().await, "one at a time");
        held.answer();
    }
    for call in calls {
        assert_eq!(call.await.unwrap().unwrap().seat, 1);
    }
    fixture.end().await;
}

/// Sessions run in parallel: a busy session delays no other, on the same instance or another.
#[tokio::test(start_paused = true)]
async fn sessions_run_in_parallel() {
    let fixture = FleetFixture::new(2, 3);
    let mut calls = Vec::new();
    let mut held = Vec::new();
    for id in ["a", "b", "c", "d", "e", "f"] {
        calls.push(fixture.begin(id, "hold").await);
        held.push(fixture.world.held().await);
    }
    assert!(held.iter().all(|call| call.is_awaited()), "all six run at once");
    for call in held.into_iter().rev() {
        call.answer();
    }
    for (call, seat) in calls.into_iter().zip(1..) {
        assert_eq!(call.await.unwrap().unwrap().seat, seat);
    }
    assert_eq!((fixture.world.counts().starts, fixture.world.counts().seats_max), (3, 2));
    fixture.end().await;
}

/// A session's queue is bounded; what does not fit is refused and the rest runs.
#[tokio::test(start_paused = true)]
async fn session_queue_is_bounded() {
    let fixture = FleetFixture::new(1, 1);
    let running = fixture.begin("a", "hold").await;
    let held = fixture.world.held().await;
    let mut queued = Vec::new();
    for _ in 0..64 {
        queued.push(fixture.begin("a", "click").await);
    }
    let error = fixture.call("a", "click").await.unwrap_err();
    assert!(matches!(error, FleetError::QueueFull { max: 64 }), "{error}");
    held.answer();
    running.await.unwrap().unwrap();
    for call in queued {
        call.await.unwrap().unwrap();
    }
    assert_eq!(fixture.world.counts().calls, 65);
    fixture.call("a", "click").await.unwrap();
    fixture.end().await;
}
