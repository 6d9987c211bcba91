//! Servers that already run, at an address: one MCP session per seat, which ends with the seat. greenroom neither
//! starts nor ends such a server. Its port on this machine is closed to browsers, like that of greenroom's own engines.

use std::time::Duration;

use greenroom_core::{StartError, Toolset, web_address};
use greenroom_mcp::link::http::HttpEndpoint;
use tokio::time::timeout;

use super::CustomEngine;
use crate::{ports::PortGuard, run_folder::unwritable_error, tool_list::ask_for_tools};

/// How long the session that only asked a server for its tools may take to end.
const END_SESSION_WITHIN: Duration = Duration::from_secs(1);

pub(super) struct RemoteServer {
    pub(super) endpoint: HttpEndpoint,
    /// The address without its secrets.
    url_without_secrets: String,
    _port: Option<PortGuard>,
}

impl RemoteServer {
    /// Notes the address. Does not connect yet.
    pub(super) fn new(engine: &CustomEngine, url: &str) -> Result<Self, StartError> {
        let url_without_secrets = web_address::shown(url);
        let invalid_address = |why: &dyn std::fmt::Display| {
            StartError::new(format!("cannot connect to the MCP server: {why}: `{url_without_secrets}`"))
        };
        let endpoint = HttpEndpoint::new(url.parse().map_err(|error| invalid_address(&error))?)
            .map_err(|error| invalid_address(&error))?;
        let port = greenroom_cdp::local_port(url).map(|port| engine.ports.hold(port)).transpose();
        let port = port.map_err(|error| unwritable_error(&engine.run, &error))?;
        Ok(Self { endpoint, url_without_secrets, _port: port })
    }

    /// Asks the server for its tools, in an MCP session that ends at once.
    pub(super) async fn tools(&self) -> Result<Toolset, StartError> {
        let (peer, _inbound) = self.endpoint.connect();
        let listed = ask_for_tools(&peer).await;
        let _ = timeout(END_SESSION_WITHIN, peer.close()).await;
        listed.map_err(|failed| self.unreachable_error(failed.into()))
    }

    /// The error for a server that cannot be reached, with a hint.
    pub(super) fn unreachable_error(&self, error: StartError) -> StartError {
        let StartError { message, hint } = error;
        let hint = hint.unwrap_or_else(|| {
            "is it running, and is this the address of its streamable HTTP? Check `pool.url`".to_owned()
        });
        StartError::new(format!("the MCP server at {} cannot be used: {message}", self.url_without_secrets))
            .hint(hint)
    }
}
