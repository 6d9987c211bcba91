//! The pinned engines in the data folder: finds them, and installs them.
//!
//! Each engine's package list and lock file are part of this binary, so that every greenroom of one version runs the same
//! engines, never `latest`. An engine is a [`Package`], [`PLAYWRIGHT`] or [`DEVTOOLS`], in the folder
//! `<data>/engines/<name>/<version>/`; [`Package::locate`] is cheap and starts nothing, [`Package::install`] runs npm. An
//! installation is made in a temporary folder with the same parent as the target and renamed when it is complete:
//! [`Package::locate`] never finds half of one.
//!
//! `greenroom setup` installs; all other code only locates.

mod lock;
mod npm_ci;
mod package;

use std::{io, path::PathBuf};

use greenroom_core::port::StartError;

use crate::run_command::RunError;

pub use package::Package;

pub use crate::{devtools::DEVTOOLS, playwright::PLAYWRIGHT};

/// The engine, installed and of the pinned version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LocatedEngine {
    /// The file that Node runs.
    pub cli: PathBuf,
    pub version: String,
}

/// Why [`Package::locate`] found no usable engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInstalled {
    #[error("the {engine} engine is not installed: `{}`", .path.display())]
    Missing { engine: &'static str, path: PathBuf },
    #[error("the {engine} engine is {found}, {wanted} is needed: `{}`", .path.display())]
    WrongVersion { engine: &'static str, found: String, wanted: String, path: PathBuf },
    #[error("the {engine} engine is damaged, {why}: `{}`", .path.display())]
    Damaged { engine: &'static str, why: String, path: PathBuf },
}

impl NotInstalled {
    pub fn hint(&self) -> String {
        // Without `--engine`, setup installs the engines of the configuration that it reads, which may not name this
        // engine.
        let named = |engine: &str| {
            if engine == PLAYWRIGHT.name { String::new() } else { format!(" --engine {engine}") }
        };
        match self {
            Self::Missing { engine, .. } => format!("run `greenroom setup{}`", named(engine)),
            Self::WrongVersion { engine, .. } | Self::Damaged { engine, .. } => {
                format!("run `greenroom setup{}`, which replaces it", named(engine))
            }
        }
    }
}

impl From<NotInstalled> for StartError {
    fn from(error: NotInstalled) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

/// The progress of [`Package::install`], for display.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallProgress {
    /// Another greenroom is installing.
    Waiting,
    /// npm is running.
    Downloading,
}

/// An installed engine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InstalledEngine {
    pub engine: LocatedEngine,
    /// Whether it was installed before, or by another greenroom while this one waited.
    pub already: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot write the engine's folder: `{}`: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("another greenroom has been installing the engine for too long: `{}`", .lock.display())]
    Busy { lock: PathBuf },
    #[error("npm {0}")]
    Npm(#[from] RunError),
    #[error("npm could not install the {engine} engine {wanted}: {stderr_tail}")]
    Failed { engine: &'static str, wanted: String, stderr_tail: String, target: PathBuf },
    /// npm succeeded, but its result is not the pinned engine.
    #[error("npm left no usable engine: {0}")]
    Unusable(NotInstalled),
}

impl InstallError {
    pub fn hint(&self) -> String {
        match self {
            Self::Folder { .. } => "make the data folder writable, or choose another one".to_owned(),
            Self::Busy { .. } => "end the other `greenroom setup` and run this one again".to_owned(),
            Self::Npm(_) | Self::Unusable(_) => "try `npm ping`, then `greenroom setup` again".to_owned(),
            Self::Failed { target, .. } => format!(
                "try `npm ping`; set a proxy or registry in npm's own config; or copy the folder from a machine \
                 that has it: `{}`",
                target.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests;
