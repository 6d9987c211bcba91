//! The life of an instance: started, watched, retired when idle, stopped. One task each.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Instance, InstanceId, StartError};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{Pool, State};

/// How long an instance may take to start before it counts as failed. A cold disk and two busy cores have been
/// seen to need 10 s; three times that is not a slow start but a hung one.
const START: Duration = Duration::from_secs(30);

/// How long an instance may take to end politely before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// The pool's end of an instance.
pub(super) struct Entry {
    pub(super) phase: watch::Receiver<Phase>,
    /// Since when no slot is lent but to spares; `None` while one is.
    pub(super) idle: watch::Sender<Option<Instant>>,
}

#[derive(Clone)]
pub(super) enum Phase {
    Starting,
    Ready(Arc<dyn Instance>),
    Failed(StartError),
}

impl Entry {
    pub(super) fn is_ready(&self) -> bool {
        matches!(&*self.phase.borrow(), Phase::Ready(_))
    }

    pub(super) fn is_dead(&self) -> bool {
        match &*self.phase.borrow() {
            Phase::Ready(instance) => instance.lost().borrow().is_some(),
            Phase::Starting | Phase::Failed(_) => false,
        }
    }
}

/// An instance's membership in the pool, held by its task. Dropping it takes the instance out, also when the
/// task panics; those who wait may get a new one.
struct Member {
    pool: Arc<Pool>,
    id: InstanceId,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.pool.remove(self.id);
    }
}

impl Pool {
    pub(super) fn start(self: &Arc<Self>, state: &mut State, id: InstanceId) {
        let (phase, starting) = watch::channel(Phase::Starting);
        let (idle, idle_since) = watch::channel(None);
        state.instances.insert(id, Entry { phase: starting, idle });
        self.tasks.spawn(self.clone().live(id, phase, idle_since));
    }

    /// The life of an instance, from start to stop.
    async fn live(
        self: Arc<Self>,
        id: InstanceId,
        phase: watch::Sender<Phase>,
        mut idle_since: watch::Receiver<Option<Instant>>,
    ) {
        let member = Member { pool: self.clone(), id };
        let started = tokio::select! {
            started = timeout(START, self.engine.start(id)) => started,
            () = self.closing.cancelled() => Ok(Err(StartError::new("greenroom is shutting down"))),
        };
        let started = started.unwrap_or_else(|_| Err(StartError::new("the instance did not start in time")));
        self.lock().last_start = Some(started.as_ref().map(|_| ()).map_err(Clone::clone));
        let instance = match started {
            Ok(instance) => instance,
            Err(error) => {
                tracing::warn!(pool = self.settings.name, instance = %id, %error, "cannot start");
                // Out of the pool first: whoever hears of the failure and tries again must not meet it again.
                drop(member);
                phase.send_replace(Phase::Failed(error));
                return;
            }
        };
        tracing::info!(pool = self.settings.name, instance = %id, "ready");
        phase.send_replace(Phase::Ready(instance.clone()));
        let mut lost = instance.lost();
        loop {
            let idle = *idle_since.borrow_and_update();
            let expiry = idle.map(|since| since + self.settings.instance_idle);
            tokio::select! {
                biased;
                Ok(lost) = lost.wait_for(Option::is_some) => {
                    let why = lost.as_ref().map(ToString::to_string).unwrap_or_default();
                    tracing::warn!(pool = self.settings.name, instance = %id, why, "lost");
                    break;
                }
                () = self.closing.cancelled() => break,
                changed = idle_since.changed() => if changed.is_err() {
                    // Somebody else saw that the instance is dead, and took it out of the pool.
                    break;
                },
                () = sleep_until(expiry.unwrap_or_else(Instant::now)), if expiry.is_some() => {
                    if self.lock().retire(id) {
                        tracing::info!(pool = self.settings.name, instance = %id, "idle, stopping");
                        break;
                    }
                }
            }
        }
        drop(member);
        instance.stop(STOP_GRACE).await;
    }
}

impl State {
    /// Takes out an instance that only spares hold slots of, and gives these up. Not if the others have no room
    /// for the spares that are to be kept: a new instance would have to be started for them at once. Then it is
    /// looked at again after another idle time.
    fn retire(&mut self, id: InstanceId) -> bool {
        let spares = self.spares.in_instance(id);
        let room = self.ledger.room_beside(id) + self.spares.len() - spares;
        if room >= self.spares.wanted && self.ledger.retire(id, spares) {
            self.spares.give_up(id);
            return true;
        }
        if let Some(entry) = self.instances.get(&id) {
            entry.idle.send_if_modified(|idle| idle.as_mut().map(|since| *since = Instant::now()).is_some());
        }
        false
    }
}
