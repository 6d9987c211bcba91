//! Continue. It reads every file in `~/.continue/mcpServers` and in a project's `.continue/mcpServers`, in its own YAML or in
//! the JSON that Claude Code has. greenroom writes a JSON file of its own there, and leaves the user's `config.yaml` alone.

use super::{ClientSpec, ConfigFormat, EntryScope, typed_entry};

pub(super) const SPEC: ClientSpec = ClientSpec {
    name: "Continue",
    cli_name: "continue",
    file: |env, scope| {
        let folder = match scope {
            EntryScope::User => {
                env.folder("CONTINUE_GLOBAL_DIR").or_else(|| Some(env.home()?.join(".continue")))?
            }
            EntryScope::Project => env.working_dir.join(".continue"),
        };
        Some(folder.join("mcpServers/greenroom.json"))
    },
    has_project_file: true,
    entry: typed_entry,
    env_key: "env",
    format: ConfigFormat::Json("mcpServers"),
    next_step: |_| "reload Continue's configuration; its agent mode then has greenroom's tools",
};
