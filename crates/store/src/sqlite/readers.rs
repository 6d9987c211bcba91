//! Connections that read while the writer writes, and never hold it up.
//!
//! Each read runs on a blocking thread, with a connection that is kept for the next. A read before the database is open
//! waits until it is.

use std::{path::PathBuf, sync::Arc, time::Duration};

use greenroom_core::record::Unreadable;
use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::{
    sync::Semaphore,
    time::{Instant, timeout_at},
};

use super::{Failure, open};
use crate::shared::{DatabasePhase, StoreShared};

/// How many reads run at once. A read computes more than it waits, and greenroom leaves most cores to
/// browsers.
const READERS_MAX: usize = 4;

/// How long a read waits for its turn. Reads take milliseconds; an agent that waits this long gets an error.
const TURN_WITHIN: Duration = Duration::from_secs(10);

pub(crate) struct Readers {
    folder: PathBuf,
    turns: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<(u64, Connection)>>>,
    shared: Arc<StoreShared>,
}

impl Readers {
    pub(crate) fn new(folder: PathBuf, shared: Arc<StoreShared>) -> Self {
        Self { folder, turns: Arc::new(Semaphore::new(READERS_MAX)), idle: Arc::default(), shared }
    }

    /// Runs `read` on a blocking thread, with a connection to the open database.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, Unreadable> {
        let give_up = Instant::now() + TURN_WITHIN;
        let generation = timeout_at(give_up, self.opened()).await.map_err(|_| too_long())??;
        let turn = timeout_at(give_up, self.turns.clone().acquire_owned())
            .await
            .map_err(|_| too_long())?
            .map_err(|_| Unreadable(Arc::from("greenroom is shutting down")))?;
        let folder = self.folder.clone();
        let idle = self.idle.clone();
        let outcome = tokio::task::spawn_blocking(move || {
            let _turn = turn;
            let connection = match take(&idle, generation) {
                Some(connection) => connection,
                None => open::reader(&folder)?,
            };
            let outcome = read(&connection)?;
            // A connection whose read failed is not kept: the next read begins with a new one.
            lock(&idle).push((generation, connection));
            Ok(outcome)
        });
        let outcome: Result<T, Failure> =
            outcome.await.map_err(|error| Unreadable(Arc::from(error.to_string())))?;
        outcome.map_err(|failure| Unreadable(Arc::from(failure.to_string())))
    }

    /// Waits until the database is open.
    async fn opened(&self) -> Result<u64, Unreadable> {
        let mut phase = self.shared.phase.subscribe();
        let decided = phase
            .wait_for(|phase| !matches!(phase, DatabasePhase::Opening))
            .await
            .map_err(|_| Unreadable(Arc::from("greenroom is shutting down")))?;
        match &*decided {
            DatabasePhase::Open(generation) => Ok(*generation),
            DatabasePhase::Shut(why) => Err(Unreadable(why.clone())),
            DatabasePhase::Opening | DatabasePhase::Ended => {
                Err(Unreadable(Arc::from("greenroom is shutting down")))
            }
        }
    }

    /// Closes the idle connections. No further read begins.
    pub(crate) fn close(&self) {
        self.turns.close();
        lock(&self.idle).clear();
    }
}

fn too_long() -> Unreadable {
    Unreadable(Arc::from("no free reader within 10 s: the disk or the machine is busy"))
}

/// A connection to the current file. Connections to former files are closed.
fn take(idle: &Mutex<Vec<(u64, Connection)>>, generation: u64) -> Option<Connection> {
    let mut idle = lock(idle);
    idle.retain(|(of, _)| *of == generation);
    idle.pop().map(|(_, connection)| connection)
}

fn lock(idle: &Mutex<Vec<(u64, Connection)>>) -> parking_lot::MutexGuard<'_, Vec<(u64, Connection)>> {
    idle.lock()
}
