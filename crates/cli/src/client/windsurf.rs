//! Windsurf. `~/.codeium/windsurf/mcp_config.json` for everything; it reads no file of a project. The address of a server has
//! a key of its own, `serverUrl`.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Windsurf",
    cli_name: "windsurf",
    file: |env, scope| match scope {
        EntryScope::User => Some(env.home()?.join(".codeium/windsurf/mcp_config.json")),
        EntryScope::Project => None,
    },
    has_project_file: false,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("serverUrl", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |_| "press refresh among Windsurf's MCP servers; greenroom is then there",
};
