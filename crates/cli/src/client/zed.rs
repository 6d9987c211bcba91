//! Zed. Its MCP servers are in the section `context_servers` of `settings.json`, with all its other settings and the user's
//! comments. A project has a `.zed/settings.json`, which Zed reads once the user trusts the project.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, command_entry, entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Zed",
    cli_name: "zed",
    file: |env, scope| match scope {
        EntryScope::User => Some(env.xdg_config_dir()?.join("zed/settings.json")),
        EntryScope::Project => Some(env.working_dir.join(".zed/settings.json")),
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => command_entry(program, args),
        ClientTransport::Url(url) => entry([("url", url.clone().into())]),
    },
    env_key: "env",
    format: ConfigFormat::Json("context_servers"),
    next_step: |scope| match scope {
        EntryScope::User => "look at the MCP servers in Zed's agent settings; greenroom is then active there",
        EntryScope::Project => {
            "open this folder in Zed and trust it; greenroom is then among its MCP servers"
        }
    },
};
