//! The process's environment, its working directory, and the folders that the platform assigns to a program.

use std::{
    ffi::{OsStr, OsString},
    path::PathBuf,
};

use anyhow::Context;
use greenroom_engine::browser::InstallPaths;

/// The environment as it was when the process started.
#[derive(Debug, Clone)]
pub struct ProcessEnv {
    pub variables: Vec<(OsString, OsString)>,
    pub working_dir: PathBuf,
    home: Option<PathBuf>,
}

impl ProcessEnv {
    pub fn read() -> anyhow::Result<Self> {
        Ok(Self {
            variables: std::env::vars_os().collect(),
            working_dir: std::env::current_dir().context("the working directory is gone or not readable")?,
            home: std::env::home_dir().filter(|home| home.is_absolute()),
        })
    }

    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_os_str())
    }

    /// The search path for programs.
    pub fn search_path(&self) -> &OsStr {
        self.variable("PATH").unwrap_or_default()
    }

    /// Where to look for browsers and for Node.
    pub fn install_paths(&self) -> InstallPaths {
        InstallPaths::new(self.home.clone(), self.search_path().to_owned())
    }

    /// greenroom's data folder on this platform.
    pub fn data_dir(&self) -> Option<PathBuf> {
        let data = if cfg!(target_os = "macos") {
            self.home.as_ref().map(|home| home.join("Library/Application Support"))
        } else {
            self.base_dir("XDG_DATA_HOME", ".local/share")
        };
        data.map(|folder| folder.join("greenroom"))
    }

    /// The user's own config file. On macOS too it is in `~/.config`, where its users look for the configuration of command
    /// line programs.
    pub fn user_file(&self) -> Option<PathBuf> {
        self.xdg_config_dir().map(|folder| folder.join("greenroom/greenroom.toml"))
    }

    /// The configuration folder of command line programs, on every platform.
    pub fn xdg_config_dir(&self) -> Option<PathBuf> {
        self.base_dir("XDG_CONFIG_HOME", ".config")
    }

    /// The platform's configuration folder for programs with windows.
    pub fn app_config_dir(&self) -> Option<PathBuf> {
        if cfg!(target_os = "macos") {
            self.home.as_ref().map(|home| home.join("Library/Application Support"))
        } else {
            self.base_dir("XDG_CONFIG_HOME", ".config")
        }
    }

    pub fn home(&self) -> Option<PathBuf> {
        self.home.clone()
    }

    /// A folder that a variable names. A relative one is relative to the working directory.
    pub fn folder(&self, variable: &str) -> Option<PathBuf> {
        let named = self.variable(variable).filter(|path| !path.is_empty())?;
        Some(self.working_dir.join(named))
    }

    /// A folder of the XDG base directory specification, which says to ignore relative paths.
    fn base_dir(&self, variable: &str, in_home: &str) -> Option<PathBuf> {
        let set = self.variable(variable).map(PathBuf::from).filter(|path| path.is_absolute());
        set.or_else(|| self.home.as_ref().map(|home| home.join(in_home)))
    }
}
