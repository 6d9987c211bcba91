//! One Chromium, its observer, and with several slots the Node process that serves them all.

use std::{collections::BTreeSet, net::TcpListener, path::Path, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Instance, Lost, OpenError, Seat, StartError, Unwell, port::human, raw::encode,
};
use greenroom_mcp::link::{child, http::Endpoint};
use serde_json::json;
use tokio::{
    sync::{Mutex, oneshot, watch},
    task::JoinSet,
    time::timeout,
};
use tokio_util::task::TaskTracker;

use super::{
    PlaywrightEngine, STOP_GRACE,
    seat::{PlaywrightSeat, failure},
    settle, start_node, with_temp,
};
use crate::{
    chromium::Chromium,
    launcher::Spec,
    loss::explain,
    observer::{Observer, Watched},
    ports::PortGuard,
    process::{Pipes, Process},
    run_folder::{Scratch, unwritable},
    upstream::{self, Upstream},
};

/// How long Node may take until it listens. Usual is half a second, on a busy machine a few.
const READY: Duration = Duration::from_secs(20);

/// How often a port is chosen anew when somebody else was faster to take it.
const PORT_TRIES: usize = 3;

/// How long Node may take to shake hands with one more seat, and to make its context. Usual is 20 ms and 130 ms,
/// on a busy machine some seconds; a Node that needs longer hangs, and with it all its seats.
const ANSWER: Duration = Duration::from_secs(15);

pub(super) struct PlaywrightInstance {
    shared: Arc<Shared>,
    lost: watch::Receiver<Option<Lost>>,
    /// Waits for the end of either process.
    _watcher: JoinSet<()>,
}

/// What an instance and its seats hold in common.
pub(super) struct Shared {
    pub(super) engine: PlaywrightEngine,
    pub(super) chromium: Chromium,
    pub(super) observer: Observer,
    /// The Node process of all seats; with one slot the seat has its own.
    node: Option<Server>,
    /// Contexts are made one at a time, so that the new one is known to be this seat's.
    opening: Mutex<()>,
    /// Seats that are being opened or closed. Neither is ever given up half-way: what a seat has would belong to
    /// nobody then.
    pub(super) tasks: TaskTracker,
    folder: Scratch,
    pub(super) lost: watch::Sender<Option<Lost>>,
}

struct Server {
    process: Process,
    endpoint: Endpoint,
    /// Unused, but open: Node is not to find its standard streams closed.
    _pipes: Pipes,
    _port: PortGuard,
}

impl PlaywrightInstance {
    pub(super) async fn start(engine: PlaywrightEngine) -> Result<Self, StartError> {
        // Everything that can be missing is looked for before anything is started.
        let command = engine.command()?;
        let spec = engine.chromium()?;
        let folder = engine.run.fresh("instances").map_err(|error| unwritable(&engine.run, &error))?;
        settle::write(folder.path()).map_err(|error| unwritable(&engine.run, &error))?;
        let chromium = Chromium::start(&engine.launcher, &engine.run, &engine.ports, &spec).await?;
        let attached = async {
            let observer = Observer::connect(&chromium.endpoint).await?;
            let node = if engine.options.slots > 1 {
                let command = in_folder(&engine, command, folder.path());
                Some(Server::start(&engine, command, &chromium).await?)
            } else {
                None
            };
            Ok((observer, node))
        };
        let (observer, node) = match attached.await {
            Ok(attached) => attached,
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                return Err(error);
            }
        };
        let (lost, lost_receiver) = watch::channel(None);
        let (opening, tasks) = (Mutex::default(), TaskTracker::new());
        let shared = Arc::new(Shared { engine, chromium, observer, node, opening, tasks, folder, lost });
        let mut watcher = JoinSet::new();
        watcher.spawn(shared.clone().watch());
        Ok(Self { shared, lost: lost_receiver, _watcher: watcher })
    }
}

impl Shared {
    /// Tells everyone when a process of this instance ends, or its browser can no longer be observed.
    async fn watch(self: Arc<Self>) {
        let browser = self.chromium.process();
        let node_ended = async {
            match &self.node {
                Some(node) => node.process.wait().await,
                None => std::future::pending().await,
            }
        };
        let (lost, ended) = tokio::select! {
            status = browser.wait() => (Lost::Browser { status, stderr_tail: Arc::default() }, Some(browser)),
            status = node_ended => {
                let process = self.node.as_ref().map(|node| &node.process);
                (Lost::Process { status, stderr_tail: Arc::default() }, process)
            }
            () = self.observer.ended() => match timeout(EXIT, browser.wait()).await {
                Ok(status) => (Lost::Browser { status, stderr_tail: Arc::default() }, Some(browser)),
                Err(_) => (Lost::Protocol("the browser's debugger is gone".into()), None),
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

    /// Declares the instance lost. What was said first stays.
    fn lose(&self, lost: Lost) {
        self.lost.send_if_modified(|known| {
            let news = known.is_none();
            known.get_or_insert(lost);
            news
        });
    }

    /// Resolves when the instance is lost.
    pub(super) async fn until_lost(&self) -> Lost {
        let mut lost = self.lost.subscribe();
        match lost.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(lost)) => lost.clone(),
            Ok(None) | Err(_) => Lost::Shutdown,
        }
    }

    /// Waits for an answer of the engine. One that does not come means that it hangs, and the instance is lost.
    async fn answer<T, E: Into<StartError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, StartError> {
        tokio::select! {
            biased;
            lost = self.until_lost() => Err(StartError::new(lost.to_string())),
            answer = timeout(ANSWER, answer) => match answer {
                Ok(answer) => answer.map_err(Into::into),
                Err(_) => {
                    let hung = Lost::Hung(ANSWER);
                    self.lose(hung.clone());
                    Err(StartError::new(hung.to_string()))
                }
            },
        }
    }

    /// Looks whether the engine still answers anybody, and declares the instance lost if not.
    pub(super) async fn check_engine(&self) {
        if let Some(node) = &self.node {
            let (peer, _inbound) = node.endpoint.connect();
            if self.answer(upstream::initialize(&peer, encode(&json!({})))).await.is_ok() {
                peer.close().await;
            }
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

    /// Has the engine make a context for a seat, and learns which one it is. Contexts are made one at a time in
    /// an instance, so the one that is new is this seat's.
    pub(super) async fn new_context(
        &self,
        upstream: &Upstream,
        agent: Arc<dyn Agent>,
    ) -> Result<(String, Watched), StartError> {
        let _turn = self.opening.lock().await;
        let gone = || StartError::new("the browser is gone");
        let before = self.observer.sync().await.ok_or_else(gone)?;
        let list = encode(&json!({ "name": "browser_tabs", "arguments": { "action": "list" } }));
        let listed =
            async { upstream.call(&list, agent).await.map_err(|gone| StartError::new(gone.to_string())) };
        if let Err(text) = failure(&self.answer(listed).await?) {
            return Err(StartError::new(format!("the engine cannot make a context: {text}")));
        }
        let after = self.observer.sync().await.ok_or_else(gone)?;
        let new: BTreeSet<_> = after.difference(&before).collect();
        let context = match (new.first(), new.len()) {
            (Some(context), 1) => (*context).clone(),
            (_, count) => {
                return Err(StartError::new(format!("the engine made {count} contexts instead of one")));
            }
        };
        let watched = self.observer.watch(&context).await.ok_or_else(gone)?;
        Ok((context, watched))
    }

    /// A connection to the engine for one seat, with the seat's own process where it has one.
    pub(super) async fn connect(
        &self,
        folder: &Path,
        agent: Arc<dyn Agent>,
    ) -> Result<(Upstream, Option<Process>), StartError> {
        let changed = self.engine.tools_changed();
        if let Some(node) = &self.node {
            let (peer, inbound) = node.endpoint.connect();
            let handshake = Upstream::open(peer, inbound, folder, agent, changed);
            return Ok((self.answer(handshake).await?, None));
        }
        let spec = in_folder(&self.engine, self.engine.command()?, self.folder.path()).pipes();
        let (process, pipes, _) = start_node(&self.engine.launcher, attach(spec, &self.chromium)).await?;
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        let upstream = explain(&process, Upstream::open(peer, inbound, folder, agent, changed)).await?;
        Ok((upstream, Some(process)))
    }
}

impl Server {
    async fn start(
        engine: &PlaywrightEngine,
        command: Spec,
        chromium: &Chromium,
    ) -> Result<Self, StartError> {
        let mut last = StartError::new("no free port");
        for _ in 0..PORT_TRIES {
            // The port is closed to browsers before anything listens there, so it is chosen here and not by Node.
            let port = free_port().map_err(|error| StartError::new(format!("no free port: {error}")))?;
            let guard = engine.ports.hold(port).map_err(|error| unwritable(&engine.run, &error))?;
            let spec = attach(command.clone(), chromium)
                .args(["--host", "127.0.0.1", "--port"])
                .arg(port.to_string())
                // The engine would end a session whose pings go unanswered; we watch it ourselves.
                .env("PLAYWRIGHT_MCP_PING_TIMEOUT_MS", "0")
                .pipes();
            let (process, pipes, ready) = start_node(&engine.launcher, spec).await?;
            let address = explain(&process, async {
                match timeout(READY, ready).await {
                    Ok(Ok(address)) => Ok(address),
                    Ok(Err(_)) => Err(StartError::new("the engine ended before it listened")),
                    Err(_) => {
                        Err(StartError::new(format!("the engine did not listen within {}", human(READY))))
                    }
                }
            });
            match address.await {
                Ok(address) => {
                    let uri = format!("{address}/mcp").parse().map_err(|_| {
                        StartError::new(format!("the engine listens on a strange address: `{address}`"))
                    })?;
                    return Ok(Self { process, endpoint: Endpoint::new(uri), _pipes: pipes, _port: guard });
                }
                Err(error) => last = error,
            }
            // Another try helps only if somebody else was faster to take the port.
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break;
            }
        }
        Err(last)
    }
}

/// The engine's command with what it finds and keeps in the instance's folder.
fn in_folder(engine: &PlaywrightEngine, command: Spec, folder: &Path) -> Spec {
    with_temp(settle::configure(command, engine.options.timeout_settle, folder), folder)
}

fn attach(spec: Spec, chromium: &Chromium) -> Spec {
    spec.arg("--cdp-endpoint").arg(&chromium.endpoint)
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

impl Instance for PlaywrightInstance {
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            if let Some(lost) = self.lost.borrow().clone() {
                return Err(lost.into());
            }
            let (deliver, opened) = oneshot::channel();
            let shared = self.shared.clone();
            self.shared.tasks.spawn(async move {
                if let Err(Ok(unwanted)) = deliver.send(shared.open(agent).await) {
                    Box::new(unwanted).close().await;
                }
            });
            match opened.await {
                Ok(opened) => opened.map(|seat| Box::new(seat) as Box<dyn Seat>),
                Err(_) => Err(StartError::new("the engine's adapter panicked").into()),
            }
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.clone()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(async move {
            match self.shared.observer.sync().await {
                Some(_) => Ok(()),
                None => Err(Unwell("the browser's debugger is gone".into())),
            }
        })
    }

    fn process_ids(&self) -> Vec<u32> {
        let node = self.shared.node.as_ref().map(|node| node.process.pid());
        std::iter::once(self.shared.chromium.process().pid()).chain(node).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.lose(Lost::Shutdown);
            let node = async {
                if let Some(node) = &self.shared.node {
                    node.process.stop(STOP_GRACE).await;
                }
            };
            tokio::join!(node, self.shared.chromium.stop(grace));
            // They see that the instance is lost and hurry.
            self.shared.tasks.close();
            self.shared.tasks.wait().await;
            self.shared.folder.clear().await;
        })
    }
}

/// How long a dying browser may take until its exit is seen. Its debugger's connection ends at the same moment,
/// and whoever saw that waits here for the better explanation.
const EXIT: Duration = Duration::from_secs(2);

impl Shared {
    /// Why the instance is gone, if it is: asks the browser itself, since its exit may not have been seen yet.
    pub(super) async fn gone(&self) -> Option<Lost> {
        let mut lost = self.lost.subscribe();
        if self.observer.sync().await.is_some() && lost.borrow().is_none() {
            return None;
        }
        // Whoever watches the processes takes up to `EXIT` itself.
        match timeout(2 * EXIT, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(Lost::Protocol("the browser's debugger is gone".into())),
        }
    }
}
