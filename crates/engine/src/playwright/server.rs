//! The Node process that serves all seats of an instance, over HTTP on loopback. It answers
//! only requests with a secret, which greenroom makes for each process.

use std::{net::TcpListener, time::Duration};

use greenroom_core::{StartError, port::human};
use greenroom_mcp::link::http::HttpEndpoint;
use tokio::time::timeout;
use uuid::Uuid;

use super::{NAME, PlaywrightEngine, STDERR_PARSER, command, preload};
use crate::{
    browser_handle::BrowserHandle,
    launcher::ProcessSpec,
    loss::explain_by_exit,
    ports::PortGuard,
    process::{Pipes, Process},
    run_folder::unwritable_error,
};

/// How long Node may take until it listens. It usually takes half a second, on a busy machine a few seconds.
const READY_WITHIN: Duration = Duration::from_secs(20);

/// How often a port is chosen anew when another process takes it first.
const PORT_TRIES: usize = 3;

pub(super) struct NodeServer {
    pub(super) process: Process,
    pub(super) endpoint: HttpEndpoint,
    /// Unused, but open: Node must not find its standard streams closed.
    _pipes: Pipes,
    _port: PortGuard,
}

impl NodeServer {
    pub(super) async fn start(
        engine: &PlaywrightEngine,
        spec: ProcessSpec,
        browser: &BrowserHandle,
    ) -> Result<Self, StartError> {
        let mut last = StartError::new("no free port");
        for _ in 0..PORT_TRIES {
            // The port is closed to browsers before anything listens there, so greenroom chooses it and not Node.
            let port = free_port().map_err(|error| StartError::new(format!("no free port: {error}")))?;
            let guard = engine.ports.hold(port).map_err(|error| unwritable_error(&engine.run, &error))?;
            let spec = command::connect_to(spec.clone(), browser)
                .args(["--host", "127.0.0.1", "--port"])
                .arg(port.to_string())
                // The engine would end a session whose pings go unanswered; greenroom checks it itself.
                .env("PLAYWRIGHT_MCP_PING_TIMEOUT_MS", "0");
            let secret = Uuid::new_v4().simple().to_string();
            let spec = preload::require_secret(spec, &secret);
            let (process, pipes, ready) = engine.start_node(NAME, spec, STDERR_PARSER).await?;
            let address = explain_by_exit(&process, async {
                match timeout(READY_WITHIN, ready).await {
                    Ok(Ok(address)) => Ok(address),
                    Ok(Err(_)) => Err(StartError::new("the engine ended before it listened")),
                    Err(_) => Err(StartError::new(format!(
                        "the engine did not listen within {}",
                        human(READY_WITHIN)
                    ))),
                }
            });
            match address.await {
                Ok(address) => {
                    let uri = format!("{address}/mcp").parse().map_err(|_| {
                        StartError::new(format!("the engine listens on an invalid address: `{address}`"))
                    })?;
                    let endpoint = HttpEndpoint::new(uri)
                        .and_then(|endpoint| endpoint.with_header(preload::SECRET_HEADER, &secret))
                        .map_err(|error| StartError::new(format!("cannot connect to the engine: {error}")))?;
                    return Ok(Self { process, endpoint, _pipes: pipes, _port: guard });
                }
                Err(error) => last = error,
            }
            // Another attempt helps only if another process took the port first.
            if TcpListener::bind(("127.0.0.1", port)).is_ok() {
                break;
            }
        }
        Err(last)
    }
}

fn free_port() -> std::io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
