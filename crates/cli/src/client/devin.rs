//! Devin Desktop, which was Windsurf until June 2026. `~/.config/devin/mcp_config.json` for everything,
//! `.devin/mcp_config.json` for a project.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Devin Desktop",
    cli_name: "windsurf",
    file: |env, scope| match scope {
        EntryScope::User => Some(env.home()?.join(".config/devin/mcp_config.json")),
        EntryScope::Project => Some(env.working_dir.join(".devin/mcp_config.json")),
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("url", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |_| "press refresh among Devin Desktop's MCP servers; greenroom is then there",
};
