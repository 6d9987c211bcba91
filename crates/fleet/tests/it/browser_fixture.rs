//! A fleet with attached browsers, each in a fake world of its own, with short methods by which tests call it.

use std::{sync::Arc, time::Duration};

use greenroom_core::Owner;
use greenroom_fleet::{
    BrowserSettings, BrowserState, BrowserStatus, CallTarget, Fleet, FleetError, FleetSettings, Retry,
    SessionKey, pool_name,
};
use tokio::task::JoinHandle;

use crate::{
    agents::{Counting, FakeAgent},
    fake::World,
    fixture::{FleetFixture, Outcome, fixed_pool, settings_of, settle, with_instances},
};

pub const COOLDOWN: Duration = Duration::from_secs(60);

/// How long a series of attempts takes if each fails at once.
pub const SERIES: Duration = Duration::from_millis(250 + 500 + 1000);

#[derive(Clone)]
pub struct BrowserFixture {
    /// The fleet. Its `world` is the pool's, if there is a pool.
    pub fixture: FleetFixture,
    worlds: Vec<Arc<World>>,
}

impl std::ops::Deref for BrowserFixture {
    type Target = Fleet;

    fn deref(&self) -> &Fleet {
        &self.fixture.fleet
    }
}

pub fn url(index: u32) -> String {
    format!("http://127.0.0.1:{}", 9220 + index)
}

/// The settings of a browser in this world: it has its user's logins, and one slot.
pub fn browser_in(world: &Arc<World>, index: u32) -> BrowserSettings {
    let mut pool = fixed_pool(world, &pool_name(index), 1, 1);
    pool.local_only = true;
    with_instances(&mut pool, |_, instance| {
        instance.lazy = true;
        instance.retry = Retry::attached(COOLDOWN);
    });
    BrowserSettings {
        url: url(index),
        address: url(index),
        label: None,
        tags: Vec::new(),
        engine: "fake".to_owned(),
        pool,
    }
}

/// An attached browser, by index or label.
pub fn on(browser: &str) -> CallTarget {
    CallTarget { browser: Some(browser.to_owned()), ..CallTarget::default() }
}

impl BrowserFixture {
    /// This many browsers, and no pool.
    pub fn new(browsers: u32) -> Self {
        Self::tuned(browsers, |_, _| {})
    }

    pub fn tuned(browsers: u32, tune: impl Fn(u32, &mut BrowserSettings)) -> Self {
        Self::with_settings(browsers, tune, |settings| settings.pools.clear())
    }

    /// This many browsers and a pool.
    pub fn with_a_pool(browsers: u32) -> Self {
        Self::with_settings(browsers, |_, _| {}, |_| {})
    }

    pub fn with_settings(
        browsers: u32,
        tune: impl Fn(u32, &mut BrowserSettings),
        settings: impl FnOnce(&mut FleetSettings),
    ) -> Self {
        let world = World::new();
        let mut made = settings_of(&world, 1, 1);
        settings(&mut made);
        let mut browser_fixture =
            Self { fixture: FleetFixture::with_settings(made, world), worlds: Vec::new() };
        for _ in 0..browsers {
            browser_fixture.add(|settings| tune(settings.0, &mut settings.1)).unwrap();
        }
        browser_fixture
    }

    /// Adds a browser in a world of its own.
    pub fn add(&mut self, tune: impl FnOnce(&mut (u32, BrowserSettings))) -> Result<u32, FleetError> {
        let world = World::new();
        let added = self.fixture.fleet.add_browser(|index| {
            let mut settings = (index, browser_in(&world, index));
            tune(&mut settings);
            settings.1
        })?;
        self.worlds.push(world);
        Ok(added.index)
    }

    pub fn watcher(&self) -> &Arc<Counting> {
        &self.fixture.watcher
    }

    /// The world of the browser that was added as the nth.
    pub fn world(&self, nth: u32) -> &Arc<World> {
        &self.worlds[nth as usize - 1]
    }

    pub fn status(&self, index: u32) -> BrowserStatus {
        self.browser_named(&index.to_string())
    }

    fn browser_named(&self, name: &str) -> BrowserStatus {
        self.fixture.fleet.browser(name).unwrap()
    }

    pub fn states(&self) -> Vec<BrowserState> {
        self.browsers().iter().map(|browser| browser.state).collect()
    }

    /// A call of the local owner without a session.
    pub async fn call_on(&self, browser: &str, tool: &str) -> Outcome {
        self.fixture.call_at(SessionKey::Ephemeral, on(browser), tool).await
    }

    pub async fn begin_on(&self, browser: &str, tool: &str) -> JoinHandle<Outcome> {
        self.fixture.begin_at(SessionKey::Ephemeral, on(browser), tool).await
    }

    pub async fn call_as(&self, owner: &Owner, session_key: SessionKey, target: CallTarget) -> Outcome {
        self.fixture.call_for(owner, session_key, target, "click", Arc::new(FakeAgent)).await
    }

    /// Reconnects in a task of its own; returns when no task can go on.
    pub async fn begin_reconnect(&self, name: &str) -> JoinHandle<Result<BrowserStatus, FleetError>> {
        let fleet = self.fixture.fleet.clone();
        let name = name.to_owned();
        let task = tokio::spawn(async move { fleet.reconnect_browser(&name).await });
        settle().await;
        task
    }

    /// Removes in a task of its own; returns when no task can go on.
    pub async fn begin_removal(&self, name: &str) -> JoinHandle<Result<BrowserStatus, FleetError>> {
        let fleet = self.fixture.fleet.clone();
        let name = name.to_owned();
        let task = tokio::spawn(async move { fleet.remove_browser(&name).await });
        settle().await;
        task
    }

    /// Shuts down and proves that nothing is left behind.
    pub async fn end(&self) {
        self.end_in(World::assert_empty).await;
    }

    /// Shuts down and runs this check on every world.
    pub async fn end_in(&self, nothing_left: impl Fn(&World)) {
        self.shutdown().await;
        self.worlds.iter().chain([&self.fixture.world]).for_each(|world| nothing_left(world));
        for browser in self.browsers() {
            assert_eq!(browser.state, BrowserState::Disconnected);
            assert_eq!((browser.leased_slots, browser.waiting, browser.retry_in), (0, 0, None));
        }
    }
}

/// The future's output, and how long it took by the paused clock.
pub async fn took<T>(future: impl Future<Output = T>) -> (T, Duration) {
    let began = tokio::time::Instant::now();
    let output = future.await;
    (output, began.elapsed())
}
