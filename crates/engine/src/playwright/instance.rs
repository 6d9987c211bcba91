//! One Chromium, its observer, and with several slots the Node process that serves them all.

use std::{net::TcpListener, path::PathBuf, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Instance, Lost, OpenError, Seat, StartError, port::human};
use greenroom_mcp::link::{child, http::Endpoint};
use tokio::{
    sync::{Mutex, watch},
    task::JoinSet,
    time::timeout,
};

use super::{PlaywrightEngine, STOP_GRACE, seat::PlaywrightSeat, start_node, with_temp};
use crate::{
    chromium::Chromium,
    custom::{explain, remove_folder, unwritable},
    launcher::Spec,
    observer::Observer,
    ports::PortGuard,
    process::{Pipes, Process},
    upstream::Upstream,
};

/// How long Node may take until it listens. Usual is half a second, on a busy machine a few.
const READY: Duration = Duration::from_secs(20);

/// How often a port is chosen anew when somebody else was faster to take it.
const PORT_TRIES: usize = 3;

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
    pub(super) opening: Mutex<()>,
    folder: PathBuf,
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
        let chromium = Chromium::start(&engine.launcher, &engine.run, &engine.ports, &spec).await?;
        let attached = async {
            let observer = Observer::connect(&chromium.endpoint).await?;
            let node = if engine.options.slots > 1 {
                Some(Server::start(&engine, with_temp(command, &folder), &chromium).await?)
            } else {
                None
            };
            Ok((observer, node))
        };
        let (observer, node) = match attached.await {
            Ok(attached) => attached,
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                remove_folder(&folder).await;
                return Err(error);
            }
        };
        let (lost, lost_receiver) = watch::channel(None);
        let shared =
            Arc::new(Shared { engine, chromium, observer, node, opening: Mutex::new(()), folder, lost });
        let mut watcher = JoinSet::new();
        watcher.spawn(shared.clone().watch());
        Ok(Self { shared, lost: lost_receiver, _watcher: watcher })
    }
}

impl Shared {
    /// Tells everyone when a process of this instance ends.
    async fn watch(self: Arc<Self>) {
        let browser = self.chromium.process();
        let node_ended = async {
            match &self.node {
                Some(node) => node.process.wait().await,
                None => std::future::pending().await,
            }
        };
        let lost = tokio::select! {
            status = browser.wait() => Lost::Browser { status, stderr_tail: browser.last_words() },
            status = node_ended => {
                let stderr_tail = self.node.as_ref().map(|node| node.process.last_words()).unwrap_or_default();
                Lost::Process { status, stderr_tail }
            }
        };
        // A polite stop has already said why.
        self.lost.send_if_modified(|known| {
            let news = known.is_none();
            known.get_or_insert(lost);
            news
        });
    }

    /// A connection to the engine for one seat, with the seat's own process where it has one.
    pub(super) async fn connect(
        &self,
        folder: &std::path::Path,
        agent: Arc<dyn Agent>,
    ) -> Result<(Upstream, Option<Process>), StartError> {
        let changed = self.engine.tools_changed();
        if let Some(node) = &self.node {
            let (peer, inbound) = node.endpoint.connect();
            return Ok((Upstream::open(peer, inbound, folder, agent, changed).await?, None));
        }
        let spec = with_temp(self.engine.command()?, &self.folder).pipes();
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
            if !last.message.contains("EADDRINUSE") {
                break;
            }
        }
        Err(last)
    }
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
            let opened = PlaywrightSeat::open(self.shared.clone(), agent).await;
            match opened {
                Ok(seat) => Ok(Box::new(seat) as Box<dyn Seat>),
                // A seat that fails on a dying instance fails because of it.
                Err(error) => match self.shared.gone().await {
                    Some(lost) => Err(lost.into()),
                    None => Err(error.into()),
                },
            }
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.clone()
    }

    fn process_ids(&self) -> Vec<u32> {
        let node = self.shared.node.as_ref().map(|node| node.process.pid());
        std::iter::once(self.shared.chromium.process().pid()).chain(node).collect()
    }

    fn stop(&self, grace: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            self.shared.lost.send_if_modified(|known| {
                known.get_or_insert(Lost::Shutdown);
                true
            });
            let node = async {
                if let Some(node) = &self.shared.node {
                    node.process.stop(STOP_GRACE).await;
                }
            };
            tokio::join!(node, self.shared.chromium.stop(grace));
            remove_folder(&self.shared.folder).await;
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
        match timeout(EXIT, lost.wait_for(Option::is_some)).await {
            Ok(Ok(lost)) => lost.clone(),
            Ok(Err(_)) | Err(_) => Some(Lost::Protocol("the browser's debugger is gone".into())),
        }
    }
}
