//! The task of an instance's place: starts the instance, watches it, starts it again when it fails, stops it when it is
//! told to or nobody needs it. One task a place, as long as there is the place.

use std::{ops::ControlFlow, sync::Arc, time::Duration};

use greenroom_core::{Instance, Lost, StartError, lease::Hope};
use tokio::{
    sync::watch,
    time::{Instant, sleep_until, timeout},
};

use super::{
    Pool, Size,
    budget::Budget,
    place::{Goal, Orders, Place},
};
use crate::status::Health;

/// How long an instance may take to start before it counts as failed. A cold disk and two busy cores have been
/// seen to need 10 s; three times that is not a slow start but a hung one.
const START: Duration = Duration::from_secs(30);

/// How long an instance may take to end politely before it is killed.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// How long stopping may take in all. Its processes are killed after [`STOP_GRACE`]; what takes longer than this is a
/// fault, and the place must not be lost to it.
const STOP: Duration = Duration::from_secs(15);

/// What is said of an instance that was stopped by hand.
const DRAINED: &str = "it was drained; restart it to have it back";

/// What a place does next.
enum Next {
    /// Wait until it is needed.
    Cold,
    Start,
    /// Start again then.
    After(Instant),
    /// Wait until somebody tells it to start.
    Rest,
    Leave,
}

/// Why an instance that ran does not run any more.
enum End {
    Lost(String),
    Idle,
    /// Its leases are back.
    Drained,
    Closing,
}

/// What the task of a place remembers from one life of its instance to the next.
#[derive(Default)]
struct Tended {
    budget: Budget,
    /// How many of the orders to start anew have been carried out.
    restarts: u64,
}

impl Tended {
    /// Whether the order to start anew is one that has not been carried out.
    fn is_news(&self, order: Orders) -> bool {
        order.restarts > self.restarts
    }

    /// The same; from now on it counts as carried out.
    fn is_told_anew(&mut self, order: Orders) -> bool {
        let news = self.is_news(order);
        self.restarts = order.restarts;
        news
    }
}

impl Pool {
    pub(super) async fn tend(self: Arc<Self>, place: Arc<Place>) {
        let mut orders = place.orders.subscribe();
        // Those that came before this task did are news to it.
        orders.mark_changed();
        let mut tended = Tended::default();
        let mut next = Next::Cold;
        while !self.closing.is_cancelled() {
            next = match next {
                Next::Start => self.live(&place, &mut orders, &mut tended).await,
                Next::Leave if self.leave(&place) => return,
                Next::Leave => self.stay(&place),
                Next::Cold | Next::Rest | Next::After(_) => {
                    let pause = if let Next::After(at) = next { Some(at) } else { None };
                    tokio::select! {
                        biased;
                        () = self.closing.cancelled() => return,
                        changed = orders.changed() => match changed {
                            Ok(()) => {
                                let order = *orders.borrow_and_update();
                                self.obey(&place, order, &mut tended).unwrap_or(next)
                            }
                            Err(_) => return,
                        },
                        // What was left over from an earlier life wakes it up, too: then it is not to start.
                        () = place.wanted.notified(), if pause.is_none() => {
                            if self.queue.with(|ledger| ledger.is_starting(place.id)) { Next::Start } else { next }
                        }
                        () = sleep_until(pause.unwrap_or_else(Instant::now)), if pause.is_some() => {
                            self.again(&place);
                            Next::Start
                        }
                    }
                }
            };
        }
    }

    /// A place that was about to leave is needed after all.
    fn stay(&self, place: &Place) -> Next {
        place.went(Health::Starting, None);
        self.queue.with(|ledger| ledger.starting(place.id));
        Next::Start
    }

    /// What a place that does not run makes of its orders.
    fn obey(self: &Arc<Self>, place: &Arc<Place>, order: Orders, tended: &mut Tended) -> Option<Next> {
        let anew = tended.is_told_anew(order);
        match order.goal {
            Goal::Leave => Some(Next::Leave),
            Goal::Drain => {
                place.went(Health::Failed, Some(DRAINED.to_owned()));
                self.change(|ledger| ledger.lost(place.id, Hope::None));
                Some(Next::Rest)
            }
            // Of those that come and go, one that does not run is only to be had again.
            Goal::Run if anew && self.settings().is_elastic() => {
                place.went(Health::Starting, None);
                self.change(|ledger| ledger.lost(place.id, Hope::OnDemand));
                Some(Next::Cold)
            }
            Goal::Run if anew => {
                tended.budget.renew();
                self.queue.with(|ledger| ledger.starting(place.id));
                Some(Next::Start)
            }
            Goal::Run => None,
        }
    }

    /// The instance is started again after a failure.
    fn again(&self, place: &Place) {
        self.queue.with(|ledger| ledger.starting(place.id));
        place.lock().restarts += 1;
        self.watcher.restarted(&self.name, place.id);
    }

    /// An instance, from start to stop. Orders that come while it stops are for the next one.
    async fn live(
        self: &Arc<Self>,
        place: &Arc<Place>,
        orders: &mut watch::Receiver<Orders>,
        tended: &mut Tended,
    ) -> Next {
        let settings = (self.settings().instance)(place.id);
        self.queue.with(|ledger| ledger.resize(place.id, settings.slots));
        place.began(settings);
        let started = match self.start(place).await {
            ControlFlow::Break(()) => return Next::Rest,
            ControlFlow::Continue(started) => started,
        };
        self.last_start(started.as_ref().err());
        let instance = match started {
            Ok(instance) => instance,
            Err(error) => {
                tracing::warn!(pool = %self.name, instance = %place.id, %error, hint = error.hint, "cannot start");
                let why = match &error.hint {
                    Some(hint) => format!("{error}; {hint}"),
                    None => error.to_string(),
                };
                return self.failed(place, &mut tended.budget, Some(&error), why);
            }
        };
        tracing::info!(pool = %self.name, instance = %place.id, "ready");
        let end = if orders.borrow().goal == Goal::Run {
            place.came_up(instance.clone());
            self.change(|ledger| ledger.started(place.id));
            self.start_over.notify_waiters();
            self.keeping.wake.notify_one();
            self.watch(place, &instance, orders, tended).await
        } else {
            // It was told to stop while it started: it lends nothing at all.
            End::Drained
        };
        let order = *orders.borrow_and_update();
        let anew = tended.is_told_anew(order);
        // Out of the pool before anything else: nobody must be lent what is about to stop.
        let next = match (end, order.goal) {
            (End::Closing, _) => Next::Rest,
            (End::Lost(why), Goal::Run) if !anew => {
                tracing::warn!(pool = %self.name, instance = %place.id, why, "lost");
                self.failed(place, &mut tended.budget, None, why)
            }
            (End::Idle, Goal::Run) if !anew => {
                tracing::info!(pool = %self.name, instance = %place.id, "idle, stopping");
                place.went(Health::Starting, None);
                Next::Cold
            }
            (End::Lost(why), Goal::Leave) => {
                place.went(Health::Failed, Some(why));
                self.change(|ledger| ledger.lost(place.id, Hope::None));
                Next::Leave
            }
            (End::Drained | End::Idle, Goal::Leave) => Next::Leave,
            (End::Lost(_) | End::Drained | End::Idle, Goal::Drain) => {
                place.went(Health::Failed, Some(DRAINED.to_owned()));
                self.change(|ledger| ledger.lost(place.id, Hope::None));
                Next::Rest
            }
            // Told to start anew, whether or not its leases were back.
            (End::Lost(_) | End::Drained | End::Idle, Goal::Run) => {
                tended.budget.renew();
                place.went(Health::Starting, None);
                self.queue.with(|ledger| ledger.starting(place.id));
                Next::Start
            }
        };
        self.clear_out(|id| id == place.id).await;
        self.keeping.wake.notify_one();
        if timeout(STOP, instance.stop(STOP_GRACE)).await.is_err() {
            tracing::error!(pool = %self.name, instance = %place.id, "does not stop; its place goes on without it");
        }
        next
    }

    /// Starts the instance, as one of a few at a time. Breaks off when the pool closes.
    async fn start(
        self: &Arc<Self>,
        place: &Arc<Place>,
    ) -> ControlFlow<(), Result<Arc<dyn Instance>, StartError>> {
        let _turn = tokio::select! {
            turn = self.starts.acquire() => turn,
            () = self.closing.cancelled() => return ControlFlow::Break(()),
        };
        let (engine, id) = (place.engine(), place.id);
        // A task of its own: an adapter that panics takes nothing else along.
        let mut starting = tokio::spawn(async move { timeout(START, engine.start(id)).await });
        let started = tokio::select! {
            started = &mut starting => started,
            () = self.closing.cancelled() => {
                starting.abort();
                // It may have come up in this very moment.
                if let Ok(Ok(Ok(instance))) = starting.await {
                    instance.stop(STOP_GRACE).await;
                }
                return ControlFlow::Break(());
            }
        };
        ControlFlow::Continue(match started {
            Ok(Ok(started)) => started,
            Ok(Err(_)) => Err(StartError::new("the instance did not start in time")),
            Err(_) => Err(StartError::new("the engine's adapter panicked")),
        })
    }

    /// What becomes of an instance that was lost or could not be started.
    fn failed(
        self: &Arc<Self>,
        place: &Place,
        budget: &mut Budget,
        start: Option<&StartError>,
        why: String,
    ) -> Next {
        let next = if self.settings().is_elastic() {
            place.went(Health::Failed, Some(why));
            match start {
                Some(error) => {
                    self.queue.start_failed(place.id, error);
                    self.start_wanted();
                    // It may have been for a spare that it was to start.
                    self.spare_failed(Duration::ZERO, Some(error.clone()));
                }
                None => self.change(|ledger| ledger.lost(place.id, Hope::OnDemand)),
            }
            Next::Cold
        } else {
            let pause = budget.spend(place.settings().restarts, Instant::now());
            place.went(Health::Failed, Some(why));
            let (hope, next) = match pause {
                Some(pause) => {
                    tracing::warn!(pool = %self.name, instance = %place.id, ?pause, "starting again");
                    (Hope::Soon, Next::After(Instant::now() + pause))
                }
                None => {
                    tracing::error!(pool = %self.name, instance = %place.id, "failed too often; it stays so until it is restarted by hand");
                    (Hope::None, Next::Rest)
                }
            };
            self.change(|ledger| ledger.lost(place.id, hope));
            next
        };
        self.keeping.wake.notify_one();
        self.start_over.notify_waiters();
        next
    }

    /// Returns when the instance is to stop.
    async fn watch(
        self: &Arc<Self>,
        place: &Arc<Place>,
        instance: &Arc<dyn Instance>,
        orders: &mut watch::Receiver<Orders>,
        tended: &Tended,
    ) -> End {
        let mut lost = instance.lost();
        let mut health = Box::pin(self.look_after(place, instance));
        let idle = match self.settings().size {
            Size::Elastic { idle, .. } => Some(idle),
            Size::Fixed(_) => None,
        };
        let mut retire_at = idle.map(|idle| Instant::now() + idle);
        let mut draining = false;
        loop {
            let is_empty = || draining && self.queue.with(|ledger| ledger.out(place.id)) == 0;
            if is_empty() {
                return End::Drained;
            }
            tokio::select! {
                biased;
                Ok(lost) = lost.wait_for(Option::is_some) => {
                    return End::Lost(lost.as_ref().map(ToString::to_string).unwrap_or_default());
                }
                () = self.closing.cancelled() => return End::Closing,
                why = &mut health => {
                    // Its sessions shall hear of this, not of the stopping that follows.
                    instance.condemn(Lost::Unwell(why.as_str().into()));
                    return End::Lost(why);
                }
                changed = orders.changed() => {
                    if changed.is_err() {
                        return End::Closing;
                    }
                    let order = *orders.borrow_and_update();
                    draining = order.goal != Goal::Run || tended.is_news(order);
                    place.lock().draining = draining;
                    match draining {
                        true => self.change(|ledger| ledger.drain(place.id, order.goal == Goal::Run)),
                        // It was to leave, and is needed after all.
                        false => self.change(|ledger| ledger.reopen(place.id)),
                    }
                }
                () = place.emptied.notified() => {}
                () = sleep_until(retire_at.unwrap_or_else(Instant::now)), if retire_at.is_some() => {
                    let due = idle.map(|idle| place.lock().idle_since + idle);
                    match due {
                        Some(due) if due > Instant::now() => retire_at = Some(due),
                        _ if self.retire(place) => return End::Idle,
                        _ => retire_at = idle.map(|idle| Instant::now() + idle),
                    }
                }
            }
        }
    }

    /// Makes an instance cold that nobody has a slot of, or left a page in. Not if the others have no room for the spares
    /// that are to be kept: a new instance would have to be started for them at once.
    fn retire(&self, place: &Place) -> bool {
        if self.kept().is_resting_in(place.id) {
            return false;
        }
        let wanted = self.keeping.wanted();
        self.queue.with(|ledger| {
            let elsewhere = ledger.room() - ledger.room_in(place.id);
            elsewhere >= wanted && ledger.retire(place.id)
        })
    }

    /// Takes the place out of the pool, unless it has been told to stay in the meantime.
    fn leave(&self, place: &Place) -> bool {
        {
            // Under one lock with those who give orders and numbers.
            let mut places = self.places();
            if place.orders.borrow().goal != Goal::Leave {
                return false;
            }
            self.queue.change(|ledger| ledger.remove(place.id));
            places.remove(&place.id);
        }
        self.start_wanted();
        true
    }
}
