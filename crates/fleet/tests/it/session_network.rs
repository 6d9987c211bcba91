//! Network policies of sessions: checked against the pool's, given to every seat of the session, and kept by successors.

use std::sync::Arc;

use greenroom_core::{
    Lost, Owner, StartError,
    network::{NetworkPolicy, SessionNetwork},
    settings::NetworkPreset,
};
use greenroom_fleet::{CallTarget, FleetError, SessionOptions};
use tokio::time::advance;

use crate::{
    agents::FakeAgent,
    fake::World,
    fixture::{FleetFixture, IDLE, MS, at, crash, fixed_pool, named, permit, session, settings_of, settle},
};

fn denying(rule: &str) -> SessionNetwork {
    SessionNetwork { deny: vec![rule.to_owned()], ..SessionNetwork::default() }
}

fn guarded() -> SessionNetwork {
    SessionNetwork { preset: Some("guarded".to_owned()), ..SessionNetwork::default() }
}

impl FleetFixture {
    async fn create_with(
        &self,
        id: &str,
        target: CallTarget,
        network: SessionNetwork,
    ) -> Result<(), FleetError> {
        let permit = permit(&Owner::local(), "create_new_session");
        let options = SessionOptions { network: Some(network) };
        self.fleet.create(permit, session(id), target, options, Arc::new(FakeAgent)).await.map(drop)
    }

    /// The policy of the latest user of the latest seat, as a request.
    fn latest_network(&self) -> Option<SessionNetwork> {
        let user = self.world.users().pop().unwrap();
        user.network.as_deref().map(SessionNetwork::of_policy)
    }
}

/// The successor of a session keeps its policy, however the session ended: lost during a call or between calls, expired,
/// evicted, or never opened. The list shows it.
#[tokio::test(start_paused = true)]
async fn successors_keep_the_policy() {
    let fixture = FleetFixture::new(1, 1);
    let network = denying("10.0.0.0/8");
    fixture.world.fail_open(StartError::new("no context"));
    assert!(fixture.create_with("a", CallTarget::default(), network.clone()).await.is_err());
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(network.clone()), "the session did not open at first");

    let running = fixture.begin("a", "hold").await;
    let _held = fixture.world.held().await;
    fixture.world.lose_seat(1, crash());
    running.await.unwrap().unwrap_err();
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(network.clone()), "lost during a call");

    fixture.world.lose_seat(2, Lost::Page("oom".into()));
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(network.clone()), "lost between calls");

    advance(IDLE + MS).await;
    settle().await;
    assert_eq!(fixture.sessions(), 0);
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(network.clone()), "expired");

    fixture.fleet.evict(&Owner::local(), &named("a")).await.unwrap();
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(network.clone()), "evicted");
    assert_eq!(fixture.fleet.list(&Owner::local())[0].network, Some(network));
    assert_eq!(fixture.world.users().len(), 5);
    fixture.end().await;
}

/// A policy belongs to one session of one owner, and ends when the owner closes the session or creates it anew.
#[tokio::test(start_paused = true)]
async fn policy_ends_with_its_session() {
    let fixture = FleetFixture::new(4, 1);
    fixture.create_with("a", CallTarget::default(), guarded()).await.unwrap();
    assert_eq!(fixture.latest_network(), Some(guarded()));
    fixture.call("b", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), None, "another session");
    fixture.call_as(&Owner::new("ann"), named("a"), "click", "{}").await.unwrap();
    assert_eq!(fixture.latest_network(), None, "another owner");
    fixture.close("a").await.unwrap();
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), None, "closed by its owner");

    fixture.close("a").await.unwrap();
    fixture.create_with("a", CallTarget::default(), guarded()).await.unwrap();
    fixture.fleet.evict(&Owner::local(), &named("a")).await.unwrap();
    fixture.create("a").await.unwrap();
    assert_eq!(fixture.latest_network(), None, "created anew without one");
    fixture.end().await;
}

/// A wider policy is refused before anything is opened. Where greenroom does not stand between browser and network, no
/// session can have a policy, and no successor goes there without its own.
#[tokio::test(start_paused = true)]
async fn unenforceable_policies_are_refused() {
    let world = World::new();
    let mut settings = settings_of(&world, 1, 1);
    let mut plain = fixed_pool(&world, "PLAIN", 1, 1);
    plain.network = None;
    settings.pools.push(plain);
    let of_pool = NetworkPolicy { preset: NetworkPreset::Guarded, ..NetworkPolicy::OPEN };
    settings.pools[0].network = Some(Arc::new(of_pool));
    let fixture = FleetFixture::with_settings(settings, world);
    let wider = SessionNetwork { allow: Some(vec!["127.0.0.1".to_owned()]), ..guarded() };
    let error = fixture.create_with("a", CallTarget::default(), wider).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "the session cannot have this `network`: `allow` has `127.0.0.1`, which the network policy of the pool does \
         not allow: a session can only narrow it"
    );
    let none = "a session in pool \"PLAIN\" can have no `network` of its own: greenroom does not stand between this \
                browser and the network";
    let error = fixture.create_with("a", at("PLAIN", ""), guarded()).await.unwrap_err();
    assert_eq!(error.to_string(), none);
    assert_eq!((fixture.sessions(), fixture.world.users().len()), (0, 0));

    fixture.create_with("a", CallTarget::default(), guarded()).await.unwrap();
    fixture.fleet.evict(&Owner::local(), &named("a")).await.unwrap();
    let error = fixture.call_at(named("a"), at("PLAIN", ""), "click").await.unwrap_err();
    assert_eq!(error.to_string(), none);
    fixture.call("a", "click").await.unwrap();
    assert_eq!(fixture.latest_network(), Some(guarded()));
    fixture.end().await;
}
