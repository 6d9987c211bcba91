//! Claude Code. The user's own servers are in `~/.claude.json`, with much that does not concern greenroom; a project's in
//! `.mcp.json` at its root, for all who work on it.

use super::{ClientSpec, ConfigFormat, EntryScope, typed_entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Claude Code",
    file: |env, scope| match scope {
        EntryScope::User => {
            // Claude Code reads its configuration from the folder in this variable, if the user has set it.
            let folder = env.folder("CLAUDE_CONFIG_DIR").or_else(|| env.home())?;
            Some(folder.join(".claude.json"))
        }
        EntryScope::Project => Some(env.working_dir.join(".mcp.json")),
    },
    entry: typed_entry,
    format: ConfigFormat::Json("mcpServers"),
    next_step: |scope| match scope {
        EntryScope::User => "start Claude Code anew; `claude mcp list` shows greenroom",
        EntryScope::Project => "start Claude Code anew in this folder and approve greenroom",
    },
};
