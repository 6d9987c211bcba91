//! Where a call runs: by session, pool and instance, and who may run there.

use std::sync::Arc;

use greenroom_core::Owner;
use greenroom_fleet::{FleetError, SessionKey};

use crate::{
    agents::FakeAgent,
    declared::two_pools,
    fixture::{FleetFixture, at, named, settle, with_instances},
};

/// A call without a session leaves its page in the slot: the same owner's next call on that slot finds it, another
/// owner's or a session's does not.
#[tokio::test(start_paused = true)]
async fn returned_page_stays_for_its_owner() {
    let fixture = FleetFixture::fixed(2, 1).await;
    let bob = Owner::new("bob");
    let seat = |said: crate::fixture::TestAnswer| said.seat;
    let on = |instance: &str| fixture.call_at(SessionKey::Ephemeral, at("", instance), "click");
    let zero = seat(on("0").await.unwrap());
    let one = seat(on("1").await.unwrap());
    assert_eq!((seat(on("0").await.unwrap()), seat(on("1").await.unwrap())), (zero, one), "page and cookies");
    let bobs = fixture
        .call_for(&bob, SessionKey::Ephemeral, at("", "0"), "click", Arc::new(FakeAgent))
        .await
        .unwrap();
    assert_ne!(bobs.seat, zero);
    let again = seat(on("0").await.unwrap());
    assert!(again != zero && again != bobs.seat, "a page is gone once another owner used its slot");
    let session = fixture.call_at(named("a"), at("", "1"), "click").await.unwrap();
    assert_ne!(session.seat, one);
    fixture.close("a").await.unwrap();
    assert!(![one, session.seat].contains(&seat(on("1").await.unwrap())), "nor a session's page");
    assert_eq!(fixture.world.counts().seats_max, 1);
    fixture.end().await;
}

/// A call that names another pool or instance than its session's is refused with where the session lives; a call that
/// names the session's own, by any name, or none runs there.
#[tokio::test(start_paused = true)]
async fn call_naming_another_pool_than_its_session_is_refused() {
    let (fixture, other) = two_pools(2, 2, |settings| {
        for pool in &mut settings.pools {
            with_instances(pool, |id, one| one.alias = (id == 1).then(|| "main".to_owned()));
        }
    });
    let said = fixture.call_at(named("a"), at("OTHER", "main"), "click").await.unwrap();
    assert_eq!((said.pool.as_str(), said.instance), ("OTHER", 1));
    for target in [at("", ""), at("OTHER", ""), at("OTHER", "1"), at("OTHER", "main"), at("", "main")] {
        assert_eq!(fixture.call_at(named("a"), target, "click").await.unwrap().seat, said.seat);
    }
    for target in [at("DEFAULT", ""), at("DEFAULT", "main"), at("OTHER", "0"), at("", "0")] {
        let error = fixture.call_at(named("a"), target.clone(), "click").await.unwrap_err();
        assert!(matches!(error, FleetError::Elsewhere { .. }), "{target:?}: {error}");
        assert_eq!(error.to_string(), "session \"a\" lives in pool \"OTHER\", instance 1");
    }
    // Another owner's session of the same name lives its own life.
    let bob = Owner::new("bob");
    let said = fixture.call_for(&bob, named("a"), at("", ""), "click", Arc::new(FakeAgent)).await.unwrap();
    assert_eq!(said.pool, "DEFAULT");
    fixture.end().await;
    other.assert_empty();
}

/// Unknown names are refused with the known ones, and nothing is started for them.
#[tokio::test(start_paused = true)]
async fn unknown_pool_and_instance_names_are_refused() {
    let (fixture, other) = two_pools(1, 2, |_| {});
    let error = fixture.call_at(SessionKey::Ephemeral, at("default", ""), "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no such pool: \"default\"; there are \"DEFAULT\", \"OTHER\"");
    let error = fixture.call_at(named("a"), at("OTHER", "2"), "click").await.unwrap_err();
    assert_eq!(error.to_string(), "no such instance in pool \"OTHER\": \"2\"; there are \"0\", \"1\"");
    assert!(matches!(fixture.fleet.pool("NONE"), Err(FleetError::NoPool { .. })));
    settle().await;
    assert_eq!((fixture.world.counts().starts, other.counts().starts, fixture.sessions()), (0, 0, 0));
    assert_eq!(
        (fixture.fleet.default_pool(), fixture.fleet.pool_names().join(" ")),
        ("DEFAULT", "DEFAULT OTHER".to_owned())
    );
    fixture.end().await;
}

/// A pool that keeps profiles serves the local owner only.
#[tokio::test(start_paused = true)]
async fn pool_with_profiles_serves_the_local_owner_only() {
    let (fixture, other) = two_pools(1, 1, |settings| settings.pools[0].local_only = true);
    let bob = Owner::new("bob");
    let agent = || Arc::new(FakeAgent);
    for session_key in [named("a"), SessionKey::Ephemeral] {
        let error =
            fixture.call_for(&bob, session_key.clone(), at("OTHER", ""), "click", agent()).await.unwrap_err();
        assert!(matches!(error, FleetError::NotYours { .. }), "{error}");
        fixture.call_at(session_key, at("OTHER", ""), "click").await.unwrap();
        let _ = fixture.close("a").await;
    }
    fixture.call_for(&bob, named("a"), at("", ""), "click", agent()).await.unwrap();
    fixture.end().await;
    other.assert_empty();
}

/// A session that lost its browser goes on in its pool, with a note that the browser is new.
#[tokio::test(start_paused = true)]
async fn lost_session_continues_in_its_pool() {
    let (fixture, other) = two_pools(1, 2, |_| {});
    let said = fixture.call_at(named("a"), at("OTHER", ""), "click").await.unwrap();
    other.lose_seat(said.seat, crate::fixture::crash());
    settle().await;
    let said = fixture.call("a", "click").await.unwrap();
    assert_eq!((said.pool.as_str(), said.restarted().is_some()), ("OTHER", true));
    // If the agent names a pool, the session may begin anywhere; if its owner closed it, it is forgotten.
    other.lose_seat(said.seat, crate::fixture::crash());
    settle().await;
    let said = fixture.call_at(named("a"), at("DEFAULT", ""), "click").await.unwrap();
    assert_eq!((said.pool.as_str(), said.restarted().is_some()), ("DEFAULT", true));
    fixture.close("a").await.unwrap();
    fixture.end().await;
    other.assert_empty();
}
