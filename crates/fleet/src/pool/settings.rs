//! The settings of a pool. The code that builds the fleet passes them in; some may change while the pool runs.

use std::{fmt, sync::Arc, time::Duration};

use greenroom_core::{
    Engine, InstanceId,
    lease::{Sharing, Strategy},
    network::NetworkPolicy,
};

#[derive(Clone)]
pub struct PoolSettings {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    pub size: PoolSize,
    /// The settings of the instance with this number. Called when the instance is made, and before each start.
    pub instance: Arc<dyn Fn(InstanceId) -> InstanceSettings + Send + Sync>,
    pub strategy: Strategy,
    /// Whether callers of several owners may use one instance.
    pub sharing: Sharing,
    /// How long a caller waits for a slot.
    pub lease_timeout: Duration,
    /// How many spares the pool keeps once it has been started.
    pub warm: usize,
    /// How long the pool waits before it opens the successor of a spare that was handed out.
    pub spare_pause: Duration,
    /// The browsers keep their data between sessions, so only one owner may use them.
    pub local_only: bool,
    /// What the pool's browsers may reach. `None` if greenroom's proxy does not stand between a browser and the network, or
    /// does not tell sessions apart: sessions there can have no policy of their own.
    pub network: Option<Arc<NetworkPolicy>>,
    /// No proxy of greenroom stands between some browser of the pool and the network.
    pub unproxied: bool,
}

/// How many instances a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolSize {
    /// As many as callers need, up to a limit. The pool stops an instance that had no lease for its idle time, and
    /// does not restart one that fails: the next call starts another.
    Elastic { instances_max: usize, idle: Duration },
    /// This many, kept running.
    Fixed(usize),
}

/// What one instance is made of.
#[derive(Clone)]
pub struct InstanceSettings {
    pub alias: Option<String>,
    pub engine: Arc<dyn Engine>,
    pub slots: usize,
    /// The instance starts with the first call that needs it.
    pub lazy: bool,
    /// Deadline of a call.
    pub call_timeout: Duration,
    /// How often the supervisor starts the instance again after a failure: within five minutes, or in one series of
    /// attempts if `retry` has a cooldown.
    pub restarts: usize,
    pub retry: Retry,
    pub health_interval: Duration,
    pub health_timeout: Duration,
    /// The name of the browser, for lists.
    pub browser: String,
    pub headless: bool,
}

/// When the supervisor tries a failed instance again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The pause before the second attempt; it doubles with each further attempt.
    pub pause: Duration,
    /// The rest between two series of attempts. With `None` there is no further series.
    pub cooldown: Option<Duration>,
}

/// The pause before greenroom restarts an instance of its own. The cause of its end rarely goes away sooner.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause before greenroom tries again to connect to an attached browser. greenroom starts nothing there; a browser
/// that its user is starting listens after a few hundred milliseconds.
const ATTACHED_PAUSE: Duration = Duration::from_millis(250);

impl Default for Retry {
    /// The policy for instances that greenroom starts itself.
    fn default() -> Self {
        Self { pause: PAUSE, cooldown: None }
    }
}

impl Retry {
    /// The policy for an attached browser, with this rest between two series of attempts.
    pub fn attached(cooldown: Duration) -> Self {
        Self { pause: ATTACHED_PAUSE, cooldown: Some(cooldown) }
    }
}

impl fmt::Debug for PoolSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PoolSettings")
            .field("name", &self.name)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}
