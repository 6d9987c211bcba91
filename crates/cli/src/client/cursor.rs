//! Cursor. `~/.cursor/mcp.json` for everything, `.cursor/mcp.json` for a project. An entry has no type: a
//! command is a program to start, a URL a server to connect to.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Cursor",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => env.home()?,
            EntryScope::Project => env.working_dir.clone(),
        };
        Some(folder.join(".cursor/mcp.json"))
    },
    entry: |server| match server {
        ClientTransport::Command { program, args } => {
            entry([("command", program.clone().into()), ("args", args.clone().into())])
        }
        ClientTransport::Url(url) => entry([("url", url.clone().into())]),
    },
    format: ConfigFormat::Json("mcpServers"),
    next_step: |_| "start Cursor anew; greenroom is then among its MCP servers",
};
