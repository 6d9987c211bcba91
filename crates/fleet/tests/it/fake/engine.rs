//! The fake engine and its instances.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    Agent, BoxFuture, Engine, HealthCheckFailed, Instance, InstanceId, Lost, OpenError, Seat, StartError,
    Toolset,
};
use tokio::{sync::watch, time::Instant};

use super::{HealthProbe, Revival, SeatEnds, World, seat::FakeSeat};

pub struct FakeEngine(pub Arc<World>);

impl Engine for FakeEngine {
    fn fingerprint(&self) -> String {
        "fake".to_owned()
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async { Ok(Toolset::default()) })
    }

    fn start(&self, id: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async move {
            self.0.state().starts.push((id, Instant::now()));
            self.0.count(|counts| {
                counts.starts += 1;
                counts.starting += 1;
                counts.starting_max = counts.starting_max.max(counts.starting);
            });
            let _starting = Starting(&self.0);
            self.0.starting.pass().await;
            let failure = {
                let mut state = self.0.state();
                let broken = state.broken.contains(&id).then(|| StartError::new("it is broken"));
                broken.or_else(|| state.fail_starts.pop_front())
            };
            if let Some(error) = failure {
                assert_ne!(error.message, "panic", "as the test wanted");
                return Err(error);
            }
            let lost = watch::Sender::new(None);
            self.0.state().instances.insert(id, lost.clone());
            self.0.count(|counts| counts.started += 1);
            let world = self.0.clone();
            let home = Arc::default();
            let stopped = AtomicBool::new(false);
            Ok(Arc::new(FakeInstance { world, id, home, lost, stopped }) as Arc<dyn Instance>)
        })
    }

    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(async move {
            self.0.count(|counts| counts.revives += 1);
            self.0.reviving.pass().await;
            let revival = self.0.state().revival.clone();
            match revival {
                None | Some(Revival::Nothing) => Ok(false),
                Some(Revival::Mends) => {
                    self.0.mend();
                    Ok(true)
                }
                Some(Revival::Fails(why)) => {
                    assert_ne!(why, "panic", "as the test wanted");
                    Err(StartError::new(why))
                }
            }
        })
    }

    /// A spare suits agents without capabilities only, as with a real engine that may ask its client something.
    fn spare_suits(&self, agent: &dyn Agent) -> bool {
        agent.capabilities().is_none()
    }
}

/// Counts a start as running until it is dropped, even if it is broken off.
struct Starting<'a>(&'a World);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.count(|counts| counts.starting -= 1);
    }
}

struct FakeInstance {
    world: Arc<World>,
    id: InstanceId,
    /// Tells the seats of this instance from those of earlier instances with the same number.
    home: Arc<()>,
    stopped: AtomicBool,
    lost: watch::Sender<Option<Lost>>,
}

impl Instance for FakeInstance {
    fn open(&self, _agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            self.world.count(|counts| counts.opens += 1);
            self.world.opening.pass().await;
            let lost = self.lost.borrow().clone();
            if let Some(lost) = lost {
                return Err(lost.into());
            }
            let mut state = self.world.state();
            if let Some(error) = state.fail_opens.pop_front() {
                return Err(error);
            }
            state.next_seat += 1;
            let number = state.next_seat;
            let lost = watch::Sender::new(None);
            let view = watch::Sender::default();
            let ends = SeatEnds {
                instance: self.id,
                home: self.home.clone(),
                lost: lost.clone(),
                view: view.clone(),
            };
            state.seats.insert(number, ends);
            let here = state.seats.values().filter(|seat| Arc::ptr_eq(&seat.home, &self.home)).count();
            self.world.count(|counts| {
                counts.opened += 1;
                counts.seats_max = counts.seats_max.max(here);
            });
            let world = self.world.clone();
            Ok(Box::new(FakeSeat::new(world, number, lost, view)) as Box<dyn Seat>)
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        self.world.count(|counts| counts.pings += 1);
        let pulse = self.world.state().pulses.get(&self.id).copied();
        Box::pin(async move {
            match pulse {
                None => Ok(()),
                Some(HealthProbe::HealthCheckFailed) => Err(HealthCheckFailed("it feels faint".into())),
                Some(HealthProbe::Hangs) => std::future::pending().await,
            }
        })
    }

    fn silent(&self) -> Option<Arc<str>> {
        Some("the browser did not answer".into())
    }

    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn stop(&self, _grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            {
                let mut state = self.world.state();
                state.stopped.push(self.id);
                let seats = state.seats.values().filter(|seat| Arc::ptr_eq(&seat.home, &self.home));
                for seat in seats {
                    seat.lost.send_if_modified(|lost| lost.replace(Lost::Shutdown).is_none());
                }
            }
            if self.stopped.swap(true, Ordering::Relaxed) {
                self.world.state().stopped_twice += 1;
            }
            self.world.count(|counts| counts.stops += 1);
            self.world.stopping.pass().await;
        })
    }
}
