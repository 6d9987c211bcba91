//! Cursor. `~/.cursor/mcp.json` for everything, `.cursor/mcp.json` for a project. An entry has no type: a
//! command is a program to start, a URL a server to connect to.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Cursor",
    cli_name: "cursor",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => env.home()?,
            EntryScope::Project => env.working_dir.clone(),
        };
        Some(folder.join(".cursor/mcp.json"))
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("url", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |_| "start Cursor anew; greenroom is then among its MCP servers",
};
