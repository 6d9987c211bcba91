//! What an owner may use at once: sessions, calls, waiting calls.

use std::sync::Arc;

use greenroom_core::{
    Owner,
    quota::{OwnerLimits, Quotas, SameQuotas},
};
use greenroom_fleet::{CallTarget, FleetError, SessionKey, SessionOptions};
use parking_lot::Mutex;

use crate::{
    agents::FakeAgent,
    fixture::{FleetFixture, named, permit, session},
};

/// Limits that a test changes while the fleet runs.
#[derive(Debug, Default)]
struct ChangingQuotas(Mutex<OwnerLimits>);

impl Quotas for ChangingQuotas {
    fn limits(&self, owner: &Owner) -> OwnerLimits {
        SameQuotas(*self.0.lock()).limits(owner)
    }
}

fn limited(limits: OwnerLimits) -> (FleetFixture, Arc<ChangingQuotas>) {
    let quotas = Arc::new(ChangingQuotas(Mutex::new(limits)));
    let given = quotas.clone();
    (FleetFixture::tuned(16, 1, |settings| settings.quotas = given), quotas)
}

/// An owner gets so many sessions, by calls or by creation. Calls in those it has and calls without a session go on; other
/// owners are not concerned, and `local` has no limit.
#[tokio::test(start_paused = true)]
async fn sessions_of_an_owner_are_limited() {
    let (fixture, _) = limited(OwnerLimits { sessions: Some(2), ..OwnerLimits::default() });
    let [a, b] = [Owner::new("a"), Owner::new("b")];
    let call = |owner: Owner, key: SessionKey| {
        let fixture = fixture.clone();
        async move { fixture.call_as(&owner, key, "click", "{}").await }
    };
    for id in ["1", "2", "1"] {
        call(a.clone(), named(id)).await.unwrap();
    }
    let refused = call(a.clone(), named("3")).await.unwrap_err();
    assert!(matches!(refused, FleetError::TooManySessions { used: 2, max: 2 }), "{refused}");
    let permit = permit(&a, "create_new_session");
    let refused = fixture
        .fleet
        .create(permit, session("3"), CallTarget::default(), SessionOptions::default(), Arc::new(FakeAgent))
        .await;
    assert!(matches!(refused, Err(FleetError::TooManySessions { used: 2, max: 2 })));
    call(a.clone(), SessionKey::Ephemeral).await.unwrap();
    call(b, named("1")).await.unwrap();
    for id in ["1", "2", "3"] {
        call(Owner::local(), named(id)).await.unwrap();
    }
    fixture.fleet.close(&a, &named("1")).await.unwrap();
    call(a, named("3")).await.unwrap();
    fixture.end().await;
}

/// A limit that is lowered while sessions are open ends none of them, and refuses new ones until there are fewer.
#[tokio::test(start_paused = true)]
async fn lower_limit_ends_no_session() {
    let (fixture, quotas) = limited(OwnerLimits { sessions: Some(3), ..OwnerLimits::default() });
    let owner = Owner::new("a");
    for id in ["1", "2", "3"] {
        fixture.call_as(&owner, named(id), "click", "{}").await.unwrap();
    }
    quotas.0.lock().sessions = Some(1);
    for id in ["1", "2", "3"] {
        fixture.call_as(&owner, named(id), "click", "{}").await.unwrap();
    }
    fixture.fleet.close(&owner, &named("1")).await.unwrap();
    let refused = fixture.call_as(&owner, named("4"), "click", "{}").await.unwrap_err();
    assert!(matches!(refused, FleetError::TooManySessions { used: 2, max: 1 }), "{refused}");
    quotas.0.lock().sessions = None;
    fixture.call_as(&owner, named("4"), "click", "{}").await.unwrap();
    fixture.end().await;
}

/// Calls that wait or run count until they are answered or given up; one too many is refused at once and runs nowhere.
#[tokio::test(start_paused = true)]
async fn calls_of_an_owner_are_limited() {
    let (fixture, _) = limited(OwnerLimits { calls_in_flight: Some(2), ..OwnerLimits::default() });
    let owner = Owner::new("a");
    let running = fixture.begin_as(&owner, named("1"), "hold").await;
    let waiting = fixture.begin_as(&owner, named("1"), "click").await;
    let refused = fixture.call_as(&owner, named("2"), "click", "{}").await.unwrap_err();
    assert!(matches!(refused, FleetError::TooManyCalls { used: 2, max: 2 }), "{refused}");
    assert_eq!(fixture.fleet.list(&owner).len(), 1, "the refused call made no session");
    fixture.call("1", "click").await.unwrap();
    fixture.world.held().await.answer();
    running.await.unwrap().unwrap();
    waiting.await.unwrap().unwrap();
    fixture.call_as(&owner, named("2"), "click", "{}").await.unwrap();
    fixture.end().await;
}

/// A call that runs does not count as waiting.
#[tokio::test(start_paused = true)]
async fn waiting_calls_of_an_owner_are_limited() {
    let (fixture, _) = limited(OwnerLimits { waiting_calls: Some(1), ..OwnerLimits::default() });
    let owner = Owner::new("a");
    let running = [
        fixture.begin_as(&owner, named("1"), "hold").await,
        fixture.begin_as(&owner, named("2"), "hold").await,
    ];
    let waiting = fixture.begin_as(&owner, named("1"), "click").await;
    let refused = fixture.call_as(&owner, named("2"), "click", "{}").await.unwrap_err();
    assert!(matches!(refused, FleetError::TooManyWaitingCalls { used: 1, max: 1 }), "{refused}");
    for _ in 0..2 {
        fixture.world.held().await.answer();
    }
    for call in running {
        call.await.unwrap().unwrap();
    }
    waiting.await.unwrap().unwrap();
    fixture.call_as(&owner, named("2"), "click", "{}").await.unwrap();
    fixture.end().await;
}
