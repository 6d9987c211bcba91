//! Visual Studio Code. `mcp.json` in the user's folder for everything, `.vscode/mcp.json` for a project. The
//! section is called `servers`, and an entry always has a type.
//!
//! Other builds (Insiders, VSCodium), other profiles, and windows whose code runs on another machine have
//! other user folders; there a project's file is the one that works.

use super::{Format, Recipe, Scope, typed_entry};

pub(super) const RECIPE: Recipe = Recipe {
    name: "VS Code",
    file: |surroundings, scope| match scope {
        Scope::User => Some(surroundings.app_config_dir()?.join("Code/User/mcp.json")),
        Scope::Project => Some(surroundings.working_dir.join(".vscode/mcp.json")),
    },
    entry: typed_entry,
    format: Format::Json("servers"),
    next: |_| "run `MCP: List Servers` from VS Code's command palette and start greenroom",
};
