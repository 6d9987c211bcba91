//! The custom engine: any MCP server that is started by a command and speaks over stdio.
//!
//! Each seat is a process of its own, so sessions are as far apart as processes are; see [`crate::stdio`].

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Engine, Instance, InstanceId, Seat, StartError, Toolset};

use crate::{
    launcher::{Launcher, Spec},
    process::{Listen, Pipes, Process},
    run_folder::RunFolder,
    seat_folder::SeatFolder,
    stdio::{Kind, ProcessSeat, Processes, SeatBrowser},
    upstream::{self, ToolsChanged},
};

/// How long a server that was only asked for its tools may take to end by itself.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// A server to be started by command.
#[derive(Clone)]
pub struct CustomEngine {
    pub program: PathBuf,
    pub args: Vec<String>,
    /// How many seats an instance has. With one the instance is its process.
    pub slots: usize,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub tools_changed: ToolsChanged,
}

impl CustomEngine {
    async fn start_process(&self) -> Result<(Process, Pipes), StartError> {
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
            let (process, pipes) = self.start_process().await?;
            upstream::tools_of(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(Processes::start(Box::new(self.clone()), self.slots))
    }

    /// A server hears once, in the handshake, what it may ask. One that was told of nobody must not serve an agent
    /// that could be asked.
    fn spare_suits(&self, agent: &dyn Agent) -> bool {
        !upstream::may_be_asked(agent)
    }
}

impl Kind for CustomEngine {
    fn spawn<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<(Process, Pipes), StartError>> {
        Box::pin(self.start_process())
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.run, None)
    }

    fn tools_changed(&self) -> Option<ToolsChanged> {
        Some(self.tools_changed.clone())
    }

    fn suits(&self, agent: &dyn Agent) -> bool {
        self.spare_suits(agent)
    }

    fn has_close(&self) -> Option<bool> {
        None
    }

    fn answers_beside_calls(&self) -> bool {
        false
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    fn seat(&self, seat: ProcessSeat) -> Box<dyn Seat> {
        Box::new(seat)
    }
}
