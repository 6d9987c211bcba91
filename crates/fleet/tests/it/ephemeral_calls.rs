//! Calls without a session: a lease for the call alone, and a seat that stays in its slot for the owner's next such
//! call.

use greenroom_core::{InstanceId, Owner};
use greenroom_fleet::{FleetError, SessionKey};
use tokio::time::{advance, sleep};

use crate::fixture::{FleetFixture, IDLE, MS, crash, settle};

/// The same owner's next call gets the seat that the last one returned, with its page.
#[tokio::test(start_paused = true)]
async fn next_call_gets_the_returned_seat() {
    let fixture = FleetFixture::new(4, 1);
    for _ in 0..3 {
        let said = fixture.call_ephemeral("click").await.unwrap();
        assert_eq!((said.seat, said.notes), (1, vec![]));
    }
    assert_eq!((fixture.world.counts().opens, fixture.leased()), (1, 0));
    fixture.end().await;
}

/// Calls at the same time get different seats, which are leased again in the order of their return.
#[tokio::test(start_paused = true)]
async fn concurrent_calls_get_different_seats() {
    let fixture = FleetFixture::new(4, 1);
    let local = Owner::local();
    let one = fixture.begin_as(&local, SessionKey::Ephemeral, "hold").await;
    let two = fixture.begin_as(&local, SessionKey::Ephemeral, "hold").await;
    let first = fixture.world.held().await;
    let second = fixture.world.held().await;
    second.answer();
    settle().await;
    first.answer();
    assert_eq!((one.await.unwrap().unwrap().seat, two.await.unwrap().unwrap().seat), (1, 2));
    let next = fixture.begin_as(&local, SessionKey::Ephemeral, "hold").await;
    assert_eq!(fixture.world.held().await.seat, 2, "returned first");
    next.abort();
    assert_eq!(fixture.call_ephemeral("click").await.unwrap().seat, 1);
    assert_eq!(fixture.world.counts().opens, 2);
    fixture.fleet.shutdown().await;
}

/// Another owner never gets a returned seat, even when its slot is the only one: the seat is closed and a new one opened.
#[tokio::test(start_paused = true)]
async fn returned_seat_is_closed_for_another_owner() {
    let fixture = FleetFixture::new(1, 1);
    let ann = Owner::new("ann");
    let bob = Owner::new("bob");
    for round in 0..20 {
        assert_eq!(
            fixture.call_as(&ann, SessionKey::Ephemeral, "click", "{}").await.unwrap().seat,
            round * 2 + 1
        );
        assert_eq!(
            fixture.call_as(&bob, SessionKey::Ephemeral, "click", "{}").await.unwrap().seat,
            round * 2 + 2
        );
    }
    assert_eq!(fixture.world.counts().seats_max, 1);
    fixture.end().await;
}

/// A session that needs a slot of a full pool takes the returned one that is oldest, without waiting for its idle time; so
/// does a session that came while the call still ran.
#[tokio::test(start_paused = true)]
async fn session_takes_a_returned_slot_of_a_full_pool() {
    let fixture = FleetFixture::new(2, 1);
    let began = tokio::time::Instant::now();
    let local = Owner::local();
    let calls = [
        fixture.begin_as(&local, SessionKey::Ephemeral, "hold").await,
        fixture.begin_as(&local, SessionKey::Ephemeral, "hold").await,
    ];
    let first = fixture.world.held().await;
    let second = fixture.world.held().await;
    second.answer();
    settle().await;
    assert_eq!(fixture.call("a", "click").await.unwrap().seat, 3);
    assert_eq!(fixture.world.open_seats(), [1, 3], "the returned one was closed, the busy one was not");
    let waiting = fixture.begin("b", "click").await;
    assert_eq!(fixture.waiting(), 1);
    first.answer();
    assert_eq!(waiting.await.unwrap().unwrap().seat, 4);
    for call in calls {
        call.await.unwrap().unwrap();
    }
    assert_eq!(began.elapsed().as_millis(), 0);
    assert!(
        matches!(fixture.call_ephemeral("click").await, Err(FleetError::Lease(_))),
        "sessions keep theirs"
    );
    fixture.end().await;
}

/// A returned seat ends with the idle time, without a note to the next call; and no call without a session gets the
/// advice to renew one.
#[tokio::test(start_paused = true)]
async fn returned_seat_expires() {
    let fixture = FleetFixture::tuned(1, 1, |settings| settings.max_lifetime = Some(IDLE + MS));
    fixture.call_ephemeral("click").await.unwrap();
    advance(IDLE - MS).await;
    settle().await;
    let said = fixture.call_ephemeral("click").await.unwrap();
    assert_eq!((said.seat, said.notes), (1, vec![]));
    sleep(IDLE + MS).await;
    settle().await;
    assert_eq!(fixture.world.open_seats(), [] as [u64; 0], "the end of its idle time");
    let said = fixture.call_ephemeral("click").await.unwrap();
    assert_eq!((said.seat, said.notes), (2, vec![]));
    fixture.end().await;
}

/// A returned seat that died is not leased again, not even at the moment of its death.
#[tokio::test(start_paused = true)]
async fn dead_seat_is_not_leased_again() {
    let fixture = FleetFixture::new(1, 1);
    for round in 0..20 {
        assert_eq!(fixture.call_ephemeral("click").await.unwrap().seat, round + 1);
        fixture.world.lose_seat(round + 1, crash());
        if round % 2 == 0 {
            settle().await;
        }
    }
    fixture.call_ephemeral("click").await.unwrap();
    fixture.world.lose_instance(InstanceId(0), &crash());
    assert_eq!(fixture.call_ephemeral("click").await.unwrap().seat, 22);
    fixture.end().await;
}

/// Many calls of many owners over few slots are all served, each in a seat that only its owner ever saw.
#[tokio::test(start_paused = true)]
async fn seats_are_never_shared_between_owners() {
    let fixture = FleetFixture::tuned(2, 2, |settings| settings.pools[0].lease_timeout = IDLE);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..200_u32 {
        let fixture = fixture.clone();
        calls.spawn(async move {
            sleep(MS * (n * 7 % 31)).await;
            let owner = n % 6;
            let session_key = SessionKey::Ephemeral;
            let said =
                fixture.call_as(&Owner::new(&owner.to_string()), session_key, "click", "{}").await.unwrap();
            (said.seat, owner)
        });
    }
    let mut owners = std::collections::HashMap::new();
    for (seat, owner) in calls.join_all().await {
        assert_eq!(*owners.entry(seat).or_insert(owner), owner, "seat {seat}");
    }
    assert_eq!(fixture.world.counts().seats_max, 2);
    fixture.end().await;
}
