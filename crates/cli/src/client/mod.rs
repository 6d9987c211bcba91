//! The clients that greenroom can register with: where each keeps its MCP servers, the form of an entry there, and how to
//! add one without disturbing the rest. One file per client; `verb/setup_client.rs` asks the user.
//!
//! Nothing here reads the environment, asks or prints. `file.rs` alone touches the disk.

mod claude;
mod codex;
mod continue_dev;
mod copilot;
mod cursor;
mod devin;
pub mod diff;
pub mod file;
mod gemini;
mod json;
mod opencode;
mod toml;
mod vscode;
mod windsurf;
mod zed;

use std::{fmt, path::PathBuf};

use clap::ValueEnum;
use serde_json::{Map, Value};

use crate::config::ProcessEnv;

/// greenroom's name among a client's servers.
const NAME: &str = "greenroom";

/// The value under greenroom's name in a client's file.
pub type ServerEntry = Map<String, Value>;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ClientApp {
    /// Claude Code
    Claude,
    /// Cursor
    Cursor,
    /// Visual Studio Code
    Vscode,
    /// Codex
    Codex,
    /// Devin Desktop, formerly Windsurf
    #[value(name = "windsurf", alias = "devin")]
    Devin,
    /// Windsurf before it became Devin Desktop
    #[value(skip)]
    Windsurf,
    /// Zed
    Zed,
    /// Gemini CLI
    Gemini,
    /// GitHub Copilot CLI
    Copilot,
    /// OpenCode
    #[value(name = "opencode")]
    OpenCode,
    /// Continue
    Continue,
}

/// Where an entry applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryScope {
    /// In everything that this user does.
    User,
    /// In the project in the working directory.
    Project,
}

/// How a client reaches greenroom.
#[derive(Debug)]
pub enum ClientTransport {
    /// The client starts the program.
    Command { program: String, args: Vec<String> },
    /// The client connects to a running `greenroom serve`.
    Url(String),
}

/// What differs between clients.
struct ClientSpec {
    /// Its makers' name for it.
    name: &'static str,
    /// Its name on greenroom's command line.
    cli_name: &'static str,
    file: fn(&ProcessEnv, EntryScope) -> Option<PathBuf>,
    /// Whether it reads a file of a project too.
    has_project_file: bool,
    entry: fn(&ClientTransport) -> ServerEntry,
    /// The key of an entry under which the program's variables are.
    env_key: &'static str,
    format: ConfigFormat,
    /// What the user does next.
    next_step: fn(EntryScope) -> &'static str,
}

/// The format of a client's file.
enum ConfigFormat {
    /// JSON, with the servers in the section of this name.
    Json(&'static str),
    /// JSON, with the servers in the section of the first name; in a file whose section has a member of the second name, there.
    JsonNested(&'static str, &'static str),
    /// TOML, with the servers in the table of this name.
    Toml(&'static str),
}

impl ClientApp {
    fn spec(self) -> &'static ClientSpec {
        match self {
            Self::Claude => &claude::SPEC,
            Self::Cursor => &cursor::SPEC,
            Self::Vscode => &vscode::SPEC,
            Self::Codex => &codex::SPEC,
            Self::Devin => &devin::SPEC,
            Self::Windsurf => &windsurf::SPEC,
            Self::Zed => &zed::SPEC,
            Self::Gemini => &gemini::SPEC,
            Self::Copilot => &copilot::SPEC,
            Self::OpenCode => &opencode::SPEC,
            Self::Continue => &continue_dev::SPEC,
        }
    }

    /// The client that this user has under this name on the command line: Devin Desktop, or an older Windsurf.
    pub fn in_use(self, env: &ProcessEnv) -> Self {
        match self {
            Self::Devin if windsurf::is_in_use(env) => Self::Windsurf,
            other => other,
        }
    }

    /// Its makers' name for it.
    pub fn name(self) -> &'static str {
        self.spec().name
    }

    /// Its name on the command line.
    pub fn cli_name(self) -> &'static str {
        self.spec().cli_name
    }

    /// Whether it has a file for a project.
    pub fn has_project_file(self) -> bool {
        self.spec().has_project_file
    }

    /// The key of its entries under which variables are.
    pub fn env_key(self) -> &'static str {
        self.spec().env_key
    }

    /// The file from which it reads its servers. `None` without a home folder, or if it reads none of a project.
    pub fn file(self, env: &ProcessEnv, scope: EntryScope) -> Option<PathBuf> {
        (self.spec().file)(env, scope)
    }

    /// The file in which it looks for greenroom's skill. `None` if greenroom has no skill for it, or without a home folder.
    pub fn skill_file(self, env: &ProcessEnv, scope: EntryScope) -> Option<PathBuf> {
        match self {
            Self::Claude => claude::skill_file(env, scope),
            _ => None,
        }
    }

    pub fn entry(self, server: &ClientTransport) -> ServerEntry {
        (self.spec().entry)(server)
    }

    pub fn next_step(self, scope: EntryScope) -> &'static str {
        (self.spec().next_step)(scope)
    }

    /// The text of a file that has nothing but the entry.
    pub fn new_file_text(self, entry: &ServerEntry) -> String {
        match self.spec().format {
            ConfigFormat::Json(section) | ConfigFormat::JsonNested(section, _) => {
                json::new_file_text(section, entry)
            }
            ConfigFormat::Toml(table) => toml::new_file_text(table, entry),
        }
    }

    /// Puts the entry into the text of a file.
    pub fn merge(
        self,
        text: &str,
        scope: EntryScope,
        entry: &ServerEntry,
    ) -> Result<MergeOutcome, BrokenFile> {
        match self.spec().format {
            ConfigFormat::Json(section) => json::merge(text, section, None, scope, entry),
            ConfigFormat::JsonNested(section, inner) => json::merge(text, section, Some(inner), scope, entry),
            ConfigFormat::Toml(table) => toml::merge(text, table, scope, entry),
        }
    }
}

/// The outcome of adding an entry.
#[derive(Debug)]
pub enum MergeOutcome {
    /// The entry is already there.
    Same,
    /// The file's new text, and whether another entry was replaced in it.
    Changed { text: String, replaced: bool },
    /// It cannot be added without harm; the reason.
    Refused(&'static str),
}

/// A client's file that cannot be read, and where.
#[derive(Debug)]
pub struct BrokenFile {
    /// Line and column, where they are known.
    position: Option<(usize, usize)>,
    message: String,
}

impl BrokenFile {
    fn at(text: &str, at: usize, message: impl Into<String>) -> Self {
        let before = text.get(..at).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        let line = before.matches('\n').count() + 1;
        let column = before[line_start..].chars().count() + 1;
        Self { position: Some((line, column)), message: message.into() }
    }
}

impl fmt::Display for BrokenFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some((line, column)) = self.position {
            write!(f, "line {line}, column {column}: ")?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for BrokenFile {}

/// The keys that clients have for a server's address.
const URL_KEYS: [&str; 3] = ["url", "httpUrl", "serverUrl"];

/// The entry that replaces an existing one. What the user added to it, such as variables, stays, as long as the client
/// still reaches greenroom in the same way; some clients would refuse what belongs to the other way. An entry of a project
/// may have come with the project, and its variables could make greenroom start other programs: nothing of it stays.
fn replacement(old: &ServerEntry, new: &ServerEntry, scope: EntryScope) -> ServerEntry {
    let is_command = |entry: &ServerEntry| entry.contains_key("command");
    if scope == EntryScope::Project || is_command(old) != is_command(new) {
        return new.clone();
    }
    let mut replacement = old.clone();
    // An address under another key means another transport; the new one counts.
    replacement.retain(|key, _| new.contains_key(key) || !URL_KEYS.contains(&key.as_str()));
    for (key, value) in new {
        // The user keeps the variables of the old entry; the new entry adds its own.
        if let (Some(Value::Object(old)), Value::Object(new)) = (replacement.get_mut(key), value) {
            old.extend(new.clone());
            continue;
        }
        // The user has chosen tools; a new entry names all of them.
        if key == "tools" && old.contains_key(key) {
            continue;
        }
        // To every client, a command without a type is a program to start.
        if key != "type" || old.contains_key(key) || value != "stdio" {
            replacement.insert(key.clone(), value.clone());
        }
    }
    replacement
}

/// An entry with its type.
fn typed_entry(server: &ClientTransport) -> ServerEntry {
    match server {
        ClientTransport::Command { program, args } => {
            let mut entry = entry([("type", "stdio".into())]);
            entry.extend(command_entry(program, args));
            entry
        }
        ClientTransport::Url(url) => entry([("type", "http".into()), ("url", url.clone().into())]),
    }
}

/// An entry for a program to start.
fn command_entry(program: &str, args: &[String]) -> ServerEntry {
    entry([("command", program.into()), ("args", args.into())])
}

/// An entry of string keys, in the order given.
fn entry<const N: usize>(pairs: [(&str, Value); N]) -> ServerEntry {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
