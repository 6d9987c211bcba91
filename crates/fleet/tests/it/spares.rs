//! Spares: open seats without an owner.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Agent, InstanceId, Owner, View};
use greenroom_fleet::{FleetError, Health, Readiness, SessionKey, Target};
use tokio::time::{Instant, sleep};

use crate::{
    agents::{Askable, FakeAgent},
    fake::call,
    stage::{IDLE, INSTANCE_IDLE, MS, Outcome, Said, Stage, named, permit, settle},
};

/// A started fleet with so many spares, all ready as far as there is room.
pub async fn warm(warm: usize, slots: usize, instances_max: usize) -> Stage {
    let stage = Stage::warm(warm, slots, instances_max);
    stage.fleet.start();
    settle().await;
    stage
}

/// Spares that could be handed out now.
pub fn spares(stage: &Stage) -> usize {
    stage.pool().spares
}

/// A call of an agent that a spare suits, or does not.
async fn call_by(stage: &Stage, agent: Arc<dyn Agent>, id: &str, tool: &str) -> Outcome {
    let permit = permit(&Owner::local(), tool);
    stage.fleet.call(permit, named(id), Target::default(), call(tool, "{}"), agent).await.map(Said::new)
}

/// A spare is not leased, the next session gets it without opening anything, and another takes its place.
#[tokio::test(start_paused = true)]
async fn a_session_gets_the_spare() {
    let stage = warm(1, 4, 1).await;
    assert_eq!((spares(&stage), stage.leased(), stage.sessions()), (1, 0, 0));
    stage.world.opening.shut();
    let said = stage.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    settle().await;
    assert_eq!((spares(&stage), stage.leased()), (0, 1), "handed out, and another is on its way");
    stage.world.opening.open();
    settle().await;
    assert_eq!((spares(&stage), stage.leased(), stage.world.counts().opened), (1, 1, 2));
    stage.create("b").await.unwrap();
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 2);
    settle().await;
    assert_eq!(stage.call_loose("click").await.unwrap().seat, 3, "a call without a session too");
    assert_eq!(stage.world.counts().starts, 1);
    stage.end().await;
}

/// Many first calls at once and one spare: one gets it, the others open their own, and no caller waits.
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
    assert_eq!((spares(&stage), stage.leased()), (1, 6));
    stage.end().await;
}

/// A seat that a session used is never a spare: a spare was never called before it is handed out.
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
    assert_eq!((spares(&stage), stage.leased()), (2, 0));
    stage.end().await;
}

/// In a full pool the spare's slot goes to the next caller at once, even where waiting is not allowed, and even to an agent
/// that its seat does not suit: that agent gets a seat of its own.
#[tokio::test(start_paused = true)]
async fn a_spare_never_makes_anybody_wait() {
    for suits in [true, false] {
        let stage = Stage::tuned(2, 1, |settings| {
            (settings.pools[0].lease_timeout, settings.pools[0].warm) = (Duration::ZERO, 2);
        });
        stage.fleet.start();
        settle().await;
        assert_eq!((spares(&stage), stage.leased()), (2, 0));
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
        assert_eq!((spares(&stage), stage.leased()), (1, 1), "there is room for one again");
        stage.end().await;
    }
}

/// A spare that is being opened is promised: a call that comes meanwhile gets it when it is open, in a full pool too,
/// though no waiting is allowed.
#[tokio::test(start_paused = true)]
async fn a_spare_that_opens_is_promised() {
    for slots in [1, 4] {
        let stage = Stage::tuned(slots, 1, |settings| {
            (settings.pools[0].lease_timeout, settings.pools[0].warm) = (Duration::ZERO, 1);
        });
        stage.world.starting.shut();
        stage.world.opening.shut();
        stage.fleet.start();
        settle().await;
        let call = stage.begin("a", "click").await;
        stage.world.starting.open();
        settle().await;
        assert_eq!(stage.world.counts().opens, 1, "only the spare was opened");
        stage.world.opening.open();
        assert_eq!(call.await.unwrap().unwrap().seat, 1);
        stage.end().await;
    }
}

/// A spare in an instance that still starts is left alone while a running instance has room: that is faster.
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
    let status = stage.pool();
    assert_eq!(status.instances.iter().map(|one| one.leased_slots).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(status.instances[1].health, Health::Starting);
    stage.end().await;
}

/// A caller that is promised a spare and leaves gives it back as it was, and the next one gets it.
#[tokio::test(start_paused = true)]
async fn a_promise_that_nobody_waits_for() {
    let stage = Stage::warm(1, 1, 1);
    stage.world.opening.shut();
    stage.fleet.start();
    settle().await;
    stage.begin("a", "click").await.abort();
    settle().await;
    assert_eq!((stage.leased(), stage.waiting()), (0, 0));
    stage.world.opening.open();
    settle().await;
    assert_eq!((spares(&stage), stage.world.counts().opened), (1, 1));
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 1);
    stage.end().await;
}

/// A caller that leaves just as it is handed a spare leaves nothing open.
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
        assert_eq!((stage.leased(), stage.world.open_seats().len()), (0, 1), "after {turns} turns");
    }
    stage.fleet.shutdown().await;
    assert_eq!((stage.world.open_seats().len(), stage.world.counts().dropped), (0, 0));
}

/// Callers that wait in a full pool are served before any spare is made.
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

/// No spare is made while a caller looks for a seat: its browser does one thing at a time.
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

/// A spare that is being opened goes to the first caller that waits for its slot; a caller that left is passed over.
#[tokio::test(start_paused = true)]
async fn a_promise_that_was_left_serves_those_who_wait() {
    let stage = Stage::warm(1, 1, 1);
    stage.world.opening.shut();
    stage.fleet.start();
    settle().await;
    let promised = stage.begin("a", "click").await;
    let waiting = stage.begin("b", "click").await;
    assert_eq!(stage.waiting(), 2);
    promised.abort();
    settle().await;
    assert_eq!(stage.waiting(), 1);
    stage.world.opening.open();
    assert_eq!(waiting.await.unwrap().unwrap().seat, 1);
    assert_eq!(stage.world.counts().seats_max, 1);
    stage.end().await;
}

/// An agent that a spare does not suit gets a seat of its own, and the spare stays where it is.
#[tokio::test(start_paused = true)]
async fn special_ones_are_made_fresh() {
    let stage = warm(1, 4, 1).await;
    assert_eq!(call_by(&stage, Arc::new(Askable), "a", "click").await.unwrap().seat, 2);
    assert_eq!((spares(&stage), stage.world.open_seats()), (1, vec![1, 2]));
    assert_eq!(stage.call("b", "click").await.unwrap().seat, 1);
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

/// An instance with nothing but spares is idle and retires if the spares have room elsewhere. The last one stays, and so
/// does an instance that would have to be started again at once.
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
    assert_eq!((spares(&stage), stage.pool().instances.len(), stage.leased()), (1, 1, 1));
    assert_eq!(stage.world.counts().starts, 2);
    stage.end().await;
}

/// A started pool without spares has its first instance before the first call, and that retires like every other.
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
    assert_eq!((stage.world.counts().stops, stage.pool().instances.len()), (1, 0));
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
    assert_eq!((spares(&stage), stage.leased()), (2, 1));
    stage.end().await;
}

/// A session's times begin when its spare is handed out, and its page shows in the status.
#[tokio::test(start_paused = true)]
async fn time_begins_when_a_spare_is_handed_out() {
    let stage = Stage::tuned(2, 1, |settings| {
        (settings.pools[0].warm, settings.max_lifetime) = (1, Some(IDLE * 2));
    });
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

/// The sessions of all owners are listed with their owners, without idle seats of calls without a session.
#[tokio::test(start_paused = true)]
async fn everybodys_sessions() {
    let stage = Stage::new(4, 1);
    for owner in ["ann", "bob"] {
        stage.call_as(&Owner::new(owner), named("a"), "click", "{}").await.unwrap();
    }
    stage.call_as(&Owner::new("ann"), SessionKey::Ephemeral, "click", "{}").await.unwrap();
    let owners: Vec<_> = stage.fleet.list_all().into_iter().map(|(owner, _)| owner.to_string()).collect();
    assert_eq!(owners, ["ann", "bob"]);
    stage.end().await;
}

/// A spare's successor waits for its pause, so that it takes nothing from the session that has just begun.
#[tokio::test(start_paused = true)]
async fn a_successor_waits() {
    let stage = Stage::tuned(4, 1, |settings| {
        (settings.pools[0].warm, settings.pools[0].spare_pause) = (1, 250 * MS);
    });
    stage.fleet.start();
    settle().await;
    assert_eq!(stage.pool().spares, 1);
    stage.call("a", "click").await.unwrap();
    tokio::time::sleep(249 * MS).await;
    assert_eq!((stage.pool().spares, stage.pool().leased_slots), (0, 1));
    tokio::time::sleep(2 * MS).await;
    settle().await;
    assert_eq!((stage.pool().spares, stage.pool().leased_slots), (1, 1));
    stage.end().await;
}
