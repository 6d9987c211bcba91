//! The task of an instance's place: has the instance started when it is wanted, started again when it failed, and obeys
//! orders. One task a place, as long as there is the place. What an instance does from start to stop is in
//! [`super::live`].

use std::sync::Arc;

use greenroom_core::{StartError, lease::Hope};
use tokio::time::{Instant, sleep_until};

use super::{
    Pool,
    budget::{Budget, Trouble, Verdict},
    kind::told,
    place::{Goal, Orders, Place},
};
use crate::status::Health;

/// What is said of an instance that was stopped by hand.
pub(super) const DRAINED: &str = "it was drained; restart it to have it back";

/// What a place does next.
pub(super) enum Next {
    /// Wait until it is needed.
    Cold,
    Start,
    /// Bring the browser back if it is gone, then start.
    Revive,
    /// Start again then.
    After(Instant),
    /// Wait until somebody tells it to start.
    Rest,
    Leave,
}

/// What the task of a place remembers from one life of its instance to the next.
#[derive(Default)]
pub(super) struct Tended {
    pub(super) budget: Budget,
    /// How many of the orders to start anew have been carried out.
    restarts: u64,
    /// Why the browser could not be brought back before this try.
    pub(super) not_revived: Option<String>,
}

impl Tended {
    /// Whether the order to start anew is one that has not been carried out.
    pub(super) fn is_news(&self, order: Orders) -> bool {
        order.restarts > self.restarts
    }

    /// The same; from now on it counts as carried out.
    pub(super) fn is_told_anew(&mut self, order: Orders) -> bool {
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
                Next::Revive => self.revive(&place, &mut tended).await,
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
                        () = place.reconnect.ordered() => Next::Revive,
                        // What was left over from an earlier life wakes it up, too: then it is not to start.
                        () = place.wanted.notified(), if pause.is_none() => {
                            if self.instances.queue.with(|ledger| ledger.is_starting(place.id)) { Next::Start } else { next }
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
        self.instances.queue.with(|ledger| ledger.starting(place.id));
        Next::Start
    }

    /// What a place that does not run makes of its orders.
    fn obey(self: &Arc<Self>, place: &Arc<Place>, order: Orders, tended: &mut Tended) -> Option<Next> {
        let anew = tended.is_told_anew(order);
        match order.goal {
            Goal::Leave => Some(Next::Leave),
            Goal::Drain => {
                place.went(Health::Failed, Some(DRAINED.to_owned()));
                self.instances.change(|ledger| ledger.lost(place.id, Hope::None));
                Some(Next::Rest)
            }
            // Of those that come and go, one that does not run is only to be had again.
            Goal::Run if anew && !self.kind.keeps_running() => {
                place.went(Health::Starting, None);
                self.instances.change(|ledger| ledger.lost(place.id, Hope::OnDemand));
                Some(Next::Cold)
            }
            Goal::Run if anew => {
                tended.budget.renew();
                self.instances.queue.with(|ledger| ledger.starting(place.id));
                Some(Next::Start)
            }
            Goal::Run => None,
        }
    }

    /// The instance is started again after a failure.
    fn again(&self, place: &Place) {
        self.instances.queue.with(|ledger| ledger.starting(place.id));
        if self.kind.counts_restarts() {
            place.lock().restarts += 1;
            self.instances.watcher.restarted(&self.name, place.id);
        }
    }

    /// What becomes of an instance that could not be started.
    pub(super) fn not_started(
        self: &Arc<Self>,
        place: &Place,
        tended: &mut Tended,
        error: &StartError,
    ) -> Next {
        if self.kind.is_given_up() {
            tracing::debug!(pool = %self.name, %error, hint = error.hint, "still cannot be connected to");
        } else {
            tracing::warn!(pool = %self.name, instance = %place.id, %error, hint = error.hint, "cannot start");
        }
        let why = match tended.not_revived.take() {
            Some(first) => format!("{first}; {}", told(error)),
            None => told(error),
        };
        if self.kind.keeps_running() {
            let next = self.failed(place, &mut tended.budget, Trouble::Start, why.clone());
            place.reconnect.report(Err(why));
            return next;
        }
        place.went(Health::Failed, Some(why));
        self.instances.queue.start_failed(place.id, error);
        self.instances.start_wanted();
        // It may have been for a spare that it was to start.
        self.spares.failed(std::time::Duration::ZERO, Some(error.clone()));
        self.tell_those_who_wait();
        Next::Cold
    }

    /// What becomes of an instance that was lost after so long.
    pub(super) fn lost(
        self: &Arc<Self>,
        place: &Place,
        tended: &mut Tended,
        up_since: Instant,
        why: String,
    ) -> Next {
        tracing::warn!(pool = %self.name, instance = %place.id, why, "lost");
        if self.kind.keeps_running() {
            let trouble = Trouble::Loss { held: up_since.elapsed() };
            return self.failed(place, &mut tended.budget, trouble, why);
        }
        place.went(Health::Failed, Some(why));
        self.instances.change(|ledger| ledger.lost(place.id, Hope::OnDemand));
        self.tell_those_who_wait();
        Next::Cold
    }

    /// What becomes of an instance that is to be kept running and does not.
    fn failed(self: &Arc<Self>, place: &Place, budget: &mut Budget, trouble: Trouble, why: String) -> Next {
        let (settings, now) = (place.settings(), Instant::now());
        let verdict = budget.spend(trouble, settings.retry, settings.restarts, now);
        let (hope, again) = match verdict {
            Verdict::Again(pause) => {
                if !self.kind.is_given_up() {
                    tracing::warn!(pool = %self.name, instance = %place.id, ?pause, "trying again");
                }
                (Hope::Soon, Some(now + pause))
            }
            Verdict::Rest(rest) => {
                if !self.kind.is_given_up() {
                    tracing::warn!(pool = %self.name, every = ?rest, "tried often enough; from now on it is tried now and then");
                }
                (Hope::None, Some(now + rest))
            }
            Verdict::Never => {
                tracing::error!(pool = %self.name, instance = %place.id, "failed too often; it stays so until it is restarted by hand");
                (Hope::None, None)
            }
        };
        place.went(Health::Failed, Some(why.clone()));
        self.kind.update_link(|link| link.failed(why, again, hope == Hope::None));
        self.instances.change(|ledger| ledger.lost(place.id, hope));
        self.tell_those_who_wait();
        again.map_or(Next::Rest, Next::After)
    }

    /// A start is over, or an instance gone: whoever waits for either looks again.
    fn tell_those_who_wait(&self) {
        self.instances.room.notify_one();
        self.instances.last_start.send_modify(|_| ());
    }

    /// Takes the place out of the pool, unless it has been told to stay in the meantime.
    fn leave(&self, place: &Place) -> bool {
        {
            // Under one lock with those who give orders and numbers.
            let mut places = self.instances.places();
            if place.orders.borrow().goal != Goal::Leave {
                return false;
            }
            self.instances.queue.change(|ledger| ledger.remove(place.id));
            places.remove(&place.id);
        }
        self.instances.start_wanted();
        true
    }
}
