//! Instances whose seats are processes, spoken to over stdio: the devtools engine, every custom engine that is started by
//! command, and a playwright engine that starts its browser itself. And those whose seats are sessions with a server that
//! runs already, which differ in that no process of ours is behind them: custom engines by address.
//!
//! With one slot the instance *is* its process: it is started with the instance, so that a command that does not work
//! fails the start, and its end is the instance's. With more, a process is started for each seat. Either way a process
//! serves one seat and ends with it. Some come with a browser that greenroom sees into ([`SeatBrowser`]); where that is
//! somebody else's, the instance is the browser, and processes come and go with its seats.

mod browser;
mod seat;
mod seat_process;

use std::{
    path::Path,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Instance, Lost, Nobody, OpenError, Seat, StartError, Unwell};
use greenroom_mcp::{
    Inbound, Peer,
    link::{child, http},
};
use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
};

use crate::{
    exit_reason::explain,
    instance_base::InstanceBase,
    process::{Pipes, Process},
    seat_folder::SeatFolder,
    tool_list::ToolsChanged,
    upstream::{Failed, Upstream},
};

pub(crate) use browser::SeatBrowser;
use seat::ProcessSeat;
pub(crate) use seat::{CallAdapter, Unchanged};
pub(crate) use seat_process::Living;

/// The tool that closes a browser, where an engine has one of that name.
pub(crate) const CLOSE: &str = "browser_close";

/// A connection to an engine on which nothing has been said yet.
pub(crate) struct Connection {
    peer: Peer,
    inbound: mpsc::Receiver<Inbound>,
    /// What is at its other end, if it is ours.
    process: Option<Process>,
}

impl From<(Process, Pipes)> for Connection {
    fn from((process, pipes): (Process, Pipes)) -> Self {
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        Self { peer, inbound, process: Some(process) }
    }
}

impl From<&http::Endpoint> for Connection {
    fn from(server: &http::Endpoint) -> Self {
        let (peer, inbound) = server.connect();
        Self { peer, inbound, process: None }
    }
}

/// What the processes of one engine are.
pub(crate) trait Kind: Send + Sync + 'static {
    /// Whether an instance with one slot is its process. Otherwise processes come with seats.
    fn is_process(&self) -> bool {
        true
    }
    /// What of a browser a process is to drive for a seat with this folder, where greenroom sees into it.
    fn browser<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, Result<Option<SeatBrowser>, StartError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Starts a process for a seat with this folder, and with this browser; or reaches the server for it.
    fn connect<'a>(
        &'a self,
        folder: &'a Path,
        browser: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<Connection, StartError>>;
    /// Says which server it is that could not be had.
    fn unreachable(&self, error: StartError) -> StartError {
        error
    }
    /// Makes sure that a process that has shaken hands is ready for its seat.
    fn prepare<'a>(&'a self, _upstream: &'a Upstream) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Resolves when the instance is lost whatever its processes do.
    fn ended(&self) -> BoxFuture<'_, Lost> {
        Box::pin(std::future::pending())
    }
    /// Why the instance is gone, if it is, whatever its processes do.
    fn gone(&self) -> BoxFuture<'_, Option<Lost>> {
        Box::pin(std::future::ready(None))
    }
    /// Waits for a sign of life of what the instance has beside its processes.
    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Who did not answer that.
    fn silent(&self) -> Option<Arc<str>> {
        None
    }
    fn folder(&self) -> Result<SeatFolder, StartError>;
    /// Who hears that its tools are others. Those of an engine whose version and options are fixed are fixed as well.
    fn tools_changed(&self) -> Option<ToolsChanged> {
        None
    }
    /// Whether a process that was told of nobody serves this agent as well as one that was told of it. One that asks its
    /// client nothing is the same for every agent.
    fn suits(&self, _agent: &dyn Agent) -> bool {
        true
    }
    /// What is known beforehand of whether it has [`CLOSE`]; else its tools are looked at.
    fn has_close(&self) -> Option<bool> {
        None
    }
    /// Whether it answers a ping while a call runs. A server that does one thing at a time does not.
    fn answers_beside_calls(&self) -> bool {
        false
    }
    /// Told when the instance has stopped and its processes are gone.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// How the calls of a seat are passed on.
    fn adapter(&self) -> Box<dyn CallAdapter> {
        Box::new(Unchanged)
    }
}

/// A running instance.
pub(crate) struct Processes {
    shared: Arc<Shared>,
    /// Waits for what the instance has beside its processes.
    _watcher: JoinSet<()>,
}

struct Shared {
    kind: Box<dyn Kind>,
    /// Whether the instance is its process.
    is_process: bool,
    base: InstanceBase,
    /// Set by the first process that was looked at. A command can mean another program than it did when its tool list
    /// was kept, so the first process of an instance is asked.
    has_close: OnceLock<bool>,
    /// With one slot: the process that was started with the instance, until its first seat takes it.
    ready: Mutex<Option<Arc<Living>>>,
    living: Mutex<Vec<Weak<Living>>>,
}

impl Processes {
    pub(crate) async fn start(kind: Box<dyn Kind>, slots: usize) -> Result<Arc<dyn Instance>, StartError> {
        let is_process = slots == 1 && kind.is_process();
        let shared = Arc::new(Shared {
            kind,
            is_process,
            base: InstanceBase::default(),
            has_close: OnceLock::new(),
            ready: Mutex::default(),
            living: Mutex::default(),
        });
        if is_process {
            let ready = shared.bring_up(Arc::new(Nobody)).await?;
            *shared.ready.lock() = Some(ready);
        }
        let mut watcher = JoinSet::new();
        let watched = shared.clone();
        watcher.spawn(async move { watched.base.loss.declare(watched.kind.ended().await) });
        Ok(Arc::new(Self { shared, _watcher: watcher }))
    }
}

impl Shared {
    /// Starts a process, and the browser for it if it needs one, and shakes hands with it.
    async fn bring_up(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Result<Arc<Living>, StartError> {
        let folder = self.kind.folder()?;
        let browser = self.browser(folder.path()).await?;
        let connected = async {
            let Connection { peer, inbound, process } =
                self.kind.connect(folder.path(), browser.as_ref()).await?;
            let handshake = async {
                let changed = self.kind.tools_changed();
                let upstream = Upstream::open(peer, inbound, folder.path(), agent, changed).await?;
                self.kind.prepare(&upstream).await?;
                Ok::<_, Failed>(upstream)
            };
            let upstream = match &process {
                Some(process) => explain(process, handshake).await?,
                None => handshake.await.map_err(|failed| self.kind.unreachable(failed.into()))?,
            };
            if self.has_close.get().is_none() {
                let listed = upstream.look_at_tools().await;
                let has_close =
                    self.kind.has_close().unwrap_or_else(|| listed.iter().any(|name| &**name == CLOSE));
                let _ = self.has_close.set(has_close);
            }
            Ok::<_, StartError>((upstream, process))
        };
        let (upstream, process) = match self.base.loss.unless_declared(connected).await {
            Ok(connected) => connected,
            Err(error) => {
                if let Some(browser) = browser {
                    browser.leave().await;
                    browser.stop(Duration::ZERO).await;
                }
                return Err(error);
            }
        };
        let has_close = self.has_close.get().copied().unwrap_or_default();
        let living = Arc::new(Living::new(process, upstream, folder, browser, has_close));
        let mut all = self.living.lock();
        all.retain(|living| living.strong_count() > 0);
        all.push(Arc::downgrade(&living));
        drop(all);
        self.base.tasks.spawn(follow(Arc::downgrade(self), living.lost(), Arc::downgrade(&living)));
        Ok(living)
    }

    /// What of a browser is for a seat. One that greenroom starts ends with whoever gives it up; in somebody else's a tab
    /// would stay, so that this is not given up half-way. Each step of it has its own limit.
    async fn browser(&self, folder: &Path) -> Result<Option<SeatBrowser>, StartError> {
        let browser = self.kind.browser(folder);
        if self.kind.is_process() { self.base.loss.unless_declared(browser).await } else { browser.await }
    }

    /// A seat, whole: whoever wants it may be gone meanwhile, and then it has to be closed.
    async fn open(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Result<Box<dyn Seat>, OpenError> {
        let served = self.serve(agent).await;
        // A seat that fails on a lost instance fails because of it; and a loss did not find a process that was just
        // about to be listed.
        let lost = self.base.loss.known();
        match (served, lost) {
            (Ok(living), None) => Ok(Box::new(ProcessSeat::new(living, self.kind.adapter()))),
            (Ok(living), Some(lost)) => {
                living.end().await;
                Err(lost.into())
            }
            (Err(_), Some(lost)) => Err(lost.into()),
            (Err(error), None) => Err(error),
        }
    }

    /// The process for a seat: the one that waits for it, or a new one.
    async fn serve(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Result<Arc<Living>, OpenError> {
        let ready = self.ready.lock().take();
        match ready {
            Some(living) if living.is_well() && self.kind.suits(agent.as_ref()) => return Ok(living),
            Some(unsuitable) => unsuitable.end().await,
            None => {}
        }
        match self.bring_up(agent).await {
            Ok(living) => Ok(living),
            // The instance is its process: without one it is no more, and another may do.
            Err(error) if self.is_process => {
                let lost = Lost::Unwell(error.message.into());
                self.base.loss.declare(lost.clone());
                Err(lost.into())
            }
            // A seat that fails on a dying instance fails because of it.
            Err(error) => match self.kind.gone().await {
                Some(lost) => Err(lost.into()),
                None => Err(error.into()),
            },
        }
    }

    fn living(&self) -> Vec<Arc<Living>> {
        let living = self.living.lock();
        living.iter().filter_map(Weak::upgrade).filter(|living| living.runs()).collect()
    }
}

/// With one slot an end that nobody asked for is the instance's; a page's end is its seat's alone. What the process said
/// goes into the log.
async fn follow(instance: Weak<Shared>, mut lost: watch::Receiver<Option<Lost>>, living: Weak<Living>) {
    let Ok(Some(why)) = lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) else { return };
    // One that nobody holds any more was killed.
    let Some(living) = living.upgrade().filter(|living| !living.is_dismissed()) else { return };
    tracing::warn!(engine = living.name(), pid = living.pid(), %why, "ended unasked");
    let is_page = matches!(why, Lost::Page(_));
    if let Some(instance) = instance.upgrade().filter(|instance| instance.is_process && !is_page) {
        instance.base.loss.declare(why);
    }
}

impl Instance for Processes {
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            self.shared.base.loss.check()?;
            let shared = self.shared.clone();
            self.shared.base.open(async move { shared.open(agent).await }).await
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.shared.base.loss.subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(async move {
            let mut pings = JoinSet::new();
            for living in self.shared.living() {
                let beside_calls = self.shared.kind.answers_beside_calls();
                pings.spawn(async move { living.ping(beside_calls).await });
            }
            while let Some(answer) = pings.join_next().await {
                answer.unwrap_or_else(|_| Err(Unwell("the engine's adapter panicked".into())))?;
            }
            self.shared.kind.ping().await
        })
    }

    fn silent(&self) -> Option<Arc<str>> {
        self.shared.living().iter().find_map(|living| living.silent()).or_else(|| self.shared.kind.silent())
    }

    fn condemn(&self, why: Lost) {
        self.shared.base.loss.declare(why.clone());
        for living in self.shared.living() {
            living.condemn(why.clone());
        }
    }

    fn process_ids(&self) -> Vec<u32> {
        let living = self.shared.living();
        let engines = living.iter().filter_map(|living| living.pid());
        engines.chain(living.iter().filter_map(|living| living.browser_pid())).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.base.loss.declare(Lost::Shutdown);
            // Held until the end: dropped here, it would be killed.
            let _ready = self.shared.ready.lock().take();
            let mut ends = JoinSet::new();
            for living in self.shared.living() {
                ends.spawn(async move { living.stop(grace).await });
            }
            ends.join_all().await;
            self.shared.base.ended().await;
            self.shared.kind.stopped().await;
        })
    }
}
