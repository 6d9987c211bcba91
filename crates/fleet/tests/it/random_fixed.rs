//! Random histories of a declared pool: calls that come, wait, leave, are bound to an instance; instances that die, fail to
//! start, fall silent; a pool that is scaled, drained, restarted and given other settings meanwhile.

use std::time::Duration;

use greenroom_core::{InstanceId, lease::Strategy as Lending};
use greenroom_fleet::{Health, Readiness, SessionKey};
use proptest::{collection::vec, prelude::*, sample::Index};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    fake::{HealthProbe, Held},
    fixture::{FleetFixture, MS, Outcome, at, crash, fixed_pool, named, settle, with_instances},
};

/// The most instances.
const MOST: u32 = 4;

#[derive(Debug, Clone)]
enum Step {
    /// A call, in one of a few sessions or in none, for an instance or any; it may be held up, and its caller may leave.
    Call {
        session: Option<u8>,
        instance: Option<u32>,
        hold: bool,
        leave_after: Option<u8>,
    },
    Answer(Index),
    Close(u8),
    Lose(u32),
    LoseSeat(Index),
    Break(u32),
    HealthProbe(u32, Option<bool>),
    Mend,
    Stall,
    Go,
    Scale(usize),
    Drain(Option<u32>),
    Restart(Option<u32>),
    Apply {
        warm: usize,
        slots: usize,
    },
    Woke,
    Wait(u8),
}

fn step() -> impl Strategy<Value = Step> {
    let id = || 0..MOST;
    let some = || prop::option::weighted(0.4, id());
    prop_oneof![
        12 => (
            prop::option::weighted(0.6, 0..4_u8),
            some(),
            any::<bool>(),
            prop::option::weighted(0.3, 0..30_u8),
        )
            .prop_map(|(session, instance, hold, leave_after)| Step::Call {
                session,
                instance,
                hold,
                leave_after,
            }),
        6 => any::<Index>().prop_map(Step::Answer),
        3 => (0..4_u8).prop_map(Step::Close),
        2 => id().prop_map(Step::Lose),
        1 => any::<Index>().prop_map(Step::LoseSeat),
        1 => id().prop_map(Step::Break),
        1 => (id(), prop::option::of(any::<bool>())).prop_map(|(id, pulse)| Step::HealthProbe(id, pulse)),
        1 => Just(Step::Mend),
        1 => Just(Step::Stall),
        2 => Just(Step::Go),
        2 => (1..=MOST as usize).prop_map(Step::Scale),
        1 => some().prop_map(Step::Drain),
        2 => some().prop_map(Step::Restart),
        1 => (0..3_usize, 1..3_usize).prop_map(|(warm, slots)| Step::Apply { warm, slots }),
        1 => Just(Step::Woke),
        4 => (0..40_u8).prop_map(Step::Wait),
    ]
}

/// The size and the settings of the pool under test.
#[derive(Debug, Clone)]
struct PoolShape {
    instances: usize,
    slots: usize,
    /// All but the first are lazy.
    lazy: bool,
    /// Some calls are bound to an instance.
    keyed: bool,
    /// New settings may change how many slots an instance has.
    resized: bool,
    lending: Lending,
}

fn pool_shape() -> impl Strategy<Value = PoolShape> {
    let lending = [Lending::Fifo, Lending::RoundRobin, Lending::LeastUsed, Lending::Sticky];
    let lending = prop::sample::select(lending.to_vec());
    (1..4_usize, 1..3_usize, any::<bool>(), any::<bool>(), any::<bool>(), lending).prop_map(
        |(instances, slots, lazy, keyed, resized, lending)| PoolShape {
            instances,
            slots,
            lazy,
            keyed,
            resized,
            lending,
        },
    )
}

/// Checks what holds whenever all tasks rest; and more, if nothing is stalled.
fn check(fixture: &FleetFixture, shape: &PoolShape, goes_on: bool) {
    let pool = fixture.pool();
    let counts = fixture.world.counts();
    let leased: usize = pool.instances.iter().map(|one| one.leased_slots).sum();
    assert_eq!(leased, pool.leased_slots);
    assert!(pool.leased_slots <= pool.slots, "{pool:?}");
    for one in &pool.instances {
        assert!(one.leased_slots + one.spares <= one.slots, "{one:?}");
        assert!(
            one.health == Health::Healthy || one.leased_slots == 0,
            "a failed one has no leases: {one:?}"
        );
        assert_eq!(one.leased_since.is_some(), one.leased_slots > 0, "{one:?}");
    }
    let slots_max = if shape.resized { 2 } else { shape.slots };
    assert!(counts.seats_max <= slots_max, "a slot is leased twice: {counts:?}");
    assert_eq!((counts.dropped, counts.calls_on_lost), (0, 0), "{counts:?}");
    assert_eq!(fixture.world.stopped_twice(), 0);
    // A caller that waits for a certain instance may wait while others are free.
    let idle = pool.instances.iter().any(greenroom_fleet::InstanceStatus::is_available);
    assert!(
        shape.keyed || !goes_on || pool.waiting == 0 || !idle,
        "a caller waits though a slot is free: {pool:?}"
    );
    let hopeless = matches!(fixture.fleet.readiness(), Readiness::Failed(_));
    assert!(!hopeless || !goes_on || pool.waiting == 0, "a caller waits in vain: {pool:?}");
}

async fn play(shape: PoolShape, steps: Vec<Step>) {
    let PoolShape { instances, slots: slots_before, lazy, keyed, resized, lending } = shape;
    let fixture = FleetFixture::fixed_with(instances, slots_before, |settings| {
        settings.starts_max = 2;
        settings.pools[0].strategy = lending;
        with_instances(&mut settings.pools[0], move |id, instance| instance.lazy = lazy && id > 0);
    })
    .await;
    let mut running: Vec<JoinHandle<Outcome>> = Vec::new();
    let mut held: Vec<Held> = Vec::new();
    let mut stalled = false;
    for step in steps {
        while fixture.world.holds_any().await {
            held.push(fixture.world.held().await);
        }
        match step {
            Step::Call { session, instance, hold, leave_after } => {
                let session_key = session.map_or(SessionKey::Ephemeral, |id| named(&id.to_string()));
                let instance = instance.filter(|_| keyed);
                let target = at("", &instance.map(|id| id.to_string()).unwrap_or_default());
                let fixture = fixture.clone();
                let tool = if hold { "hold" } else { "click" };
                let call = tokio::spawn(async move { fixture.call_at(session_key, target, tool).await });
                match leave_after {
                    Some(turns) => {
                        for _ in 0..turns {
                            tokio::task::yield_now().await;
                        }
                        call.abort();
                    }
                    None => running.push(call),
                }
            }
            Step::Answer(index) if !held.is_empty() => held.swap_remove(index.index(held.len())).answer(),
            Step::Answer(_) => {}
            Step::Close(id) => {
                let fixture = fixture.clone();
                tokio::spawn(async move { fixture.close(&id.to_string()).await });
            }
            Step::Lose(id) => fixture.world.lose_if_started(InstanceId(id), &crash()),
            Step::LoseSeat(index) => {
                let open = fixture.world.open_seats();
                if !open.is_empty() {
                    fixture.world.lose_if_open(*index.get(&open), crash());
                }
            }
            Step::Break(id) => fixture.world.break_instance(id),
            Step::HealthProbe(id, hangs) => {
                let pulse = hangs
                    .map(|hangs| if hangs { HealthProbe::Hangs } else { HealthProbe::HealthCheckFailed });
                fixture.world.set_pulse(id, pulse);
            }
            Step::Mend => fixture.world.mend(),
            Step::Stall => {
                fixture.world.starting.shut();
                fixture.world.opening.shut();
                fixture.world.stopping.shut();
                stalled = true;
            }
            Step::Go => {
                go(&fixture);
                stalled = false;
            }
            Step::Scale(count) => drop(fixture.fleet.scale("DEFAULT", count).unwrap()),
            // An instance that left meanwhile has no name any more.
            Step::Drain(id) => drop(fixture.fleet.drain("DEFAULT", id.map(|id| id.to_string()).as_deref())),
            Step::Restart(id) => {
                drop(fixture.fleet.restart("DEFAULT", id.map(|id| id.to_string()).as_deref()));
            }
            Step::Apply { warm, slots } => {
                let count = fixture.pool().instances.len();
                let slots = if resized { slots } else { slots_before };
                let mut pool = fixed_pool(&fixture.world, "DEFAULT", count, slots);
                pool.warm = warm;
                pool.strategy = lending;
                fixture.fleet.apply(pool).unwrap();
            }
            Step::Woke => fixture.fleet.check_after_sleep(),
            Step::Wait(seconds) => {
                sleep(Duration::from_secs(seconds.into()) + MS).await;
                settle().await;
                check(&fixture, &shape, !stalled);
            }
        }
    }
    finish(&fixture, &shape, running, held).await;
}

fn go(fixture: &FleetFixture) {
    fixture.world.starting.open();
    fixture.world.opening.open();
    fixture.world.stopping.open();
}

/// Mends all instances, answers all calls and orders all instances to run, then checks that every call is answered and
/// the pool is whole again.
async fn finish(
    fixture: &FleetFixture,
    shape: &PoolShape,
    running: Vec<JoinHandle<Outcome>>,
    mut held: Vec<Held>,
) {
    go(fixture);
    fixture.world.mend();
    for _ in 0..12 {
        settle().await;
        while fixture.world.holds_any().await {
            held.push(fixture.world.held().await);
        }
        held.drain(..).for_each(Held::answer);
        sleep(Duration::from_secs(10)).await;
    }
    settle().await;
    check(fixture, shape, true);
    for call in running {
        assert!(call.is_finished(), "a call was never answered: {:?}", fixture.pool());
    }
    for id in 0..4 {
        let _ = fixture.close(&id.to_string()).await;
    }
    let size = fixture.fleet.scale("DEFAULT", 2).unwrap();
    assert_eq!(size.to, 2);
    fixture.fleet.restart("DEFAULT", None).unwrap();
    sleep(Duration::from_secs(10)).await;
    settle().await;
    assert_eq!((fixture.health(), fixture.leased()), (vec![Health::Healthy; 2], 0), "{:?}", fixture.pool());
    for id in ["0", "1"] {
        fixture.call_at(SessionKey::Ephemeral, at("", id), "click").await.unwrap();
    }
    fixture.end().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 120, ..ProptestConfig::default() })]

    /// In any history no slot is leased twice, leases add up, a failed instance has none, no caller waits in vain,
    /// every call is answered, no order is lost, and a shutdown leaves nothing.
    #[test]
    fn declared_pool_invariants_hold_in_random_histories(
        shape in pool_shape(),
        steps in vec(step(), 1..70),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(shape, steps));
    }
}
