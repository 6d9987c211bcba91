//! A fake engine, its instances and seats. A test scripts them through [`World`]
//! and counts what the fleet did to them.
//!
//! A call of a tool whose name begins with `hold` runs until the test answers it; `panic` panics; `fail` answers with a
//! result that has `isError`, `refuse` with an error; any other tool answers at once. A start that is to fail with `panic`
//! panics too. Every answer names the seat that gave it.

mod engine;
mod seat;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use greenroom_core::{
    Call, Crash, InstanceId, Lost, OpenError, StartError, View,
    port::{PortUser, StoppedDownloads},
    raw::parse,
};
use tokio::{
    sync::{mpsc, watch},
    time::{Instant, timeout},
};

pub use self::{engine::FakeEngine, seat::Held};

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Instances asked for, and those that came to life.
    pub starts: usize,
    pub started: usize,
    pub stops: usize,
    /// Seats asked for, and those that came to life.
    pub opens: usize,
    pub opened: usize,
    pub closes: usize,
    /// Seats that were dropped without being closed.
    pub dropped: usize,
    pub calls: usize,
    /// Calls given to a seat that was known to be lost.
    pub calls_on_lost: usize,
    /// The most seats that one instance ever held.
    pub seats_max: usize,
    /// Instances that are being started, and the most that ever were at a time.
    pub starting: usize,
    pub starting_max: usize,
    pub pings: usize,
    /// How often the fleet asked to bring a browser back.
    pub revives: usize,
}

/// The outcome of bringing a browser back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Revival {
    /// No way to bring it back is configured.
    Nothing,
    /// It can be reached again.
    Mends,
    Fails(&'static str),
}

/// How an instance answers a health check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HealthProbe {
    HealthCheckFailed,
    Hangs,
}

/// A gate that a test may shut; tasks that reach it wait until the test opens it.
pub struct Gate(watch::Sender<bool>);

impl Gate {
    fn new() -> Self {
        Self(watch::Sender::new(true))
    }

    pub fn shut(&self) {
        self.0.send_replace(false);
    }

    pub fn open(&self) {
        self.0.send_replace(true);
    }

    async fn pass(&self) {
        self.0.subscribe().wait_for(|open| *open).await.unwrap();
    }
}

/// Everything the test and the fakes share.
pub struct World {
    pub starting: Gate,
    pub opening: Gate,
    pub closing: Gate,
    pub stopping: Gate,
    pub reviving: Gate,
    counts: watch::Sender<Counts>,
    state: Mutex<State>,
    held: mpsc::UnboundedSender<Held>,
    holds: tokio::sync::Mutex<mpsc::UnboundedReceiver<Held>>,
}

#[derive(Default)]
struct State {
    next_seat: u64,
    fail_starts: VecDeque<StartError>,
    fail_opens: VecDeque<OpenError>,
    instances: BTreeMap<InstanceId, watch::Sender<Option<Lost>>>,
    stopped: Vec<InstanceId>,
    stopped_twice: usize,
    lose_when_looked_at: Option<u64>,
    seats: BTreeMap<u64, SeatEnds>,
    log: Vec<(u64, String)>,
    /// The users of seats, in order.
    users: Vec<PortUser>,
    /// Instances that cannot be started, until they are mended.
    broken: BTreeSet<InstanceId>,
    pulses: BTreeMap<InstanceId, HealthProbe>,
    /// Crashes of tabs that the fleet has not asked about yet, by seat.
    crashes: BTreeMap<u64, Vec<Crash>>,
    stopped_downloads: BTreeMap<u64, StoppedDownloads>,
    /// Which instances the fleet started, and when.
    starts: Vec<(InstanceId, Instant)>,
    revival: Option<Revival>,
}

/// The test's ends of an open seat.
struct SeatEnds {
    instance: InstanceId,
    home: Arc<()>,
    lost: watch::Sender<Option<Lost>>,
    view: watch::Sender<View>,
}

impl World {
    pub fn new() -> Arc<Self> {
        let (held, holds) = mpsc::unbounded_channel();
        Arc::new(Self {
            starting: Gate::new(),
            opening: Gate::new(),
            closing: Gate::new(),
            stopping: Gate::new(),
            reviving: Gate::new(),
            counts: watch::Sender::default(),
            state: Mutex::default(),
            held,
            holds: tokio::sync::Mutex::new(holds),
        })
    }

    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as wanted. It gives up after an hour of the paused clock.
    pub async fn until(&self, wanted: impl Fn(&Counts) -> bool) {
        let mut counts = self.counts.subscribe();
        let met = timeout(Duration::from_secs(3600), counts.wait_for(|counts| wanted(counts))).await;
        assert!(met.is_ok(), "this never came; now {:?}", self.counts());
    }

    /// The next call that a seat is busy with.
    pub async fn held(&self) -> Held {
        let mut holds = self.holds.lock().await;
        timeout(Duration::from_secs(3600), holds.recv()).await.expect("no seat was called").unwrap()
    }

    /// Whether a seat is busy with a call that the test has not yet taken.
    pub async fn holds_any(&self) -> bool {
        !self.holds.lock().await.is_empty()
    }

    pub fn fail_start(&self, message: &str) {
        self.state().fail_starts.push_back(StartError::new(message));
    }

    /// The instance cannot be started until it is mended.
    pub fn break_instance(&self, id: u32) {
        self.state().broken.insert(InstanceId(id));
    }

    /// How the instance answers from now on; `None` is healthy.
    pub fn set_pulse(&self, id: u32, pulse: Option<HealthProbe>) {
        let mut state = self.state();
        let id = InstanceId(id);
        match pulse {
            Some(pulse) => state.pulses.insert(id, pulse),
            None => state.pulses.remove(&id),
        };
    }

    /// The outcome of bringing a browser back, from now on.
    pub fn set_revival(&self, revival: Revival) {
        self.state().revival = Some(revival);
    }

    /// Which instances the fleet started so far, and when.
    pub fn starts(&self) -> Vec<(u32, Instant)> {
        self.state().starts.iter().map(|(id, at)| (id.0, *at)).collect()
    }

    pub fn fail_open(&self, error: impl Into<OpenError>) {
        self.state().fail_opens.push_back(error.into());
    }

    /// Loses the seat as soon as the fleet checks whether it is lost.
    pub fn lose_when_looked_at(&self, seat: u64) {
        self.state().lose_when_looked_at = Some(seat);
    }

    /// Clears all planned failures.
    pub fn mend(&self) {
        let mut state = self.state();
        state.fail_starts.clear();
        state.fail_opens.clear();
        state.broken.clear();
        state.pulses.clear();
    }

    /// Every user that a seat was assigned to, in order.
    pub fn users(&self) -> Vec<PortUser> {
        self.state().users.clone()
    }

    pub fn lose_seat(&self, seat: u64, why: Lost) {
        self.state().seats[&seat].lost.send_replace(Some(why));
    }

    /// Loses a seat that may have been closed meanwhile.
    pub fn lose_if_open(&self, seat: u64, why: Lost) {
        if let Some(seat) = self.state().seats.get(&seat) {
            seat.lost.send_replace(Some(why));
        }
    }

    /// Loses an instance that may not have come up yet.
    pub fn lose_if_started(&self, id: InstanceId, why: &Lost) {
        let is_known = self.state().instances.contains_key(&id);
        if is_known {
            self.lose_instance(id, why);
        }
    }

    /// The instance dies, and its seats with it.
    pub fn lose_instance(&self, id: InstanceId, why: &Lost) {
        let state = self.state();
        for seat in state.seats.values().filter(|seat| seat.instance == id) {
            seat.lost.send_replace(Some(why.clone()));
        }
        state.instances[&id].send_replace(Some(why.clone()));
    }

    /// A tab of the seat crashes; the seat goes on.
    pub fn crash_tab(&self, seat: u64, url: &str) {
        let crash = Crash { url: url.into(), why: "oom".into() };
        self.state().crashes.entry(seat).or_default().push(crash);
    }

    /// Downloads of the seat are stopped; the seat goes on.
    pub fn stop_downloads(&self, seat: u64, count: u64) {
        let stopped = StoppedDownloads { count, bytes_max: 1 << 30 };
        self.state().stopped_downloads.insert(seat, stopped);
    }

    pub fn show(&self, seat: u64, view: View) {
        self.state().seats[&seat].view.send_replace(view);
    }

    pub fn open_seats(&self) -> Vec<u64> {
        self.state().seats.keys().copied().collect()
    }

    pub fn stopped_twice(&self) -> usize {
        self.state().stopped_twice
    }

    pub fn stopped(&self) -> Vec<InstanceId> {
        self.state().stopped.clone()
    }

    /// The calls that seats were given, in order.
    pub fn log(&self) -> Vec<(u64, String)> {
        self.state().log.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        self.counts.send_modify(change);
    }
}

/// A call as a gateway would make it.
pub fn call(tool: &str, params: &str) -> Call {
    Call::new(tool, parse(params.to_owned()).unwrap())
}
