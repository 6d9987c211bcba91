//! The list of an owner's sessions.

use std::time::Duration;

use greenroom_core::{ConnectionId, InstanceId, Owner, View};
use greenroom_fleet::{SessionActivity, SessionKey};
use tokio::time::advance;

use crate::fixture::{FleetFixture, connection, named, session, settle};

/// A listed session names its id or connection, its pool and instance, its page, and what it is doing.
#[tokio::test(start_paused = true)]
async fn sessions_are_listed() {
    let fixture = FleetFixture::new(1, 2);
    let owner = Owner::local();
    fixture.call("a", "click").await.unwrap();
    fixture.world.show(1, View { url: "https://a.test/".into(), title: "A".into(), tabs: 2 });
    advance(Duration::from_secs(1)).await;
    fixture.call_as(&owner, connection(9), "click", "{}").await.unwrap();
    let list = fixture.fleet.list(&owner);
    let [a, own] = list.as_slice() else { panic!("two sessions, oldest first: {list:?}") };
    assert_eq!((&a.id, a.connection), (&Some(session("a")), None));
    assert_eq!((&own.id, own.connection), (&None, Some(ConnectionId(9))));
    assert_eq!((a.instance, own.instance), (Some(InstanceId(0)), Some(InstanceId(1))));
    assert_eq!((a.pool.as_str(), a.view.url.as_str(), a.view.tabs), ("DEFAULT", "https://a.test/", 2));
    assert_eq!(own.view, View::default());
    assert!(a.created <= a.last_used);
    fixture.world.show(1, View { title: "B".into(), ..View::default() });
    assert_eq!(fixture.fleet.list(&owner)[0].view.title, "B", "the view is what is shown now");
    fixture.end().await;
}

/// An owner sees its own sessions only, without idle seats of calls without a session.
#[tokio::test(start_paused = true)]
async fn only_own_sessions_are_listed() {
    let fixture = FleetFixture::new(4, 1);
    let ann = Owner::new("ann");
    let bob = Owner::new("bob");
    fixture.call_as(&ann, named("a"), "click", "{}").await.unwrap();
    fixture.call_as(&bob, named("b"), "click", "{}").await.unwrap();
    fixture.call_as(&ann, SessionKey::Ephemeral, "click", "{}").await.unwrap();
    let ids =
        |owner| fixture.fleet.list(owner).into_iter().map(|status| status.id.unwrap()).collect::<Vec<_>>();
    assert_eq!((ids(&ann), ids(&bob)), (vec![session("a")], vec![session("b")]));
    assert_eq!((fixture.sessions(), fixture.leased()), (0, 2));
    fixture.end().await;
}

/// The operator sees every owner's sessions, those with the same id separately, oldest first.
#[tokio::test(start_paused = true)]
async fn all_owners_sessions_are_listed() {
    let fixture = FleetFixture::new(4, 1);
    let ann = Owner::new("ann");
    let bob = Owner::new("bob");
    fixture.call_as(&ann, named("a"), "click", "{}").await.unwrap();
    fixture.call_as(&bob, named("a"), "click", "{}").await.unwrap();
    fixture.call_as(&bob, connection(2), "click", "{}").await.unwrap();
    fixture.call_as(&ann, SessionKey::Ephemeral, "click", "{}").await.unwrap();
    let all: Vec<_> =
        fixture.fleet.list_all().into_iter().map(|(owner, status)| (owner, status.id)).collect();
    assert_eq!(all, [(ann, Some(session("a"))), (bob.clone(), Some(session("a"))), (bob, None)]);
    fixture.end().await;
}

/// A session is starting until its seat is open, then busy while calls are in flight, which are counted.
#[tokio::test(start_paused = true)]
async fn session_state_follows_its_calls() {
    let fixture = FleetFixture::new(1, 1);
    let now = || {
        let list = fixture.fleet.list(&Owner::local());
        (list[0].state, list[0].calls_in_flight, list[0].instance.is_some(), list[0].expires_in.is_some())
    };
    fixture.world.starting.shut();
    fixture.world.opening.shut();
    let one = fixture.begin("a", "hold").await;
    assert_eq!(now(), (SessionActivity::Starting, 1, false, false));
    let two = fixture.begin("a", "hold").await;
    fixture.world.starting.open();
    settle().await;
    assert_eq!(now(), (SessionActivity::Starting, 2, false, false));
    fixture.world.opening.open();
    let held = fixture.world.held().await;
    assert_eq!(now(), (SessionActivity::Busy, 2, true, false));
    held.answer();
    one.await.unwrap().unwrap();
    assert_eq!(now(), (SessionActivity::Busy, 1, true, false));
    fixture.world.held().await.answer();
    two.await.unwrap().unwrap();
    assert_eq!(now(), (SessionActivity::Idle, 0, true, true));
    fixture.end().await;
}
