//! Spares: seats kept ready for nobody in particular.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Agent, InstanceId, Owner, StartError, View};
use greenroom_fleet::{FleetError, FleetSettings, InstanceState, PoolSettings, Readiness, Whose};
use tokio::time::{Instant, advance, sleep};

use crate::{
    fake::{Askable, FakeAgent, call},
    stage::{IDLE, INSTANCE_IDLE, MS, Outcome, Said, Stage, crash, named, permit, settings, settle},
};

/// A started fleet with so many spares, all ready as far as there is room.
async fn warm(warm: usize, slots: usize, instances_max: usize) -> Stage {
    let stage = Stage::warm(warm, slots, instances_max);
    stage.fleet.start();
    settle().await;
    stage
}

fn spares(stage: &Stage) -> usize {
    stage.fleet.status().spares
}

/// A call of an agent whom a spare suits, or does not.
async fn call_by(stage: &Stage, agent: Arc<dyn Agent>, id: &str, tool: &str) -> Outcome {
    let permit = permit(&Owner::local(), tool);
    stage.fleet.call(permit, named(id), call(tool, "{}"), agent).await.map(Said::new)
}

/// A spare holds a slot, the next session gets it without opening anything, and another takes its place.
#[tokio::test(start_paused = true)]
async fn a_session_gets_the_spare() {
    let stage = warm(1, 4, 1).await;
    assert_eq!((spares(&stage), stage.leased(), stage.sessions()), (1, 1, 0));
    stage.world.opening.shut();
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (0, 2), "handed out, and another is on its way");
    stage.world.opening.open();
    settle().await;
    assert_eq!((spares(&stage), stage.leased(), stage.world.counts().opened), (1, 2, 2));
    stage.create("b").await.unwrap();
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 2);
    settle().await;
    assert_eq!(stage.call_loose("click").await.unwrap().seat, 3, "a call without a session too");
    assert_eq!(stage.world.counts().starts, 1);
    stage.end().await;
}

/// Many first calls at once and one spare: one gets it, the others open their own, and nobody is kept waiting.
#[tokio::test(start_paused = true)]
async fn many_at_once_and_one_spare() {
    let stage = warm(1, 8, 1).await;
    let mut calls = Vec::new();
    for n in 0..6 {
        let stage = stage.clone();
        calls.push(tokio::spawn(async move { stage.call(&n.to_string(), "click").await.unwrap().seat }));
    }
    let mut seats = Vec::new();
    for call in calls {
        seats.push(call.await.unwrap());
    }
    seats.sort_unstable();
    assert_eq!(seats, [1, 2, 3, 4, 5, 6]);
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (1, 7));
    stage.end().await;
}

/// A seat that a session used is never a spare: what is handed out was never called before.
#[tokio::test(start_paused = true)]
async fn a_used_seat_is_never_a_spare() {
    let stage = warm(2, 4, 1).await;
    for n in 0..10_u64 {
        let id = n.to_string();
        stage.call(&id, "click").await.unwrap();
        stage.close(&id).await.unwrap();
        settle().await;
    }
    let mut called: Vec<_> = stage.world.log().into_iter().map(|(seat, _)| seat).collect();
    called.dedup();
    assert_eq!(called.len(), 10, "ten sessions, ten seats");
    assert_eq!((spares(&stage), stage.leased()), (2, 2));
    stage.end().await;
}

/// In a full pool the spare's slot goes to whoever comes, at once, also where waiting is not allowed, and also to
/// an agent whom its seat does not suit: that one gets a seat of its own.
#[tokio::test(start_paused = true)]
async fn a_spare_never_makes_anybody_wait() {
    for suits in [true, false] {
        let pool = PoolSettings { lease_timeout: Duration::ZERO, warm: 2, ..settings(2, 1).pool };
        let stage = Stage::with(FleetSettings { pool, ..settings(2, 1) });
        stage.fleet.start();
        settle().await;
        assert_eq!((spares(&stage), stage.leased()), (2, 2), "full");
        let agent = || -> Arc<dyn Agent> { if suits { Arc::new(FakeAgent) } else { Arc::new(Askable) } };
        let began = Instant::now();
        for id in ["a", "b"] {
            call_by(&stage, agent(), id, "click").await.unwrap();
        }
        assert_eq!(began.elapsed().as_millis(), 0);
        settle().await;
        let counts = stage.world.counts();
        assert_eq!((spares(&stage), stage.leased(), counts.seats_max), (0, 2, 2));
        assert_eq!(
            counts.opened,
            if suits { 2 } else { 4 },
            "a seat of their own for those it does not suit"
        );
        let error = call_by(&stage, agent(), "c", "click").await.unwrap_err();
        assert!(matches!(error, FleetError::Lease(_)), "sessions keep theirs: {error}");
        stage.close("a").await.unwrap();
        settle().await;
        assert_eq!((spares(&stage), stage.leased()), (1, 2), "there is room for one again");
        stage.end().await;
    }
}

/// A spare that is still being opened is promised: a call that comes meanwhile gets it when it is there, in a full
/// pool too, though no waiting is allowed.
#[tokio::test(start_paused = true)]
async fn a_spare_that_opens_is_promised() {
    for slots in [1, 4] {
        let pool = PoolSettings { lease_timeout: Duration::ZERO, warm: 1, ..settings(slots, 1).pool };
        let stage = Stage::with(FleetSettings { pool, ..settings(slots, 1) });
        stage.world.starting.shut();
        stage.world.opening.shut();
        stage.fleet.start();
        settle().await;
        let call = stage.begin("a", "click").await;
        stage.world.starting.open();
        settle().await;
        assert_eq!(stage.world.counts().opens, 1, "only the spare's");
        stage.world.opening.open();
        assert_eq!(call.await.unwrap().unwrap().seat, 1);
        stage.end().await;
    }
}

/// A spare in an instance that still starts is left alone while a running instance has room: that is quicker.
#[tokio::test(start_paused = true)]
async fn a_running_instance_is_quicker_than_a_starting_spare() {
    let stage = warm(1, 2, 2).await;
    stage.world.starting.shut();
    stage.create("a").await.unwrap();
    settle().await;
    stage.create("b").await.unwrap();
    settle().await;
    assert_eq!((stage.world.counts().starts, spares(&stage)), (2, 0), "a spare makes the pool grow");
    stage.close("a").await.unwrap();
    let began = Instant::now();
    assert_eq!(stage.call("c", "click").await.unwrap().seat, 3);
    assert_eq!(began.elapsed().as_millis(), 0);
    let status = stage.fleet.status();
    assert_eq!(status.instances.iter().map(|one| one.leased).collect::<Vec<_>>(), [2, 1]);
    assert_eq!(status.instances[1].state, InstanceState::Starting);
    stage.end().await;
}

/// Whoever is promised a spare and leaves gives it back as it was, and the next one gets it.
#[tokio::test(start_paused = true)]
async fn a_promise_that_nobody_waits_for() {
    let stage = Stage::warm(1, 1, 1);
    stage.world.opening.shut();
    stage.fleet.start();
    settle().await;
    stage.begin("a", "click").await.abort();
    settle().await;
    assert_eq!((stage.leased(), stage.fleet.figures().waiting), (1, 0));
    stage.world.opening.open();
    settle().await;
    assert_eq!((spares(&stage), stage.world.counts().opened), (1, 1));
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// Whoever leaves in the very moment in which it is handed a spare leaves nothing open behind.
#[tokio::test(start_paused = true)]
async fn left_in_the_moment_of_handing_over() {
    let stage = warm(1, 2, 1).await;
    for turns in 0..60 {
        let call = tokio::spawn({
            let stage = stage.clone();
            async move { stage.call("a", "hold").await }
        });
        for _ in 0..turns % 20 {
            tokio::task::yield_now().await;
        }
        call.abort();
        settle().await;
        let _ = stage.close("a").await;
        settle().await;
        assert_eq!((stage.leased(), stage.world.open_seats().len()), (1, 1), "after {turns} turns");
    }
    stage.fleet.shutdown().await;
    assert_eq!((stage.world.open_seats().len(), stage.world.counts().dropped), (0, 0));
}

/// Those who wait in a full pool are served before any spare is made.
#[tokio::test(start_paused = true)]
async fn waiters_come_before_spares() {
    let stage = warm(1, 1, 1).await;
    stage.create("a").await.unwrap();
    let waiting = [stage.begin("b", "click").await, stage.begin("c", "click").await];
    stage.close("a").await.unwrap();
    let [b, c] = waiting;
    assert_eq!(b.await.unwrap().unwrap().seat, 2);
    settle().await;
    assert_eq!(spares(&stage), 0);
    stage.close("b").await.unwrap();
    assert_eq!(c.await.unwrap().unwrap().seat, 3);
    stage.close("c").await.unwrap();
    settle().await;
    assert_eq!((spares(&stage), stage.world.counts().opened), (1, 4));
    stage.end().await;
}

/// No spare is made while somebody looks for a seat: its browser has one thing to do at a time.
#[tokio::test(start_paused = true)]
async fn no_spare_while_somebody_opens() {
    let stage = warm(1, 4, 1).await;
    stage.world.opening.shut();
    let opening = tokio::spawn({
        let stage = stage.clone();
        async move { call_by(&stage, Arc::new(Askable), "special", "click").await }
    });
    settle().await;
    assert_eq!(stage.call("a", "click").await.unwrap().seat, 1);
    settle().await;
    assert_eq!(stage.world.counts().opens, 2, "the spare that was handed out, and the special one");
    stage.world.opening.open();
    opening.await.unwrap().unwrap();
    settle().await;
    assert_eq!((stage.world.counts().opens, spares(&stage)), (3, 1));
    stage.end().await;
}

/// A spare whose taker left goes to whoever waits for a slot, but only when its seat is closed.
#[tokio::test(start_paused = true)]
async fn a_promise_that_was_left_serves_those_who_wait() {
    let stage = Stage::warm(1, 1, 1);
    stage.world.opening.shut();
    stage.world.closing.shut();
    stage.fleet.start();
    settle().await;
    let promised = stage.begin("a", "click").await;
    let waiting = stage.begin("b", "click").await;
    assert_eq!(stage.fleet.figures().waiting, 1);
    promised.abort();
    settle().await;
    stage.world.opening.open();
    settle().await;
    assert_eq!((stage.world.counts().closes, stage.fleet.figures().waiting), (1, 1));
    stage.world.closing.open();
    assert_eq!(waiting.await.unwrap().unwrap().seat, 2);
    assert_eq!(stage.world.counts().seats_max, 1);
    stage.end().await;
}

/// An agent whom a spare does not suit gets a seat of its own, and the spare stays where it is.
#[tokio::test(start_paused = true)]
async fn special_ones_are_made_fresh() {
    let stage = warm(1, 4, 1).await;
    assert_eq!(call_by(&stage, Arc::new(Askable), "a", "click").await.unwrap().seat, 2);
    assert_eq!((spares(&stage), stage.world.open_seats()), (1, vec![1, 2]));
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// A lost spare is closed and replaced after a pause. A session that comes in the moment of the loss gets another
/// seat and hears nothing of a restart.
#[tokio::test(start_paused = true)]
async fn a_lost_spare_is_replaced() {
    let stage = warm(1, 2, 1).await;
    stage.world.lose_seat(1, crash());
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    settle().await;
    assert_eq!((spares(&stage), stage.leased(), stage.world.open_seats()), (0, 1, vec![2]));
    advance(Duration::from_secs(1) - MS).await;
    settle().await;
    assert_eq!(spares(&stage), 0);
    advance(MS).await;
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (1, 2));
    stage.end().await;
}

/// A spare that is lost as it is handed over is not called: the session gets another seat and hears nothing of a
/// restart.
#[tokio::test(start_paused = true)]
async fn lost_in_the_moment_of_handing_over() {
    let stage = warm(1, 2, 1).await;
    stage.world.lose_when_looked_at(1);
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    stage.end().await;
    for turns in 0..30 {
        let stage = warm(1, 2, 2).await;
        let call = tokio::spawn({
            let stage = stage.clone();
            async move { stage.call("a", "click").await }
        });
        for _ in 0..turns {
            tokio::task::yield_now().await;
        }
        stage.world.lose_instance(InstanceId(0), &crash());
        assert_eq!(call.await.unwrap().unwrap().notes, [], "after {turns} turns");
        stage.end().await;
    }
}

/// A lost instance takes its spares along; whoever comes in that moment gets another instance, without a word of a
/// restart.
#[tokio::test(start_paused = true)]
async fn spares_go_with_their_instance() {
    for told in [false, true] {
        let stage = warm(2, 4, 1).await;
        stage.world.lose_instance(InstanceId(0), &crash());
        if told {
            settle().await;
            assert_eq!((spares(&stage), stage.leased()), (0, 0));
        }
        let said = stage.call("a", "click").await.unwrap();
        assert_eq!((said.seat, said.notes), (3, vec![]));
        sleep(Duration::from_secs(1)).await;
        settle().await;
        assert_eq!((spares(&stage), stage.world.counts().starts), (2, 2));
        stage.end().await;
    }
}

/// Spares that cannot be opened are tried again after 1, 2, 4 … s, at most 60 s, and sessions are not kept from
/// trying themselves. Once one is handed out, it begins at 1 s again.
#[tokio::test(start_paused = true)]
async fn failing_spares_back_off() {
    let stage = Stage::warm(1, 4, 1);
    for _ in 0..9 {
        stage.world.fail_open(StartError::new("no context"));
    }
    stage.fleet.start();
    settle().await;
    let mut tries = 1;
    for pause in [1, 2, 4, 8, 16, 32, 60, 60, 60] {
        assert_eq!(stage.world.counts().opens, tries);
        let Readiness::Failed(error) = stage.fleet.readiness() else { panic!("no spare can be opened") };
        assert_eq!(error.message, "no context");
        advance(Duration::from_secs(pause) - MS).await;
        settle().await;
        assert_eq!(stage.world.counts().opens, tries, "before {pause} s are over");
        advance(MS).await;
        settle().await;
        tries += 1;
    }
    assert_eq!((spares(&stage), stage.world.counts().opens), (1, 10));
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready));
    stage.world.fail_open(StartError::new("no context"));
    stage.create("a").await.unwrap();
    settle().await;
    assert_eq!(spares(&stage), 0);
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(spares(&stage), 1, "one was handed out meanwhile");
    stage.end().await;
}

/// Instances that cannot start are tried again with the same pauses, and a call meanwhile tries by itself.
#[tokio::test(start_paused = true)]
async fn failing_starts_back_off() {
    let stage = Stage::warm(3, 4, 2);
    assert!(matches!(stage.fleet.readiness(), Readiness::Starting));
    for _ in 0..3 {
        stage.world.fail_start("no chromium");
    }
    stage.fleet.start();
    settle().await;
    assert_eq!(stage.world.counts().starts, 1, "three spares, one failure");
    assert!(matches!(stage.fleet.readiness(), Readiness::Failed(_)));
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(stage.world.counts().starts, 2);
    assert!(matches!(stage.create("a").await, Err(FleetError::Start(_))));
    assert_eq!(stage.world.counts().starts, 3);
    stage.create("a").await.unwrap();
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready));
    sleep(Duration::from_secs(2)).await;
    settle().await;
    assert_eq!((spares(&stage), stage.world.counts().starts), (3, 4));
    stage.end().await;
}

/// Seats that die soon after they were opened are replaced more and more slowly; after a long life it begins anew.
#[tokio::test(start_paused = true)]
async fn dying_spares_back_off() {
    let stage = warm(1, 1, 1).await;
    for (seat, pause) in [(1, 1), (2, 2), (3, 4)] {
        stage.world.lose_seat(seat, crash());
        settle().await;
        advance(Duration::from_secs(pause) - MS).await;
        settle().await;
        assert_eq!(stage.world.counts().opened, seat as usize);
        advance(MS).await;
        settle().await;
        assert_eq!(stage.world.counts().opened, seat as usize + 1);
    }
    sleep(Duration::from_secs(60)).await;
    stage.world.lose_seat(4, crash());
    sleep(Duration::from_secs(1)).await;
    settle().await;
    assert_eq!(spares(&stage), 1);
    stage.end().await;
}

/// A spare may start an instance when all slots are taken, within the maximum, so that the next session need not
/// wait for one.
#[tokio::test(start_paused = true)]
async fn a_spare_makes_the_pool_grow() {
    let stage = warm(1, 1, 2).await;
    stage.create("a").await.unwrap();
    settle().await;
    assert_eq!((stage.world.counts().started, spares(&stage)), (2, 1));
    stage.create("b").await.unwrap();
    settle().await;
    assert_eq!((stage.world.counts().starts, spares(&stage), stage.leased()), (2, 0, 2));
    stage.end().await;
}

/// An instance with nothing but spares is idle and retires if the spares have room elsewhere. The last one stays,
/// and so does one that would have to be started again at once.
#[tokio::test(start_paused = true)]
async fn idle_instances_with_spares() {
    let stage = warm(1, 2, 2).await;
    sleep(INSTANCE_IDLE * 3).await;
    settle().await;
    assert_eq!((stage.world.counts().stops, spares(&stage)), (0, 1), "the last one stays");
    for id in ["a", "b"] {
        stage.create(id).await.unwrap();
        settle().await;
    }
    assert_eq!((stage.world.counts().starts, spares(&stage)), (2, 1));
    sleep(INSTANCE_IDLE * 2).await;
    settle().await;
    assert_eq!(stage.world.counts().stops, 0, "there is no other room for the spare");
    stage.close("a").await.unwrap();
    sleep(INSTANCE_IDLE).await;
    settle().await;
    assert_eq!(stage.world.stopped(), [InstanceId(1)], "now there is");
    assert_eq!((spares(&stage), stage.fleet.figures().instances, stage.leased()), (1, 1, 2));
    assert_eq!(stage.world.counts().starts, 2);
    stage.end().await;
}

/// A pool without spares that is started has its first instance before the first call, and that retires like every
/// other.
#[tokio::test(start_paused = true)]
async fn a_pool_without_spares_starts_at_once_too() {
    let stage = Stage::new(2, 2);
    stage.world.starting.shut();
    stage.fleet.start();
    settle().await;
    assert!(matches!(stage.fleet.readiness(), Readiness::Starting));
    stage.world.starting.open();
    settle().await;
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready));
    assert_eq!((stage.world.counts().started, stage.leased(), spares(&stage)), (1, 0, 0));
    stage.call("a", "click").await.unwrap();
    assert_eq!(stage.world.counts().starts, 1);
    stage.close("a").await.unwrap();
    sleep(INSTANCE_IDLE).await;
    settle().await;
    assert_eq!((stage.world.counts().stops, stage.fleet.figures().instances), (1, 0));
    assert!(matches!(stage.fleet.readiness(), Readiness::Ready), "the next call starts another");
    stage.end().await;
}

/// Spares are kept only in a pool that was started.
#[tokio::test(start_paused = true)]
async fn nothing_is_kept_before_the_start() {
    let stage = Stage::warm(2, 4, 1);
    stage.call("a", "click").await.unwrap();
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (0, 1));
    stage.fleet.start();
    stage.fleet.start();
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (2, 3));
    stage.end().await;
}

/// A session's times begin when its spare is handed out, and what its page shows is seen.
#[tokio::test(start_paused = true)]
async fn time_begins_when_a_spare_is_handed_out() {
    let pool = PoolSettings { warm: 1, ..settings(2, 1).pool };
    let stage = Stage::with(FleetSettings { pool, max_lifetime: Some(IDLE * 2), ..settings(2, 1) });
    stage.fleet.start();
    settle().await;
    sleep(IDLE * 4).await;
    stage.create("a").await.unwrap();
    stage.world.show(1, View { url: "http://a/".to_owned(), title: "A".to_owned(), tabs: 1 });
    let listed = stage.fleet.list_all();
    let (owner, status) = &listed[0];
    assert_eq!((owner, &*status.view.title, status.instance), (&Owner::local(), "A", Some(InstanceId(0))));
    assert_eq!(status.expires_in, Some(IDLE));
    sleep(IDLE - MS).await;
    assert_eq!(stage.call("a", "click").await.unwrap().notes, []);
    stage.end().await;
}

/// A shutdown ends spares that are ready, opening, promised and waiting for their instance.
#[tokio::test(start_paused = true)]
async fn a_shutdown_ends_spares() {
    warm(3, 4, 1).await.end().await;
    let stage = Stage::warm(3, 2, 2);
    stage.world.opening.shut();
    stage.fleet.start();
    settle().await;
    let call = stage.begin("a", "click").await;
    stage.end().await;
    assert!(matches!(call.await.unwrap(), Err(FleetError::ShuttingDown)));
    let stage = Stage::warm(1, 2, 2);
    stage.world.starting.shut();
    stage.fleet.start();
    settle().await;
    stage.end().await;
    let stage = warm(2, 2, 1).await;
    stage.create("a").await.unwrap();
    stage.world.closing.shut();
    let began = Instant::now();
    stage.end().await;
    assert_eq!(began.elapsed().as_secs(), 5, "spares and sessions close at the same time");
}

/// Everybody's sessions are listed with their owners; slots that wait for a call without a session are none.
#[tokio::test(start_paused = true)]
async fn everybodys_sessions() {
    let stage = Stage::new(4, 1);
    for owner in ["ann", "bob"] {
        stage.call_as(&Owner::new(owner), named("a"), "click", "{}").await.unwrap();
    }
    stage.call_as(&Owner::new("ann"), Whose::NoOne, "click", "{}").await.unwrap();
    let owners: Vec<_> = stage.fleet.list_all().into_iter().map(|(owner, _)| owner.to_string()).collect();
    assert_eq!(owners, ["ann", "bob"]);
    stage.end().await;
}

/// A spare that is lost on its way into a session's hands is not what the session gets, wherever on the way that
/// happens; real threads, so that it happens everywhere.
#[test]
fn losses_on_the_way() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(4).enable_time().build().unwrap();
    runtime.block_on(async {
        for _ in 0..100 {
            let stage = Stage::warm(2, 4, 2);
            stage.fleet.start();
            stage.world.until(|counts| counts.opened == 2).await;
            let lose = tokio::spawn({
                let stage = stage.clone();
                async move {
                    for seat in stage.world.open_seats() {
                        stage.world.lose_if_open(seat, crash());
                    }
                }
            });
            for id in ["a", "b", "c"] {
                match stage.create(id).await {
                    Ok(()) => {}
                    Err(error) => panic!("{error}"),
                }
            }
            lose.await.unwrap();
            stage.fleet.shutdown().await;
            let counts = stage.world.counts();
            assert_eq!((counts.opened, counts.dropped), (counts.closes, 0), "{counts:?}");
        }
    });
}
