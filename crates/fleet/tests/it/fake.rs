//! A fake engine, its instances and seats. A test scripts them through [`World`]
//! and counts what the fleet did to them.
//!
//! A call of a tool whose name begins with `hold` runs until the test answers it, one of `panic` does that, one of
//! `fail` is answered with a result that says so, one of `refuse` with an error; any other is answered at once. A start
//! that is to fail with `panic` does that too. Every answer names the seat that gave it.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    Agent, BoxFuture, Call, Engine, Fields, Instance, InstanceId, Lost, OpenError, Raw, Reply, Seat,
    StartError, Toolset, Unwell, View,
    raw::{encode, parse},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout},
};

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
}

/// How an instance answers when it is asked for a sign of life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pulse {
    Unwell,
    Hangs,
}

/// A door that a test may shut; whoever comes then waits until it is opened.
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
    /// Those that cannot be started, until they are mended.
    broken: BTreeSet<InstanceId>,
    pulses: BTreeMap<InstanceId, Pulse>,
    /// Which instances were asked for, and when.
    starts: Vec<(InstanceId, Instant)>,
}

/// The test's ends of a seat that is open.
struct SeatEnds {
    instance: InstanceId,
    home: Arc<()>,
    lost: watch::Sender<Option<Lost>>,
    view: watch::Sender<View>,
}

/// A call that a seat is busy with. Forgotten (dropped), it never ends.
pub struct Held {
    pub seat: u64,
    pub tool: String,
    answer: oneshot::Sender<Result<Reply, Lost>>,
}

impl Held {
    pub fn answer(self) {
        let reply = reply(self.seat, &self.tool);
        let _ = self.answer.send(Ok(reply));
    }

    pub fn answer_with(self, body: Result<Raw, Raw>) {
        let _ = self.answer.send(Ok(Reply::from(body)));
    }

    /// Whether the fleet still waits for this answer.
    pub fn is_awaited(&self) -> bool {
        !self.answer.is_closed()
    }
}

fn answer(body: Result<&str, &str>) -> Reply {
    let raw = |text: &str| parse(text.to_owned()).unwrap();
    body.map(raw).map_err(raw).into()
}

fn reply(seat: u64, tool: &str) -> Reply {
    let mut fields = Fields::default();
    fields.set("seat", encode(&seat));
    fields.set("tool", encode(tool));
    Ok(fields.to_raw()).into()
}

impl World {
    pub fn new() -> Arc<Self> {
        let (held, holds) = mpsc::unbounded_channel();
        Arc::new(Self {
            starting: Gate::new(),
            opening: Gate::new(),
            closing: Gate::new(),
            stopping: Gate::new(),
            counts: watch::Sender::default(),
            state: Mutex::default(),
            held,
            holds: tokio::sync::Mutex::new(holds),
        })
    }

    pub fn counts(&self) -> Counts {
        *self.counts.borrow()
    }

    /// Waits until the counts are as wanted. An hour of the paused clock is for ever.
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

    /// How the instance answers from now on; `None` is well.
    pub fn set_pulse(&self, id: u32, pulse: Option<Pulse>) {
        let (mut state, id) = (self.state(), InstanceId(id));
        match pulse {
            Some(pulse) => state.pulses.insert(id, pulse),
            None => state.pulses.remove(&id),
        };
    }

    /// Which instances were asked for so far, and when.
    pub fn starts(&self) -> Vec<(u32, Instant)> {
        self.state().starts.iter().map(|(id, at)| (id.0, *at)).collect()
    }

    pub fn fail_open(&self, error: impl Into<OpenError>) {
        self.state().fail_opens.push_back(error.into());
    }

    /// The seat is lost as soon as anybody looks whether it is.
    pub fn lose_when_looked_at(&self, seat: u64) {
        self.state().lose_when_looked_at = Some(seat);
    }

    /// Nothing fails any more that was to fail.
    pub fn mend(&self) {
        let mut state = self.state();
        state.fail_starts.clear();
        state.fail_opens.clear();
        state.broken.clear();
        state.pulses.clear();
    }

    pub fn lose_seat(&self, seat: u64, why: Lost) {
        self.state().seats[&seat].lost.send_replace(Some(why));
    }

    /// The same of a seat that may have been closed meanwhile.
    pub fn lose_if_open(&self, seat: u64, why: Lost) {
        if let Some(seat) = self.state().seats.get(&seat) {
            seat.lost.send_replace(Some(why));
        }
    }

    /// The same as below of an instance that may not have come up yet.
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
            let (world, home, stopped) = (self.0.clone(), Arc::default(), AtomicBool::new(false));
            Ok(Arc::new(FakeInstance { world, id, home, lost, stopped }) as Arc<dyn Instance>)
        })
    }

    /// As a real engine that may ask its client something.
    fn spare_suits(&self, agent: &dyn Agent) -> bool {
        agent.capabilities().is_none()
    }
}

/// Counts a start as going on, also if it is broken off.
struct Starting<'a>(&'a World);

impl Drop for Starting<'_> {
    fn drop(&mut self) {
        self.0.count(|counts| counts.starting -= 1);
    }
}

struct FakeInstance {
    world: Arc<World>,
    id: InstanceId,
    /// Tells its seats from those of others that had its number.
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
            let (lost, view) = (watch::Sender::new(None), watch::Sender::default());
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
            Ok(Box::new(FakeSeat { world, number, lost, view, closed: false }) as Box<dyn Seat>)
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        self.world.count(|counts| counts.pings += 1);
        let pulse = self.world.state().pulses.get(&self.id).copied();
        Box::pin(async move {
            match pulse {
                None => Ok(()),
                Some(Pulse::Unwell) => Err(Unwell("it feels faint".into())),
                Some(Pulse::Hangs) => std::future::pending().await,
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
                // Whoever still has a seat of it loses that.
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

struct FakeSeat {
    world: Arc<World>,
    number: u64,
    lost: watch::Sender<Option<Lost>>,
    view: watch::Sender<View>,
    closed: bool,
}

impl Seat for FakeSeat {
    fn call<'a>(&'a mut self, call: Call, _agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(async move {
            self.world.state().log.push((self.number, call.tool.to_string()));
            let known_lost = self.lost.borrow().is_some();
            self.world.count(|counts| {
                counts.calls += 1;
                counts.calls_on_lost += usize::from(known_lost);
            });
            assert_ne!(&*call.tool, "panic", "as the test wanted");
            if call.tool.starts_with("fail") {
                return Ok(answer(Ok(
                    r#"{"content":[{"type":"text","text":"no such ref"}],"isError":true}"#,
                )));
            }
            if call.tool.starts_with("refuse") {
                return Ok(answer(Err(r#"{"code":-32602,"message":"no such tool"}"#)));
            }
            if !call.tool.starts_with("hold") {
                return Ok(reply(self.number, &call.tool));
            }
            let (answer, answered) = oneshot::channel();
            let held = Held { seat: self.number, tool: call.tool.to_string(), answer };
            self.world.held.send(held).unwrap();
            match answered.await {
                Ok(outcome) => outcome,
                Err(_) => std::future::pending().await,
            }
        })
    }

    /// The parameter `wait`, in seconds.
    fn own_wait(&self, call: &Call) -> Duration {
        let wait = Fields::open(&call.params).unwrap().read("wait").unwrap();
        Duration::from_secs(wait.unwrap_or_default())
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        if self.world.state().lose_when_looked_at.take_if(|seat| *seat == self.number).is_some() {
            self.lost.send_replace(Some(Lost::Page("crashed".into())));
        }
        self.lost.subscribe()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    fn close(mut self: Box<Self>) -> BoxFuture<'static, ()> {
        self.closed = true;
        self.world.count(|counts| counts.closes += 1);
        Box::pin(async move {
            self.world.closing.pass().await;
        })
    }
}

impl Drop for FakeSeat {
    fn drop(&mut self) {
        self.world.state().seats.remove(&self.number);
        self.world.count(|counts| counts.dropped += usize::from(!self.closed));
    }
}

/// A call as a gateway would make it.
pub fn call(tool: &str, params: &str) -> Call {
    Call::new(tool, parse(params.to_owned()).unwrap())
}
