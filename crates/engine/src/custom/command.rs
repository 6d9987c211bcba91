//! Servers that are started by a command: a process per seat.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Engine, StartError, Toolset};

use super::CustomEngine;
use crate::{
    launcher::Spec,
    process::{Listen, Pipes, Process},
    seat_folder::SeatFolder,
    stdio::{Connection, Kind, SeatBrowser},
    tool_list::{self, ToolsChanged},
};

/// How long a server that was only asked for its tools may take to end by itself.
const STOP_GRACE: Duration = Duration::from_millis(500);

pub(super) struct ByCommand {
    pub(super) engine: CustomEngine,
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
}

pub(super) async fn tools(
    engine: &CustomEngine,
    program: &Path,
    args: &[String],
) -> Result<Toolset, StartError> {
    let (process, pipes) = start(engine, program, args).await?;
    tool_list::tools_of(process, pipes, STOP_GRACE).await
}

async fn start(
    engine: &CustomEngine,
    program: &Path,
    args: &[String],
) -> Result<(Process, Pipes), StartError> {
    let spec = Spec::new(program).args(args).pipes();
    let name = program.file_name().map_or_else(|| "engine".into(), |name| name.to_string_lossy());
    let (process, pipes, _) =
        Process::start(&engine.launcher, &name, spec, Listen::PLAIN).await.map_err(|error| {
            StartError::new(format!("cannot start `{}`: {error}", program.display()))
                .hint("check `pool.command`; the program must exist and be executable")
        })?;
    let pipes = pipes.ok_or_else(|| StartError::new("the engine has no pipes"))?;
    Ok((process, pipes))
}

impl Kind for ByCommand {
    fn connect<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<Connection, StartError>> {
        Box::pin(async move { start(&self.engine, &self.program, &self.args).await.map(Into::into) })
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.engine.run, None)
    }

    fn tools_changed(&self) -> Option<ToolsChanged> {
        Some(self.engine.tools_changed.clone())
    }

    fn suits(&self, agent: &dyn Agent) -> bool {
        self.engine.spare_suits(agent)
    }
}
