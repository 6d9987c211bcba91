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
    View, raw::encode,
};
use greenroom_mcp::{Gone, link::child};
use serde_json::json;
use tokio::sync::watch;

use crate::{
    launcher::{Launcher, Spec},
    process::{Pipes, Process},
    run_folder::RunFolder,
    upstream::{self, Failed, ToolsChanged, Upstream},
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
            Process::start(&self.launcher, &name, spec, |_| None).await.map_err(|error| {
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
            let (peer, _inbound) = child::connect(pipes.stdin, pipes.stdout);
            let listed = async {
                upstream::initialize(&peer, encode(&json!({}))).await?;
                upstream::list_tools(&peer).await
            };
            let listed = explain(&process, listed).await;
            drop(peer);
            process.stop(STOP_GRACE).await;
            listed
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
}

/// Says how the process ended when a handshake failed because it did. An answer that was no good is told as it is:
/// the process may well end now, because nobody talks to it any more.
pub(crate) async fn explain<T, E: Into<Failed>>(
    process: &Process,
    attempt: impl Future<Output = Result<T, E>>,
) -> Result<T, StartError> {
    tokio::select! {
        biased;
        done = attempt => match done.map_err(Into::into) {
            Ok(value) => Ok(value),
            Err(Failed::Answer(error)) => Err(error),
            Err(Failed::Gone(error)) => match tokio::time::timeout(Duration::from_millis(500), process.wait()).await {
                Ok(status) => Err(died(process, &status)),
                Err(_) => Err(error),
            }
        },
        status = process.wait() => Err(died(process, &status)),
    }
}

fn died(process: &Process, status: &str) -> StartError {
    let lost = Lost::Process { status: status.into(), stderr_tail: process.last_words() };
    StartError::new(format!("`{}`: {lost}", process.name()))
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
            let (upstream, process) = match self.open_in(&folder, agent).await {
                Ok(opened) => opened,
                Err(error) => {
                    remove_folder(&folder).await;
                    return Err(error.into());
                }
            };
            let (view, _) = watch::channel(View::default());
            Ok(Box::new(CustomSeat { upstream, lost: lost_with(&process), process, folder, view })
                as Box<dyn Seat>)
        })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.lost.subscribe()
    }

    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn stop(&self, _: Duration) -> BoxFuture<'_, ()> {
        self.lost.send_replace(Some(Lost::Shutdown));
        Box::pin(std::future::ready(()))
    }
}

/// What to say when the data folder cannot be written.
pub(crate) fn unwritable(run: &RunFolder, error: &std::io::Error) -> StartError {
    StartError::new(format!("cannot write to the data folder: {error}: `{}`", run.path().display()))
        .hint("free some space or set GREENROOM_DATA_DIR to a folder that can be written")
}

/// A watch that becomes `Some` when the process ends.
pub(crate) fn lost_with(process: &Process) -> watch::Receiver<Option<Lost>> {
    let (sender, receiver) = watch::channel(None);
    let mut exit = process.exit();
    let tail = process.tail();
    tokio::spawn(async move {
        tokio::select! {
            exited = exit.wait_for(Option::is_some) => {
                let status = exited.ok().and_then(|exit| exit.clone()).unwrap_or_default();
                sender.send_replace(Some(Lost::Process { status, stderr_tail: tail.text().into() }));
            }
            () = sender.closed() => {}
        }
    });
    receiver
}

struct CustomSeat {
    upstream: Upstream,
    process: Process,
    lost: watch::Receiver<Option<Lost>>,
    folder: PathBuf,
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
                lost = lost.wait_for(Option::is_some) => return Err(why(lost.ok().and_then(|lost| lost.clone()))),
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
            remove_folder(&folder).await;
        })
    }
}

fn why(lost: Option<Lost>) -> Lost {
    lost.unwrap_or(Lost::Shutdown)
}

/// A connection that closed usually means a process that is just ending: its exit tells more.
pub(crate) async fn settle(lost: &mut watch::Receiver<Option<Lost>>, gone: Gone) -> Lost {
    match tokio::time::timeout(Duration::from_secs(2), lost.wait_for(Option::is_some)).await {
        Ok(Ok(lost)) => why(lost.clone()),
        Ok(Err(_)) | Err(_) => Lost::Protocol(gone.to_string().into()),
    }
}

/// Removes a seat's folder; what cannot be removed goes with the run folder.
pub(crate) async fn remove_folder(folder: &Path) {
    if let Err(error) = tokio::fs::remove_dir_all(folder).await {
        tracing::debug!(%error, folder = %folder.display(), "cannot remove a seat's folder");
    }
}
