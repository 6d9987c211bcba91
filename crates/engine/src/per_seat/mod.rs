//! Instances whose seats are processes, connected over stdio: the devtools engine, every custom engine with a
//! command, and a playwright engine that starts its browser itself. Also instances whose seats are MCP sessions
//! with a running server: custom engines with an address.
//!
//! With one slot the instance *is* its process: the process starts with the instance, so that a broken command fails the
//! start, and its end is the instance's. With more slots, a process is started for each seat. Either way a process serves
//! one seat and ends with it. Some processes have a browser that greenroom observes ([`SeatBrowser`]). If it is an
//! attached one, the instance is that browser, and processes start and end with seats.

mod browser;
mod seat;
mod seat_process;

use std::{
    path::Path,
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use greenroom_core::{
    Agent, BoxFuture, HealthCheckFailed, Instance, Lost, NoAgent, OpenError, Seat, StartError,
};
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
    instance_base::InstanceBase,
    loss::explain_by_exit,
    process::{Pipes, Process},
    seat_folder::SeatFolder,
    tool_list::ToolsChanged,
    upstream::{EngineRequestError, Upstream},
};

pub(crate) use browser::SeatBrowser;
use seat::ProcessSeat;
pub(crate) use seat::{CallAdapter, PassUnchanged};
pub(crate) use seat_process::SeatProcess;

/// The tool that closes a browser, if an engine has it.
pub(crate) const CLOSE_TOOL: &str = "browser_close";

/// A connection to an engine before its first message.
pub(crate) struct EngineConnection {
    peer: Peer,
    inbound: mpsc::Receiver<Inbound>,
    /// The process at its other end, if greenroom started it.
    process: Option<Process>,
}

impl From<(Process, Pipes)> for EngineConnection {
    fn from((process, pipes): (Process, Pipes)) -> Self {
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        Self { peer, inbound, process: Some(process) }
    }
}

impl From<&http::HttpEndpoint> for EngineConnection {
    fn from(server: &http::HttpEndpoint) -> Self {
        let (peer, inbound) = server.connect();
        Self { peer, inbound, process: None }
    }
}

/// How the processes of one engine are made.
pub(crate) trait SeatProcessFactory: Send + Sync + 'static {
    /// Whether an instance with one slot is its process. Otherwise processes start with seats.
    fn is_process(&self) -> bool {
        true
    }
    /// The part of a browser that a process drives for a seat with this folder, if greenroom observes it.
    fn browser<'a>(&'a self, _folder: &'a Path) -> BoxFuture<'a, Result<Option<SeatBrowser>, StartError>> {
        Box::pin(std::future::ready(Ok(None)))
    }
    /// Starts a process for a seat with this folder and this browser; or connects to the server for it.
    fn connect<'a>(
        &'a self,
        folder: &'a Path,
        browser: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<EngineConnection, StartError>>;
    /// Adds to the error which server could not be reached.
    fn unreachable_error(&self, error: StartError) -> StartError {
        error
    }
    /// Makes sure, after the handshake, that a process is ready for its seat.
    fn prepare<'a>(&'a self, _upstream: &'a Upstream) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Resolves when the instance is lost for a reason other than its processes.
    fn ended(&self) -> BoxFuture<'_, Lost> {
        Box::pin(std::future::pending())
    }
    /// The reason if the instance is gone for a reason other than its processes.
    fn gone(&self) -> BoxFuture<'_, Option<Lost>> {
        Box::pin(std::future::ready(None))
    }
    /// Pings what the instance has besides its processes, such as an attached browser.
    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        Box::pin(std::future::ready(Ok(())))
    }
    /// Names what did not answer the last such ping.
    fn silent(&self) -> Option<Arc<str>> {
        None
    }
    fn folder(&self) -> Result<SeatFolder, StartError>;
    /// The callback for changed tools. The tools of an engine whose version and options are fixed do not change.
    fn tools_changed(&self) -> Option<ToolsChanged> {
        None
    }
    /// Whether a process that was started without an agent can serve this agent as well. A process that asks its client
    /// nothing is the same for every agent.
    fn suits(&self, _agent: &dyn Agent) -> bool {
        true
    }
    /// Whether the engine has [`CLOSE_TOOL`]; with `None` greenroom lists its tools to find out.
    fn has_close(&self) -> Option<bool> {
        None
    }
    /// Whether it answers a ping while a call runs. A server that does one thing at a time does not.
    fn answers_ping_during_calls(&self) -> bool {
        false
    }
    /// Called when the instance has stopped and its processes are gone.
    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }
    /// How the calls of a seat are passed on.
    fn adapter(&self) -> Box<dyn CallAdapter> {
        Box::new(PassUnchanged)
    }
}

/// A running instance.
pub(crate) struct ProcessInstance {
    shared: Arc<ProcessInstanceState>,
    /// Watches what the instance has besides its processes.
    _watcher: JoinSet<()>,
}

struct ProcessInstanceState {
    factory: Box<dyn SeatProcessFactory>,
    /// Whether the instance is its process.
    is_process: bool,
    base: InstanceBase,
    /// Set by the first process whose tools were listed. A command may start another program than when its tool list
    /// was cached, so greenroom asks the first process of an instance.
    has_close: OnceLock<bool>,
    /// With one slot: the process that was started with the instance, until its first seat takes it.
    waiting_process: Mutex<Option<Arc<SeatProcess>>>,
    processes: Mutex<Vec<Weak<SeatProcess>>>,
}

impl ProcessInstance {
    pub(crate) async fn start(
        factory: Box<dyn SeatProcessFactory>,
        slots: usize,
    ) -> Result<Arc<dyn Instance>, StartError> {
        let is_process = slots == 1 && factory.is_process();
        let shared = Arc::new(ProcessInstanceState {
            factory,
            is_process,
            base: InstanceBase::default(),
            has_close: OnceLock::new(),
            waiting_process: Mutex::default(),
            processes: Mutex::default(),
        });
        if is_process {
            let waiting_process = shared.start_process(Arc::new(NoAgent)).await?;
            *shared.waiting_process.lock() = Some(waiting_process);
        }
        let mut watcher = JoinSet::new();
        let watched = shared.clone();
        watcher.spawn(async move { watched.base.loss.declare(watched.factory.ended().await) });
        Ok(Arc::new(Self { shared, _watcher: watcher }))
    }
}

impl ProcessInstanceState {
    /// Starts a process, and the browser for it if it needs one, and makes the handshake.
    async fn start_process(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Result<Arc<SeatProcess>, StartError> {
        let folder = self.factory.folder()?;
        let browser = self.browser(folder.path()).await?;
        let connected = async {
            let EngineConnection { peer, inbound, process } =
                self.factory.connect(folder.path(), browser.as_ref()).await?;
            let handshake = async {
                let changed = self.factory.tools_changed();
                let upstream = Upstream::open(peer, inbound, folder.path(), agent, changed).await?;
                self.factory.prepare(&upstream).await?;
                Ok::<_, EngineRequestError>(upstream)
            };
            let upstream = match &process {
                Some(process) => explain_by_exit(process, handshake).await?,
                None => handshake.await.map_err(|failed| self.factory.unreachable_error(failed.into()))?,
            };
            if self.has_close.get().is_none() {
                let listed = upstream.list_tools_at_start().await;
                let has_close = self
                    .factory
                    .has_close()
                    .unwrap_or_else(|| listed.iter().any(|name| &**name == CLOSE_TOOL));
                let _ = self.has_close.set(has_close);
            }
            Ok::<_, StartError>((upstream, process))
        };
        let (upstream, process) = match self.base.loss.unless_declared(connected).await {
            Ok(connected) => connected,
            Err(error) => {
                if let Some(browser) = browser {
                    browser.close_own_tabs().await;
                    browser.stop(Duration::ZERO).await;
                }
                return Err(error);
            }
        };
        let has_close = self.has_close.get().copied().unwrap_or_default();
        let process = Arc::new(SeatProcess::new(process, upstream, folder, browser, has_close));
        let mut all = self.processes.lock();
        all.retain(|process| process.strong_count() > 0);
        all.push(Arc::downgrade(&process));
        drop(all);
        self.base.tasks.spawn(report_unexpected_end(
            Arc::downgrade(self),
            process.lost(),
            Arc::downgrade(&process),
        ));
        Ok(process)
    }

    /// The part of a browser for a seat. A browser that greenroom starts ends when this future is dropped; in an attached
    /// one a tab would stay, so this is not cancelled there. Each step of it has its own limit.
    async fn browser(&self, folder: &Path) -> Result<Option<SeatBrowser>, StartError> {
        let browser = self.factory.browser(folder);
        if self.factory.is_process() { self.base.loss.unless_declared(browser).await } else { browser.await }
    }

    /// Opens a seat. If the instance is lost meanwhile, the seat is closed again.
    async fn open(self: &Arc<Self>, agent: Arc<dyn Agent>) -> Result<Box<dyn Seat>, OpenError> {
        let process = self.process_for_seat(agent).await;
        // If the instance is lost, the loss is the reason why the seat fails. A process that was not listed when the
        // loss was declared has to be ended here.
        let lost = self.base.loss.known();
        match (process, lost) {
            (Ok(process), None) => Ok(Box::new(ProcessSeat::new(process, self.factory.adapter()))),
            (Ok(process), Some(lost)) => {
                process.close_and_stop().await;
                Err(lost.into())
            }
            (Err(_), Some(lost)) => Err(lost.into()),
            (Err(error), None) => Err(error),
        }
    }

    /// The process for a seat: the one that waits for it, or a new one.
    async fn process_for_seat(
        self: &Arc<Self>,
        agent: Arc<dyn Agent>,
    ) -> Result<Arc<SeatProcess>, OpenError> {
        let waiting_process = self.waiting_process.lock().take();
        match waiting_process {
            Some(process) if process.is_healthy() && self.factory.suits(agent.as_ref()) => {
                return Ok(process);
            }
            Some(unsuitable) => unsuitable.close_and_stop().await,
            None => {}
        }
        match self.start_process(agent).await {
            Ok(process) => Ok(process),
            // The instance is its process: without one it is lost, and another instance may work.
            Err(error) if self.is_process => {
                let lost = Lost::HealthCheckFailed(error.message.into());
                self.base.loss.declare(lost.clone());
                Err(lost.into())
            }
            // If the instance is gone, that is the reason why the seat fails.
            Err(error) => match self.factory.gone().await {
                Some(lost) => Err(lost.into()),
                None => Err(error.into()),
            },
        }
    }

    fn running_processes(&self) -> Vec<Arc<SeatProcess>> {
        let processes = self.processes.lock();
        processes.iter().filter_map(Weak::upgrade).filter(|process| process.is_running()).collect()
    }
}

/// Declares the instance lost if it has one slot and its process ended unexpectedly; if only a page ended, only the
/// seat is lost. Logs the reason.
async fn report_unexpected_end(
    instance: Weak<ProcessInstanceState>,
    mut lost: watch::Receiver<Option<Lost>>,
    process: Weak<SeatProcess>,
) {
    let Ok(Some(why)) = lost.wait_for(Option::is_some).await.map(|lost| lost.clone()) else { return };
    // A process without an owner was killed.
    let Some(process) = process.upgrade().filter(|process| !process.is_being_ended()) else { return };
    tracing::warn!(engine = process.name(), pid = process.pid(), %why, "the process ended unexpectedly");
    let is_page = matches!(why, Lost::Page(_));
    if let Some(instance) = instance.upgrade().filter(|instance| instance.is_process && !is_page) {
        instance.base.loss.declare(why);
    }
}

impl Instance for ProcessInstance {
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

    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        Box::pin(async move {
            let mut pings = JoinSet::new();
            for process in self.shared.running_processes() {
                let during_calls = self.shared.factory.answers_ping_during_calls();
                pings.spawn(async move { process.ping(during_calls).await });
            }
            while let Some(answer) = pings.join_next().await {
                answer.unwrap_or_else(|_| Err(HealthCheckFailed("the engine's adapter panicked".into())))?;
            }
            self.shared.factory.ping().await
        })
    }

    fn silent(&self) -> Option<Arc<str>> {
        self.shared
            .running_processes()
            .iter()
            .find_map(|process| process.silent())
            .or_else(|| self.shared.factory.silent())
    }

    fn mark_lost(&self, why: Lost) {
        self.shared.base.loss.declare(why.clone());
        for process in self.shared.running_processes() {
            process.mark_lost(why.clone());
        }
    }

    fn process_ids(&self) -> Vec<u32> {
        let processes = self.shared.running_processes();
        let engines = processes.iter().filter_map(|process| process.pid());
        engines.chain(processes.iter().filter_map(|process| process.browser_pid())).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.base.loss.declare(Lost::Shutdown);
            // This keeps the waiting process until the end of the function: dropping it now would kill it
            // before it is asked to stop.
            let _waiting_process = self.shared.waiting_process.lock().take();
            let mut ends = JoinSet::new();
            for process in self.shared.running_processes() {
                ends.spawn(async move { process.stop(grace).await });
            }
            ends.join_all().await;
            self.shared.base.ended().await;
            self.shared.factory.stopped().await;
        })
    }
}
