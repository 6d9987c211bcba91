//! How sessions are created.

use greenroom_core::{Lost, Owner, StartError};
use greenroom_fleet::{FleetError, SessionKey};
use tokio::task::JoinSet;

use crate::fixture::{FleetFixture, connection, crash, named, settle};

/// Many first calls at once with one id make one session with one seat.
#[tokio::test(start_paused = true)]
async fn concurrent_first_calls_make_one_session() {
    let fixture = FleetFixture::new(8, 8);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let fixture = fixture.clone();
        calls.spawn(async move { fixture.call("a", "click").await.unwrap().seat });
    }
    assert_eq!(calls.join_all().await, [1; 50]);
    let counts = fixture.world.counts();
    assert_eq!((counts.starts, counts.opens, counts.calls), (1, 1, 50));
    assert_eq!(fixture.sessions(), 1);
    fixture.end().await;
}

/// First calls on several threads, which really race for the registry, make one session too.
#[test]
fn first_calls_on_many_threads_make_one_session() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..20 {
            let fixture = FleetFixture::new(8, 8);
            let mut calls = JoinSet::new();
            for _ in 0..40 {
                let fixture = fixture.clone();
                calls.spawn(async move { fixture.call("a", "click").await.unwrap().seat });
            }
            assert_eq!(calls.join_all().await, [1; 40]);
            fixture.end().await;
        }
    });
}

/// Ids live in their owner's namespace, and a connection's own session is no named one.
#[tokio::test(start_paused = true)]
async fn owners_and_connections_have_separate_session_ids() {
    let fixture = FleetFixture::new(8, 1);
    let ann = Owner::new("ann");
    let bob = Owner::new("bob");
    let mut seats = Vec::new();
    for (owner, session_key) in [
        (&ann, named("1")),
        (&bob, named("1")),
        (&ann, connection(1)),
        (&bob, connection(1)),
        (&ann, connection(2)),
        (&ann, SessionKey::Ephemeral),
    ] {
        seats.push(fixture.call_as(owner, session_key, "click", "{}").await.unwrap().seat);
    }
    assert_eq!(seats, [1, 2, 3, 4, 5, 6]);
    assert_eq!(fixture.call_as(&ann, named("1"), "click", "{}").await.unwrap().seat, 1);
    assert_eq!(fixture.call_as(&bob, connection(1), "click", "{}").await.unwrap().seat, 4);
    fixture.end().await;
}

/// A seat that cannot be opened fails the call, and the fleet forgets it: the next call tries again.
#[tokio::test(start_paused = true)]
async fn failed_opening_is_tried_again() {
    let fixture = FleetFixture::new(2, 1);
    fixture.world.fail_open(StartError::new("no context"));
    let error = fixture.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start a browser: no context");
    assert_eq!((fixture.sessions(), fixture.leased()), (0, 0));
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!(fixture.world.counts().starts, 1, "the instance is still alive");
    fixture.end().await;
}

/// An instance that cannot be started fails the call, and the fleet forgets it, however soon the next call comes.
#[tokio::test(start_paused = true)]
async fn failed_start_is_tried_again() {
    let fixture = FleetFixture::new(1, 1);
    for round in 0..50 {
        fixture.world.fail_start("no chromium");
        let error = fixture.call("a", "click").await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start a browser: no chromium", "round {round}");
        assert_eq!(fixture.call("a", "click").await.unwrap().seat, round + 1);
        fixture.world.lose_instance(greenroom_core::InstanceId(0), &crash());
        fixture.close("a").await.unwrap();
    }
    fixture.end().await;
}

/// An instance that hangs in its start fails the call after a while and frees its place.
#[tokio::test(start_paused = true)]
async fn hanging_start_fails_the_call() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.starting.shut();
    let error = fixture.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start a browser: the instance did not start in time");
    fixture.world.starting.open();
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A seat that hangs in its opening is tried once more, then the call fails and the slot is free again.
#[tokio::test(start_paused = true)]
async fn hanging_opening_fails_the_call() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.opening.shut();
    let error = fixture.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no session could be opened in time: no seat within 30 s");
    assert_eq!((fixture.world.counts().opens, fixture.leased()), (2, 0));
    fixture.world.opening.open();
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// All callers that wait for a creation get its error, and none of them starts another.
#[tokio::test(start_paused = true)]
async fn all_waiting_callers_get_the_error() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.opening.shut();
    fixture.world.fail_open(StartError::new("no context"));
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(fixture.begin("a", "click").await);
    }
    fixture.world.opening.open();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, FleetError::Start(why) if why.message == "no context"), "{error}");
    }
    assert_eq!(fixture.world.counts().opens, 1);
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// An instance that dies while a seat opens is replaced, and the call succeeds.
#[tokio::test(start_paused = true)]
async fn opening_survives_the_death_of_an_instance() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.opening.shut();
    let call = fixture.begin("a", "click").await;
    fixture.world.lose_instance(greenroom_core::InstanceId(0), &crash());
    fixture.world.opening.open();
    let said = call.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!((fixture.world.counts().starts, fixture.world.counts().opens), (2, 2));
    fixture.end().await;
}

/// `create` opens a browser without a call, and an id that is in use is an error, also while it starts.
#[tokio::test(start_paused = true)]
async fn create_opens_and_refuses_an_id_in_use() {
    let fixture = FleetFixture::new(2, 1);
    fixture.world.opening.shut();
    let creating = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.create("a").await }
    });
    settle().await;
    assert!(matches!(fixture.create("a").await, Err(FleetError::Exists(id)) if id.as_str() == "a"));
    fixture.world.opening.open();
    creating.await.unwrap().unwrap();
    assert!(matches!(fixture.create("a").await, Err(FleetError::Exists(_))));
    assert_eq!((fixture.world.counts().opens, fixture.world.counts().calls), (1, 0));
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A failed `create` leaves the id free, and one after a crash begins afresh without a note.
#[tokio::test(start_paused = true)]
async fn failed_create_leaves_the_id_free() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.fail_open(StartError::new("no context"));
    assert!(matches!(fixture.create("a").await, Err(FleetError::Start(_))));
    fixture.create("a").await.unwrap();
    fixture.world.lose_seat(1, Lost::Page("crashed".into()));
    settle().await;
    fixture.create("a").await.unwrap();
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    fixture.end().await;
}
