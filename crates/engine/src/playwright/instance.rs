//! One browser, its observer, and the Node process that serves all seats, unless each has its own.

use std::{io, path::Path, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, HealthCheckFailed, Instance, Lost, OpenError, Seat, StartError, port::human,
};
use greenroom_mcp::link::child;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, watch},
    task::JoinSet,
    time::timeout,
};

use super::{
    NAME, PlaywrightEngine, STDERR_PARSER, STOP_GRACE, command, emulation, health_probe::HealthProbe,
    own_tabs, preload, seat::PlaywrightSeat, server::NodeServer, settle,
    shared_output_folder::SharedOutputFolder, window, with_temp,
};
use crate::{
    browser_handle::BrowserHandle,
    context_ports::ContextPorts,
    downloads::Downloads,
    instance_base::InstanceBase,
    launcher::ProcessSpec,
    loss::explain_by_exit,
    observed_browser::ObservedBrowser,
    observer::Observer,
    process::Process,
    run_folder::{ScratchFolder, unwritable_error},
    seat_folder::SeatFolder,
    upstream::Upstream,
};

/// How long a seat may take to open: a handshake with Node and a context. They usually take 20 ms and 130 ms, on a busy
/// machine some seconds. After that the caller gets an error and may try again; the instance and its other seats go on.
pub(super) const OPEN_WITHIN: Duration = Duration::from_secs(15);

/// How many seats may be opening whose callers have given up. Each is an MCP session and perhaps a context, which are closed
/// as soon as the engine has answered. An engine with so many unanswered calls will not answer one more.
const ABANDONED_OPENINGS_MAX: usize = 8;

pub(super) struct PlaywrightInstance {
    shared: Arc<PlaywrightState>,
    /// Waits for the end of Node, and removes unannounced downloads.
    _watcher: JoinSet<()>,
}

/// What an instance and its seats share.
pub(super) struct PlaywrightState {
    pub(super) engine: PlaywrightEngine,
    pub(super) base: InstanceBase,
    browser: ObservedBrowser,
    /// The downloads of its seats, unless the browser is an attached one.
    pub(super) downloads: Option<Arc<Downloads>>,
    /// The egress ports of its seats, unless the browser is an attached one.
    pub(super) context_ports: Option<Arc<ContextPorts>>,
    /// The Node process of all seats, unless each has its own.
    node: Option<NodeServer>,
    /// The files that this Node keeps for all seats.
    output: SharedOutputFolder,
    health_probe: HealthProbe,
    /// Lets one seat at a time use the browser's default context; `None` if each seat has a context of its own.
    default_context: Option<Arc<Semaphore>>,
    /// Contexts are made one at a time, so that a new one is known to belong to this seat.
    pub(super) opening: Mutex<()>,
    pub(super) folder: ScratchFolder,
}

impl PlaywrightInstance {
    pub(super) async fn start(engine: PlaywrightEngine) -> Result<Self, StartError> {
        // Missing programs and files are detected before anything is started.
        let spec = engine.command()?;
        let folder =
            engine.run.new_folder("instances").map_err(|error| unwritable_error(&engine.run, &error))?;
        write_scripts(&engine, folder.path()).map_err(|error| unwritable_error(&engine.run, &error))?;
        let downloads = engine.downloads();
        let is_started = engine.options.attach.is_none();
        let context_ports = is_started.then(|| engine.context_ports()).transpose()?;
        let (handle, observer) = engine.browser(downloads.clone(), context_ports.clone()).await?;
        let node = if engine.options.settings.tools.r#unsafe {
            None
        } else {
            let spec = with_instance_folder(&engine, spec, folder.path());
            match NodeServer::start(&engine, spec, &handle).await {
                Ok(node) => Some(node),
                Err(error) => {
                    handle.stop(STOP_GRACE).await;
                    return Err(error);
                }
            }
        };
        let base = InstanceBase::default();
        // The instance is lost with its browser.
        let browser = ObservedBrowser::new(handle, observer, base.loss.clone());
        let default_context = (!engine.options.pool.isolated).then(|| Arc::new(Semaphore::new(1)));
        let shared = Arc::new(PlaywrightState {
            engine,
            base,
            browser,
            downloads,
            context_ports,
            node,
            output: SharedOutputFolder::default(),
            health_probe: HealthProbe::default(),
            default_context,
            opening: Mutex::default(),
            folder,
        });
        let mut watcher = JoinSet::new();
        watcher.spawn(shared.clone().follow_node());
        watcher.spawn(shared.clone().remove_unannounced_downloads());
        Ok(Self { shared, _watcher: watcher })
    }
}

impl PlaywrightState {
    pub(super) fn handle(&self) -> &BrowserHandle {
        self.browser.handle()
    }

    pub(super) fn observer(&self) -> &Observer {
        self.browser.observer()
    }

    /// The reason if the instance is gone: asks the browser itself, since its exit may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        self.browser.gone().await
    }

    /// The instance is lost when the Node process that serves all of its seats ends.
    async fn follow_node(self: Arc<Self>) {
        let Some(NodeServer { process, .. }) = &self.node else { return };
        let status = process.wait().await;
        // Node's last output may come from any page of any session, so it goes to the log and to no agent.
        if self.base.loss.known().is_none() {
            tracing::warn!(process = process.name(), last_output = %process.stderr_tail(), "the process ended unexpectedly");
        }
        self.base.loss.declare(Lost::Process { status: status.into(), stderr_tail: Arc::default() });
    }

    /// The error for a seat that is not open in time. The engine attaches to every tab before it answers, so in an attached
    /// browser a single hanging tab delays it.
    pub(super) fn open_timeout_error(&self) -> StartError {
        let limit = human(OPEN_WITHIN);
        match self.handle().is_attached() {
            true => {
                StartError::new(format!("the engine could not attach to the browser's tabs within {limit}"))
                    .hint("a tab there may hang, or show a dialog that waits for an answer")
            }
            false => StartError::new(format!("the engine did not open a browser context within {limit}")),
        }
    }

    async fn open(self: Arc<Self>, agent: Arc<dyn Agent>) -> Result<Box<dyn Seat>, OpenError> {
        match PlaywrightSeat::open(self.clone(), agent).await {
            Ok(seat) => Ok(Box::new(seat)),
            // If the instance is gone, that is the reason why the seat fails.
            Err(error) => match self.gone().await {
                Some(lost) => Err(lost.into()),
                None => Err(error.into()),
            },
        }
    }

    /// Waits until no other seat uses the browser's default context, unless each seat has a context of its own.
    pub(super) async fn acquire_default_context(&self) -> Result<Option<OwnedSemaphorePermit>, StartError> {
        let Some(default_context) = self.default_context.clone() else { return Ok(None) };
        let acquire = async { Ok::<_, StartError>(default_context.acquire_owned().await.ok()) };
        self.base.loss.unless_declared(acquire).await
    }

    /// A seat begins to use the engine.
    pub(super) fn seat_opened(&self) {
        self.output.seat_opened();
    }

    /// A seat has ended: removes its folder, except the part that other seats of the same Node use.
    pub(super) async fn seat_closed(&self, folder: SeatFolder) {
        match self.node {
            Some(_) => self.output.seat_closed(folder).await,
            None => folder.clear().await,
        }
    }

    /// A connection to the engine for one seat, with the seat's own process if it has one.
    pub(super) async fn connect(
        &self,
        folder: &Path,
        agent: Arc<dyn Agent>,
    ) -> Result<(Arc<Upstream>, Option<Process>), StartError> {
        let changed = self.engine.tools_changed();
        if let Some(node) = &self.node {
            let (peer, inbound) = node.endpoint.connect();
            let handshake = Upstream::open(peer, inbound, folder, agent, changed);
            return Ok((Arc::new(self.base.loss.unless_declared(handshake).await?), None));
        }
        let spec = with_instance_folder(&self.engine, self.engine.command()?, self.folder.path());
        let spec = command::connect_to(spec, self.handle());
        let (process, pipes, _) = self.engine.start_node(NAME, spec, STDERR_PARSER).await?;
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        let upstream =
            explain_by_exit(&process, Upstream::open(peer, inbound, folder, agent, changed)).await?;
        let upstream = Arc::new(upstream);
        self.health_probe.add(process.pid(), &upstream);
        Ok((upstream, Some(process)))
    }
}

/// Writes the files that the engine reads from the instance's folder. In a context of the browser's user the engine
/// sets nothing, not even the size of a page.
fn write_scripts(engine: &PlaywrightEngine, folder: &Path) -> io::Result<()> {
    let options = &engine.options;
    preload::write(folder)?;
    emulation::write(&options.pool, folder)?;
    if options.pool.timeout_settle.is_none() {
        settle::write(folder)?;
    }
    match options.has_own_tabs() {
        true => own_tabs::write(folder),
        false => window::write(folder, options.pool.viewport_size),
    }
}

/// The engine's command with the files that it reads from and writes to the instance's folder.
fn with_instance_folder(engine: &PlaywrightEngine, command: ProcessSpec, folder: &Path) -> ProcessSpec {
    let options = &engine.options;
    let command = emulation::configure(preload::configure(command, folder), &options.pool, folder);
    if options.has_own_tabs() {
        return with_temp(own_tabs::configure(command, options.pool.timeout_settle, folder), folder);
    }
    let command = if options.pool.isolated { command } else { window::configure(command, folder) };
    with_temp(settle::configure(command, options.pool.timeout_settle, folder), folder)
}

impl Instance for PlaywrightInstance {
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            let base = &self.shared.base;
            base.loss.check()?;
            if base.abandoned_openings() >= ABANDONED_OPENINGS_MAX {
                let why = format!(
                    "{ABANDONED_OPENINGS_MAX} browser contexts that took too long are still being opened"
                );
                return Err(OpenError::Late(StartError::new(why)));
            }
            let opening = base.open(self.shared.clone().open(agent));
            timeout(OPEN_WITHIN, opening)
                .await
                .unwrap_or_else(|_| Err(OpenError::Late(self.shared.open_timeout_error())))
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.shared.base.loss.subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        Box::pin(async move {
            let PlaywrightState { health_probe, node, browser, folder, .. } = &*self.shared;
            health_probe.check(node.as_ref().map(|node| &node.endpoint), browser, folder.path()).await
        })
    }

    fn silent(&self) -> Option<Arc<str>> {
        self.shared.health_probe.silent(&self.shared.browser)
    }

    fn mark_lost(&self, why: Lost) {
        self.shared.base.loss.declare(why);
    }

    fn process_ids(&self) -> Vec<u32> {
        let node = self.shared.node.as_ref().map(|node| node.process.pid());
        let nodes = node.into_iter().chain(self.shared.health_probe.nodes());
        nodes.chain(self.shared.browser.pid()).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.base.loss.declare(Lost::Shutdown);
            let node = async {
                if let Some(node) = &self.shared.node {
                    node.process.stop(grace).await;
                }
            };
            tokio::join!(node, self.shared.browser.stop(grace));
            // Tasks of seats see that the instance is lost and end soon.
            self.shared.base.ended().await;
            if self.shared.engine.options.has_own_tabs() {
                let PlaywrightState { engine, folder, .. } = &*self.shared;
                crate::own_tabs::close_remaining_tabs(self.shared.observer(), &engine.run, folder.path())
                    .await;
            }
            self.shared.folder.clear().await;
        })
    }
}
