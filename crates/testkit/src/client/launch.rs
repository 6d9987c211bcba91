//! Starts a program under test with only `PATH` of this machine's environment, and with a home of its own, so that no
//! test depends on the developer's configuration or leaves anything behind.

use std::{
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
    process::Stdio,
};

use tempfile::TempDir;
use tokio::process::{Child, Command};

use super::Client;

/// A program about to be started as an MCP server over stdio.
#[derive(Debug)]
pub struct Launch {
    program: PathBuf,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    cwd: Option<PathBuf>,
    home: Home,
}

/// The program's `HOME`.
#[derive(Debug)]
pub(super) enum Home {
    /// Made for this program, removed with the client.
    Own(TempDir),
    /// Given by the test, which may start a second program in it.
    Given(PathBuf),
}

impl Home {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Given(path) => path,
        }
    }
}

impl Launch {
    pub fn new(program: impl Into<PathBuf>) -> Self {
        let home = Home::Own(TempDir::new().expect("the temporary folder is writable"));
        Self { program: program.into(), args: Vec::new(), env: Vec::new(), cwd: None, home }
    }

    #[must_use]
    pub fn arg(mut self, arg: impl AsRef<OsStr>) -> Self {
        self.args.push(arg.as_ref().to_owned());
        self
    }

    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl AsRef<OsStr>>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    #[must_use]
    pub fn env(mut self, key: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.as_ref().to_owned(), value.as_ref().to_owned()));
        self
    }

    /// The working folder; the program's home when not given.
    #[must_use]
    pub fn cwd(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cwd = Some(folder.into());
        self
    }

    /// A home that outlives the client, for tests that start a program twice.
    #[must_use]
    pub fn home(mut self, folder: impl Into<PathBuf>) -> Self {
        self.home = Home::Given(folder.into());
        self
    }

    /// Starts the program. Needs a tokio runtime, which the client's tasks live on.
    pub fn spawn(self) -> Client {
        Client::spawn(self)
    }

    pub(super) fn start(self) -> (Child, Home) {
        let home = self.home.path().to_owned();
        let mut command = Command::new(&self.program);
        command
            .args(&self.args)
            .env_clear()
            .env("HOME", &home)
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .current_dir(self.cwd.as_ref().unwrap_or(&home))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        let child = command.spawn().unwrap_or_else(|error| {
            panic!("cannot start `{}`: {error}", self.program.display());
        });
        (child, self.home)
    }
}
