//! Codex: its command line program, its app and its editor extension share `~/.codex/config.toml`. A project
//! that the user has told Codex to trust may have a `.codex/config.toml` of its own.

use super::{Format, Recipe, Scope, Server, entry};

pub(super) const RECIPE: Recipe = Recipe {
    name: "Codex",
    file: |surroundings, scope| {
        let folder = match scope {
            Scope::User => surroundings
                .folder("CODEX_HOME")
                .or_else(|| surroundings.home().map(|home| home.join(".codex")))?,
            Scope::Project => surroundings.working_dir.join(".codex"),
        };
        Some(folder.join("config.toml"))
    },
    entry: |server| match server {
        Server::Command { program, args } => {
            entry([("command", program.clone().into()), ("args", args.clone().into())])
        }
        Server::Url(url) => entry([("url", url.clone().into())]),
    },
    format: Format::Toml("mcp_servers"),
    next: |scope| match scope {
        Scope::User => "start Codex anew; `codex mcp list` shows greenroom",
        Scope::Project => {
            "start Codex anew in this folder, which it must trust; `codex mcp list` shows greenroom"
        }
    },
};
