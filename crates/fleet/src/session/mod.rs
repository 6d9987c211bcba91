//! A session: a task that owns a seat and runs its calls in order.
//!
//! The registry ([`crate::registry`]) holds a [`SessionHandle`] per session and talks to the task through its
//! queue. A caller cancels a call by dropping its end of the reply; the engine does not learn of it.

mod ending;
mod idle_timeout;
mod note;
mod task;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use greenroom_core::{
    Agent, BoxFuture, Call, InstanceId, Lost, Reply, View, network::NetworkPolicy, record::SessionRef,
};
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::task_tracker::TaskTrackerToken};

use crate::{error::FleetError, pool::Pool, quota::CountedCall};

pub use note::{EndReason, NewTab, Note};
pub(crate) use task::SessionTask;

/// How many calls may wait for one session. An agent waits for its answers, so a handful is usual; a queue this long is
/// a runaway loop, and its callers should get the error early.
pub(crate) const QUEUE: usize = 64;

/// The result of a call.
#[derive(Debug)]
pub struct CallAnswer {
    pub reply: Reply,
    pub ran: CallLocation,
    /// The page after the call.
    pub view: View,
    /// When the engine answered.
    pub ended: std::time::Instant,
}

/// Where a call ran.
#[derive(Debug, Clone)]
pub struct CallLocation {
    pub pool: Arc<str>,
    pub instance: InstanceId,
    /// `None` for a call without a session.
    pub session: Option<SessionRef>,
}

/// Several calls that run one after the other in one browser, with no other caller's call between them.
pub struct Bulk {
    pub calls: Vec<Call>,
    /// A call that fails ends the bulk.
    pub stop_on_error: bool,
    /// The session's task calls this after each call, with the number of calls done.
    pub progress: Arc<dyn Fn(usize) + Send + Sync>,
}

impl Bulk {
    /// No call: the session's task only opens the browser.
    pub(crate) fn empty() -> Self {
        Self { calls: Vec::new(), stop_on_error: true, progress: Arc::new(|_| {}) }
    }

    /// One call.
    pub(crate) fn single(call: Call) -> Self {
        Self { calls: vec![call], ..Self::empty() }
    }
}

/// The results of several calls.
#[derive(Debug)]
pub struct BulkAnswers {
    /// The answers of the calls that ran, in order.
    pub answers: Vec<CallAnswer>,
    /// Why the call after the answered ones has no answer: the browser was lost during that call.
    pub lost: Option<FleetError>,
    /// Notes for the session's agent.
    pub notes: Vec<Note>,
}

impl BulkAnswers {
    /// The answer of a bulk of one call.
    pub(crate) fn into_single(mut self) -> Result<(CallAnswer, Vec<Note>), FleetError> {
        match (self.answers.pop(), self.lost) {
            (Some(answer), _) => Ok((answer, self.notes)),
            (None, lost) => Err(lost.unwrap_or_else(|| FleetError::Lost(panicked()))),
        }
    }
}

/// The loss that a call, and those behind it, report when the session's task panicked.
pub(crate) fn panicked() -> Lost {
    Lost::Protocol("its adapter panicked".into())
}

/// Calls to run one after the other, and the agent that wants them. Without calls the task only opens the browser.
pub(crate) struct Job {
    pub(crate) bulk: Bulk,
    /// Resolves when the record of the first call has begun; only then may the call run.
    pub(crate) begun: BoxFuture<'static, ()>,
    pub(crate) agent: Arc<dyn Agent>,
    pub(crate) in_flight: CallInFlight,
    /// Counts the calls as one towards the limits of their owner.
    pub(crate) counted: CountedCall,
    /// When the job was queued.
    pub(crate) queued: Instant,
    pub(crate) reply: ReplySender,
}

/// Sends the answers to the caller. A caller that leaves drops its receiver.
pub(crate) type ReplySender = oneshot::Sender<Result<BulkAnswers, FleetError>>;

impl Job {
    /// Makes the job and begins the record of its first call, because the call's session is known now. The task
    /// begins each other call's record when that call's turn comes.
    pub(crate) fn new(
        mut bulk: Bulk,
        agent: Arc<dyn Agent>,
        in_flight: CallInFlight,
        counted: CountedCall,
        reply: ReplySender,
    ) -> Self {
        let begun = match bulk.calls.first_mut() {
            Some(first) => first.begin(in_flight.session()),
            None => Box::pin(std::future::ready(())),
        };
        Self { bulk, begun, agent, in_flight, counted, queued: Instant::now(), reply }
    }

    /// The tool of the first call.
    fn tool(&self) -> Option<Arc<str>> {
        self.bulk.calls.first().map(|call| call.tool.clone())
    }

    /// The same calls, queued in another session.
    pub(crate) fn moved(self, in_flight: CallInFlight) -> Self {
        Self { in_flight, ..self }
    }

    /// Answers with an error. A caller that has left gets nothing.
    pub(crate) fn fail(self, error: FleetError) {
        let _ = self.reply.send(Err(error));
    }
}

/// Counts a call as in flight from its acceptance to its end, for its session and for the fleet.
pub(crate) struct CallInFlight(
    Arc<SessionShared>,
    #[allow(dead_code, reason = "dropping it is what it is for")] TaskTrackerToken,
);

impl CallInFlight {
    pub(crate) fn new(shared: &Arc<SessionShared>, token: TaskTrackerToken) -> Self {
        shared.in_flight.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone(), token)
    }

    /// The session of the call.
    pub(crate) fn session(&self) -> Option<&SessionRef> {
        self.0.session.as_ref()
    }
}

impl Drop for CallInFlight {
    fn drop(&mut self) {
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Where a session is to live.
#[derive(Clone)]
pub(crate) struct Placement {
    pub(crate) pool: Arc<Pool>,
    /// The only instance in which the session may live; `None` for any.
    pub(crate) key: Option<InstanceId>,
}

impl Placement {
    /// The same pool and instance; any instance of the pool, if this one leases nothing more.
    pub(crate) fn without_unavailable_instance(&self) -> Self {
        let key = self.key.filter(|key| self.pool.may_lease_from(*key));
        Self { pool: self.pool.clone(), key }
    }
}

/// The registry's end of a session.
pub(crate) struct SessionHandle {
    pub(crate) placement: Placement,
    pub(crate) jobs: mpsc::Sender<Job>,
    pub(crate) shared: Arc<SessionShared>,
    /// The session's own network policy.
    pub(crate) network: Option<Arc<NetworkPolicy>>,
    /// Asks the session to end now.
    pub(crate) stop: CancellationToken,
    /// Resolves when the seat is closed and the slot returned.
    pub(crate) ended: watch::Receiver<bool>,
}

/// The state of a session that other tasks may read while its own task works.
pub(crate) struct SessionShared {
    /// How records refer to the session; `None` for a call without a session.
    pub(crate) session: Option<SessionRef>,
    pub(crate) created: SystemTime,
    pub(crate) in_flight: AtomicUsize,
    pub(crate) renewed: Notify,
    state: Mutex<SessionSharedState>,
}

#[derive(Clone)]
pub(crate) struct SessionSharedState {
    pub(crate) instance: Option<InstanceId>,
    pub(crate) view: Option<watch::Receiver<View>>,
    pub(crate) last_used: SystemTime,
    pub(crate) last_used_at: Instant,
    /// When the session's maximum lifetime ends.
    pub(crate) lifetime_ends: Option<Instant>,
}

impl SessionShared {
    pub(crate) fn new(session: Option<SessionRef>, max_lifetime: Option<Duration>) -> Self {
        let now = SystemTime::now();
        let at = Instant::now();
        let state = SessionSharedState {
            instance: None,
            view: None,
            last_used: now,
            last_used_at: at,
            lifetime_ends: max_lifetime.map(|lifetime| at + lifetime),
        };
        Self {
            session,
            created: now,
            in_flight: AtomicUsize::new(0),
            renewed: Notify::new(),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn state(&self) -> SessionSharedState {
        self.state.lock().clone()
    }

    pub(crate) fn update(&self, change: impl FnOnce(&mut SessionSharedState)) {
        change(&mut self.state.lock());
    }
}
