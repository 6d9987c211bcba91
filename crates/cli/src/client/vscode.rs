//! Visual Studio Code. `mcp.json` in the user's folder for everything, `.vscode/mcp.json` for a project. The
//! section is called `servers`, and an entry always has a type.
//!
//! Other builds (Insiders, VSCodium), other profiles, and windows whose code runs on another machine have
//! other user folders; there a project's file is the one that works.

use super::{ClientSpec, ConfigFormat, EntryScope, typed_entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "VS Code",
    cli_name: "vscode",
    file: |env, scope| match scope {
        EntryScope::User => Some(env.app_config_dir()?.join("Code/User/mcp.json")),
        EntryScope::Project => Some(env.working_dir.join(".vscode/mcp.json")),
    },
    has_project_file: true,
    entry: typed_entry,
    env_key: "env",
    format: ConfigFormat::Json("servers"),
    next_step: |_| "run `MCP: List Servers` from VS Code's command palette and start greenroom",
};
