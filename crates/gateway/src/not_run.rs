//! Why a call did not reach the fleet, and the body that an MCP client receives then.

use greenroom_core::{Raw, record::Record};
use greenroom_mcp::{RpcError, error::INVALID_REQUEST};

use crate::{
    error_response::{self, ErrorResponse},
    recall::paged,
    render,
    route::Unroutable,
};

/// Why the gateway did not pass a call to the fleet. Such a call leaves no record.
pub(crate) enum NotRun {
    Failure(ErrorResponse),
    /// The error is the client program's mistake, not its agent's.
    Rpc(RpcError),
    /// The client has made a call with this `ref_id` before.
    Repeat(Box<Record>),
    /// The call asks for a part of an earlier answer; this is that part.
    Page(paged::PageText),
}

impl NotRun {
    /// The body for an MCP client.
    pub(crate) fn into_body(self) -> Result<Raw, Raw> {
        match self {
            Self::Failure(failure) => Ok(failure.to_result()),
            Self::Rpc(error) => Err(error.to_raw()),
            // Only REST clients choose the `ref_id` of a call, so no MCP client gets this.
            Self::Repeat(_) => Err(RpcError::new(INVALID_REQUEST, "this call was made before").to_raw()),
            Self::Page(page) => Ok(render::text_result(&page.text, page.ref_id.as_ref(), &[])),
        }
    }
}

impl From<ErrorResponse> for NotRun {
    fn from(failure: ErrorResponse) -> Self {
        Self::Failure(failure)
    }
}

impl From<Unroutable> for NotRun {
    fn from(error: Unroutable) -> Self {
        match error_response::unroutable(error) {
            Ok(failure) => Self::Failure(failure),
            Err(error) => Self::Rpc(error),
        }
    }
}
