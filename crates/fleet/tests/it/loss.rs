//! Browsers that die or hang, during a call and between calls.

use greenroom_core::{InstanceId, Lost, raw::parse};
use greenroom_fleet::{CallTarget, EndReason, FleetError};
use tokio::time::{Instant, advance};

use crate::{
    fake::call,
    fixture::{CALL, FleetFixture, MS, connection, crash, named, permit, settle},
};

/// A seat lost during a call fails that call, those queued behind it are not run, and the next call gets a new seat and a
/// note why.
#[tokio::test(start_paused = true)]
async fn seat_lost_during_a_call_fails_it() {
    let fixture = FleetFixture::new(1, 1);
    let running = fixture.begin("a", "hold").await;
    let queued = [fixture.begin("a", "one").await, fixture.begin("a", "two").await];
    let _held = fixture.world.held().await;
    let began = Instant::now();
    fixture.world.lose_seat(1, crash());
    let error = running.await.unwrap().unwrap_err();
    assert!(matches!(&error, FleetError::Lost(why) if *why == crash()), "{error}");
    for call in queued {
        let error = call.await.unwrap().unwrap_err();
        assert!(matches!(&error, FleetError::NotRun(why) if *why == crash()), "{error}");
    }
    assert_eq!(began.elapsed().as_millis(), 0, "noticed at once, not at the deadline");
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!(said.seat, 2);
    assert_eq!(
        said.notes[0].to_string(),
        "session restarted: the browser ended (signal 9); this is a new, empty browser, earlier pages, cookies \
         and refs are gone"
    );
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, [], "said once");
    assert_eq!(fixture.world.counts().calls, 3);
    fixture.end().await;
}

/// A seat lost between calls costs the next call only its page: it gets a new seat and a note.
#[tokio::test(start_paused = true)]
async fn seat_lost_between_calls_is_replaced_with_a_note() {
    let fixture = FleetFixture::new(2, 1);
    fixture.call("a", "click").await.unwrap();
    fixture.world.lose_seat(1, Lost::Page("oom".into()));
    settle().await;
    assert_eq!((fixture.sessions(), fixture.leased()), (0, 0), "discarded at once");
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Lost(Lost::Page("oom".into())))));
    fixture.end().await;
}

/// A call sent at the moment of the loss runs as well, in the new seat; so do all that come with it.
#[tokio::test(start_paused = true)]
async fn call_at_the_moment_of_a_loss_runs_in_the_new_seat() {
    let fixture = FleetFixture::new(1, 1);
    for session_key in [named("a"), connection(7)] {
        let owner = greenroom_core::Owner::local();
        for _ in 0..50 {
            let seat = fixture.call_as(&owner, session_key.clone(), "click", "{}").await.unwrap().seat;
            fixture.world.lose_seat(seat, crash());
            // The test has awaited nothing since the loss, so the session's task cannot know of it yet.
            let (one, two) = tokio::join!(
                fixture.call_as(&owner, session_key.clone(), "click", "{}"),
                fixture.call_as(&owner, session_key.clone(), "click", "{}")
            );
            let one = one.unwrap();
            let two = two.unwrap();
            assert_eq!((one.seat, two.seat), (seat + 1, seat + 1));
            assert_eq!((one.restarted(), two.restarted()), (Some(&EndReason::Lost(crash())), None));
        }
        fixture.fleet.close(&owner, &session_key).await.unwrap();
    }
    fixture.end().await;
}

/// A call sent as soon as the error arrives never reaches the dead session.
#[tokio::test(start_paused = true)]
async fn call_after_the_error_gets_a_new_session() {
    let fixture = FleetFixture::new(2, 1);
    for _ in 0..100 {
        let running = tokio::spawn({
            let fixture = fixture.clone();
            async move {
                let error = fixture.call("a", "hold").await.unwrap_err();
                assert!(matches!(error, FleetError::Lost(_)), "{error}");
                fixture.call("a", "click").await
            }
        });
        let held = fixture.world.held().await;
        fixture.world.lose_seat(held.seat, crash());
        let said = running.await.unwrap().unwrap();
        assert_eq!(said.restarted(), Some(&EndReason::Lost(crash())));
        assert!(said.seat > held.seat);
    }
    fixture.end().await;
}

/// On real threads too, an answer after a loss is always from another seat and always carries a note.
#[test]
fn answer_after_a_loss_is_from_another_seat() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        let fixture = FleetFixture::new(8, 1);
        let mut agents = tokio::task::JoinSet::new();
        for agent in 0..4 {
            let fixture = fixture.clone();
            agents.spawn(async move {
                let id = format!("agent {agent}");
                let mut seat = fixture.call(&id, "click").await.unwrap().seat;
                for _ in 0..200 {
                    fixture.world.lose_seat(seat, crash());
                    let said = match fixture.call(&id, "click").await {
                        Err(FleetError::Lost(_)) => fixture.call(&id, "click").await.unwrap(),
                        said => said.unwrap(),
                    };
                    // A seat that dies while it answers may answer once more; then the note comes with the next answer.
                    let said =
                        if said.seat == seat { fixture.call(&id, "click").await.unwrap() } else { said };
                    assert_ne!(said.seat, seat);
                    assert!(said.restarted().is_some());
                    seat = said.seat;
                }
            });
        }
        while let Some(agent) = agents.join_next().await {
            agent.unwrap();
        }
        fixture.fleet.shutdown().await;
        assert_eq!((fixture.world.counts().opened, fixture.leased()), (fixture.world.counts().closes, 0));
    });
}

/// An ordinary tool error, as `isError` or as a JSON-RPC error, destroys nothing.
#[tokio::test(start_paused = true)]
async fn tool_error_keeps_the_session() {
    let fixture = FleetFixture::new(1, 1);
    let raw = |text: &str| parse(text.to_owned()).unwrap();
    for body in
        [Ok(raw(r#"{"isError":true,"content":[]}"#)), Err(raw(r#"{"code":-32602,"message":"crashed"}"#))]
    {
        let answer = tokio::spawn({
            let fleet = fixture.fleet.clone();
            let permit = permit(&greenroom_core::Owner::local(), "hold");
            let agent = std::sync::Arc::new(crate::agents::FakeAgent);
            async move { fleet.call(permit, named("a"), CallTarget::default(), call("hold", "{}"), agent).await }
        });
        fixture.world.held().await.answer_with(body.clone());
        let (answer, _) = answer.await.unwrap().unwrap();
        let text = |body: &Result<greenroom_core::Raw, greenroom_core::Raw>| format!("{body:?}");
        assert_eq!(text(&answer.reply.body), text(&body), "untouched");
        let said = fixture.call("a", "click").await.unwrap();
        assert_eq!((said.seat, said.notes), (1, vec![]));
    }
    assert_eq!(fixture.world.counts().closes, 0);
    fixture.end().await;
}

/// A call that passes its deadline fails as hung, exactly then; the next call gets a new seat, and a late answer of the old
/// seat is dropped.
#[tokio::test(start_paused = true)]
async fn hanging_call_loses_the_seat() {
    let fixture = FleetFixture::new(1, 1);
    let hung = fixture.begin("a", "hold-old").await;
    let old = fixture.world.held().await;
    advance(CALL - MS).await;
    settle().await;
    assert!(!hung.is_finished());
    advance(MS).await;
    let error = hung.await.unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the session was lost during this call: the engine did not answer within 30 s"
    );
    let next = fixture.begin("a", "hold-new").await;
    let new = fixture.world.held().await;
    assert!(!old.is_awaited());
    old.answer();
    settle().await;
    assert!(!next.is_finished());
    new.answer();
    let said = next.await.unwrap().unwrap();
    assert_eq!((said.seat, said.restarted()), (2, Some(&EndReason::Lost(Lost::Hung(CALL)))));
    fixture.end().await;
}

/// A call whose arguments ask for a wait has that much longer, and no wait overflows the deadline.
#[tokio::test(start_paused = true)]
async fn own_wait_extends_the_deadline() {
    let fixture = FleetFixture::new(2, 1);
    let owner = greenroom_core::Owner::local();
    let began = Instant::now();
    let error = fixture.call_as(&owner, named("a"), "hold", r#"{"wait": 60}"#).await.unwrap_err();
    assert!(matches!(error, FleetError::Lost(Lost::Hung(after)) if after == CALL * 3), "{error}");
    assert_eq!(began.elapsed().as_secs(), 90);
    let _hung = fixture.world.held().await;
    let forever = format!(r#"{{"wait": {}}}"#, u64::MAX);
    let call = tokio::spawn({
        let fixture = fixture.clone();
        async move { fixture.call_as(&owner, named("b"), "hold", &forever).await }
    });
    let held = fixture.world.held().await;
    advance(CALL * 100).await;
    held.answer();
    call.await.unwrap().unwrap();
    fixture.end().await;
}

/// An instance's death ends all its sessions, busy and idle, and no others; the pool starts another instance,
/// and those who wait for a slot are served.
#[tokio::test(start_paused = true)]
async fn dead_instance_ends_only_its_sessions() {
    let fixture = FleetFixture::new(2, 2);
    fixture.create("idle").await.unwrap();
    let busy = fixture.begin("busy", "hold").await;
    let _held = fixture.world.held().await;
    fixture.create("other 1").await.unwrap();
    fixture.create("other 2").await.unwrap();
    let waiting = [fixture.begin("w1", "click").await, fixture.begin("w2", "click").await];
    fixture.world.lose_instance(InstanceId(0), &crash());
    assert!(matches!(busy.await.unwrap(), Err(FleetError::Lost(_))));
    for call in waiting {
        assert_eq!(call.await.unwrap().unwrap().notes, []);
    }
    assert_eq!(fixture.call("other 1", "click").await.unwrap().notes, []);
    assert_eq!((fixture.world.counts().starts, fixture.world.stopped()), (3, vec![InstanceId(0)]));
    fixture.close("w1").await.unwrap();
    fixture.close("w2").await.unwrap();
    for id in ["idle", "busy"] {
        assert_eq!(fixture.call(id, "click").await.unwrap().restarted(), Some(&EndReason::Lost(crash())));
    }
    assert_eq!(fixture.world.counts().starts, 3);
    fixture.end().await;
}

/// A dead instance leases nothing: not to a newcomer at the moment of its death, nor to waiters, which are served in
/// their order.
#[tokio::test(start_paused = true)]
async fn dead_instance_is_never_leased() {
    let fixture = FleetFixture::new(1, 1);
    for _ in 0..50 {
        fixture.create("holder").await.unwrap();
        let first = fixture.begin("w1", "hold").await;
        let second = fixture.begin("w2", "hold").await;
        let opens = fixture.world.counts().opens;
        fixture.world.lose_instance(InstanceId(0), &crash());
        let newcomer = fixture.begin("w3", "hold").await;
        for (id, waiter) in [("w1", first), ("w2", second), ("w3", newcomer)] {
            fixture.world.held().await.answer();
            waiter.await.unwrap().unwrap();
            fixture.close(id).await.unwrap();
        }
        assert_eq!(fixture.world.counts().opens, opens + 3, "no seat was opened in the dead instance");
        // The instance dies while none of its slots is leased, and a caller asks at once.
        fixture.world.lose_instance(InstanceId(0), &crash());
        fixture.call("w4", "click").await.unwrap();
        assert_eq!(fixture.world.counts().opens, opens + 4);
        fixture.close("w4").await.unwrap();
    }
    fixture.end().await;
}

/// An adapter that panics costs its session, as a crash does, and nothing else.
#[tokio::test(start_paused = true)]
async fn panicking_adapter_loses_only_its_session() {
    let fixture = FleetFixture::new(2, 1);
    fixture.create("other").await.unwrap();
    let running = fixture.begin("a", "hold").await;
    let panics = fixture.begin("a", "panic").await;
    let behind = fixture.begin("a", "click").await;
    fixture.world.held().await.answer();
    running.await.unwrap().unwrap();
    assert!(matches!(panics.await.unwrap(), Err(FleetError::Lost(Lost::Protocol(_)))));
    assert!(matches!(behind.await.unwrap(), Err(FleetError::NotRun(Lost::Protocol(_)))));
    assert!(fixture.call("a", "click").await.unwrap().restarted().is_some());
    assert_eq!(fixture.call("other", "click").await.unwrap().seat, 1);
    fixture.fleet.shutdown().await;
    assert_eq!(fixture.leased(), 0);
}

/// An engine that panics in its start costs that attempt, and its place in the pool is free again.
#[tokio::test(start_paused = true)]
async fn panicking_start_frees_its_place() {
    let fixture = FleetFixture::new(1, 1);
    fixture.world.fail_start("panic");
    assert!(matches!(fixture.call("a", "click").await, Err(FleetError::Start(_))));
    assert_eq!(fixture.pool().instances.len(), 0);
    fixture.call("a", "click").await.unwrap();
    fixture.end().await;
}
