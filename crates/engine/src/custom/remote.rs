//! Servers that run already, at an address: a session per seat, which ends with it. Nobody here starts or ends such a
//! server. Its port on this machine is as closed to browsers as that of an engine of ours.

use std::time::Duration;

use greenroom_core::{StartError, Toolset, web_address};
use greenroom_mcp::link::http::Endpoint;
use tokio::time::timeout;

use super::CustomEngine;
use crate::{ports::PortGuard, run_folder::unwritable, tool_list::ask_for_tools};

/// How long a server that was only asked for its tools may take to end that session.
const GOODBYE: Duration = Duration::from_secs(1);

pub(super) struct Remote {
    pub(super) endpoint: Endpoint,
    /// The address without what may be secret in it.
    shown: String,
    _port: Option<PortGuard>,
}

impl Remote {
    /// Takes note of where it is. It is not asked yet.
    pub(super) fn find(engine: &CustomEngine, url: &str) -> Result<Self, StartError> {
        let shown = web_address::shown(url);
        let wrong = |why: &dyn std::fmt::Display| {
            StartError::new(format!("the MCP server cannot be spoken to: {why}: `{shown}`"))
        };
        let endpoint =
            Endpoint::new(url.parse().map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        let port = greenroom_cdp::local_port(url).map(|port| engine.ports.hold(port)).transpose();
        let port = port.map_err(|error| unwritable(&engine.run, &error))?;
        Ok(Self { endpoint, shown, _port: port })
    }

    /// Asks for its tools, in a session that ends at once.
    pub(super) async fn tools(&self) -> Result<Toolset, StartError> {
        let (peer, _inbound) = self.endpoint.connect();
        let listed = ask_for_tools(&peer).await;
        let _ = timeout(GOODBYE, peer.close()).await;
        listed.map_err(|failed| self.unreachable(failed.into()))
    }

    /// A failure, with what to do about it.
    pub(super) fn unreachable(&self, error: StartError) -> StartError {
        let StartError { message, hint } = error;
        let hint = hint.unwrap_or_else(|| {
            "is it running, and is this the address of its streamable HTTP? Check `pool.url`".to_owned()
        });
        StartError::new(format!("the MCP server at {} cannot be used: {message}", self.shown)).hint(hint)
    }
}
