//! Instances whose browser the engine starts, or finds, itself: Firefox, WebKit, the user's own browser through the
//! engine's extension, and browsers of Windows.
//!
//! The instance is one Node process over stdio with one seat. greenroom does not see into such a browser: the view
//! stays empty, and the seat is lost when the process ends. It still goes out through the egress proxy, the user's own
//! browser excepted, which has its way already.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Call, Crash, Instance, Lost, Reply, Seat, StartError, View, port::StoppedDownloads,
};
use tokio::sync::watch;

use super::{
    PlaywrightEngine,
    files::{self, Place},
    linked::SnapshotFiles,
    settle,
    shape::{failed, own_wait, shape},
    start_node, with_temp,
};
use crate::{
    profile::{Profile, unusable},
    run_folder::{Scratch, make_private, unwritable},
    seat_folder::SeatFolder,
    size_limits::{self, SIZE_REFUSED},
    stdio::{Connection, Kind, ProcessSeat, Processes, SeatBrowser},
    tool_list::ToolsChanged,
};

struct Launched {
    engine: PlaywrightEngine,
    /// Where Node keeps what it writes by itself.
    folder: Scratch,
    /// The profile that stays, if there is one; it is this instance's until it has stopped.
    profile: Option<Profile>,
}

/// Starts an instance; the browser comes with its first call.
pub(super) async fn start(engine: PlaywrightEngine) -> Result<Arc<dyn Instance>, StartError> {
    let options = &engine.options;
    let folder = engine.run.fresh("instances").map_err(|error| unwritable(&engine.run, &error))?;
    settle::write(folder.path()).map_err(|error| unwritable(&engine.run, &error))?;
    options.emulation.write(folder.path()).map_err(|error| unwritable(&engine.run, &error))?;
    let profile = match &options.user_data_dir {
        // The user's own browser may well run on it already.
        Some(path) if options.extension && !options.wsl_windows => {
            make_private(path).map_err(|error| unusable(path, &error))?;
            None
        }
        Some(path) if !options.wsl_windows && !options.isolated => Some(Profile::keep(path)?),
        // A path of Windows means nothing here.
        _ => None,
    };
    Processes::start(Box::new(Launched { engine, folder, profile }), 1).await
}

impl Kind for Launched {
    fn connect<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<Connection, StartError>> {
        Box::pin(async move {
            let (options, folder) = (&self.engine.options, self.folder.path());
            let spec = self.engine.command()?.pipes();
            let spec = if options.wsl_windows {
                // Our scripts and folders are not in Windows.
                settle::fixed(spec, options.timeout_settle)
            } else {
                let spec = options.emulation.configure(spec, folder);
                with_temp(settle::configure(spec, options.timeout_settle, folder), folder)
            };
            let (process, pipes, _) = start_node(&self.engine.launcher, spec).await?;
            Ok((process, pipes).into())
        })
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.engine.run, self.engine.options.output_dir.as_deref())
    }

    fn tools_changed(&self) -> Option<ToolsChanged> {
        self.engine.tools_changed()
    }

    fn has_close(&self) -> Option<bool> {
        Some(true)
    }

    fn answers_beside_calls(&self) -> bool {
        true
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            if let Some(profile) = &self.profile {
                profile.clear().await;
            }
        })
    }

    fn seat(&self, seat: ProcessSeat) -> Box<dyn Seat> {
        Box::new(LaunchedSeat {
            seat: Box::new(seat),
            engine: self.engine.clone(),
            snapshots: SnapshotFiles::default(),
        })
    }
}

/// A seat whose files are those of its session, as everywhere.
struct LaunchedSeat {
    seat: Box<ProcessSeat>,
    engine: PlaywrightEngine,
    snapshots: SnapshotFiles,
}

impl LaunchedSeat {
    async fn run(&mut self, mut call: Call, agent: Arc<dyn Agent>) -> Result<Reply, Lost> {
        if let Err(refused) = size_limits::check(&call) {
            return Ok(failed(SIZE_REFUSED, &refused.to_string()));
        }
        let bytes_max = self.engine.options.disk_bytes_max;
        if files::writes(&call)
            && let Err(refused) = self.seat.disk_used().await.check(bytes_max)
        {
            return Ok(failed(refused.code(), &refused.to_string()));
        }
        let place = Place { folder: self.seat.folder(), data: &self.engine.options.data_folder };
        let outgoing = match files::bring_in(&mut call, &place, agent.as_ref()).await {
            Ok(outgoing) => outgoing,
            Err(refused) => return Ok(failed(refused.code(), &refused.to_string())),
        };
        let tool = call.tool.clone();
        let reply = self.seat.call(call, agent).await?;
        Ok(shape(&tool, reply.body, outgoing, self.seat.folder(), &mut self.snapshots).await)
    }
}

impl Seat for LaunchedSeat {
    fn call<'a>(&'a mut self, call: Call, agent: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(self.run(call, agent))
    }

    fn own_wait(&self, call: &Call) -> Duration {
        own_wait(call)
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.seat.lost()
    }

    fn take_crashes(&mut self) -> Vec<Crash> {
        self.seat.take_crashes()
    }

    fn take_stopped_downloads(&mut self) -> Option<StoppedDownloads> {
        self.seat.take_stopped_downloads()
    }

    fn view(&self) -> watch::Receiver<View> {
        self.seat.view()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        self.seat.close()
    }
}
