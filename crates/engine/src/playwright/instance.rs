//! One browser, its observer, and the Node process that serves all seats, unless each has its own.

use std::{
    io,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Instance, Lost, OpenError, Seat, StartError, Unwell, port::human};
use greenroom_mcp::link::child;
use tokio::{
    sync::{Mutex, OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    PlaywrightEngine, STOP_GRACE, artifacts::Artifacts, command, own_tabs, preload, pulse::Pulse,
    seat::PlaywrightSeat, server::Server, settle, start_node, window, with_temp,
};
use crate::{
    browser::Wanted,
    downloads::Downloads,
    driven::{Driven, EXIT},
    launcher::Spec,
    loss::{declare, explain},
    observer::Observer,
    process::Process,
    run_folder::{Scratch, unwritable},
    seat_folder::SeatFolder,
    upstream::Upstream,
    vital_processes::VitalProcesses,
};

/// How long a seat may take to open: a handshake with Node and a context. Usual is 20 ms and 130 ms, on a busy machine some
/// seconds. Whoever waits longer hears so and may try again; the instance and its other seats go on.
pub(super) const OPEN: Duration = Duration::from_secs(15);

/// How many seats may be on their way that nobody waits for any more. Each is an MCP session and perhaps a context, which go
/// as soon as the engine has answered. An engine that has not answered so many will not answer one more.
const LATE_MAX: usize = 8;

pub(super) struct PlaywrightInstance {
    shared: Arc<Shared>,
    lost: watch::Receiver<Option<Lost>>,
    /// Waits for the end of either process.
    _watcher: JoinSet<()>,
}

/// What an instance and its seats hold in common.
pub(super) struct Shared {
    pub(super) engine: PlaywrightEngine,
    pub(super) browser: Driven,
    pub(super) observer: Observer,
    /// The downloads of its seats, unless the browser is somebody else's.
    pub(super) downloads: Option<Arc<Downloads>>,
    vital: VitalProcesses,
    /// The Node process of all seats, unless each has its own.
    node: Option<Server>,
    /// What that Node keeps for all of them.
    artifacts: Artifacts,
    pulse: Pulse,
    /// Whose turn it is in a browser's default context; `None` where each seat has a context of its own.
    turns: Option<Arc<Semaphore>>,
    /// Contexts are made one at a time, so that the new one is known to be this seat's.
    pub(super) opening: Mutex<()>,
    /// Seats that are being opened or closed. Neither is ever given up half-way: what a seat has would belong to
    /// nobody then.
    pub(super) tasks: TaskTracker,
    /// How many seats are being opened that nobody waits for any more.
    late: AtomicUsize,
    pub(super) folder: Scratch,
    pub(super) lost: watch::Sender<Option<Lost>>,
}

impl PlaywrightInstance {
    pub(super) async fn start(engine: PlaywrightEngine, wanted: Wanted) -> Result<Self, StartError> {
        // Everything that can be missing is looked for before anything is started.
        let spec = engine.command()?;
        let folder = engine.run.fresh("instances").map_err(|error| unwritable(&engine.run, &error))?;
        write_scripts(&engine, folder.path()).map_err(|error| unwritable(&engine.run, &error))?;
        let downloads = engine.downloads();
        let (browser, observer) = engine.browser(wanted, downloads.clone()).await?;
        let node = if engine.options.own_node {
            None
        } else {
            let spec = in_folder(&engine, spec, folder.path());
            match Server::start(&engine, spec, &browser).await {
                Ok(node) => Some(node),
                Err(error) => {
                    browser.stop(STOP_GRACE).await;
                    return Err(error);
                }
            }
        };
        let (lost, lost_receiver) = watch::channel(None);
        let turns = (!engine.options.isolated).then(|| Arc::new(Semaphore::new(1)));
        let shared = Arc::new(Shared {
            engine,
            browser,
            observer,
            downloads,
            vital: VitalProcesses::default(),
            node,
            artifacts: Artifacts::default(),
            pulse: Pulse::default(),
            turns,
            opening: Mutex::default(),
            tasks: TaskTracker::new(),
            late: AtomicUsize::new(0),
            folder,
            lost,
        });
        let mut watcher = JoinSet::new();
        watcher.spawn(shared.clone().watch());
        watcher.spawn(shared.clone().remove_unannounced_downloads());
        Ok(Self { shared, lost: lost_receiver, _watcher: watcher })
    }
}

impl Shared {
    /// Tells everyone when a process of this instance ends, or its browser can no longer be observed.
    async fn watch(self: Arc<Self>) {
        let node_ended = async {
            match &self.node {
                Some(node) => node.process.wait().await,
                None => std::future::pending().await,
            }
        };
        let (lost, ended) = tokio::select! {
            lost = self.browser.ended(&self.observer) => self.of_browser(lost),
            lost = self.vital.lost(&self.browser, &self.observer) => self.of_browser(lost),
            status = node_ended => {
                let process = self.node.as_ref().map(|node| &node.process);
                (Lost::Process { status, stderr_tail: Arc::default() }, process)
            }
        };
        // What browser and Node last said may come from any page of any session, so no agent hears it; the log does.
        if let Some(process) = ended
            && self.lost.borrow().is_none()
        {
            tracing::warn!(process = process.name(), last_words = %process.last_words(), "ended unasked");
        }
        self.lose(lost);
    }

    /// A loss with the process that ended, if one did. A browser that its engine lost, or that has lost a process of its own,
    /// still runs.
    fn of_browser(&self, lost: Lost) -> (Lost, Option<&Process>) {
        let ended = matches!(lost, Lost::Browser { .. }).then(|| self.browser.process()).flatten();
        (lost, ended)
    }

    /// Declares the instance lost. What was said first stays.
    pub(super) fn lose(&self, lost: Lost) {
        declare(&self.lost, lost);
    }

    /// Resolves when the instance is lost.
    pub(super) async fn until_lost(&self) -> Lost {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(lost)) => lost.clone(),
            Ok(None) | Err(_) => Lost::Shutdown,
        }
    }

    /// Waits for an answer of the engine for as long as the instance lives. That one is late says nothing about the instance:
    /// its health checks do.
    pub(super) async fn unless_lost<T, E: Into<StartError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StartError> {
        tokio::select! {
            biased;
            lost = self.until_lost() => Err(StartError::new(lost.to_string())),
            answer = answer => answer.map_err(Into::into),
        }
    }

    /// What is said of a seat that is not open in time. The engine takes hold of every tab before it says anything, so that
    /// of somebody else's browser one that hangs is enough.
    pub(super) fn too_late(&self) -> StartError {
        let limit = human(OPEN);
        match self.browser.is_attached() {
            true => StartError::new(format!("the engine could not take hold of the browser within {limit}"))
                .hint("a tab there may hang, or show a dialog that waits for an answer"),
            false => StartError::new(format!("the engine did not open a browser context within {limit}")),
        }
    }

    /// Opens a seat to the end. One that nobody waits for any more is closed as soon as it is open.
    async fn open_for(self: Arc<Self>, agent: Arc<dyn Agent>, mut deliver: oneshot::Sender<Opened>) {
        let mut opening = Box::pin(self.clone().open(agent));
        let opened = tokio::select! {
            biased;
            opened = &mut opening => opened,
            () = deliver.closed() => {
                let _late = Late::one_more(&self.late);
                if let Ok(unwanted) = opening.await {
                    Box::new(unwanted).close().await;
                }
                return;
            }
        };
        if let Err(Ok(unwanted)) = deliver.send(opened) {
            Box::new(unwanted).close().await;
        }
    }

    async fn open(self: Arc<Self>, agent: Arc<dyn Agent>) -> Result<PlaywrightSeat, OpenError> {
        match PlaywrightSeat::open(self.clone(), agent).await {
            Ok(seat) => Ok(seat),
            // A seat that fails on a dying instance fails because of it.
            Err(error) => match self.gone().await {
                Some(lost) => Err(lost.into()),
                None => Err(error.into()),
            },
        }
    }

    /// Waits until the browser's default context is nobody's, unless each seat has a context of its own.
    pub(super) async fn turn(&self) -> Result<Option<OwnedSemaphorePermit>, StartError> {
        let Some(turns) = self.turns.clone() else { return Ok(None) };
        tokio::select! {
            biased;
            lost = self.until_lost() => Err(StartError::new(lost.to_string())),
            turn = turns.acquire_owned() => Ok(turn.ok()),
        }
    }

    /// A seat begins to use the engine.
    pub(super) fn seated(&self) {
        self.artifacts.enter();
    }

    /// A seat has ended: its folder goes, but for what other seats of the same Node use.
    pub(super) async fn left(&self, folder: SeatFolder) {
        match self.node {
            Some(_) => self.artifacts.leave(folder).await,
            None => folder.clear().await,
        }
    }

    /// A connection to the engine for one seat, with the seat's own process where it has one.
    pub(super) async fn connect(
        &self,
        folder: &Path,
        agent: Arc<dyn Agent>,
    ) -> Result<(Arc<Upstream>, Option<Process>), StartError> {
        let changed = self.engine.tools_changed();
        if let Some(node) = &self.node {
            let (peer, inbound) = node.endpoint.connect();
            let handshake = Upstream::open(peer, inbound, folder, agent, changed);
            return Ok((Arc::new(self.unless_lost(handshake).await?), None));
        }
        let spec = in_folder(&self.engine, self.engine.command()?, self.folder.path()).pipes();
        let spec = command::attach(spec, &self.browser);
        let (process, pipes, _) = start_node(&self.engine.launcher, spec).await?;
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        let upstream = explain(&process, Upstream::open(peer, inbound, folder, agent, changed)).await?;
        let upstream = Arc::new(upstream);
        self.pulse.add(process.pid(), &upstream);
        Ok((upstream, Some(process)))
    }
}

type Opened = Result<PlaywrightSeat, OpenError>;

/// Counts a seat that nobody waits for any more.
struct Late<'a>(&'a AtomicUsize);

impl<'a> Late<'a> {
    fn one_more(late: &'a AtomicUsize) -> Self {
        late.fetch_add(1, Ordering::Relaxed);
        Self(late)
    }
}

impl Drop for Late<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What the engine is to find in the instance's folder. In a context that is somebody else's nothing is set, not even
/// the size of a page.
fn write_scripts(engine: &PlaywrightEngine, folder: &Path) -> io::Result<()> {
    let options = &engine.options;
    preload::write(folder)?;
    options.emulation.write(folder)?;
    if options.timeout_settle.is_none() {
        settle::write(folder)?;
    }
    match options.has_own_tabs() {
        true => own_tabs::write(folder),
        false => window::write(folder, options.viewport),
    }
}

/// The engine's command with what it finds and keeps in the instance's folder.
fn in_folder(engine: &PlaywrightEngine, command: Spec, folder: &Path) -> Spec {
    let options = &engine.options;
    let command = options.emulation.configure(preload::configure(command, folder), folder);
    if options.has_own_tabs() {
        return with_temp(own_tabs::configure(command, options.timeout_settle, folder), folder);
    }
    let command = if options.isolated { command } else { window::configure(command, folder) };
    with_temp(settle::configure(command, options.timeout_settle, folder), folder)
}

impl Instance for PlaywrightInstance {
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            if let Some(lost) = self.lost.borrow().clone() {
                return Err(lost.into());
            }
            if self.shared.late.load(Ordering::Relaxed) >= LATE_MAX {
                let why = format!("{LATE_MAX} browser contexts are still on their way that took too long");
                return Err(OpenError::Late(StartError::new(why)));
            }
            let (deliver, opened) = oneshot::channel();
            self.shared.tasks.spawn(self.shared.clone().open_for(agent, deliver));
            match timeout(OPEN, opened).await {
                Ok(Ok(opened)) => opened.map(|seat| Box::new(seat) as Box<dyn Seat>),
                Ok(Err(_)) => Err(StartError::new("the engine's adapter panicked").into()),
                Err(_) => Err(OpenError::Late(self.shared.too_late())),
            }
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.clone()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(async move {
            let Shared { pulse, node, observer, vital, folder, .. } = &*self.shared;
            vital.look_again();
            pulse.take(node.as_ref().map(|node| &node.endpoint), observer, folder.path()).await
        })
    }

    fn silent(&self) -> Option<Arc<str>> {
        self.shared.pulse.silent()
    }

    fn condemn(&self, why: Lost) {
        self.shared.lose(why);
    }

    fn process_ids(&self) -> Vec<u32> {
        let node = self.shared.node.as_ref().map(|node| node.process.pid());
        let nodes = node.into_iter().chain(self.shared.pulse.nodes());
        nodes.chain(self.shared.browser.process().map(Process::pid)).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.lose(Lost::Shutdown);
            let node = async {
                if let Some(node) = &self.shared.node {
                    node.process.stop(grace).await;
                }
            };
            tokio::join!(node, self.shared.browser.stop(grace));
            // They see that the instance is lost and hurry.
            self.shared.tasks.close();
            self.shared.tasks.wait().await;
            if self.shared.engine.options.has_own_tabs() {
                let Shared { observer, engine, folder, .. } = &*self.shared;
                crate::own_tabs::leave(observer, &engine.run, folder.path()).await;
            }
            self.shared.folder.clear().await;
        })
    }
}

impl Shared {
    /// Why the instance is gone, if it is: asks the browser itself, since its exit may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        let mut lost = self.lost.subscribe();
        if !self.observer.is_gone().await && lost.borrow().is_none() {
            return None;
        }
        // Whoever watches the processes takes up to `EXIT` itself.
        match timeout(2 * EXIT, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(Lost::Protocol("the browser's debugger is gone".into())),
        }
    }
}
