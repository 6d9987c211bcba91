//! GitHub Copilot CLI. It reads a user's servers from `~/.copilot/mcp-config.json`, and a project's from `.github/mcp.json`
//! and `.mcp.json`. greenroom writes a project's entry into `.github/mcp.json`, because Claude Code reads `.mcp.json` too. An
//! entry lists the tools that the agent may use.

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
