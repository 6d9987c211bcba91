//! Claude Code. The user's own servers are in `~/.claude.json`, with much that does not concern greenroom; a project's in
//! `.mcp.json` at its root, for all who work on it.

use std::path::PathBuf;

use super::{ClientSpec, ConfigFormat, EntryScope, typed_entry};
use crate::config::ProcessEnv;

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Claude Code",
    cli_name: "claude",
    file: |env, scope| match scope {
        EntryScope::User => {
            // Claude Code reads its configuration from the folder in this variable, if the user has set it.
            let folder = env.folder("CLAUDE_CONFIG_DIR").or_else(|| env.home())?;
            Some(folder.join(".claude.json"))
        }
        EntryScope::Project => Some(env.working_dir.join(".mcp.json")),
    },
    has_project_file: true,
    entry: typed_entry,
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |scope| match scope {
        EntryScope::User => "start Claude Code anew; `claude mcp list` shows greenroom",
        EntryScope::Project => "start Claude Code anew in this folder and approve greenroom",
    },
};

/// Claude Code reads a skill from a folder of the skill's name: among the user's own skills, or among the project's.
pub(super) fn skill_file(env: &ProcessEnv, scope: EntryScope) -> Option<PathBuf> {
    let folder = match scope {
        EntryScope::User => env.folder("CLAUDE_CONFIG_DIR").or_else(|| Some(env.home()?.join(".claude")))?,
        EntryScope::Project => env.working_dir.join(".claude"),
    };
    Some(folder.join("skills/greenroom/SKILL.md"))
}
