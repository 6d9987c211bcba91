//! Servers that run already, at an address: a session per seat, which ends with it. Nobody here starts or ends such a
//! server. Its port on this machine is as closed to browsers as that of an engine of ours.

use std::{path::Path, time::Duration};

use greenroom_core::{Agent, BoxFuture, Engine, StartError, Toolset, web_address};
use greenroom_mcp::link::http::Endpoint;
use tokio::time::timeout;

use super::CustomEngine;
use crate::{
    ports::PortGuard,
    run_folder::unwritable,
    seat_folder::SeatFolder,
    stdio::{Connection, Kind, SeatBrowser},
    tool_list::{ToolsChanged, ask_for_tools},
};

/// How long a server that was only asked for its tools may take to end that session.
const GOODBYE: Duration = Duration::from_secs(1);

pub(super) struct Remote {
    engine: CustomEngine,
    endpoint: Endpoint,
    /// The address without what may be secret in it.
    shown: String,
    _port: Option<PortGuard>,
}

impl Remote {
    /// Takes note of where it is. It is not asked yet.
    pub(super) fn find(engine: CustomEngine, url: &str) -> Result<Self, StartError> {
        let shown = web_address::shown(url);
        let wrong = |why: &dyn std::fmt::Display| {
            StartError::new(format!("the MCP server cannot be spoken to: {why}: `{shown}`"))
        };
        let endpoint =
            Endpoint::new(url.parse().map_err(|error| wrong(&error))?).map_err(|error| wrong(&error))?;
        let port = greenroom_cdp::loopback_port(url).map(|port| engine.ports.hold(port)).transpose();
        let port = port.map_err(|error| unwritable(&engine.run, &error))?;
        Ok(Self { engine, endpoint, shown, _port: port })
    }

    /// Asks for its tools, in a session that ends at once.
    pub(super) async fn tools(&self) -> Result<Toolset, StartError> {
        let (peer, _inbound) = self.endpoint.connect();
        let listed = ask_for_tools(&peer).await;
        let _ = timeout(GOODBYE, peer.close()).await;
        listed.map_err(|failed| self.unreachable(failed.into()))
    }
}

impl Kind for Remote {
    fn connect<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<Connection, StartError>> {
        Box::pin(std::future::ready(Ok((&self.endpoint).into())))
    }

    fn unreachable(&self, error: StartError) -> StartError {
        let StartError { message, hint } = error;
        let hint = hint.unwrap_or_else(|| {
            "is it running, and is this the address of its streamable HTTP? Check `pool.url`".to_owned()
        });
        StartError::new(format!("the MCP server at {} cannot be used: {message}", self.shown)).hint(hint)
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.engine.run, None)
    }

    fn tools_changed(&self) -> Option<ToolsChanged> {
        Some(self.engine.tools_changed.clone())
    }

    fn suits(&self, agent: &dyn Agent) -> bool {
        self.engine.spare_suits(agent)
    }
}
