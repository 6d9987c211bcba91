//! The custom engine: any MCP server, started by a command and reached over stdio, or running at an address and reached over
//! HTTP.
//!
//! Each seat is a process of its own, or an MCP session of its own with the server; see [`crate::per_seat`]. How well the
//! server isolates its sessions is up to the server.

mod command;
mod remote;

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
};

use greenroom_core::{Agent, BoxFuture, Engine, Instance, InstanceId, StartError, Toolset, web_address};
use sha2::{Digest, Sha256};

use crate::{
    EngineBase, EngineEntry,
    launcher::Launcher,
    per_seat::{EngineConnection, ProcessInstance, SeatBrowser, SeatProcessFactory},
    ports::Ports,
    run_folder::RunFolder,
    seat_folder::SeatFolder,
    tool_list::ToolsChanged,
    upstream::{self},
};

use command::ServerCommand;
use remote::RemoteServer;

pub(crate) static ENTRY: EngineEntry = EngineEntry {
    make: |base| Arc::new(CustomEngine::new(base)),
    package: None,
    page_tool: None,
    check: |_| Ok(()),
};

/// A server to start, or to connect to.
#[derive(Clone)]
pub struct CustomEngine {
    pub server: CustomServer,
    /// How many seats an instance has. With one the instance is its process, or its session.
    pub slots: usize,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    pub tools_changed: ToolsChanged,
}

/// Where the server is.
#[derive(Clone, PartialEq, Eq)]
pub enum CustomServer {
    Command {
        program: PathBuf,
        args: Vec<String>,
    },
    /// At `http://` or `https://`. The part after a `?` may be a secret.
    Url(String),
}

impl Engine for CustomEngine {
    fn fingerprint(&self) -> String {
        match &self.server {
            CustomServer::Command { program, args } => {
                format!("custom {} {}", program.display(), args.join(" "))
            }
            // The catalog writes the fingerprint to disk, so it must not contain the secrets of the address.
            CustomServer::Url(url) => format!("custom {} {}", web_address::shown(url), digest(url)),
        }
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn is_server(&self) -> bool {
        true
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            match self.prepare()? {
                PreparedServer::Command(command) => command.tools(&self.launcher).await,
                PreparedServer::Remote(remote) => remote.tools().await,
            }
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async move {
            let server = CustomFactory { engine: self.clone(), server: self.prepare()? };
            ProcessInstance::start(Box::new(server), self.slots).await
        })
    }

    /// A server learns in the handshake, once, what it may ask its client. A spare made its handshake without
    /// an agent, so it must not serve an agent that can answer questions.
    fn spare_suits(&self, agent: &dyn Agent) -> bool {
        !upstream::can_answer_questions(agent)
    }
}

impl CustomEngine {
    /// The settings have been checked: they contain a command or an address.
    fn new(base: EngineBase) -> Self {
        let EngineBase { options, launcher, run, ports, tools_changed, .. } = base;
        let server = match (&options.pool.url, options.pool.command.split_first()) {
            (Some(url), _) => CustomServer::Url(url.clone()),
            (None, Some((program, args))) => {
                CustomServer::Command { program: PathBuf::from(program), args: args.to_vec() }
            }
            (None, None) => CustomServer::Command { program: PathBuf::new(), args: Vec::new() },
        };
        Self { server, slots: options.pool.slots, launcher, run, ports, tools_changed }
    }

    fn prepare(&self) -> Result<PreparedServer, StartError> {
        Ok(match &self.server {
            CustomServer::Command { program, args } => {
                PreparedServer::Command(ServerCommand { program: program.clone(), args: args.clone() })
            }
            CustomServer::Url(url) => PreparedServer::Remote(Box::new(RemoteServer::new(self, url)?)),
        })
    }
}

/// The server behind an instance.
struct CustomFactory {
    engine: CustomEngine,
    server: PreparedServer,
}

enum PreparedServer {
    Command(ServerCommand),
    Remote(Box<RemoteServer>),
}

impl SeatProcessFactory for CustomFactory {
    fn connect<'a>(
        &'a self,
        _: &'a Path,
        _: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<EngineConnection, StartError>> {
        Box::pin(async move {
            match &self.server {
                PreparedServer::Command(command) => {
                    command.start(&self.engine.launcher).await.map(Into::into)
                }
                PreparedServer::Remote(remote) => Ok((&remote.endpoint).into()),
            }
        })
    }

    fn unreachable_error(&self, error: StartError) -> StartError {
        match &self.server {
            PreparedServer::Command(_) => error,
            PreparedServer::Remote(remote) => remote.unreachable_error(error),
        }
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

/// A digest of the whole address, so that addresses that differ only in their secrets have different
/// fingerprints.
fn digest(url: &str) -> String {
    Sha256::digest(url.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}
