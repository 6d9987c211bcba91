//! The life of a session: wait for a slot, open a seat, run calls one after the other, end.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Instance, Lost, Seat, StartError};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{Answer, Ended, Job, Note, Shared, panicked};
use crate::{
    error::FleetError,
    fleet::Inner,
    pool::{Lease, Slot},
    registry::Key,
    seat::{self, NoSeat, died},
};

/// How often opening is tried when the instance dies under it or does not answer. The second try meets the
/// usual case, a lease on an instance whose death was just being noticed.
const OPEN_TRIES: usize = 2;

/// A session warns when less than this part of its lifetime is left, but not earlier than a minute before.
const WARN_PART: u32 = 10;
const WARN_MAX: Duration = Duration::from_secs(60);

/// Everything a session's task owns.
pub(crate) struct Life {
    pub(crate) fleet: Arc<Inner>,
    pub(crate) key: Key,
    pub(crate) shared: Arc<Shared>,
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) stop: CancellationToken,
    pub(crate) notes: Vec<Note>,
    /// Set when everything is given back.
    pub(crate) ended: watch::Sender<bool>,
}

/// What a session that looks for a seat may find.
enum Found {
    /// An open seat that belonged to nobody.
    Spare(Lease, Box<dyn Seat>),
    /// A slot of an instance that runs.
    Instance(Lease, Arc<dyn Instance>),
    /// A slot of an instance that is gone.
    Gone,
}

/// How a session came to its end.
enum End {
    /// It was asked to, or its time was over, or nobody wanted it any more.
    Closed,
    /// Its seat was lost between calls.
    LostBetween(Lost),
    /// Its seat was lost under a call. The calls queued behind relied on that one, and are not run.
    LostUnder(Lost),
    /// It never began.
    Failed(FleetError),
}

/// What a session does after a call.
enum Next {
    Stay,
    /// Somebody else waits for its slot.
    Yield,
}

/// An end, with the call it interrupted. That call hears of it once the session has left the registry: an
/// agent that calls again at once must get a new session, not the remains of this one.
struct Ending {
    end: End,
    last: Option<(oneshot::Sender<Result<Answer, FleetError>>, FleetError)>,
    unserved: Option<Job>,
}

impl From<End> for Ending {
    fn from(end: End) -> Self {
        Self { end, last: None, unserved: None }
    }
}

impl Drop for Life {
    /// A session whose task panicked, as an engine's adapter might, must not stay in the registry: it would
    /// never answer again.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.leave(End::LostUnder(panicked()).into());
        }
    }
}

impl Life {
    pub(crate) async fn run(mut self) {
        match self.open().await {
            Ok((first, lease, mut seat)) => {
                tracing::info!(session = %self.key, instance = %lease.id, "session opened");
                let ending = self.serve(first, &mut *seat).await;
                self.leave(ending);
                if !seat::close(seat).await {
                    tracing::warn!(session = %self.key, instance = %lease.id, "seat did not close in time");
                }
                drop(lease);
            }
            Err(ending) => self.leave(ending),
        }
        self.ended.send_replace(true);
    }

    /// Takes a slot and opens a seat in it, or takes a spare, which is both.
    async fn open(&mut self) -> Result<(Job, Lease, Box<dyn Seat>), Ending> {
        let Some(mut job) = self.jobs.recv().await else { return Err(End::Closed.into()) };
        let _seeking = self.fleet.pool.seek();
        let mut last = StartError::new("no instance could be used");
        let mut tries = 0..OPEN_TRIES;
        while !tries.is_empty() {
            let (lease, instance) = match self.find(&mut job).await {
                Ok(Found::Spare(lease, seat)) => match self.fit(&job, lease, seat).await {
                    Ok((lease, seat)) => return Ok((job, lease, seat)),
                    Err(Some(own)) => own,
                    // That a spare died says nothing about the others, and they are few.
                    Err(None) => continue,
                },
                Ok(Found::Instance(lease, instance)) => (lease, instance),
                Ok(Found::Gone) => {
                    tries.next();
                    continue;
                }
                Err(end) => return Err(Ending { end, last: None, unserved: Some(job) }),
            };
            tries.next();
            // From here on the browser makes a context. A caller that leaves or closes the session does not
            // interrupt that: half a context would belong to no one. A shutdown does, and ends the browser too.
            let opened = tokio::select! {
                opened = seat::open(instance.as_ref(), job.agent()) => opened,
                () = self.fleet.closing.cancelled() => {
                    return Err(Ending { end: End::Closed, last: None, unserved: Some(job) });
                }
            };
            last = match opened {
                Ok(seat) => {
                    self.sit_down(&lease, seat.as_ref());
                    return Ok((job, lease, seat));
                }
                Err(NoSeat::Instance(error)) => error,
                Err(NoSeat::Failed(error)) => {
                    return Err(Ending { end: End::Failed(error.into()), last: None, unserved: Some(job) });
                }
            };
        }
        Err(Ending { end: End::Failed(last.into()), last: None, unserved: Some(job) })
    }

    fn sit_down(&self, lease: &Lease, seat: &dyn Seat) {
        self.fleet.pool.seated();
        self.shared.update(|state| {
            state.instance = Some(lease.id);
            state.view = Some(seat.view());
        });
    }

    /// Takes a spare's seat, unless it was lost a moment ago or does not suit: then it is closed, and what is left
    /// is its slot, if its instance lives.
    async fn fit(
        &self,
        job: &Job,
        lease: Lease,
        seat: Box<dyn Seat>,
    ) -> Result<(Lease, Box<dyn Seat>), Option<(Lease, Arc<dyn Instance>)>> {
        let is_lost = seat.lost().borrow().is_some();
        if !is_lost && self.fleet.pool.spare_suits(job.agent().as_ref()) {
            self.sit_down(&lease, seat.as_ref());
            return Ok((lease, seat));
        }
        seat::close(seat).await;
        match lease.instance().await {
            Ok(Some(instance)) if lease.is_alive() => Err(Some((lease, instance))),
            Ok(_) | Err(_) => Err(None),
        }
    }

    /// Takes a slot and waits until its instance is ready, for as long as anybody waits for it.
    async fn find(&mut self, job: &mut Job) -> Result<Found, End> {
        let fleet = self.fleet.clone();
        let spare_suits = fleet.pool.spare_suits(job.agent().as_ref());
        let mut ready = Box::pin(async {
            let Slot { lease, seat } = fleet.pool.lease(spare_suits, || fleet.reclaim()).await?;
            if let Some(seat) = seat {
                return Ok(Found::Spare(lease, seat));
            }
            let instance = lease.instance().await?;
            Ok(instance.map_or(Found::Gone, |instance| Found::Instance(lease, instance)))
        });
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(End::Closed),
                // A request whose caller has left must not open a browser, also if its slot comes in this very
                // moment: so this is looked at before the slot is.
                () = job.abandoned() => {
                    let unsaid = self.unsaid();
                    match self.fleet.next_or_forget(&self.key, &self.shared, unsaid, &mut self.jobs) {
                        Some(next) => *job = next,
                        None => return Err(End::Closed),
                    }
                }
                ready = &mut ready => return ready.map_err(End::Failed),
            }
        }
    }

    async fn serve(&mut self, first: Job, seat: &mut dyn Seat) -> Ending {
        let mut lost = seat.lost();
        let mut next = Some(first);
        loop {
            if let Some(job) = next.take() {
                match self.job(job, seat, &mut lost).await {
                    Ok(Next::Stay) => {}
                    Ok(Next::Yield) => return End::Closed.into(),
                    Err(ending) => return ending,
                }
            }
            let (expiry, _) = self.shared.expiry(&self.fleet.settings);
            if expiry <= Instant::now() && self.fleet.expire(&self.key, &self.shared, &mut self.jobs) {
                return End::Closed.into();
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return End::Closed.into(),
                why = died(&mut lost) => return End::LostBetween(why).into(),
                job = self.jobs.recv() => match job {
                    Some(job) => next = Some(job),
                    None => return End::Closed.into(),
                },
                () = self.shared.renewed.notified() => {}
                () = sleep_until(expiry) => {}
            }
        }
    }

    async fn job(
        &mut self,
        job: Job,
        seat: &mut dyn Seat,
        lost: &mut watch::Receiver<Option<Lost>>,
    ) -> Result<Next, Ending> {
        if job.is_abandoned() {
            return Ok(self.rest());
        }
        if self.stop.is_cancelled() {
            return Err(Ending { end: End::Closed, last: None, unserved: Some(job) });
        }
        self.shared.used();
        let (call, agent, reply, flight) = match job {
            Job::Call { call, agent, reply, flight } => (call, agent, reply, flight),
            Job::Open { reply, flight, .. } => {
                drop(flight);
                let next = self.rest();
                let _ = reply.send(Ok(()));
                return Ok(next);
            }
        };
        let deadline = self.fleet.settings.call_timeout.saturating_add(seat.own_wait(&call));
        // The engine is never told of a cancellation: it would not stop, and its answer is the only sign that
        // the page is free again. So the seat stays busy, answered or not.
        let outcome = tokio::select! {
            biased;
            outcome = seat.call(call, agent) => outcome,
            why = died(lost) => Err(why),
            () = sleep(deadline) => Err(Lost::Hung(deadline)),
            () = self.stop.cancelled() => {
                let last = Some((reply, self.fleet.why_closed()));
                return Err(Ending { end: End::Closed, last, unserved: None });
            }
        };
        self.shared.used();
        drop(flight);
        match outcome {
            Ok(answer) => {
                let notes = self.notes_now();
                let instance = self.shared.state().instance.unwrap_or(greenroom_core::InstanceId(0));
                let ran = super::Ran { pool: self.fleet.settings.pool.name.as_str().into(), instance };
                // Before the answer: whoever calls again at once shall find this browser on the shelf.
                let next = self.rest();
                // Notes that nobody heard are said again with the next answer.
                if let Err(Ok(unheard)) = reply.send(Ok(Answer { reply: answer, notes, ran })) {
                    self.notes = unheard.notes;
                }
                Ok(next)
            }
            Err(lost) => {
                let last = Some((reply, FleetError::Lost(lost.clone())));
                Err(Ending { end: End::LostUnder(lost), last, unserved: None })
            }
        }
    }

    /// A session between two calls.
    fn rest(&self) -> Next {
        if self.fleet.should_yield(&self.key, &self.shared) { Next::Yield } else { Next::Stay }
    }

    fn notes_now(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.retain(|note| !matches!(note, Note::Expiring(_)));
        // A call without a session has nothing to renew.
        if let Key::Loose(..) = self.key {
            return notes;
        }
        if let Some((lifetime, ends)) =
            self.fleet.settings.max_lifetime.zip(self.shared.state().lifetime_ends)
        {
            let left = ends.saturating_duration_since(Instant::now());
            if left <= (lifetime / WARN_PART).min(WARN_MAX) {
                notes.push(Note::Expiring(left));
            }
        }
        notes
    }

    /// Leaves the registry, so that the next call with this id makes a new session, and answers those who
    /// still wait.
    fn leave(&mut self, ending: Ending) {
        let (epitaph, error) = match ending.end {
            End::Closed => (None, self.fleet.why_closed()),
            End::Failed(error) => (self.unsaid(), error),
            End::LostBetween(lost) => {
                let (key, ended) = (&self.key, Ended::Lost(lost));
                return self.fleet.died_between_calls(key, &self.shared, ended, &mut self.jobs);
            }
            End::LostUnder(lost) => {
                tracing::info!(session = %self.key, why = %lost, "session ended");
                (Some(Ended::Lost(lost.clone())), FleetError::NotRun(lost))
            }
        };
        let waiting = self.fleet.forget(&self.key, &self.shared, epitaph, &mut self.jobs);
        if let Some((reply, error)) = ending.last {
            let _ = reply.send(Err(error));
        }
        for job in ending.unserved.into_iter().chain(waiting) {
            job.fail(error.clone());
        }
    }

    /// What is still to be said of the session that this one replaces. If this one never begins, the next one
    /// must say so.
    fn unsaid(&self) -> Option<Ended> {
        self.notes.iter().find_map(|note| match note {
            Note::Restarted(ended) => Some(ended.clone()),
            Note::Expiring(_) => None,
        })
    }
}
