//! Calls that do not reach the engine: they ask for too large a page, for disk space that the session does not have, or for
//! files and addresses that it may not have. Seats of every engine with an adapter call this first.

use greenroom_core::{Call, Reply};

use crate::{
    disk_use::{DiskUse, WriteRefusal},
    size_limits::{self, SIZE_REFUSED},
    tool_answer::failed_reply,
    workspace,
};

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallRefusal {
    #[error(transparent)]
    Size(#[from] size_limits::SizeRefusal),
    #[error(transparent)]
    Disk(#[from] WriteRefusal),
    #[error(transparent)]
    File(#[from] workspace::WorkspaceRefusal),
}

impl From<CallRefusal> for Reply {
    fn from(refused: CallRefusal) -> Self {
        let code = match &refused {
            CallRefusal::Size(_) => SIZE_REFUSED,
            CallRefusal::Disk(refused) => refused.code(),
            CallRefusal::File(refused) => refused.code(),
        };
        failed_reply(code, &refused.to_string())
    }
}

/// Checks the sizes that a call asks for, and, if it writes files, how much disk space its session takes.
pub(crate) async fn check(
    call: &Call,
    writes: bool,
    disk_used: impl Future<Output = DiskUse>,
    bytes_max: u64,
) -> Result<(), CallRefusal> {
    size_limits::check(call)?;
    if writes {
        disk_used.await.check(bytes_max)?;
    }
    Ok(())
}
