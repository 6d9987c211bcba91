//! Files and folders of a workspace to which no result is written.

/// Folders of a workspace whose files other programs run or obey: hooks, tasks, instructions and settings. A page could make
/// an agent write them. Compared without case, since some file systems do.
const PROTECTED_FOLDERS: [&str; 24] = [
    ".git",
    ".github",
    ".gitlab",
    ".husky",
    ".vscode",
    ".idea",
    ".zed",
    ".fleet",
    ".devcontainer",
    ".claude",
    ".cursor",
    ".codex",
    ".gemini",
    ".windsurf",
    ".continue",
    ".devin",
    ".kiro",
    ".roo",
    ".cargo",
    ".circleci",
    ".yarn",
    ".ssh",
    ".config",
    ".direnv",
];

/// Files of the same kind, in any folder of a workspace; `.env.` and what follows it, too.
const PROTECTED_FILES: [&str; 27] = [
    "greenroom.toml",
    ".env",
    ".envrc",
    ".mcp.json",
    "agents.md",
    "claude.md",
    "claude.local.md",
    "gemini.md",
    ".cursorrules",
    ".windsurfrules",
    ".clinerules",
    ".npmrc",
    ".yarnrc",
    ".yarnrc.yml",
    ".gitconfig",
    ".gitmodules",
    ".gitattributes",
    ".pre-commit-config.yaml",
    ".netrc",
    ".profile",
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_logout",
    ".zshrc",
    ".zshenv",
    ".zprofile",
];

/// Whether other programs run or obey a file or folder of this name.
pub(super) fn is_protected(name: &str) -> bool {
    let is_one_of = |names: &[&str]| names.iter().any(|one| one.eq_ignore_ascii_case(name));
    let is_env = name.get(..5).is_some_and(|start| start.eq_ignore_ascii_case(".env."));
    is_one_of(&PROTECTED_FOLDERS) || is_one_of(&PROTECTED_FILES) || is_env
}
