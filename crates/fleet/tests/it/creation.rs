//! How sessions are created.

use greenroom_core::{Lost, Owner, StartError};
use greenroom_fleet::{FleetError, SessionKey};
use tokio::task::JoinSet;

use crate::stage::{Stage, connection, crash, named, settle};

/// Many first calls at once with one id make one session with one seat.
#[tokio::test(start_paused = true)]
async fn many_first_calls_make_one_session() {
    let stage = Stage::new(8, 8);
    let mut calls = JoinSet::new();
    for _ in 0..50 {
        let stage = stage.clone();
        calls.spawn(async move { stage.call("a", "click").await.unwrap().seat });
    }
    assert_eq!(calls.join_all().await, [1; 50]);
    let counts = stage.world.counts();
    assert_eq!((counts.starts, counts.opens, counts.calls), (1, 1, 50));
    assert_eq!(stage.sessions(), 1);
    stage.end().await;
}

/// The same on several threads at once, where calls really race for the registry.
#[test]
fn many_first_calls_on_many_threads_make_one_session() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..20 {
            let stage = Stage::new(8, 8);
            let mut calls = JoinSet::new();
            for _ in 0..40 {
                let stage = stage.clone();
                calls.spawn(async move { stage.call("a", "click").await.unwrap().seat });
            }
            assert_eq!(calls.join_all().await, [1; 40]);
            stage.end().await;
        }
    });
}

/// Ids live in their owner's namespace, and a connection's own session is no named one.
#[tokio::test(start_paused = true)]
async fn owners_and_connections_are_apart() {
    let stage = Stage::new(8, 1);
    let (ann, bob) = (Owner::new("ann"), Owner::new("bob"));
    let mut seats = Vec::new();
    for (owner, whose) in [
        (&ann, named("1")),
        (&bob, named("1")),
        (&ann, connection(1)),
        (&bob, connection(1)),
        (&ann, connection(2)),
        (&ann, SessionKey::Ephemeral),
    ] {
        seats.push(stage.call_as(owner, whose, "click", "{}").await.unwrap().seat);
    }
    assert_eq!(seats, [1, 2, 3, 4, 5, 6]);
    assert_eq!(stage.call_as(&ann, named("1"), "click", "{}").await.unwrap().seat, 1);
    assert_eq!(stage.call_as(&bob, connection(1), "click", "{}").await.unwrap().seat, 4);
    stage.end().await;
}

/// A seat that cannot be opened fails the call, and the fleet forgets it: the next call tries again.
#[tokio::test(start_paused = true)]
async fn a_failed_opening_is_not_remembered() {
    let stage = Stage::new(2, 1);
    stage.world.fail_open(StartError::new("no context"));
    let error = stage.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start a browser: no context");
    assert_eq!((stage.sessions(), stage.leased()), (0, 0));
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!(stage.world.counts().starts, 1, "the instance is still alive");
    stage.end().await;
}

/// An instance that cannot be started fails the call, and the fleet forgets it, however soon the next call comes.
#[tokio::test(start_paused = true)]
async fn a_failed_start_is_not_remembered() {
    let stage = Stage::new(1, 1);
    for round in 0..50 {
        stage.world.fail_start("no chromium");
        let error = stage.call("a", "click").await.unwrap_err();
        assert_eq!(error.to_string(), "cannot start a browser: no chromium", "round {round}");
        assert_eq!(stage.call("a", "click").await.unwrap().seat, round + 1);
        stage.world.lose_instance(greenroom_core::InstanceId(0), &crash());
        stage.close("a").await.unwrap();
    }
    stage.end().await;
}

/// An instance that hangs in its start fails the call after a while and frees its place.
#[tokio::test(start_paused = true)]
async fn a_hung_start_fails() {
    let stage = Stage::new(1, 1);
    stage.world.starting.shut();
    let error = stage.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "cannot start a browser: the instance did not start in time");
    stage.world.starting.open();
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// A seat that hangs in its opening is tried once more, then the call fails and the slot is free again.
#[tokio::test(start_paused = true)]
async fn a_hung_opening_fails() {
    let stage = Stage::new(1, 1);
    stage.world.opening.shut();
    let error = stage.call("a", "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no session could be opened in time: no seat within 30 s");
    assert_eq!((stage.world.counts().opens, stage.leased()), (2, 0));
    stage.world.opening.open();
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// All callers that wait for a creation get its error, and none of them starts another.
#[tokio::test(start_paused = true)]
async fn all_waiting_callers_hear_of_the_failure() {
    let stage = Stage::new(1, 1);
    stage.world.opening.shut();
    stage.world.fail_open(StartError::new("no context"));
    let mut calls = Vec::new();
    for _ in 0..5 {
        calls.push(stage.begin("a", "click").await);
    }
    stage.world.opening.open();
    for call in calls {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, FleetError::Start(why) if why.message == "no context"), "{error}");
    }
    assert_eq!(stage.world.counts().opens, 1);
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// An instance that dies while a seat opens is replaced, and the call succeeds.
#[tokio::test(start_paused = true)]
async fn opening_survives_the_death_of_an_instance() {
    let stage = Stage::new(1, 1);
    stage.world.opening.shut();
    let call = stage.begin("a", "click").await;
    stage.world.lose_instance(greenroom_core::InstanceId(0), &crash());
    stage.world.opening.open();
    let said = call.await.unwrap().unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    assert_eq!((stage.world.counts().starts, stage.world.counts().opens), (2, 2));
    stage.end().await;
}

/// `create` opens a browser without a call, and an id that is in use is an error, also while it starts.
#[tokio::test(start_paused = true)]
async fn create_opens_and_refuses_an_id_in_use() {
    let stage = Stage::new(2, 1);
    stage.world.opening.shut();
    let creating = tokio::spawn({
        let stage = stage.clone();
        async move { stage.create("a").await }
    });
    settle().await;
    assert!(matches!(stage.create("a").await, Err(FleetError::Exists(id)) if id.as_str() == "a"));
    stage.world.opening.open();
    creating.await.unwrap().unwrap();
    assert!(matches!(stage.create("a").await, Err(FleetError::Exists(_))));
    assert_eq!((stage.world.counts().opens, stage.world.counts().calls), (1, 0));
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// A failed `create` leaves the id free, and one after a crash begins afresh without a note.
#[tokio::test(start_paused = true)]
async fn create_begins_afresh() {
    let stage = Stage::new(1, 1);
    stage.world.fail_open(StartError::new("no context"));
    assert!(matches!(stage.create("a").await, Err(FleetError::Start(_))));
    stage.create("a").await.unwrap();
    stage.world.lose_seat(1, Lost::Page("crashed".into()));
    settle().await;
    stage.create("a").await.unwrap();
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    stage.end().await;
}
