//! GitHub Copilot CLI. `~/.copilot/mcp-config.json` for everything. A project's servers are in `.github/mcp.json`, or in
//! `.mcp.json`, which is Claude Code's too and so is left to it. An entry names the tools that it offers.

use serde_json::json;

use super::{ClientSpec, ConfigFormat, EntryScope, typed_entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Copilot CLI",
    cli_name: "copilot",
    file: |env, scope| match scope {
        EntryScope::User => {
            let folder = env.folder("COPILOT_HOME").or_else(|| Some(env.home()?.join(".copilot")))?;
            Some(folder.join("mcp-config.json"))
        }
        EntryScope::Project => Some(env.working_dir.join(".github/mcp.json")),
    },
    has_project_file: true,
    entry: |server| {
        let mut entry = typed_entry(server);
        entry.insert("tools".to_owned(), json!(["*"]));
        entry
    },
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |scope| match scope {
        EntryScope::User => "start Copilot CLI anew; `/mcp show` shows greenroom",
        EntryScope::Project => {
            "start Copilot CLI anew in this folder, which it must trust; `/mcp show` shows greenroom"
        }
    },
};
