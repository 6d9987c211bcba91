//! Cursor. `~/.cursor/mcp.json` for everything, `.cursor/mcp.json` for a project. An entry has no type: a
//! command is a program to start, a URL a server to connect to.

use super::{Format, Recipe, Scope, Server, entry};

pub(super) const RECIPE: Recipe = Recipe {
    name: "Cursor",
    file: |surroundings, scope| {
        let folder = match scope {
            Scope::User => surroundings.home()?,
            Scope::Project => surroundings.working_dir.clone(),
        };
        Some(folder.join(".cursor/mcp.json"))
    },
    entry: |server| match server {
        Server::Command { program, args } => {
            entry([("command", program.clone().into()), ("args", args.clone().into())])
        }
        Server::Url(url) => entry([("url", url.clone().into())]),
    },
    format: Format::Json("mcpServers"),
    next: |_| "start Cursor anew; greenroom is then among its MCP servers",
};
