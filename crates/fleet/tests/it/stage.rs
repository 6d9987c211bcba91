//! A fleet over a fake world, and the short ways in which tests call it.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use greenroom_core::{ConnectionId, Fields, Lost, Owner, Permit, Policy, SessionId, lease::Limits};
use greenroom_fleet::{Answer, Ended, Fleet, FleetError, FleetSettings, Note, PoolSettings, Whose};
use tokio::task::JoinHandle;

use crate::fake::{FakeAgent, FakeEngine, World, call};

pub const LEASE: Duration = Duration::from_secs(5);
pub const CALL: Duration = Duration::from_secs(30);
pub const IDLE: Duration = Duration::from_secs(300);
pub const INSTANCE_IDLE: Duration = Duration::from_secs(60);
pub const MS: Duration = Duration::from_millis(1);

pub type Outcome = Result<Said, FleetError>;

/// An answer, as far as tests look at it.
#[derive(Debug)]
pub struct Said {
    pub seat: u64,
    pub notes: Vec<Note>,
}

impl Said {
    pub fn new(answer: Answer) -> Self {
        let seat = match &answer.reply.body {
            Ok(body) => Fields::open(body).unwrap().read("seat").unwrap().unwrap_or_default(),
            Err(_) => 0,
        };
        Self { seat, notes: answer.notes }
    }

    /// The reason that the answer gives for a new browser.
    pub fn restarted(&self) -> Option<&Ended> {
        self.notes.iter().find_map(|note| match note {
            Note::Restarted(ended) => Some(ended),
            Note::Expiring(_) => None,
        })
    }
}

#[derive(Clone)]
pub struct Stage {
    pub fleet: Fleet,
    pub world: Arc<World>,
}

pub fn settings(slots: usize, instances_max: usize) -> FleetSettings {
    FleetSettings {
        pool: PoolSettings {
            name: "DEFAULT".to_owned(),
            limits: Limits { slots, instances_max },
            lease_timeout: LEASE,
            instance_idle: INSTANCE_IDLE,
            warm: 0,
            spare_pause: Duration::ZERO,
        },
        call_timeout: CALL,
        idle_timeout: IDLE,
        max_lifetime: None,
    }
}

impl Stage {
    pub fn new(slots: usize, instances_max: usize) -> Self {
        Self::with(settings(slots, instances_max))
    }

    /// With so many spares, once it is started.
    pub fn warm(warm: usize, slots: usize, instances_max: usize) -> Self {
        let settings = settings(slots, instances_max);
        Self::with(FleetSettings { pool: PoolSettings { warm, ..settings.pool.clone() }, ..settings })
    }

    pub fn with(settings: FleetSettings) -> Self {
        let world = World::new();
        Self { fleet: Fleet::new(settings, Arc::new(FakeEngine(world.clone()))), world }
    }

    pub async fn call_as(&self, owner: &Owner, whose: Whose, tool: &str, params: &str) -> Outcome {
        let answer = self.fleet.call(permit(owner, tool), whose, call(tool, params), Arc::new(FakeAgent));
        answer.await.map(Said::new)
    }

    /// A call of the local owner in a named session.
    pub async fn call(&self, id: &str, tool: &str) -> Outcome {
        self.call_as(&Owner::local(), named(id), tool, "{}").await
    }

    /// A call of the local owner without a session.
    pub async fn call_loose(&self, tool: &str) -> Outcome {
        self.call_as(&Owner::local(), Whose::NoOne, tool, "{}").await
    }

    /// Makes a call in a task of its own and returns once it is queued, or as far as it gets by itself.
    pub async fn begin(&self, id: &str, tool: &str) -> JoinHandle<Outcome> {
        self.begin_as(&Owner::local(), named(id), tool).await
    }

    pub async fn begin_as(&self, owner: &Owner, whose: Whose, tool: &str) -> JoinHandle<Outcome> {
        let (stage, owner, tool) = (self.clone(), owner.clone(), tool.to_owned());
        let task = tokio::spawn(async move { stage.call_as(&owner, whose, &tool, "{}").await });
        settle().await;
        task
    }

    pub async fn create(&self, id: &str) -> Result<(), FleetError> {
        let permit = permit(&Owner::local(), "create_new_session");
        self.fleet.create(permit, session(id), Arc::new(FakeAgent)).await
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
        self.fleet.figures().leased
    }

    /// Shuts down and proves that nothing is left behind.
    pub async fn end(&self) {
        self.fleet.shutdown().await;
        let counts = self.world.counts();
        assert_eq!(counts.opened, counts.closes, "every seat is closed: {counts:?}");
        assert_eq!(counts.started, counts.stops, "every instance is stopped: {counts:?}");
        assert_eq!((counts.dropped, counts.calls_on_lost), (0, 0), "{counts:?}");
        assert_eq!(self.world.open_seats(), [] as [u64; 0]);
        let mut stopped = self.world.stopped();
        stopped.sort();
        stopped.dedup();
        assert_eq!(stopped.len(), counts.stops, "no instance is stopped twice");
        let figures = self.fleet.figures();
        assert_eq!((figures.instances, figures.leased, figures.waiting), (0, 0, 0));
    }
}

/// Lets every task run as far as it gets without the clock. Tasks are few and each takes some turns only.
pub async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub fn session(id: &str) -> SessionId {
    SessionId::new(id).unwrap()
}

pub fn named(id: &str) -> Whose {
    Whose::Named(session(id))
}

pub fn connection(number: u64) -> Whose {
    Whose::Connection(ConnectionId(number))
}

pub fn permit(owner: &Owner, tool: &str) -> Permit {
    Policy::new(&[], &[], BTreeSet::new(), false).unwrap().permit(owner, tool).unwrap()
}

pub fn crash() -> Lost {
    Lost::Browser { status: "signal 9".into(), stderr_tail: "".into() }
}
