//! Spares: open seats without an owner.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Agent, InstanceId, Owner, View};
use greenroom_fleet::{CallTarget, FleetError, Health, Readiness, SessionKey};
use tokio::time::{Instant, sleep};

use crate::{
    agents::{Askable, FakeAgent},
    fake::call,
    fixture::{FleetFixture, IDLE, INSTANCE_IDLE, MS, Outcome, TestAnswer, named, permit, settle},
};

/// A started fleet with this many spares, all ready as far as there is room.
pub async fn warm(warm: usize, slots: usize, instances_max: usize) -> FleetFixture {
    let fixture = FleetFixture::warm(warm, slots, instances_max);
    fixture.fleet.start();
    settle().await;
    fixture
}

/// Spares that could be handed out now.
pub fn spares(fixture: &FleetFixture) -> usize {
    fixture.pool().spares
}

/// A call of an agent that a spare suits, or does not.
async fn call_by(fixture: &FleetFixture, agent: Arc<dyn Agent>, id: &str, tool: &str) -> Outcome {
    let permit = permit(&Owner::local(), tool);
    fixture
        .fleet
        .call(permit, named(id), CallTarget::default(), call(tool, "{}"), agent)
        .await
        .map(TestAnswer::new)
}

/// A spare is not leased, the next session gets it without opening anything, and another takes its place.
#[tokio::test(start_paused = true)]
async fn session_gets_the_spare() {
    let fixture = warm(1, 4, 1).await;
    assert_eq!((spares(&fixture), fixture.leased(), fixture.sessions()), (1, 0, 0));
    fixture.world.opening.shut();
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased()), (0, 1), "handed out, and another is on its way");
    fixture.world.opening.open();
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased(), fixture.world.counts().opened), (1, 1, 2));
    fixture.create("b").await.unwrap();
    assert_eq!(fixture.call("b", "click").await.unwrap().seat, 2);
    settle().await;
    assert_eq!(fixture.call_ephemeral("click").await.unwrap().seat, 3, "a call without a session too");
    assert_eq!(fixture.world.counts().starts, 1);
    fixture.end().await;
}

/// Many first calls at once and one spare: one gets it, the others open their own, and no caller waits.
#[tokio::test(start_paused = true)]
async fn one_of_many_callers_gets_the_spare() {
    let fixture = warm(1, 8, 1).await;
    let mut calls = Vec::new();
    for n in 0..6 {
        let fixture = fixture.clone();
        calls.push(tokio::spawn(async move { fixture.call(&n.to_string(), "click").await.unwrap().seat }));
    }
    let mut seats = Vec::new();
    for call in calls {
        seats.push(call.await.unwrap());
    }
    seats.sort_unstable();
    assert_eq!(seats, [1, 2, 3, 4, 5, 6]);
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased()), (1, 6));
    fixture.end().await;
}

/// A seat that a session used is never a spare: a spare was never called before it is handed out.
#[tokio::test(start_paused = true)]
async fn used_seat_never_becomes_a_spare() {
    let fixture = warm(2, 4, 1).await;
    for n in 0..10_u64 {
        let id = n.to_string();
        fixture.call(&id, "click").await.unwrap();
        fixture.close(&id).await.unwrap();
        settle().await;
    }
    let mut called: Vec<_> = fixture.world.log().into_iter().map(|(seat, _)| seat).collect();
    called.dedup();
    assert_eq!(called.len(), 10, "ten sessions, ten seats");
    assert_eq!((spares(&fixture), fixture.leased()), (2, 0));
    fixture.end().await;
}

/// In a full pool the spare's slot goes to the next caller at once, even where waiting is not allowed, and even to an agent
/// that its seat does not suit: that agent gets a seat of its own.
#[tokio::test(start_paused = true)]
async fn spare_never_makes_a_caller_wait() {
    for suits in [true, false] {
        let fixture = FleetFixture::tuned(2, 1, |settings| {
            settings.pools[0].lease_timeout = Duration::ZERO;
            settings.pools[0].warm = 2;
        });
        fixture.fleet.start();
        settle().await;
        assert_eq!((spares(&fixture), fixture.leased()), (2, 0));
        let agent = || -> Arc<dyn Agent> { if suits { Arc::new(FakeAgent) } else { Arc::new(Askable) } };
        let began = Instant::now();
        for id in ["a", "b"] {
            call_by(&fixture, agent(), id, "click").await.unwrap();
        }
        assert_eq!(began.elapsed().as_millis(), 0);
        settle().await;
        let counts = fixture.world.counts();
        assert_eq!((spares(&fixture), fixture.leased(), counts.seats_max), (0, 2, 2));
        assert_eq!(
            counts.opened,
            if suits { 2 } else { 4 },
            "a seat of their own for those it does not suit"
        );
        let error = call_by(&fixture, agent(), "c", "click").await.unwrap_err();
        assert!(matches!(error, FleetError::Lease(_)), "sessions keep theirs: {error}");
        fixture.close("a").await.unwrap();
        settle().await;
        assert_eq!((spares(&fixture), fixture.leased()), (1, 1), "there is room for one again");
        fixture.end().await;
    }
}

/// A call that comes while a spare is being opened gets that spare when it is open, in a full pool too, even if no
/// waiting is allowed.
#[tokio::test(start_paused = true)]
async fn opening_spare_is_reserved_for_a_caller() {
    for slots in [1, 4] {
        let fixture = FleetFixture::tuned(slots, 1, |settings| {
            settings.pools[0].lease_timeout = Duration::ZERO;
            settings.pools[0].warm = 1;
        });
        fixture.world.starting.shut();
        fixture.world.opening.shut();
        fixture.fleet.start();
        settle().await;
        let call = fixture.begin("a", "click").await;
        fixture.world.starting.open();
        settle().await;
        assert_eq!(fixture.world.counts().opens, 1, "only the spare was opened");
        fixture.world.opening.open();
        assert_eq!(call.await.unwrap().unwrap().seat, 1);
        fixture.end().await;
    }
}

/// A spare in an instance that still starts is left alone while a running instance has room: that is faster.
#[tokio::test(start_paused = true)]
async fn running_instance_is_preferred_to_a_starting_spare() {
    let fixture = warm(1, 2, 2).await;
    fixture.world.starting.shut();
    fixture.create("a").await.unwrap();
    settle().await;
    fixture.create("b").await.unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().starts, spares(&fixture)), (2, 0), "a spare makes the pool grow");
    fixture.close("a").await.unwrap();
    let began = Instant::now();
    assert_eq!(fixture.call("c", "click").await.unwrap().seat, 3);
    assert_eq!(began.elapsed().as_millis(), 0);
    let status = fixture.pool();
    assert_eq!(status.instances.iter().map(|one| one.leased_slots).collect::<Vec<_>>(), [2, 0]);
    assert_eq!(status.instances[1].health, Health::Starting);
    fixture.end().await;
}

/// A caller that waits for a spare being opened and leaves does not harm the spare, and the next caller gets it.
#[tokio::test(start_paused = true)]
async fn reserved_spare_of_a_departed_caller_goes_to_the_next() {
    let fixture = FleetFixture::warm(1, 1, 1);
    fixture.world.opening.shut();
    fixture.fleet.start();
    settle().await;
    fixture.begin("a", "click").await.abort();
    settle().await;
    assert_eq!((fixture.leased(), fixture.waiting()), (0, 0));
    fixture.world.opening.open();
    settle().await;
    assert_eq!((spares(&fixture), fixture.world.counts().opened), (1, 1));
    assert_eq!(fixture.call("b", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A caller that leaves just as it is handed a spare leaves nothing open.
#[tokio::test(start_paused = true)]
async fn caller_leaving_at_the_handover_leaves_nothing_open() {
    let fixture = warm(1, 2, 1).await;
    for turns in 0..60 {
        let call = tokio::spawn({
            let fixture = fixture.clone();
            async move { fixture.call("a", "hold").await }
        });
        for _ in 0..turns % 20 {
            tokio::task::yield_now().await;
        }
        call.abort();
        settle().await;
        let _ = fixture.close("a").await;
        settle().await;
        assert_eq!((fixture.leased(), fixture.world.open_seats().len()), (0, 1), "after {turns} turns");
    }
    fixture.fleet.shutdown().await;
    assert_eq!((fixture.world.open_seats().len(), fixture.world.counts().dropped), (0, 0));
}

/// Callers that wait in a full pool are served before any spare is made.
#[tokio::test(start_paused = true)]
async fn waiters_are_served_before_spares_are_made() {
    let fixture = warm(1, 1, 1).await;
    fixture.create("a").await.unwrap();
    let waiting = [fixture.begin("b", "click").await, fixture.begin("c", "click").await];
    fixture.close("a").await.unwrap();
    let [b, c] = waiting;
    assert_eq!(b.await.unwrap().unwrap().seat, 2);
    settle().await;
    assert_eq!(spares(&fixture), 0);
    fixture.close("b").await.unwrap();
    assert_eq!(c.await.unwrap().unwrap().seat, 3);
    fixture.close("c").await.unwrap();
    settle().await;
    assert_eq!((spares(&fixture), fixture.world.counts().opened), (1, 4));
    fixture.end().await;
}

/// No spare is opened while a caller looks for a seat, because that would slow the caller's seat.
#[tokio::test(start_paused = true)]
async fn no_spare_opens_while_a_caller_opens_a_seat() {
    let fixture = warm(1, 4, 1).await;
    fixture.world.opening.shut();
    let opening = tokio::spawn({
        let fixture = fixture.clone();
        async move { call_by(&fixture, Arc::new(Askable), "special", "click").await }
    });
    settle().await;
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 1);
    settle().await;
    assert_eq!(fixture.world.counts().opens, 2, "the spare that was handed out, and the special one");
    fixture.world.opening.open();
    opening.await.unwrap().unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().opens, spares(&fixture)), (3, 1));
    fixture.end().await;
}

/// A spare that is being opened goes to the first caller that waits for its slot; a caller that left is passed over.
#[tokio::test(start_paused = true)]
async fn opening_spare_goes_to_the_first_waiter() {
    let fixture = FleetFixture::warm(1, 1, 1);
    fixture.world.opening.shut();
    fixture.fleet.start();
    settle().await;
    let promised = fixture.begin("a", "click").await;
    let waiting = fixture.begin("b", "click").await;
    assert_eq!(fixture.waiting(), 2);
    promised.abort();
    settle().await;
    assert_eq!(fixture.waiting(), 1);
    fixture.world.opening.open();
    assert_eq!(waiting.await.unwrap().unwrap().seat, 1);
    assert_eq!(fixture.world.counts().seats_max, 1);
    fixture.end().await;
}

/// An agent that a spare does not suit gets a seat of its own, and the spare stays where it is.
#[tokio::test(start_paused = true)]
async fn agent_that_the_spare_does_not_suit_gets_a_new_seat() {
    let fixture = warm(1, 4, 1).await;
    assert_eq!(call_by(&fixture, Arc::new(Askable), "a", "click").await.unwrap().seat, 2);
    assert_eq!((spares(&fixture), fixture.world.open_seats()), (1, vec![1, 2]));
    assert_eq!(fixture.call("b", "click").await.unwrap().seat, 1);
    fixture.end().await;
}

/// A spare may start an instance when all slots are taken, within the maximum, so that the next session need not
/// wait for one.
#[tokio::test(start_paused = true)]
async fn spare_may_start_an_instance() {
    let fixture = warm(1, 1, 2).await;
    fixture.create("a").await.unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().started, spares(&fixture)), (2, 1));
    fixture.create("b").await.unwrap();
    settle().await;
    assert_eq!((fixture.world.counts().starts, spares(&fixture), fixture.leased()), (2, 0, 2));
    fixture.end().await;
}

/// An instance with nothing but spares is idle and retires if the spares have room elsewhere. The last one stays, and so
/// does an instance that would have to be started again at once.
#[tokio::test(start_paused = true)]
async fn instance_with_only_spares_retires() {
    let fixture = warm(1, 2, 2).await;
    sleep(INSTANCE_IDLE * 3).await;
    settle().await;
    assert_eq!((fixture.world.counts().stops, spares(&fixture)), (0, 1), "the last one stays");
    for id in ["a", "b"] {
        fixture.create(id).await.unwrap();
        settle().await;
    }
    assert_eq!((fixture.world.counts().starts, spares(&fixture)), (2, 1));
    sleep(INSTANCE_IDLE * 2).await;
    settle().await;
    assert_eq!(fixture.world.counts().stops, 0, "there is no other room for the spare");
    fixture.close("a").await.unwrap();
    sleep(INSTANCE_IDLE).await;
    settle().await;
    assert_eq!(fixture.world.stopped(), [InstanceId(1)], "now there is");
    assert_eq!((spares(&fixture), fixture.pool().instances.len(), fixture.leased()), (1, 1, 1));
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// A started pool without spares has its first instance before the first call, and that retires like every other.
#[tokio::test(start_paused = true)]
async fn started_pool_without_spares_has_an_instance() {
    let fixture = FleetFixture::new(2, 2);
    fixture.world.starting.shut();
    fixture.fleet.start();
    settle().await;
    assert!(matches!(fixture.fleet.readiness(), Readiness::Starting));
    fixture.world.starting.open();
    settle().await;
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    assert_eq!((fixture.world.counts().started, fixture.leased(), spares(&fixture)), (1, 0, 0));
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.world.counts().starts, 1);
    fixture.close("a").await.unwrap();
    sleep(INSTANCE_IDLE).await;
    settle().await;
    assert_eq!((fixture.world.counts().stops, fixture.pool().instances.len()), (1, 0));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready), "the next call starts another");
    fixture.end().await;
}

/// Spares are kept only in a pool that was started.
#[tokio::test(start_paused = true)]
async fn unstarted_pool_keeps_no_spares() {
    let fixture = FleetFixture::warm(2, 4, 1);
    fixture.call("a", "click").await.unwrap();
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased()), (0, 1));
    fixture.fleet.start();
    fixture.fleet.start();
    settle().await;
    assert_eq!((spares(&fixture), fixture.leased()), (2, 1));
    fixture.end().await;
}

/// A session's times begin when its spare is handed out, and its page shows in the status.
#[tokio::test(start_paused = true)]
async fn session_times_begin_at_the_handover() {
    let fixture = FleetFixture::tuned(2, 1, |settings| {
        settings.pools[0].warm = 1;
        settings.max_lifetime = Some(IDLE * 2);
    });
    fixture.fleet.start();
    settle().await;
    sleep(IDLE * 4).await;
    fixture.create("a").await.unwrap();
    fixture.world.show(1, View { url: "http://a/".to_owned(), title: "A".to_owned(), tabs: 1 });
    let listed = fixture.fleet.list_all();
    let (owner, status) = &listed[0];
    assert_eq!((owner, &*status.view.title, status.instance), (&Owner::local(), "A", Some(InstanceId(0))));
    assert_eq!(status.expires_in, Some(IDLE));
    sleep(IDLE - MS).await;
    assert_eq!(fixture.call("a", "click").await.unwrap().notes, []);
    fixture.end().await;
}

/// A shutdown ends spares that are ready, opening, awaited by a caller and waiting for their instance.
#[tokio::test(start_paused = true)]
async fn shutdown_ends_spares() {
    warm(3, 4, 1).await.end().await;
    let fixture = FleetFixture::warm(3, 2, 2);
    fixture.world.opening.shut();
    fixture.fleet.start();
    settle().await;
    let call = fixture.begin("a", "click").await;
    fixture.end().await;
    assert!(matches!(call.await.unwrap(), Err(FleetError::ShuttingDown)));
    let fixture = FleetFixture::warm(1, 2, 2);
    fixture.world.starting.shut();
    fixture.fleet.start();
    settle().await;
    fixture.end().await;
    let fixture = warm(2, 2, 1).await;
    fixture.create("a").await.unwrap();
    fixture.world.closing.shut();
    let began = Instant::now();
    fixture.end().await;
    assert_eq!(began.elapsed().as_secs(), 5, "spares and sessions close at the same time");
}

/// The sessions of all owners are listed with their owners, without idle seats of calls without a session.
#[tokio::test(start_paused = true)]
async fn idle_seats_are_not_listed_as_sessions() {
    let fixture = FleetFixture::new(4, 1);
    for owner in ["ann", "bob"] {
        fixture.call_as(&Owner::new(owner), named("a"), "click", "{}").await.unwrap();
    }
    fixture.call_as(&Owner::new("ann"), SessionKey::Ephemeral, "click", "{}").await.unwrap();
    let owners: Vec<_> = fixture.fleet.list_all().into_iter().map(|(owner, _)| owner.to_string()).collect();
    assert_eq!(owners, ["ann", "bob"]);
    fixture.end().await;
}

/// A spare's successor waits for its pause, so that it takes nothing from the session that has just begun.
#[tokio::test(start_paused = true)]
async fn next_spare_waits_for_its_pause() {
    let fixture = FleetFixture::tuned(4, 1, |settings| {
        settings.pools[0].warm = 1;
        settings.pools[0].spare_pause = 250 * MS;
    });
    fixture.fleet.start();
    settle().await;
    assert_eq!(fixture.pool().spares, 1);
    fixture.call("a", "click").await.unwrap();
    tokio::time::sleep(249 * MS).await;
    assert_eq!((fixture.pool().spares, fixture.pool().leased_slots), (0, 1));
    tokio::time::sleep(2 * MS).await;
    settle().await;
    assert_eq!((fixture.pool().spares, fixture.pool().leased_slots), (1, 1));
    fixture.end().await;
}
