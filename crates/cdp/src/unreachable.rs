//! Why a debugger cannot be reached, with a variant for each reason that needs its own advice.

use std::{io, time::Duration};

use greenroom_core::port::human;
use hyper::StatusCode;

/// Why there is no connection to a debugger. No message holds a header's value, or text that the other end wrote.
#[derive(Debug, thiserror::Error)]
pub enum Unreachable {
    #[error("not a debugger's address: {0}")]
    Address(String),
    #[error("the header `{name}` cannot be sent: {why}")]
    Header { name: String, why: &'static str },
    #[error("the host cannot be found: {0}")]
    Name(#[source] io::Error),
    #[error("{0}")]
    Io(#[source] io::Error),
    #[error("the TLS connection failed: {0}")]
    Tls(#[source] io::Error),
    #[error("no answer within {}", human(*.0))]
    Silent(Duration),
    /// Something answered with this HTTP status.
    #[error("refused with {}", status(*.0))]
    Status(u16),
    #[error("the server there is not a browser's debugger: {0}")]
    InvalidResponse(String),
}

fn status(code: u16) -> String {
    let reason = StatusCode::from_u16(code).ok().and_then(|status| status.canonical_reason());
    reason.map_or_else(|| code.to_string(), |reason| format!("{code} {reason}"))
}
