//! The custom engine: any MCP server that is started by a command and speaks over stdio.
//!
//! Each seat is a process of its own, so sessions are as far apart as processes are. There is no browser that
//! greenroom could watch; a seat is lost when its process ends.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use greenroom_core::{
    Agent, BoxFuture, Call, Engine, Instance, InstanceId, Lost, OpenError, Reply, Seat, StartError, Toolset,
    Unwell, View,
};
use greenroom_mcp::link::child;
use tokio::sync::watch;

use crate::{
    launcher::{Launcher, Spec},
    loss::{explain, lost_with, settle},
    process::{Listen, Pipes, Process},
    run_folder::{RunFolder, Scratch, unwritable},
    upstream::{self, ToolsChanged, Upstream},
};

/// How long a server may take to end by itself once its stdin is closed.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// A server to be started by command.
#[derive(Clone)]
pub struct CustomEngine {
    pub program: PathBuf,
    pub args: Vec<String>,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub tools_changed: ToolsChanged,
}

impl CustomEngine {
    async fn spawn(&self) -> Result<(Process, Pipes), StartError> {
        let spec = Spec::new(&self.program).args(&self.args).pipes();
        let name = self.program.file_name().map_or_else(|| "engine".into(), |name| name.to_string_lossy());
        let (process, pipes, _) =
            Process::start(&self.launcher, &name, spec, Listen::PLAIN).await.map_err(|error| {
                StartError::new(format!("cannot start `{}`: {error}", self.program.display()))
                    .hint("check `pool.command`; the program must exist and be executable")
            })?;
        let pipes = pipes.ok_or_else(|| StartError::new("the engine has no pipes"))?;
        Ok((process, pipes))
    }
}

impl Engine for CustomEngine {
    fn fingerprint(&self) -> String {
        format!("custom {} {}", self.program.display(), self.args.join(" "))
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let (process, pipes) = self.spawn().await?;
            upstream::tools_of(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        let engine = self.clone();
        Box::pin(async move {
            let (lost, _) = watch::channel(None);
            let looked = AtomicBool::new(false);
            Ok(Arc::new(CustomInstance { engine, lost, looked }) as Arc<dyn Instance>)
        })
    }

    /// A server hears once, in the handshake, what it may ask. One that was told of nobody must not serve an agent
    /// that could be asked.
    fn spare_suits(&self, agent: &dyn Agent) -> bool {
        !upstream::may_be_asked(agent)
    }
}

/// A place where seats are opened; the processes are theirs.
struct CustomInstance {
    engine: CustomEngine,
    lost: watch::Sender<Option<Lost>>,
    /// Whether the tools have been looked at. A command can mean another program than it did when its list was kept,
    /// so the first process of an instance is asked.
    looked: AtomicBool,
}

impl CustomInstance {
    async fn open_in(&self, folder: &Path, agent: Arc<dyn Agent>) -> Result<(Upstream, Process), StartError> {
        let engine = &self.engine;
        let (process, pipes) = engine.spawn().await?;
        let (peer, inbound) = child::connect(pipes.stdin, pipes.stdout);
        let handshake = Upstream::open(peer, inbound, folder, agent, Some(engine.tools_changed.clone()));
        let upstream = explain(&process, handshake).await?;
        if !self.looked.swap(true, Ordering::Relaxed) {
            upstream.look_at_tools().await;
        }
        Ok((upstream, process))
    }
}

impl Instance for CustomInstance {
    fn open(&self, agent: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async move {
            let run = &self.engine.run;
            let folder = run.fresh("seats").map_err(|error| unwritable(run, &error))?;
            let (upstream, process) = self.open_in(folder.path(), agent).await?;
            let (view, _) = watch::channel(View::default());
            Ok(Box::new(CustomSeat { upstream, lost: lost_with(&process), process, folder, view })
                as Box<dyn Seat>)
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn stop(&self, _: Duration) -> BoxFuture<'_, ()> {
        self.lost.send_replace(Some(Lost::Shutdown));
        Box::pin(std::future::ready(()))
    }
}

struct CustomSeat {
    upstream: Upstream,
    process: Process,
    lost: watch::Receiver<Option<Lost>>,
    folder: Scratch,
    view: watch::Sender<View>,
}

impl Seat for CustomSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(async move {
            let mut lost = self.lost.clone();
            let gone = tokio::select! {
                answer = self.upstream.call(&call.params, agent) => match answer {
                    Ok(body) => return Ok(Reply { body, artifacts: Vec::new() }),
                    Err(gone) => gone,
                },
                lost = lost.wait_for(Option::is_some) => return Err(lost.ok().and_then(|lost| lost.clone()).unwrap_or(Lost::Shutdown)),
            };
            Err(settle(&mut lost, gone).await)
        })
    }

    fn own_wait(&self, _: &Call) -> Duration {
        Duration::ZERO
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.clone()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.view.subscribe()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let Self { upstream, process, folder, .. } = *self;
            upstream.close().await;
            drop(upstream);
            process.stop(STOP_GRACE).await;
            folder.clear().await;
        })
    }
}
