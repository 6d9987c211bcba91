//! Windsurf before it became Devin Desktop (`devin.rs`). `~/.codeium/windsurf/mcp_config.json` for everything; it reads no file
//! of a project. The address of a server has a key of its own, `serverUrl`.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry, file};
use crate::config::ProcessEnv;

/// Whether this user has a Windsurf and no Devin Desktop, which makes a folder of its own at its first start.
pub(super) fn is_in_use(env: &ProcessEnv) -> bool {
    let has = |folder: &str| env.home().is_some_and(|home| file::is_there(&home.join(folder)));
    has(".codeium/windsurf") && !has(".config/devin")
}

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
