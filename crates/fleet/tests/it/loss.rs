//! Browsers that die or hang, during a call and between calls.

use greenroom_core::{InstanceId, Lost, raw::parse};
use greenroom_fleet::{Ended, FleetError, Target};
use tokio::time::{Instant, advance};

use crate::{
    fake::call,
    stage::{CALL, MS, Stage, connection, crash, named, permit, settle},
};

/// A seat lost during a call fails that call, those queued behind it are not run, and the next call gets a new seat and a
/// note why.
#[tokio::test(start_paused = true)]
async fn lost_under_a_call() {
    let stage = Stage::new(1, 1);
    let running = stage.begin("a", "hold").await;
    let queued = [stage.begin("a", "one").await, stage.begin("a", "two").await];
    let _held = stage.world.held().await;
    let began = Instant::now();
    stage.world.lose_seat(1, crash());
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, FleetError::Lost(why) if *why == crash()), "{error}");
    for call in queued {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, FleetError::NotRun(why) if *why == crash()), "{error}");
    }
    assert_eq!(began.elapsed().as_millis(), 0, "noticed at once, not at the deadline");
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!(said.seat, 2);
    assert_eq!(
        said.notes[0].to_string(),
        "session restarted: the browser ended (signal 9); this is a new, empty browser, earlier pages, cookies \
         and refs are gone"
    );
    assert_eq!(stage.call("a", "click").await.unwrap().notes, [], "said once");
    assert_eq!(stage.world.counts().calls, 3);
    stage.end().await;
}

/// A seat lost between calls costs the next call only its page: it gets a new seat and a note.
#[tokio::test(start_paused = true)]
async fn lost_between_calls() {
    let stage = Stage::new(2, 1);
    stage.call("a", "click").await.unwrap();
    stage.world.lose_seat(1, Lost::Page("oom".into()));
    settle().await;
    assert_eq!((stage.sessions(), stage.leased()), (0, 0), "discarded at once");
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&Ended::Lost(Lost::Page("oom".into())))));
    stage.end().await;
}

/// A call sent at the moment of the loss runs as well, in the new seat; so do all that come with it.
#[tokio::test(start_paused = true)]
async fn called_in_the_moment_of_the_loss() {
    let stage = Stage::new(1, 1);
    for whose in [named("a"), connection(7)] {
        let owner = greenroom_core::Owner::local();
        for _ in 0..50 {
            let seat = stage.call_as(&owner, whose.clone(), "click", "{}").await.unwrap().seat;
            stage.world.lose_seat(seat, crash());
            // Nothing was awaited: the session's task cannot know yet.
            let (one, two) = tokio::join!(
                stage.call_as(&owner, whose.clone(), "click", "{}"),
                stage.call_as(&owner, whose.clone(), "click", "{}")
            );
            let (one, two) = (one.unwrap(), two.unwrap());
            assert_eq!((one.seat, two.seat), (seat + 1, seat + 1));
            assert_eq!((one.restarted(), two.restarted()), (Some(&Ended::Lost(crash())), None));
        }
        stage.fleet.close(&owner, &whose).await.unwrap();
    }
    stage.end().await;
}

/// A call sent as soon as the error arrives never reaches the dead session.
#[tokio::test(start_paused = true)]
async fn called_at_once_after_the_error() {
    let stage = Stage::new(2, 1);
    for _ in 0..100 {
        let running = tokio::spawn({
            let stage = stage.clone();
            async move {
                let error = stage.call("a", "hold").await.unwrap_err();
                assert!(matches!(error, FleetError::Lost(_)), "{error}");
                stage.call("a", "click").await
            }
        });
        let held = stage.world.held().await;
        stage.world.lose_seat(held.seat, crash());
        let said = running.await.unwrap().unwrap();
        assert_eq!(said.restarted(), Some(&Ended::Lost(crash())));
        assert!(said.seat > held.seat);
    }
    stage.end().await;
}

/// The same with real threads: an answer after a loss is always from another seat, and always carries a note.
#[test]
fn losses_on_many_threads() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let stage = Stage::new(8, 1);
        let mut agents = tokio::task::JoinSet::new();
        for agent in 0..4 {
            let stage = stage.clone();
            agents.spawn(async move {
                let id = format!("agent {agent}");
                let mut seat = stage.call(&id, "click").await.unwrap().seat;
                for _ in 0..200 {
                    stage.world.lose_seat(seat, crash());
                    let said = match stage.call(&id, "click").await {
                        Err(FleetError::Lost(_)) => stage.call(&id, "click").await.unwrap(),
                        said => said.unwrap(),
                    };
                    // A seat that dies while it answers may answer once more; then the note comes with the next answer.
                    let said = if said.seat == seat { stage.call(&id, "click").await.unwrap() } else { said };
                    assert_ne!(said.seat, seat);
                    assert!(said.restarted().is_some());
                    seat = said.seat;
                }
            });
        }
        while let Some(agent) = agents.join_next().await {
            agent.unwrap();
        }
        stage.fleet.shutdown().await;
        assert_eq!((stage.world.counts().opened, stage.leased()), (stage.world.counts().closes, 0));
    });
}

/// An ordinary tool error, as `isError` or as a JSON-RPC error, destroys nothing.
#[tokio::test(start_paused = true)]
async fn a_tool_error_destroys_nothing() {
    let stage = Stage::new(1, 1);
    let raw = |text: &str| parse(text.to_owned()).unwrap();
    for body in
        [Ok(raw(r#"{"isError":true,"content":[]}"#)), Err(raw(r#"{"code":-32602,"message":"crashed"}"#))]
    {
        let answer = tokio::spawn({
            let fleet = stage.fleet.clone();
            let permit = permit(&greenroom_core::Owner::local(), "hold");
            let agent = std::sync::Arc::new(crate::agents::FakeAgent);
            async move { fleet.call(permit, named("a"), Target::default(), call("hold", "{}"), agent).await }
        });
        stage.world.held().await.answer_with(body.clone());
        let (answer, _) = answer.await.unwrap().unwrap();
        let text = |body: &Result<greenroom_core::Raw, greenroom_core::Raw>| format!("{body:?}");
        assert_eq!(text(&answer.reply.body), text(&body), "untouched");
        let said = stage.call("a", "click").await.unwrap();
        assert_eq!((said.seat, said.notes), (1, vec![]));
    }
    assert_eq!(stage.world.counts().closes, 0);
    stage.end().await;
}

/// A call that passes its deadline fails as hung, exactly then; the next call gets a new seat, and a late answer of the old
/// seat is dropped.
#[tokio::test(start_paused = true)]
async fn a_hung_call_costs_the_seat() {
    let stage = Stage::new(1, 1);
    let hung = stage.begin("a", "hold-old").await;
    let old = stage.world.held().await;
    advance(CALL - MS).await;
    settle().await;
    assert!(!hung.is_finished());
    advance(MS).await;
    let error = hung.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the session was lost during this call: the engine did not answer within 30 s"
    );
    let next = stage.begin("a", "hold-new").await;
    let new = stage.world.held().await;
    assert!(!old.is_awaited());
    old.answer();
    settle().await;
    assert!(!next.is_finished());
    new.answer();
    let said = next.await.unwrap().unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&Ended::Lost(Lost::Hung(CALL)))));
    stage.end().await;
}

/// A call whose arguments ask for a wait has that much longer, and no wait overflows the deadline.
#[tokio::test(start_paused = true)]
async fn own_wait_extends_the_deadline() {
    let stage = Stage::new(2, 1);
    let owner = greenroom_core::Owner::local();
    let began = Instant::now();
    let error = stage.call_as(&owner, named("a"), "hold", r#"{"wait": 60}"#).await.unwrap_err();
    assert!(matches!(error, FleetError::Lost(Lost::Hung(after)) if after == CALL * 3), "{error}");
    assert_eq!(began.elapsed().as_secs(), 90);
    let _hung = stage.world.held().await;
    let forever = format!(r#"{{"wait": {}}}"#, u64::MAX);
    let call = tokio::spawn({
        let stage = stage.clone();
        async move { stage.call_as(&owner, named("b"), "hold", &forever).await }
    });
    let held = stage.world.held().await;
    advance(CALL * 100).await;
    held.answer();
    call.await.unwrap().unwrap();
    stage.end().await;
}

/// An instance's death ends all its sessions, busy and idle, and no others; the pool starts another instance,
/// and those who wait for a slot are served.
#[tokio::test(start_paused = true)]
async fn an_instance_dies() {
    let stage = Stage::new(2, 2);
    stage.create("idle").await.unwrap();
    let busy = stage.begin("busy", "hold").await;
    let _held = stage.world.held().await;
    stage.create("other 1").await.unwrap();
    stage.create("other 2").await.unwrap();
    let waiting = [stage.begin("w1", "click").await, stage.begin("w2", "click").await];
    stage.world.lose_instance(InstanceId(0), &crash());
    assert!(matches!(busy.await.unwrap(), Err(FleetError::Lost(_))));
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().notes, []);
    }
    assert_eq!(stage.call("other 1", "click").await.unwrap().notes, []);
    assert_eq!((stage.world.counts().starts, stage.world.stopped()), (3, vec![InstanceId(0)]));
    stage.close("w1").await.unwrap();
    stage.close("w2").await.unwrap();
    for id in ["idle", "busy"] {
        assert_eq!(stage.call(id, "click").await.unwrap().restarted(), Some(&Ended::Lost(crash())));
    }
    assert_eq!(stage.world.counts().starts, 3);
    stage.end().await;
}

/// A dead instance is never lent: not to a newcomer at the moment of its death, nor to waiters, who are served in their
/// order.
#[tokio::test(start_paused = true)]
async fn a_dead_instance_is_never_lent() {
    let stage = Stage::new(1, 1);
    for _ in 0..50 {
        stage.create("holder").await.unwrap();
        let first = stage.begin("w1", "hold").await;
        let second = stage.begin("w2", "hold").await;
        let opens = stage.world.counts().opens;
        stage.world.lose_instance(InstanceId(0), &crash());
        let newcomer = stage.begin("w3", "hold").await;
        for (id, waiter) in [("w1", first), ("w2", second), ("w3", newcomer)] {
            stage.world.held().await.answer();
            waiter.await.unwrap().unwrap();
            stage.close(id).await.unwrap();
        }
        assert_eq!(stage.world.counts().opens, opens + 3, "no seat was opened in the dead instance");
        // The instance dies while it lends nothing, and a caller asks at once.
        stage.world.lose_instance(InstanceId(0), &crash());
        stage.call("w4", "click").await.unwrap();
        assert_eq!(stage.world.counts().opens, opens + 4);
        stage.close("w4").await.unwrap();
    }
    stage.end().await;
}

/// An adapter that panics costs its session, as a crash does, and nothing else.
#[tokio::test(start_paused = true)]
async fn an_adapter_panics() {
    let stage = Stage::new(2, 1);
    stage.create("other").await.unwrap();
    let running = stage.begin("a", "hold").await;
    let panics = stage.begin("a", "panic").await;
    let behind = stage.begin("a", "click").await;
    stage.world.held().await.answer();
    running.await.unwrap().unwrap();
    assert!(matches!(panics.await.unwrap(), Err(FleetError::Lost(Lost::Protocol(_)))));
    assert!(matches!(behind.await.unwrap(), Err(FleetError::NotRun(Lost::Protocol(_)))));
    assert!(stage.call("a", "click").await.unwrap().restarted().is_some());
    assert_eq!(stage.call("other", "click").await.unwrap().seat, 1);
    stage.fleet.shutdown().await;
    assert_eq!(stage.leased(), 0);
}

/// An engine that panics in its start costs that attempt, and its place in the pool is free again.
#[tokio::test(start_paused = true)]
async fn a_start_panics() {
    let stage = Stage::new(1, 1);
    stage.world.fail_start("panic");
    assert!(matches!(stage.call("a", "click").await, Err(FleetError::Start(_))));
    assert_eq!(stage.pool().instances.len(), 0);
    stage.call("a", "click").await.unwrap();
    stage.end().await;
}
