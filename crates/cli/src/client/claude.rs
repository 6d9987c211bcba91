//! Claude Code. The user's own servers are in `~/.claude.json`, with much that does not concern greenroom; a project's in
//! `.mcp.json` at its root, for all who work on it.

use super::{Format, Recipe, Scope, typed_entry};

pub(super) const RECIPE: Recipe = Recipe {
    name: "Claude Code",
    file: |surroundings, scope| match scope {
        Scope::User => {
            // A user with several configurations names the one in force in this variable.
            let folder = surroundings.folder("CLAUDE_CONFIG_DIR").or_else(|| surroundings.home())?;
            Some(folder.join(".claude.json"))
        }
        Scope::Project => Some(surroundings.working_dir.join(".mcp.json")),
    },
    entry: typed_entry,
    format: Format::Json("mcpServers"),
    next: |scope| match scope {
        Scope::User => "start Claude Code anew; `claude mcp list` shows greenroom",
        Scope::Project => "start Claude Code anew in this folder and approve greenroom",
    },
};
