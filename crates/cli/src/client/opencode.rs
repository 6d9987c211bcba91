//! OpenCode. `opencode.json` or `opencode.jsonc`, in `~/.config/opencode` for everything and at the root of a project. A
//! program and its arguments are one list, and its variables are its `environment`.
//!
//! OpenCode 1 has the servers directly in `mcp`, and OpenCode 2 in `mcp.servers`. Version 2 also reads what version 1 has, so
//! greenroom writes `mcp.servers` only where the user's file has it.

use super::{ClientSpec, ClientTransport, ConfigFormat, EntryScope, entry, file};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "OpenCode",
    cli_name: "opencode",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => env.xdg_config_dir()?.join("opencode"),
            EntryScope::Project => env.working_dir.clone(),
        };
        // If both are there, OpenCode lets the second one win.
        let commented = folder.join("opencode.jsonc");
        Some(if file::is_there(&commented) { commented } else { folder.join("opencode.json") })
    },
    has_project_file: true,
    entry: |server| match server {
        ClientTransport::Command { program, args } => {
            let line: Vec<_> = std::iter::once(program).chain(args).cloned().collect();
            entry([("type", "local".into()), ("command", line.into())])
        }
        ClientTransport::Url(url) => entry([("type", "remote".into()), ("url", url.clone().into())]),
    },
    env_key: "environment",
    format: ConfigFormat::JsonNested("mcp", "servers"),
    next_step: |scope| match scope {
        EntryScope::User => "start OpenCode anew; `opencode mcp list` shows greenroom",
        EntryScope::Project => "start OpenCode anew in this folder; `opencode mcp list` shows greenroom",
    },
};
