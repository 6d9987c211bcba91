//! Codex: its command line program, its app and its editor extension share `~/.codex/config.toml`. A project
//! that the user has told Codex to trust may have a `.codex/config.toml` of its own.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Codex",
    cli_name: "codex",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => {
                env.folder("CODEX_HOME").or_else(|| env.home().map(|home| home.join(".codex")))?
            }
            EntryScope::Project => env.working_dir.join(".codex"),
        };
        Some(folder.join("config.toml"))
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("url", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Toml("mcp_servers"),
    next_step: |scope| match scope {
        EntryScope::User => "start Codex anew; `codex mcp list` shows greenroom",
        EntryScope::Project => {
            "start Codex anew in this folder, which it must trust; `codex mcp list` shows greenroom"
        }
    },
};
