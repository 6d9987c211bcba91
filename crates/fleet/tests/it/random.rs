//! Random histories of sessions that come, go and leave half-way, of seats and instances that die or cannot be made, with
//! and without spares: the invariants that hold at every moment, and that everything ends.

use std::time::Duration;

use greenroom_core::{Owner, StartError};
use greenroom_fleet::CallTarget;
use proptest::{collection::vec, prelude::*, sample::Index};
use tokio::{task::JoinHandle, time::sleep};

use crate::{
    agents::Askable,
    fixture::{FleetFixture, MS, Outcome, crash, named, permit, settle},
};

#[derive(Debug, Clone)]
enum Step {
    /// A call in one of a few sessions; it runs for this many turns, and then the test looks at it or drops it.
    Call {
        session: u8,
        stay: bool,
        turns: u8,
    },
    Loose {
        turns: u8,
    },
    /// A session for an agent that no spare suits.
    Special {
        session: u8,
    },
    Close {
        session: u8,
    },
    LoseSeat(Index),
    LoseInstance(Index),
    FailStart,
    FailOpen,
    /// Starts and openings hang until the next `Stall`.
    Stall,
    Go,
    Wait {
        seconds: u8,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let turns = 0..30_u8;
    prop_oneof![
        6 => (0..6_u8, any::<bool>(), turns.clone())
            .prop_map(|(session, stay, turns)| Step::Call { session, stay, turns }),
        2 => turns.prop_map(|turns| Step::Loose { turns }),
        1 => (0..6_u8).prop_map(|session| Step::Special { session }),
        3 => (0..6_u8).prop_map(|session| Step::Close { session }),
        2 => any::<Index>().prop_map(Step::LoseSeat),
        1 => any::<Index>().prop_map(Step::LoseInstance),
        1 => Just(Step::FailStart),
        1 => Just(Step::FailOpen),
        1 => Just(Step::Stall),
        2 => Just(Step::Go),
        2 => (0..90_u8).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

/// Checks what holds whenever all tasks rest; and more, if nothing is stalled.
fn check(fixture: &FleetFixture, goes_on: bool) {
    let status = fixture.pool();
    let counts = fixture.world.counts();
    let slots = status.instances.first().map_or(usize::MAX, |one| one.slots);
    let leased: usize = status.instances.iter().map(|one| one.leased_slots).sum();
    assert_eq!(leased, status.leased_slots);
    assert!(status.instances.iter().all(|one| one.leased_slots + one.spares <= one.slots), "{status:?}");
    assert!(counts.seats_max <= slots, "a slot is leased twice: {counts:?}");
    assert!(
        status.waiting == 0 || !goes_on || status.leased_slots == status.slots,
        "a caller waits though a slot is free: {status:?}"
    );
    assert_eq!((counts.dropped, counts.calls_on_lost), (0, 0), "{counts:?}");
}

async fn play(warm: usize, slots: usize, instances_max: usize, steps: Vec<Step>) {
    let fixture = FleetFixture::warm(warm, slots, instances_max);
    fixture.fleet.start();
    let mut stalled = false;
    let mut running: Vec<JoinHandle<Outcome>> = Vec::new();
    for step in steps {
        match step {
            Step::Call { session, stay, turns } => {
                let fixture = fixture.clone();
                let id = session.to_string();
                let call = tokio::spawn(async move { fixture.call(&id, "click").await });
                yield_for(turns).await;
                if stay { running.push(call) } else { call.abort() }
            }
            Step::Loose { turns } => {
                let fixture = fixture.clone();
                running.push(tokio::spawn(async move { fixture.call_ephemeral("click").await }));
                yield_for(turns).await;
            }
            Step::Special { session } => {
                let fleet = fixture.fleet.clone();
                let id = crate::fixture::session(&session.to_string());
                let permit = permit(&Owner::local(), "create_new_session");
                tokio::spawn(async move {
                    fleet
                        .create(
                            permit,
                            id,
                            CallTarget::default(),
                            Default::default(),
                            std::sync::Arc::new(Askable),
                        )
                        .await
                });
            }
            Step::Close { session } => {
                let fleet = fixture.fleet.clone();
                let session_key = named(&session.to_string());
                tokio::spawn(async move { fleet.close(&Owner::local(), &session_key).await });
            }
            Step::LoseSeat(index) => {
                let open = fixture.world.open_seats();
                if !open.is_empty() {
                    fixture.world.lose_if_open(*index.get(&open), crash());
                }
            }
            Step::LoseInstance(index) => {
                let living = fixture.pool().instances;
                if !living.is_empty() {
                    fixture.world.lose_if_started(index.get(&living).id, &crash());
                }
            }
            Step::FailStart => fixture.world.fail_start("no chromium"),
            Step::FailOpen => fixture.world.fail_open(StartError::new("no context")),
            Step::Stall => {
                fixture.world.starting.shut();
                fixture.world.opening.shut();
                stalled = true;
            }
            Step::Go => {
                fixture.world.starting.open();
                fixture.world.opening.open();
                stalled = false;
                settle().await;
                check(&fixture, true);
            }
            Step::Wait { seconds } => {
                sleep(Duration::from_secs(seconds.into()) + MS).await;
                settle().await;
                check(&fixture, !stalled);
            }
        }
    }
    fixture.world.starting.open();
    fixture.world.opening.open();
    fixture.world.mend();
    // Sleep longer than every pause and every wait for a slot.
    sleep(Duration::from_secs(120)).await;
    settle().await;
    check(&fixture, true);
    for call in running {
        assert!(call.is_finished(), "a call was never answered");
    }
    let status = fixture.pool();
    // Seats that calls without a session left stay for their owner's next one.
    let left_behind = fixture.world.open_seats().len() - status.leased_slots - status.spares;
    let room = status.slots - status.leased_slots - left_behind;
    assert_eq!(status.spares, warm.min(room), "as many spares as there is room for: {status:?}");
    fixture.end().await;
}

async fn yield_for(turns: u8) {
    for _ in 0..turns {
        tokio::task::yield_now().await;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// In any history no slot is leased twice, leases and spares add up, no caller waits while a spare or a slot is
    /// free, every call is answered, the spares come back when there is room, and a shutdown leaves nothing.
    #[test]
    fn fleet_invariants_hold_in_random_histories(
        warm in 0_usize..4,
        slots in 1_usize..4,
        instances_max in 1_usize..4,
        steps in vec(step(), 1..60),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build();
        runtime.unwrap().block_on(play(warm, slots, instances_max, steps));
    }
}
