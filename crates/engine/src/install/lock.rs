//! The lock that lets one greenroom at a time install into a data folder.
//!
//! The kernel releases it when its holder ends, however it ends, so a held lock has a living holder.

use std::{fs::File, io, path::Path, time::Duration};

use rustix::fs::{FlockOperation, flock};
use tokio::time::{Instant, sleep};

use super::InstallError;
use crate::{install::npm_ci, run_folder::private_file};

/// The kernel does not notify waiters of a free lock, except a thread that blocks in `flock` and cannot be cancelled. A user
/// who waits for a download does not notice a quarter of a second.
const RETRY_EVERY: Duration = Duration::from_millis(250);

/// The holder gives up on npm before this; the rest is for its cleanup.
const WAIT_MAX: Duration = npm_ci::NPM_CI_WITHIN.saturating_add(Duration::from_secs(60));

/// Takes the lock, and reports once that it has to wait. The lock is held until the file is dropped.
pub(super) async fn take(path: &Path, waiting: &mut (dyn FnMut() + Send)) -> Result<File, InstallError> {
    let failed = |source: io::Error| InstallError::Folder { path: path.to_owned(), source };
    let file = private_file().create(true).truncate(false).write(true).open(path).map_err(failed)?;
    let deadline = Instant::now() + WAIT_MAX;
    let mut is_reported = false;
    loop {
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(file),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < deadline => {
                if !std::mem::replace(&mut is_reported, true) {
                    waiting();
                }
                sleep(RETRY_EVERY).await;
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(InstallError::Busy { lock: path.to_owned() }),
            Err(error) => return Err(failed(error.into())),
        }
    }
}
