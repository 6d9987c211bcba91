//! Instances whose browser the engine starts, or finds, itself: Firefox, WebKit, the user's own browser through the
//! engine's extension, and browsers of Windows.
//! The instance is one Node process over stdio with one seat. greenroom cannot observe such a browser: the view stays empty,
//! and the seat is lost when the process ends. Its traffic still goes through the egress proxy, except that of the user's
//! own browser, which has its own network settings.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Call, Instance, Lost, Reply, StartError};

use super::{
    NAME, PlaywrightEngine, STDERR_PARSER, emulation,
    file_links::SnapshotFiles,
    files::{self, SessionFolders},
    reply::{own_wait, to_reply},
    settle, with_temp,
};
use crate::{
    EngineOptions,
    per_seat::{
        CallAdapter, EngineConnection, ProcessInstance, SeatBrowser, SeatProcess, SeatProcessFactory,
    },
    profile::{Profile, unusable_profile},
    run_folder::{ScratchFolder, make_private, unwritable_error},
    seat_folder::SeatFolder,
    tool_list::ToolsChanged,
};

struct EngineStartedFactory {
    engine: PlaywrightEngine,
    /// Where Node keeps its own files.
    folder: ScratchFolder,
    /// The persistent profile, if there is one; this instance holds it until it has stopped.
    profile: Option<Profile>,
}

/// Starts an instance; the engine starts the browser with the first call.
pub(super) async fn start(engine: PlaywrightEngine) -> Result<Arc<dyn Instance>, StartError> {
    let options = &engine.options;
    let folder = engine.run.new_folder("instances").map_err(|error| unwritable_error(&engine.run, &error))?;
    settle::write(folder.path()).map_err(|error| unwritable_error(&engine.run, &error))?;
    emulation::write(&options.pool, folder.path()).map_err(|error| unwritable_error(&engine.run, &error))?;
    let profile = match &options.profile {
        // The user's own browser may be using the profile, so greenroom does not lock it.
        Some(path) if options.pool.extension && !options.pool.wsl_windows => {
            make_private(path).map_err(|error| unusable_profile(path, &error))?;
            None
        }
        Some(path) if !options.pool.wsl_windows && !options.pool.isolated => {
            Some(Profile::open_persistent(path)?)
        }
        // greenroom locks no profile for isolated sessions, and none at a path of Windows, which it cannot open.
        _ => None,
    };
    ProcessInstance::start(Box::new(EngineStartedFactory { engine, folder, profile }), 1).await
}

impl SeatProcessFactory for EngineStartedFactory {
    fn connect<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<EngineConnection, StartError>> {
        Box::pin(async move {
            let options = &self.engine.options;
            let folder = self.folder.path();
            let spec = self.engine.command()?;
            let spec = if options.pool.wsl_windows {
                // A Node on Windows cannot read greenroom's scripts, so it waits a fixed time.
                settle::configure_fixed_wait(spec, options.pool.timeout_settle)
            } else {
                let spec = emulation::configure(spec, &options.pool, folder);
                with_temp(settle::configure(spec, options.pool.timeout_settle, folder), folder)
            };
            let (process, pipes, _) = self.engine.start_node(NAME, spec, STDERR_PARSER).await?;
            Ok((process, pipes).into())
        })
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        self.engine.seat_folder()
    }

    fn tools_changed(&self) -> Option<ToolsChanged> {
        self.engine.tools_changed()
    }

    fn has_close(&self) -> Option<bool> {
        Some(true)
    }

    fn answers_ping_during_calls(&self) -> bool {
        true
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(profile) = &self.profile {
                profile.clear().await;
            }
        })
    }

    fn adapter(&self) -> Box<dyn CallAdapter> {
        Box::new(EngineStartedCalls {
            options: self.engine.options.clone(),
            snapshots: SnapshotFiles::default(),
        })
    }
}

/// The calls of a seat, which use the files of its session only.
struct EngineStartedCalls {
    options: Arc<EngineOptions>,
    snapshots: SnapshotFiles,
}

impl EngineStartedCalls {
    async fn run(
        &mut self,
        process: &SeatProcess,
        mut call: Call,
        agent: Arc<dyn Agent>,
    ) -> Result<Reply, Lost> {
        let folders = SessionFolders { folder: process.folder(), data: &self.options.settings.data_dir };
        let used = process.disk_used();
        let bytes_max = self.options.disk_bytes_max();
        let outgoing = match files::check_and_rewrite_files(
            &mut call,
            &folders,
            used,
            bytes_max,
            agent.as_ref(),
        )
        .await
        {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(refused.into()),
        };
        let tool = call.tool.clone();
        let reply = process.forward_call(call, agent).await?;
        Ok(to_reply(&tool, reply.body, outgoing, process.folder(), &mut self.snapshots).await)
    }
}

impl CallAdapter for EngineStartedCalls {
    fn run<'a>(
        &'a mut self,
        process: &'a SeatProcess,
        call: Call,
        agent: Arc<dyn Agent>,
    ) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(process, call, agent))
    }

    fn own_wait(&self, call: &Call) -> Duration {
        own_wait(call)
    }
}
