//! Fake agents behind calls, and the watcher that counts what happens in the pools.

use std::{path::PathBuf, sync::Mutex, time::Duration};

use greenroom_core::{Agent, BoxFuture, InstanceId, NoAnswer, Queued, Raw, raw::parse};
use greenroom_fleet::{FleetError, Watcher};
use tokio::time::Instant;

/// An agent that receives nothing and answers nothing.
pub use greenroom_core::NoAgent as FakeAgent;

/// An agent whose client would answer questions, so that no spare suits it.
pub struct Askable;

impl Agent for Askable {
    fn tell(&self, _method: &str, _params: Option<Raw>) {}

    fn ask<'a>(
        &'a self,
        method: &'a str,
        _params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move { Err(NoAnswer::Unsupported(method.to_owned())) })
    }

    fn capabilities(&self) -> Option<Raw> {
        parse(r#"{"elicitation":{}}"#.to_owned()).ok()
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(async { Vec::new() })
    }

    fn log_level(&self) -> Option<String> {
        None
    }
}

/// An agent that notes the positions in the queue that it receives, and when.
#[derive(Default)]
pub struct Listener(Mutex<Vec<(Instant, usize, usize)>>);

impl Listener {
    /// The positions that the agent received, each with how many waited.
    pub fn positions(&self) -> Vec<(usize, usize)> {
        self.0.lock().unwrap().iter().map(|(_, position, waiting)| (*position, *waiting)).collect()
    }

    pub fn times(&self) -> Vec<Instant> {
        self.0.lock().unwrap().iter().map(|(at, ..)| *at).collect()
    }
}

impl Agent for Listener {
    fn tell(&self, _method: &str, _params: Option<Raw>) {}

    fn ask<'a>(
        &'a self,
        method: &'a str,
        _params: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async move { Err(NoAnswer::Unsupported(method.to_owned())) })
    }

    fn capabilities(&self) -> Option<Raw> {
        None
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(async { Vec::new() })
    }

    fn log_level(&self) -> Option<String> {
        None
    }

    fn follows_queue(&self) -> bool {
        true
    }

    fn queued(&self, queued: Queued<'_>) {
        self.0.lock().unwrap().push((Instant::now(), queued.position, queued.waiting));
    }
}

/// Counts the events of the pools.
#[derive(Default)]
pub struct Counting {
    events: Mutex<PoolEvents>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PoolEvents {
    pub leased: usize,
    pub not_leased: usize,
    pub restarted: Vec<(String, u32)>,
    /// The connection events of attached browsers, in order.
    pub links: Vec<(u32, Link)>,
}

/// An event of the connection to a browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    Failed,
    Tried,
    Made,
    Over,
}

impl Counting {
    pub fn events(&self) -> PoolEvents {
        self.events.lock().unwrap().clone()
    }
}

impl Watcher for Counting {
    fn leased(&self, _pool: &str, _instance: InstanceId, _waited: Duration) {
        self.events.lock().unwrap().leased += 1;
    }

    fn not_leased(&self, _pool: &str, _why: &FleetError, _waited: Duration) {
        self.events.lock().unwrap().not_leased += 1;
    }

    fn restarted(&self, pool: &str, instance: InstanceId) {
        self.events.lock().unwrap().restarted.push((pool.to_owned(), instance.0));
    }

    fn tried_to_connect(&self, browser: u32, is_made: bool) {
        let what = if is_made { Link::Tried } else { Link::Failed };
        self.events.lock().unwrap().links.push((browser, what));
    }

    fn connected(&self, browser: u32) {
        self.events.lock().unwrap().links.push((browser, Link::Made));
    }

    fn disconnected(&self, browser: u32) {
        self.events.lock().unwrap().links.push((browser, Link::Over));
    }
}
