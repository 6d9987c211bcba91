//! Calls that do not reach the engine: they ask for too large a page, for disk space that the session does not have, or for
//! files and addresses that it may not have. Seats of every engine with an adapter call this first.

use greenroom_core::{Call, Reply};

use crate::{
    disk_use::{DiskUse, WriteRefused},
    size_limits::{self, SIZE_REFUSED},
    tool_answer::failed,
    workspace,
};

/// Why a call is refused.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RefusedCall {
    #[error(transparent)]
    Size(#[from] size_limits::Refused),
    #[error(transparent)]
    Disk(#[from] WriteRefused),
    #[error(transparent)]
    File(#[from] workspace::Refused),
}

impl From<RefusedCall> for Reply {
    fn from(refused: RefusedCall) -> Self {
        let code = match &refused {
            RefusedCall::Size(_) => SIZE_REFUSED,
            RefusedCall::Disk(refused) => refused.code(),
            RefusedCall::File(refused) => refused.code(),
        };
        failed(code, &refused.to_string())
    }
}

/// Checks the sizes that a call asks for, and, if it writes files, how much disk space its session takes.
pub(crate) async fn check(
    call: &Call,
    writes: bool,
    disk_used: impl Future<Output = DiskUse>,
    bytes_max: u64,
) -> Result<(), RefusedCall> {
    size_limits::check(call)?;
    if writes {
        disk_used.await.check(bytes_max)?;
    }
    Ok(())
}
