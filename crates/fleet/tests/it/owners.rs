//! Owners that share no browser: an instance serves one owner, and is restarted before it serves another.

use greenroom_core::{Owner, lease::Sharing};
use greenroom_fleet::{FleetError, FleetSettings, Readiness, SessionKey};
use tokio::task::JoinHandle;

use crate::fixture::{FleetFixture, LEASE, Outcome, fixed_pool, named, settle};

fn apart(settings: &mut FleetSettings) {
    settings.pools[0].sharing = Sharing::OneOwner;
}

fn owners() -> [Owner; 2] {
    [Owner::new("a"), Owner::new("b")]
}

impl FleetFixture {
    /// A call of this owner in a session, which answers at once.
    async fn click(&self, owner: &Owner, id: &str) -> Outcome {
        self.call_as(owner, named(id), "click", "{}").await
    }

    async fn begin_click(&self, owner: &Owner, id: &str) -> JoinHandle<Outcome> {
        self.begin_as(owner, named(id), "click").await
    }

    async fn close_as(&self, owner: &Owner, id: &str) {
        self.fleet.close(owner, &named(id)).await.unwrap();
    }
}

/// An elastic pool starts an instance for each owner, and fills an owner's own one first.
#[tokio::test(start_paused = true)]
async fn elastic_pool_starts_an_instance_for_each_owner() {
    let fixture = FleetFixture::tuned(16, 4, apart);
    let [a, b] = owners();
    assert_eq!(fixture.click(&a, "1").await.unwrap().instance, 0);
    assert_eq!(fixture.click(&b, "1").await.unwrap().instance, 1);
    assert_eq!(fixture.click(&a, "2").await.unwrap().instance, 0);
    assert_eq!(fixture.click(&b, "2").await.unwrap().instance, 1);
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// While another owner waits, an owner gets no new slot of the only instance, though 15 are free. When its sessions have
/// ended, the instance is restarted for the other owner, and the pool stays ready meanwhile.
#[tokio::test(start_paused = true)]
async fn instance_is_restarted_between_owners() {
    let fixture = FleetFixture::fixed_with(1, 16, apart).await;
    let [a, b] = owners();
    fixture.click(&a, "1").await.unwrap();
    let waiting = fixture.begin_click(&b, "1").await;
    let late = fixture.begin_click(&a, "2").await;
    assert_eq!((fixture.leased(), fixture.waiting()), (1, 2));
    fixture.click(&a, "1").await.unwrap();
    fixture.world.starting.shut();
    fixture.close_as(&a, "1").await;
    settle().await;
    assert_eq!((fixture.world.counts().stops, fixture.world.counts().starts), (1, 2));
    assert!(matches!(fixture.fleet.readiness(), Readiness::Ready));
    fixture.world.starting.open();
    waiting.await.unwrap().unwrap();
    assert!(!late.is_finished());
    fixture.close_as(&b, "1").await;
    late.await.unwrap().unwrap();
    assert_eq!((fixture.world.counts().stops, fixture.world.counts().starts), (2, 3));
    assert_eq!(fixture.instance(0).restarts, 0, "no failure is counted");
    fixture.end().await;
}

/// A call without a session leaves its page open for its owner. Another owner's call gets a new browser at once, and
/// nothing of that page is left.
#[tokio::test(start_paused = true)]
async fn idle_instance_is_restarted_for_another_owner() {
    let fixture = FleetFixture::fixed_with(1, 1, apart).await;
    let [a, b] = owners();
    let call = |owner: Owner| {
        let fixture = fixture.clone();
        async move { fixture.call_as(&owner, SessionKey::Ephemeral, "click", "{}").await.unwrap().seat }
    };
    assert_eq!([call(a.clone()).await, call(a.clone()).await], [1, 1]);
    assert_eq!(fixture.world.open_seats(), [1]);
    assert_eq!(call(b.clone()).await, 2);
    assert_eq!(fixture.world.open_seats(), [2]);
    assert_eq!((fixture.world.counts().stops, fixture.world.counts().starts), (1, 2));
    fixture.end().await;
}

/// An owner that waits in vain gets the usual error with figures, and the instance then serves its owner again.
#[tokio::test(start_paused = true)]
async fn owner_that_waits_in_vain_gets_the_figures() {
    let fixture = FleetFixture::fixed_with(1, 16, apart).await;
    let [a, b] = owners();
    fixture.click(&a, "private").await.unwrap();
    let Err(FleetError::Lease(timeout)) = fixture.click(&b, "1").await else { panic!("it has no slot") };
    assert_eq!((timeout.leased, timeout.slots, timeout.waited), (1, 16, LEASE));
    assert_eq!(timeout.holders, ["1 of other owners"]);
    assert!(timeout.is_owners_apart);
    assert_eq!(fixture.click(&a, "2").await.unwrap().instance, 0);
    assert_eq!(fixture.world.counts().stops, 0);
    fixture.end().await;
}

/// A spare belongs to nobody: the first owner that needs it gets it without a restart. Another owner gets no spare of
/// that instance.
#[tokio::test(start_paused = true)]
async fn spares_belong_to_nobody() {
    let fixture = FleetFixture::tuned(4, 2, |settings| {
        apart(settings);
        settings.pools[0].warm = 1;
    });
    let [a, b] = owners();
    fixture.fleet.start();
    settle().await;
    assert_eq!((fixture.click(&b, "1").await.unwrap().seat, fixture.world.counts().starts), (1, 1));
    settle().await;
    assert_eq!(fixture.world.open_seats(), [1, 2], "there is a new spare");
    let other = fixture.click(&a, "1").await.unwrap();
    assert_eq!((other.instance, fixture.world.counts().stops), (1, 0));
    assert_eq!(fixture.click(&b, "2").await.unwrap().seat, 2);
    fixture.end().await;
}

/// The setting may change while sessions are open: they stay, and the instance that two owners shared serves no new session
/// until it was restarted.
#[tokio::test(start_paused = true)]
async fn sharing_changes_while_sessions_are_open() {
    let fixture = FleetFixture::fixed(1, 4).await;
    let [a, b] = owners();
    fixture.click(&a, "1").await.unwrap();
    fixture.click(&b, "1").await.unwrap();
    let mut settings = fixed_pool(&fixture.world, "DEFAULT", 1, 4);
    settings.sharing = Sharing::OneOwner;
    fixture.fleet.apply(settings).unwrap();
    let waiting = fixture.begin_click(&a, "2").await;
    fixture.click(&b, "1").await.unwrap();
    assert_eq!(fixture.waiting(), 1);
    fixture.close_as(&a, "1").await;
    fixture.close_as(&b, "1").await;
    waiting.await.unwrap().unwrap();
    assert_eq!(fixture.world.counts().starts, 2);
    fixture.end().await;
}

/// An owner sees how many slots others lease, and since when only for its own; the user who runs greenroom sees all.
#[tokio::test(start_paused = true)]
async fn owner_sees_its_own_leases_only() {
    let fixture = FleetFixture::new(4, 1);
    let [a, b] = owners();
    fixture.click(&a, "1").await.unwrap();
    let shown = |owner: &Owner| {
        let instance = fixture.fleet.pools_for(owner).swap_remove(0).instances.swap_remove(0);
        (instance.leased_slots, instance.leased_since.is_some())
    };
    assert_eq!([&a, &b, &Owner::local()].map(shown), [(1, true), (1, false), (1, true)]);
    assert!(fixture.fleet.pool_for(&b, "DEFAULT").unwrap().instances[0].leased_since.is_none());
    fixture.click(&b, "1").await.unwrap();
    assert_eq!([&a, &b].map(shown), [(2, true), (2, true)]);
    fixture.end().await;
}
