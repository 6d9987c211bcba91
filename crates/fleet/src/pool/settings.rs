//! What a pool is made of. Handed in by whoever builds the fleet; some of it may change while the pool runs.

use std::{fmt, sync::Arc, time::Duration};

use greenroom_core::{Engine, InstanceId, lease::Strategy};

#[derive(Clone)]
pub struct PoolSettings {
    pub name: String,
    pub description: String,
    pub is_default: bool,
    pub size: Size,
    /// What the instance of this number is. Asked when the instance is made, and again when it is started anew.
    pub instance: Arc<dyn Fn(InstanceId) -> InstanceSettings + Send + Sync>,
    pub strategy: Strategy,
    /// How long a caller waits for a slot.
    pub lease_timeout: Duration,
    /// How many spares are kept, once the pool has been started.
    pub warm: usize,
    /// How long the successor of a spare that was handed out waits.
    pub spare_pause: Duration,
    /// Its browsers keep what they have between sessions, so that only one owner may use them.
    pub local_only: bool,
}

/// How many instances a pool has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// As many as are needed, up to a limit. One that nobody uses is stopped after its idle time, and one that fails is
    /// simply gone: the next call starts another.
    Elastic { instances_max: usize, idle: Duration },
    /// So many, kept running.
    Fixed(usize),
}

/// What one instance is made of.
#[derive(Clone)]
pub struct InstanceSettings {
    pub alias: Option<String>,
    pub engine: Arc<dyn Engine>,
    pub slots: usize,
    /// Started with the first call that needs it.
    pub lazy: bool,
    /// Deadline of a call.
    pub call_timeout: Duration,
    /// How often it is started again after a failure: within five minutes, or in one series of tries where
    /// there are more of them.
    pub restarts: usize,
    pub retry: Retry,
    pub health_interval: Duration,
    pub health_timeout: Duration,
    /// Which browser it is, for lists.
    pub browser: String,
    pub headless: bool,
}

/// How an instance that fails is tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    /// The pause before the first further try; each one after that doubles it.
    pub pause: Duration,
    /// How long it is left alone when it has been tried often enough, until the next series of tries. With `None` it is
    /// left alone for good.
    pub cooldown: Option<Duration>,
}

/// The pause before greenroom starts something of its own again. Whatever it died of is rarely over sooner.
const PAUSE: Duration = Duration::from_secs(1);

/// The pause before a browser that somebody else runs is tried again. Nothing is started there; a browser that is being
/// started by hand listens after a few hundred milliseconds.
const ATTACHED_PAUSE: Duration = Duration::from_millis(250);

impl Default for Retry {
    /// As it is for what greenroom starts itself.
    fn default() -> Self {
        Self { pause: PAUSE, cooldown: None }
    }
}

impl Retry {
    /// As it is for a browser that is attached to, which rests for so long between two series of tries.
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
