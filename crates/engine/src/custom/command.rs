//! Servers that are started by a command: a process per seat.

use std::{path::PathBuf, time::Duration};

use greenroom_core::{StartError, Toolset};

use crate::{
    launcher::{Launcher, ProcessSpec},
    process::{Pipes, Process, StderrParser},
    tool_list,
};

/// How long a server that was only asked for its tools may take to exit.
const STOP_GRACE: Duration = Duration::from_millis(500);

pub(super) struct ServerCommand {
    pub(super) program: PathBuf,
    pub(super) args: Vec<String>,
}

impl ServerCommand {
    pub(super) async fn tools(&self, launcher: &Launcher) -> Result<Toolset, StartError> {
        let (process, pipes) = self.start(launcher).await?;
        tool_list::list_tools_and_stop(process, pipes, STOP_GRACE).await
    }

    pub(super) async fn start(&self, launcher: &Launcher) -> Result<(Process, Pipes), StartError> {
        let program = &self.program;
        let spec = ProcessSpec::new(program).args(&self.args).pipes();
        let name = program.file_name().map_or_else(|| "engine".into(), |name| name.to_string_lossy());
        let (process, pipes, _) =
            Process::start(launcher, &name, spec, StderrParser::DEFAULT).await.map_err(|error| {
                StartError::new(format!("cannot start `{}`: {error}", program.display()))
                    .hint("check `pool.command`; the program must exist and be executable")
            })?;
        let pipes = pipes.ok_or_else(|| StartError::new("the engine has no pipes"))?;
        Ok((process, pipes))
    }
}
