//! Claude Code. The user's own servers stand in `~/.claude.json`, beside much that is none of ours; a
//! project's in `.mcp.json` at its root, for everybody who works on it.

use super::{Format, Recipe, Scope, Server, entry};

pub(super) const RECIPE: Recipe = Recipe {
    name: "Claude Code",
    file: |surroundings, scope| match scope {
        Scope::User => {
            // Whoever keeps several configurations names the one in force so.
            let folder = surroundings.folder("CLAUDE_CONFIG_DIR").or_else(|| surroundings.home())?;
            Some(folder.join(".claude.json"))
        }
        Scope::Project => Some(surroundings.working_dir.join(".mcp.json")),
    },
    entry: |server| match server {
        Server::Command { program, args } => entry([
            ("type", "stdio".into()),
            ("command", program.clone().into()),
            ("args", args.clone().into()),
        ]),
        Server::Url(url) => entry([("type", "http".into()), ("url", url.clone().into())]),
    },
    format: Format::Json("mcpServers"),
    next: |scope| match scope {
        Scope::User => "start Claude Code anew; `claude mcp list` shows greenroom",
        Scope::Project => "start Claude Code anew in this folder and approve greenroom",
    },
};
