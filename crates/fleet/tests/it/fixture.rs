//! A fleet over a fake world, with short methods by which tests call it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, ConnectionId, Fields, InstanceId, Lost, Owner, Permit, Policy, SessionId,
    lease::{Sharing, Strategy},
    network::NetworkPolicy,
    quota::SameQuotas,
};
use greenroom_fleet::{
    CallAnswer, CallTarget, EndReason, Fleet, FleetError, FleetSettings, Health, InstanceSettings,
    InstanceStatus, Note, PoolSettings, PoolSize, PoolStatus, Retry, SessionKey, SessionOptions,
};
use tokio::{runtime::Handle, task::JoinHandle};

use crate::{
    agents::{Counting, FakeAgent},
    fake::{FakeEngine, World, call},
};

pub const LEASE: Duration = Duration::from_secs(5);
pub const CALL: Duration = Duration::from_secs(30);
pub const IDLE: Duration = Duration::from_secs(300);
pub const INSTANCE_IDLE: Duration = Duration::from_secs(60);
pub const HEALTH: Duration = Duration::from_secs(20);
pub const MS: Duration = Duration::from_millis(1);

pub type Outcome = Result<TestAnswer, FleetError>;

/// An answer, as far as tests look at it.
#[derive(Debug)]
pub struct TestAnswer {
    pub seat: u64,
    pub notes: Vec<Note>,
    /// Where it ran.
    pub pool: String,
    pub instance: u32,
}

impl TestAnswer {
    pub fn new((answer, notes): (CallAnswer, Vec<Note>)) -> Self {
        let seat = match &answer.reply.body {
            Ok(body) => Fields::open(body).unwrap().read("seat").unwrap().unwrap_or_default(),
            Err(_) => 0,
        };
        let pool = answer.ran.pool.to_string();
        let instance = answer.ran.instance.0;
        Self { seat, notes, pool, instance }
    }

    /// The reason that the answer gives for a new browser.
    pub fn restarted(&self) -> Option<&EndReason> {
        self.notes.iter().find_map(Note::restarted)
    }
}

#[derive(Clone)]
pub struct FleetFixture {
    pub fleet: Fleet,
    /// The world of the first pool's instances.
    pub world: Arc<World>,
    pub watcher: Arc<Counting>,
}

/// An elastic pool.
pub fn settings_of(world: &Arc<World>, slots: usize, instances_max: usize) -> FleetSettings {
    FleetSettings {
        pools: vec![PoolSettings {
            name: "DEFAULT".to_owned(),
            description: String::new(),
            is_default: true,
            size: PoolSize::Elastic { instances_max, idle: INSTANCE_IDLE },
            instance: instances_of(world, slots),
            strategy: Strategy::Fill,
            sharing: Sharing::All,
            lease_timeout: LEASE,
            warm: 0,
            spare_pause: Duration::ZERO,
            local_only: false,
            network: Some(Arc::new(NetworkPolicy::OPEN)),
            unproxied: false,
        }],
        starts_max: 64,
        idle_timeout: IDLE,
        max_lifetime: None,
        quotas: Arc::new(SameQuotas::default()),
    }
}

/// A declared pool, in its own world.
pub fn fixed_pool(world: &Arc<World>, name: &str, instances: usize, slots: usize) -> PoolSettings {
    PoolSettings {
        name: name.to_owned(),
        is_default: name == "DEFAULT",
        size: PoolSize::Fixed(instances),
        strategy: Strategy::Fifo,
        ..settings_of(world, slots, 1).pools.swap_remove(0)
    }
}

/// Changes the settings of a pool's instances.
pub fn with_instances(
    pool: &mut PoolSettings,
    change: impl Fn(u32, &mut InstanceSettings) + Send + Sync + 'static,
) {
    let made = pool.instance.clone();
    pool.instance = Arc::new(move |id| {
        let mut settings = made(id);
        change(id.0, &mut settings);
        settings
    });
}

/// A target by pool and instance; an empty name is none.
pub fn at(pool: &str, instance: &str) -> CallTarget {
    let name = |name: &str| Some(name.to_owned()).filter(|name| !name.is_empty());
    CallTarget { pool: name(pool), instance: name(instance), browser: None }
}

/// Instances of this world, all alike.
pub fn instances_of(
    world: &Arc<World>,
    slots: usize,
) -> Arc<dyn Fn(InstanceId) -> InstanceSettings + Send + Sync> {
    let engine = Arc::new(FakeEngine(world.clone()));
    Arc::new(move |_| InstanceSettings {
        alias: None,
        engine: engine.clone(),
        slots,
        lazy: false,
        call_timeout: CALL,
        restarts: 3,
        retry: Retry::default(),
        health_interval: HEALTH,
        health_timeout: Duration::from_secs(5),
        browser: "chromium".to_owned(),
        headless: true,
    })
}

impl FleetFixture {
    pub fn new(slots: usize, instances_max: usize) -> Self {
        Self::tuned(slots, instances_max, |_| {})
    }

    /// A fleet that keeps this many spares once it is started.
    pub fn warm(warm: usize, slots: usize, instances_max: usize) -> Self {
        Self::tuned(slots, instances_max, |settings| settings.pools[0].warm = warm)
    }

    pub fn tuned(slots: usize, instances_max: usize, tune: impl FnOnce(&mut FleetSettings)) -> Self {
        let world = World::new();
        let mut settings = settings_of(&world, slots, instances_max);
        tune(&mut settings);
        Self::with_settings(settings, world)
    }

    pub fn with_settings(settings: FleetSettings, world: Arc<World>) -> Self {
        let watcher = Arc::new(Counting::default());
        Self { fleet: Fleet::new(settings, watcher.clone()), world, watcher }
    }

    /// A started pool of this many instances.
    pub async fn fixed(instances: usize, slots: usize) -> Self {
        Self::fixed_with(instances, slots, |_| {}).await
    }

    pub async fn fixed_with(instances: usize, slots: usize, tune: impl FnOnce(&mut FleetSettings)) -> Self {
        let world = World::new();
        let mut settings = settings_of(&world, slots, 1);
        settings.pools = vec![fixed_pool(&world, "DEFAULT", instances, slots)];
        tune(&mut settings);
        let fixture = Self::with_settings(settings, world);
        fixture.fleet.start();
        settle().await;
        fixture
    }

    /// A call of the local owner with a target.
    pub async fn call_at(&self, session_key: SessionKey, target: CallTarget, tool: &str) -> Outcome {
        self.call_for(&Owner::local(), session_key, target, tool, Arc::new(FakeAgent)).await
    }

    pub async fn call_for(
        &self,
        owner: &Owner,
        session_key: SessionKey,
        target: CallTarget,
        tool: &str,
        agent: Arc<dyn Agent>,
    ) -> Outcome {
        let answer = self.fleet.call(permit(owner, tool), session_key, target, call(tool, "{}"), agent);
        answer.await.map(TestAnswer::new)
    }

    /// The same in a task of its own; returns once the call is queued, or when no task can go on.
    pub async fn begin_at(
        &self,
        session_key: SessionKey,
        target: CallTarget,
        tool: &str,
    ) -> JoinHandle<Outcome> {
        self.begin_for(&Owner::local(), session_key, target, tool, Arc::new(FakeAgent)).await
    }

    pub async fn begin_for(
        &self,
        owner: &Owner,
        session_key: SessionKey,
        target: CallTarget,
        tool: &str,
        agent: Arc<dyn Agent>,
    ) -> JoinHandle<Outcome> {
        let fixture = self.clone();
        let owner = owner.clone();
        let tool = tool.to_owned();
        let task =
            tokio::spawn(async move { fixture.call_for(&owner, session_key, target, &tool, agent).await });
        settle().await;
        task
    }

    /// The status of an instance of the first pool.
    pub fn instance(&self, id: u32) -> InstanceStatus {
        let found = self.pool().instances.into_iter().find(|instance| instance.id.0 == id);
        found.unwrap_or_else(|| panic!("there is no instance {id}"))
    }

    /// The health of every instance of the first pool.
    pub fn health(&self) -> Vec<Health> {
        self.pool().instances.iter().map(|instance| instance.health).collect()
    }

    pub async fn call_as(&self, owner: &Owner, session_key: SessionKey, tool: &str, params: &str) -> Outcome {
        let answer = self.fleet.call(
            permit(owner, tool),
            session_key,
            CallTarget::default(),
            call(tool, params),
            Arc::new(FakeAgent),
        );
        answer.await.map(TestAnswer::new)
    }

    /// A call of the local owner in a named session.
    pub async fn call(&self, id: &str, tool: &str) -> Outcome {
        self.call_as(&Owner::local(), named(id), tool, "{}").await
    }

    /// A call of the local owner without a session.
    pub async fn call_ephemeral(&self, tool: &str) -> Outcome {
        self.call_as(&Owner::local(), SessionKey::Ephemeral, tool, "{}").await
    }

    /// Makes a call in a task of its own; returns once the call is queued, or when no task can go on.
    pub async fn begin(&self, id: &str, tool: &str) -> JoinHandle<Outcome> {
        self.begin_as(&Owner::local(), named(id), tool).await
    }

    pub async fn begin_as(&self, owner: &Owner, session_key: SessionKey, tool: &str) -> JoinHandle<Outcome> {
        let fixture = self.clone();
        let owner = owner.clone();
        let tool = tool.to_owned();
        let task = tokio::spawn(async move { fixture.call_as(&owner, session_key, &tool, "{}").await });
        settle().await;
        task
    }

    pub async fn create(&self, id: &str) -> Result<(), FleetError> {
        let permit = permit(&Owner::local(), "create_new_session");
        let options = SessionOptions::default();
        self.fleet
            .create(permit, session(id), CallTarget::default(), options, Arc::new(FakeAgent))
            .await
            .map(drop)
    }

    pub async fn close(&self, id: &str) -> Result<(), FleetError> {
        self.fleet.close(&Owner::local(), &named(id)).await
    }

    pub fn renew(&self, id: &str) -> Result<Duration, FleetError> {
        self.fleet.renew(&Owner::local(), &named(id))
    }

    /// How many sessions the local owner has.
    pub fn sessions(&self) -> usize {
        self.fleet.list(&Owner::local()).len()
    }

    pub fn leased(&self) -> usize {
        self.pool().leased_slots
    }

    pub fn waiting(&self) -> usize {
        self.pool().waiting
    }

    pub fn pool(&self) -> PoolStatus {
        self.fleet.pools().swap_remove(0)
    }

    /// Shuts down and proves that nothing is left behind.
    pub async fn end(&self) {
        self.fleet.shutdown().await;
        self.world.assert_empty();
        let pool = self.pool();
        assert_eq!((pool.healthy(), pool.leased_slots, pool.waiting, pool.spares), (0, 0, 0, 0));
    }
}

impl World {
    /// Proves that nothing is left, and that no seat was called that was known to be lost.
    pub fn assert_empty(&self) {
        self.assert_left();
        assert_eq!(self.counts().calls_on_lost, 0);
    }

    /// Proves that nothing is left, where a seat may be lost at the moment of its call.
    pub fn assert_left(&self) {
        let counts = self.counts();
        assert_eq!(counts.opened, counts.closes, "every seat is closed: {counts:?}");
        assert_eq!(counts.started, counts.stops, "every instance is stopped: {counts:?}");
        assert_eq!(counts.dropped, 0, "{counts:?}");
        assert_eq!(self.open_seats(), [] as [u64; 0]);
        assert_eq!(self.stopped_twice(), 0, "no instance is stopped twice");
    }
}

/// Lets every task run as far as it can without the clock: returns when all threads of the runtime have nothing to do. A
/// paused clock stands still meanwhile, since tokio does not move it while a blocking task runs.
pub async fn settle() {
    let runtime = Handle::current().metrics();
    // A thread counts each time it goes to sleep and each time it wakes: an odd number means that it sleeps.
    let sleeps = move |worker| runtime.worker_park_unpark_count(worker) % 2 == 1;
    let workers = Handle::current().metrics().num_workers();
    let idle = move || {
        while !(0..workers).all(&sleeps) {
            std::thread::yield_now();
        }
    };
    tokio::task::spawn_blocking(idle).await.unwrap();
}

pub fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub fn named(id: &str) -> SessionKey {
    SessionKey::Named(session(id))
}

pub fn connection(number: u64) -> SessionKey {
    SessionKey::Connection(ConnectionId(number))
}

pub fn permit(owner: &Owner, tool: &str) -> Permit {
    Policy::new(&[], &[], BTreeSet::new(), false).unwrap().permit(owner, tool).unwrap()
}

pub fn crash() -> Lost {
    Lost::Browser { status: "signal 9".into(), stderr_tail: "".into() }
}

/// Sets the deadline of every call of the first pool.
pub fn with_call_timeout(settings: &mut FleetSettings, timeout: Duration) {
    let made = settings.pools[0].instance.clone();
    settings.pools[0].instance = Arc::new(move |id| InstanceSettings { call_timeout: timeout, ..made(id) });
}
