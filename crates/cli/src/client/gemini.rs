//! Gemini CLI. `~/.gemini/settings.json` for everything, `.gemini/settings.json` for a project. The address of a server that
//! speaks streamable HTTP is `httpUrl`; `url` would mean the older transport.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Gemini CLI",
    cli_name: "gemini",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => env.home()?,
            EntryScope::Project => env.working_dir.clone(),
        };
        Some(folder.join(".gemini/settings.json"))
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("httpUrl", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |scope| match scope {
        EntryScope::User => "start Gemini CLI anew; `gemini mcp list` shows greenroom",
        EntryScope::Project => "start Gemini CLI anew in this folder; `gemini mcp list` shows greenroom",
    },
};
