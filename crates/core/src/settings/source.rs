//! The sources of a configuration, and where each value was set.

use std::{ffi::OsString, fmt, path::PathBuf};

use super::{setting_macro::Setting, value_type::FlagShape};

/// The variable and the flag that name the config file. They are not settings, since they decide where settings are
/// read.
pub const CONFIG_VARIABLE: &str = "GREENROOM_CONFIG";
pub const CONFIG_FLAG: &str = "config";

/// The variable that names the session of commands such as `greenroom open`. It is not a setting: servers do not use
/// it.
pub const SESSION_VARIABLE: &str = "GREENROOM_SESSION";

/// The variable with the API key that `greenroom mcp --server` sends. It is not a setting: it is a secret of one server.
pub const API_KEY_VARIABLE: &str = "GREENROOM_API_KEY";

/// All sources of a configuration, not yet parsed.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    /// The platform's data folder for greenroom, the default of `data_dir`; `None` when the home folder is unknown.
    pub data_dir: Option<PathBuf>,
    /// Where relative paths of environment, `.env` and flags start.
    pub working_dir: PathBuf,
    /// Where the user's own config file is or would be, for hints.
    pub user_file: Option<PathBuf>,
    /// Config files, the later ones winning.
    pub files: Vec<ConfigFile>,
    pub dotenv: Option<DotEnv>,
    /// The environment; names that are not [ours](super::is_ours) are ignored.
    pub environment: Vec<(OsString, OsString)>,
    /// Flags that were given: key and value.
    pub flags: Vec<(&'static str, String)>,
    /// Flags that name browsers to attach to, in the order of the command line.
    pub browsers: Vec<BrowserFlag>,
}

impl Sources {
    /// The user's own sources: all but files that merely lie in the working directory.
    pub(super) fn own(&self) -> Self {
        let files = self.files.iter().filter(|file| file.trusted).cloned().collect();
        Self { files, dotenv: None, ..self.clone() }
    }

    /// Where the user may set what a file in the working directory may not.
    pub(super) fn instead(&self, setting: &Setting) -> String {
        let file =
            self.user_file.as_ref().map_or_else(String::new, |file| format!(", or in {}", file.display()));
        let flag = match setting.shape() {
            FlagShape::None => String::new(),
            _ => format!(", as --{}", setting.flag()),
        };
        format!(
            "set it as {} in the environment{flag}{file}",
            setting.alias.map_or_else(|| setting.variable(), str::to_owned)
        )
    }

    /// The same for a value of a declared pool. The hint names the user's own file, whose pool the other file extends;
    /// a variable would replace the file's whole pool.
    pub(super) fn instead_in_pool(&self, key: &str, site: &SettingLocation) -> String {
        match &self.user_file {
            _ if !site.is_in_file() => format!("set {key} in the environment"),
            Some(file) => format!("set it in {}", file.display()),
            None => "name the file with --config".to_owned(),
        }
    }
}

/// The flags that name a browser to attach to, by its debugger's address: an HTTP address, or a WebSocket.
pub const BROWSER_URL: &str = "--browserUrl";
pub const WS_ENDPOINT: &str = "--wsEndpoint";

/// A flag that names a browser.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrowserFlag {
    /// [`BROWSER_URL`] or [`WS_ENDPOINT`].
    pub flag: &'static str,
    /// `[LABEL=]URL[|START COMMAND]`
    pub value: String,
}

#[derive(Debug, Clone)]
pub struct ConfigFile {
    pub path: PathBuf,
    pub text: String,
    /// The user named the file, or it is the user's own; it does not merely lie in the working directory.
    pub trusted: bool,
}

#[derive(Debug, Clone)]
pub struct DotEnv {
    pub path: PathBuf,
    pub text: String,
}

/// Where a value came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    Default,
    File(PathBuf),
    DotEnv(PathBuf),
    /// The variable's name.
    Env(String),
    /// The flag with its dashes.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) | Self::DotEnv(path) => path.display().fmt(f),
            Self::Env(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}

/// One place where something about a pool is set: the variable or the dotted key as written there, and its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SettingLocation {
    pub name: String,
    pub origin: Origin,
}

impl SettingLocation {
    /// The source, unless the name alone says it.
    pub(super) fn place(&self) -> Option<String> {
        match &self.origin {
            Origin::File(path) | Origin::DotEnv(path) => Some(path.display().to_string()),
            Origin::Default | Origin::Env(_) | Origin::Flag(_) => None,
        }
    }

    pub(super) fn is_in_file(&self) -> bool {
        matches!(self.origin, Origin::File(_))
    }
}

impl fmt::Display for SettingLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`", self.name)?;
        self.place().map_or(Ok(()), |place| write!(f, " in {place}"))
    }
}
