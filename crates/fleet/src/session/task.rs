//! The task of a session: it waits for a slot, opens a seat in it, runs the session's calls one after the other, and ends
//! the session. Each call without a session has its own such task, which leaves its seat open in the slot for the next
//! such call of the same owner.

use std::{sync::Arc, time::Duration};

use greenroom_core::{
    Agent, Call, InstanceId, Lost, Reply, Seat, StartError, View,
    network::NetworkPolicy,
    port::{CRASHES_REPORTED_MAX, PortUser, Refusals, StoppedDownloads},
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use super::{
    BulkAnswers, CallAnswer, CallLocation, EndReason, Job, Note, Placement, SessionShared,
    ending::{InterruptedJob, NoReply, SessionEnd, UnsentResult},
    panicked,
};
use crate::{
    error::FleetError,
    fleet::Inner,
    pool::{AcquireRequest, AcquiredSlot, Lease},
    registry::RegistryKey,
    seat::{self, NoSeat, died},
};

/// How often a session tries to open a seat when the instance dies meanwhile or does not answer. The second attempt
/// handles the usual case, a lease on an instance whose loss the supervisor was just noticing.
const OPEN_TRIES: usize = 2;

/// How long a call waits behind a cancelled one before its answer says so. A shorter wait needs no explanation.
const HELD_UP_MIN: Duration = Duration::from_secs(1);

/// A call that ran on although its caller had left. The next call had to wait for it.
pub(crate) struct AbandonedCall {
    tool: Arc<str>,
    /// When the engine answered it.
    answered: Instant,
}

/// Everything a session's task owns.
pub(crate) struct SessionTask {
    pub(crate) fleet: Arc<Inner>,
    pub(crate) placement: Placement,
    pub(crate) key: RegistryKey,
    pub(crate) shared: Arc<SessionShared>,
    pub(crate) jobs: mpsc::Receiver<Job>,
    pub(crate) stop: CancellationToken,
    pub(crate) notes: Vec<Note>,
    /// The session's own network policy.
    pub(crate) network: Option<Arc<NetworkPolicy>>,
    /// The last call, if its caller left while it ran.
    pub(crate) abandoned: Option<AbandonedCall>,
    /// The job that the end of the session interrupts, from then until [`SessionTask::leave`] answers its caller.
    pub(crate) interrupted: Option<InterruptedJob>,
    /// Set when the seat is closed and the slot given back.
    pub(crate) ended: watch::Sender<bool>,
}

impl Drop for SessionTask {
    /// Takes a session whose task panicked (an engine's adapter might) out of the registry: it would never answer
    /// again.
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.leave(SessionEnd::LostDuringCall(panicked()));
        }
    }
}

impl SessionTask {
    pub(crate) async fn run(mut self) {
        match self.open().await {
            Ok((first, lease, seat)) => {
                tracing::info!(session = self.log_name(), instance = %lease.id(), "session opened");
                if let RegistryKey::Ephemeral(..) = self.key {
                    self.serve_once(first, lease, seat).await;
                } else {
                    self.serve_all(first, lease, seat).await;
                }
            }
            Err(end) => self.leave(end),
        }
        self.ended.send_replace(true);
    }

    /// This session's name in the log.
    fn log_name(&self) -> String {
        self.key.log_name(&self.fleet.connections)
    }

    /// Takes a slot and opens a seat in it, or takes the one that is open there.
    async fn open(&mut self) -> Result<(Job, Lease, Box<dyn Seat>), SessionEnd> {
        let Some(mut job) = self.jobs.recv().await else { return Err(SessionEnd::Closed) };
        let registration = self.placement.pool.register_caller();
        let mut last: Option<NoSeat> = None;
        for _ in 0..OPEN_TRIES {
            let slot = match self.acquire_slot(&mut job).await {
                Ok(slot) => slot,
                // The error of the first attempt says more than that no other instance is free.
                Err(SessionEnd::Failed(FleetError::Lease(_))) if last.is_some() => break,
                Err(end) => return Err(self.end_before(job, end)),
            };
            // Only a shutdown may interrupt the opening of the seat, because it ends the browser too. If a caller that
            // leaves or closes the session could interrupt it, the browser would keep a half-made context.
            match slot.open(job.agent.clone(), &self.fleet.closing).await {
                Ok((lease, mut seat)) => {
                    registration.seated();
                    self.attach_seat(&lease, seat.as_mut());
                    return Ok((job, lease, seat));
                }
                Err(NoSeat::Closing) => return Err(self.end_before(job, SessionEnd::Closed)),
                Err(why @ NoSeat::Failed(_)) => {
                    last = Some(why);
                    break;
                }
                Err(why) => last = Some(why),
            }
        }
        let last = last.unwrap_or_else(|| NoSeat::Failed(StartError::new("no instance could be used")));
        let end = SessionEnd::Failed(self.placement.pool.no_seat(last));
        Err(self.end_before(job, end))
    }

    /// Ends the session before this job has run.
    fn end_before(&mut self, job: Job, end: SessionEnd) -> SessionEnd {
        self.interrupted = Some(InterruptedJob::NotRun(job));
        end
    }

    fn attach_seat(&mut self, lease: &Lease, seat: &mut dyn Seat) {
        seat.assign(PortUser {
            owner: self.key.owner().clone(),
            session: self.key.name(),
            network: self.network.clone(),
        });
        if let RegistryKey::Ephemeral(owner, _) = &self.key {
            self.notes.extend(self.placement.pool.lost_seats().take_note(owner));
        }
        self.shared.update(|state| {
            state.instance = Some(lease.id());
            state.view = Some(seat.view());
        });
    }

    /// Acquires a slot. Gives up when no caller waits for the session any more.
    async fn acquire_slot(&mut self, job: &mut Job) -> Result<AcquiredSlot, SessionEnd> {
        let request = AcquireRequest {
            key: self.placement.key,
            caller: self.key.caller(),
            owner: self.key.owner().clone(),
            agent: job.agent.clone(),
            is_ephemeral: matches!(self.key, RegistryKey::Ephemeral(..)),
        };
        let pool = self.placement.pool.clone();
        let mut slot = Box::pin(async move { pool.acquire(&request).await });
        loop {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return Err(SessionEnd::Closed),
                // A request whose caller has left must not open a browser, even if its slot comes at the same moment: so
                // check this before the slot.
                () = job.reply.closed() => {
                    let unsent_end_note = self.unsent_end_note();
                    match self.fleet.next_or_forget(&self.key, &self.shared, unsent_end_note, &mut self.jobs) {
                        Some(next) => *job = next,
                        None => return Err(SessionEnd::Closed),
                    }
                }
                slot = &mut slot => return slot.map_err(|error| SessionEnd::Failed(self.fleet.with_holders(error, &self.placement, self.key.owner()))),
            }
        }
    }

    /// Runs a call without a session, and leaves the seat in its slot for the owner's next such call.
    async fn serve_once(&mut self, job: Job, lease: Lease, mut seat: Box<dyn Seat>) {
        let mut lost = seat.lost();
        match self.run_job(job, lease.id(), &mut *seat, &mut lost).await {
            Ok(result) => {
                self.leave(SessionEnd::Closed);
                let owner = self.key.owner().clone();
                let longest = self.fleet.settings.idle_timeout;
                // Keep the seat before the answer is sent: the owner's next call may come at once and must find it.
                let rest = self.placement.pool.keep_for(&owner, longest, lease, seat);
                // A `NewTab` note that reached no caller goes into the owner's next answer.
                let undelivered = result.map(UnsentResult::send).unwrap_or_default();
                let undelivered = undelivered.into_iter().chain(self.notes.drain(..));
                for note in undelivered {
                    if let Note::NewTab(note) = note {
                        self.placement.pool.lost_seats().keep_note(owner.clone(), note);
                    }
                }
                if let Some((lease, seat)) = rest {
                    seat::close(seat).await;
                    drop(lease);
                }
            }
            Err(end) => self.close(end, lease, seat).await,
        }
    }

    async fn serve_all(&mut self, first: Job, lease: Lease, mut seat: Box<dyn Seat>) {
        let end = self.serve(first, lease.id(), &mut *seat).await;
        self.close(end, lease, seat).await;
    }

    async fn close(&mut self, end: SessionEnd, lease: Lease, seat: Box<dyn Seat>) {
        self.leave(end);
        if !seat::close(seat).await {
            tracing::warn!(session = self.log_name(), instance = %lease.id(), "seat did not close in time");
        }
        drop(lease);
    }

    async fn serve(&mut self, first: Job, instance: InstanceId, seat: &mut dyn Seat) -> SessionEnd {
        let mut lost = seat.lost();
        let mut next = Some(first);
        loop {
            if let Some(job) = next.take() {
                match self.run_job(job, instance, seat, &mut lost).await {
                    // Notes that reached no caller go into the next answer, except `HeldUp`, which is about this call.
                    Ok(result) => {
                        let undelivered = result.map(UnsentResult::send).unwrap_or_default();
                        self.notes.extend(
                            undelivered.into_iter().filter(|note| !matches!(note, Note::HeldUp { .. })),
                        );
                    }
                    Err(end) => return end,
                }
            }
            let (expiry, _) = self.shared.expiry(&self.fleet.settings);
            if expiry <= Instant::now()
                && self.fleet.expire(&self.key, &self.placement, &self.shared, &mut self.jobs)
            {
                return SessionEnd::Closed;
            }
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return SessionEnd::Closed,
                why = died(&mut lost) => return SessionEnd::LostWhileIdle(why),
                job = self.jobs.recv() => match job {
                    Some(job) => next = Some(job),
                    None => return SessionEnd::Closed,
                },
                () = self.shared.renewed.notified() => {}
                () = sleep_until(expiry) => {}
            }
        }
    }

    /// Runs the calls of a job, one after the other. If the caller leaves, the job ends after the call that runs; `None` if
    /// the caller has already left.
    async fn run_job(
        &mut self,
        job: Job,
        instance: InstanceId,
        seat: &mut dyn Seat,
        lost: &mut watch::Receiver<Option<Lost>>,
    ) -> Result<Option<UnsentResult>, SessionEnd> {
        if job.reply.is_closed() {
            return Ok(None);
        }
        if self.stop.is_cancelled() {
            return Err(self.end_before(job, SessionEnd::Closed));
        }
        self.shared.used();
        let held_up = self.held_up(&job);
        self.notes.extend(held_up);
        let tool = job.tool();
        let Job { bulk, begun, agent, in_flight, mut counted, reply, .. } = job;
        counted.runs();
        let mut begun = Some(begun);
        let ran = CallLocation {
            pool: self.placement.pool.name.clone(),
            instance,
            session: self.shared.session.clone(),
        };
        let mut answers = Vec::with_capacity(bulk.calls.len());
        let mut no_reply = None;
        for mut call in bulk.calls {
            match begun.take() {
                Some(begun) => begun.await,
                None if reply.is_closed() => break,
                None => call.begin(ran.session.as_ref()).await,
            }
            match self.run_call(call, agent.clone(), instance, seat, lost).await {
                Ok((reply, view)) => {
                    let failed = reply.is_failure();
                    let ended = std::time::Instant::now();
                    answers.push(CallAnswer { reply, ran: ran.clone(), view, ended });
                    (bulk.progress)(answers.len());
                    if failed && bulk.stop_on_error {
                        break;
                    }
                }
                Err(why) => {
                    no_reply = Some(why);
                    break;
                }
            }
        }
        // A job that only opened the browser leaves the notes to the first call.
        let notes = if tool.is_some() { self.notes_now() } else { Vec::new() };
        self.shared.used();
        drop(in_flight);
        drop(counted);
        let (end, outcome) = match no_reply {
            None => (None, Ok(BulkAnswers { answers, lost: None, notes })),
            Some(NoReply::Lost(lost)) => {
                let error = Some(FleetError::Lost(lost.clone()));
                (Some(SessionEnd::LostDuringCall(lost)), Ok(BulkAnswers { answers, lost: error, notes }))
            }
            Some(NoReply::Stopped) => (Some(SessionEnd::Closed), Err(self.fleet.why_closed(&self.placement))),
        };
        if let (None, Some(tool)) = (&end, tool)
            && reply.is_closed()
        {
            self.abandoned = Some(AbandonedCall { tool, answered: Instant::now() });
        }
        let result = UnsentResult { reply, outcome };
        match end {
            None => Ok(Some(result)),
            Some(end) => {
                self.interrupted = Some(InterruptedJob::Unsent(result));
                Err(end)
            }
        }
    }

    /// The note for a call that waited behind one whose caller had left.
    fn held_up(&mut self, job: &Job) -> Option<Note> {
        let AbandonedCall { tool, answered } = self.abandoned.take()?;
        let waited = answered.saturating_duration_since(job.queued);
        (waited >= HELD_UP_MIN).then_some(Note::HeldUp { tool, waited })
    }

    async fn run_call(
        &mut self,
        call: Call,
        agent: Arc<dyn Agent>,
        instance: InstanceId,
        seat: &mut dyn Seat,
        lost: &mut watch::Receiver<Option<Lost>>,
    ) -> Result<(Reply, View), NoReply> {
        let deadline = self.placement.pool.call_timeout(instance).saturating_add(seat.own_wait(&call));
        // Do not cancel the call in the engine: the engine would not stop, and its answer is the only sign that the
        // page is free again. So the seat stays busy, whether or not a caller waits.
        let outcome = tokio::select! {
            biased;
            outcome = seat.call(call, agent) => outcome.map_err(NoReply::Lost),
            why = died(lost) => Err(NoReply::Lost(why)),
            () = sleep(deadline) => Err(NoReply::Lost(Lost::Hung(deadline))),
            () = self.stop.cancelled() => Err(NoReply::Stopped),
        };
        if let Err(NoReply::Lost(lost)) = &outcome {
            self.placement.pool.lost_call(instance, lost).await;
        }
        let reply = outcome?;
        let crashes = seat.take_crashes();
        for crash in &crashes {
            // Without its address, which may have secrets.
            tracing::warn!(session = self.log_name(), %instance, why = %crash.why, "a tab of the session crashed");
        }
        self.notes.extend(crashes.into_iter().map(Note::Crashed));
        forget_old_crashes(&mut self.notes);
        if let Some(stopped) = seat.take_stopped_downloads() {
            add_stopped(&mut self.notes, stopped);
        }
        add_refusals(&mut self.notes, seat.take_refusals(), self.key.owner().is_local());
        let view = seat.view().borrow().clone();
        Ok((reply, view))
    }

    fn notes_now(&mut self) -> Vec<Note> {
        let mut notes = std::mem::take(&mut self.notes);
        notes.retain(|note| !matches!(note, Note::Expiring(_)));
        // A call without a session has no lifetime to warn about.
        if let RegistryKey::Ephemeral(..) = self.key {
            return notes;
        }
        notes.extend(self.shared.expiring_in(&self.fleet.settings).map(Note::Expiring));
        notes
    }

    /// Leaves the registry, so that the next call with this id makes a new session, and answers the callers that still
    /// wait.
    fn leave(&mut self, end: SessionEnd) {
        if let Some(session) = &self.shared.session {
            let lost = !matches!(end, SessionEnd::Closed);
            self.fleet.watcher.session_ended(&session.uid, lost);
        }
        let (end_reason, error) = match end {
            SessionEnd::Closed => (None, self.fleet.why_closed(&self.placement)),
            SessionEnd::Failed(error) => (self.unsent_end_note(), error),
            SessionEnd::LostWhileIdle(lost) => {
                let key = &self.key;
                let end_reason = EndReason::Lost(lost);
                let fleet = &self.fleet;
                return fleet.lost_while_idle(key, &self.placement, &self.shared, end_reason, &mut self.jobs);
            }
            SessionEnd::LostDuringCall(lost) => {
                tracing::info!(session = self.log_name(), why = %lost, "session ended");
                (Some(EndReason::Lost(lost.clone())), FleetError::NotRun(lost))
            }
        };
        let waiting = self.fleet.forget(&self.key, &self.shared, end_reason, &mut self.jobs);
        match self.interrupted.take() {
            Some(InterruptedJob::Unsent(result)) => drop(result.send()),
            Some(InterruptedJob::NotRun(job)) => job.fail(error.clone()),
            None => {}
        }
        for job in waiting {
            job.fail(error.clone());
        }
    }

    /// The unsent note about the session that this one replaces. If this session never begins, the next one must send it.
    fn unsent_end_note(&self) -> Option<EndReason> {
        self.notes.iter().find_map(|note| note.restarted().cloned())
    }
}

/// Merges notes of stopped downloads that reached no caller into one note.
fn add_stopped(notes: &mut Vec<Note>, mut stopped: StoppedDownloads) {
    notes.retain(|note| match note {
        Note::DownloadsStopped(undelivered) => {
            stopped.count += undelivered.count;
            false
        }
        _ => true,
    });
    notes.push(Note::DownloadsStopped(stopped));
}

/// Merges notes of refused connections that reached no caller into one note.
fn add_refusals(notes: &mut Vec<Note>, new: Refusals, for_operator: bool) {
    let mut refusals = Refusals::default();
    notes.retain_mut(|note| match note {
        Note::NetworkRefused { refusals: undelivered, .. } => {
            refusals.append(std::mem::take(undelivered));
            false
        }
        _ => true,
    });
    refusals.append(new);
    if !refusals.is_empty() {
        notes.push(Note::NetworkRefused { refusals, for_operator });
    }
}

/// Limits the notes about crashes to the last few: a page may crash any number of times before a call carries them.
fn forget_old_crashes(notes: &mut Vec<Note>) {
    let crashes = notes.iter().filter(|note| matches!(note, Note::Crashed(_))).count();
    let mut surplus = crashes.saturating_sub(CRASHES_REPORTED_MAX);
    notes.retain(|note| {
        let is_old = surplus > 0 && matches!(note, Note::Crashed(_));
        surplus -= usize::from(is_old);
        !is_old
    });
}
