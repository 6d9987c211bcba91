//! The pinned playwright engine in the data folder: finding it, and putting it there.
//!
//! The package list and its lock file are part of this binary, so that every greenroom of one version runs the
//! same engine, never `latest`. It stands in `<data>/engines/playwright/<version>/`; [`locate`] is cheap and
//! starts nothing, [`install`] runs npm. An installation is made in a folder beside the target and renamed
//! into place when it is whole: what [`locate`] finds is never half of one.
//!
//! `greenroom setup` installs, everybody else locates.

mod lock;
mod npm_ci;

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::LazyLock,
};

use greenroom_core::port::StartError;
use serde::Deserialize;

use crate::{errand::ErrandError, launcher::Launcher, node::Npm, run_folder::make_private};

const PACKAGE: &str = include_str!("../../../engines/playwright/package.json");
const LOCK: &str = include_str!("../../../engines/playwright/package-lock.json");
const NPMRC: &str = include_str!("../../../engines/playwright/.npmrc");

/// The engine's package below `node_modules`, as the lock file spells it.
const ENGINE: &str = "node_modules/@playwright/mcp";

/// All of the engine's code is in this package, so one without it is not an engine.
const CORE: &str = "node_modules/playwright-core/package.json";

/// How the folders of unfinished installations begin.
const PART: &str = ".part-";

/// The engine, installed and of the pinned version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Located {
    /// What Node runs.
    pub cli: PathBuf,
    pub version: String,
}

/// Why [`locate`] found no usable engine.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotInstalled {
    #[error("the playwright engine is not installed: `{}`", .path.display())]
    Missing { path: PathBuf },
    #[error("the playwright engine is {found}, {wanted} is needed: `{}`", .path.display())]
    WrongVersion { found: String, wanted: String, path: PathBuf },
    #[error("the playwright engine is damaged, {why}: `{}`", .path.display())]
    Damaged { why: String, path: PathBuf },
}

impl NotInstalled {
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Missing { .. } => "run `greenroom setup`",
            Self::WrongVersion { .. } | Self::Damaged { .. } => "run `greenroom setup`, which replaces it",
        }
    }
}

impl From<NotInstalled> for StartError {
    fn from(error: NotInstalled) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

/// What [`install`] is doing, for whoever watches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another greenroom installs at this moment.
    Waiting,
    /// npm is at work.
    Downloading,
}

/// An engine that is there now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installed {
    pub engine: Located,
    /// It was there before, or another greenroom put it there while this one waited.
    pub already: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error("cannot write the engine's folder: `{}`: {source}", .path.display())]
    Folder { path: PathBuf, source: io::Error },
    #[error("another greenroom has been installing the engine for too long: `{}`", .lock.display())]
    Busy { lock: PathBuf },
    #[error("npm {0}")]
    Npm(#[from] ErrandError),
    #[error("npm could not install the playwright engine {wanted}: {last_words}")]
    Failed { wanted: String, last_words: String, target: PathBuf },
    /// npm was content, but what it left is not the pinned engine.
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

/// The pinned version of the engine, as the embedded lock file has it.
pub fn version() -> &'static str {
    static VERSION: LazyLock<String> = LazyLock::new(|| locked(LOCK).unwrap_or_default());
    &VERSION
}

/// The version of the engine in a lock file.
fn locked(lock: &str) -> Option<String> {
    let lock: serde_json::Value = serde_json::from_str(lock).ok()?;
    lock["packages"][ENGINE]["version"].as_str().map(ToOwned::to_owned)
}

/// Where the pinned engine stands, or is to stand.
pub fn target(data_folder: &Path) -> PathBuf {
    engines(data_folder).join("playwright").join(version())
}

fn engines(data_folder: &Path) -> PathBuf {
    data_folder.join("engines")
}

/// Looks whether the pinned engine is there. Reads one small file and starts nothing.
pub fn locate(data_folder: &Path) -> Result<Located, NotInstalled> {
    look(&target(data_folder))
}

/// [`locate`] for an engine that stands in `folder`.
fn look(folder: &Path) -> Result<Located, NotInstalled> {
    #[derive(Deserialize)]
    struct Package {
        version: String,
    }

    if !folder.is_dir() {
        return Err(NotInstalled::Missing { path: folder.to_owned() });
    }
    let damaged = |why: &str| NotInstalled::Damaged { why: why.to_owned(), path: folder.to_owned() };
    let package =
        fs::read(folder.join(ENGINE).join("package.json")).map_err(|_| damaged("it has no package.json"))?;
    let package: Package =
        serde_json::from_slice(&package).map_err(|_| damaged("its package.json names no version"))?;
    if package.version != version() {
        let path = folder.to_owned();
        return Err(NotInstalled::WrongVersion {
            found: package.version,
            wanted: version().to_owned(),
            path,
        });
    }
    let cli = folder.join(ENGINE).join("cli.js");
    // A file system that lost power keeps names of files whose content it never wrote.
    if !cli.metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
        return Err(damaged("it has no cli.js"));
    }
    if !folder.join(CORE).is_file() {
        return Err(damaged("it has no playwright-core"));
    }
    Ok(Located { cli, version: package.version })
}

/// Installs the pinned engine unless it is there. One installation at a time per data folder: a second one
/// waits for the first and then finds its work done.
pub async fn install(
    launcher: &Launcher,
    data_folder: &Path,
    npm: &Npm,
    progress: &mut (dyn FnMut(Progress) + Send),
) -> Result<Installed, InstallError> {
    if let Ok(engine) = locate(data_folder) {
        return Ok(Installed { engine, already: true });
    }
    let engines = engines(data_folder);
    make_private(&engines).map_err(|source| InstallError::Folder { path: engines.clone(), source })?;
    let _lock = lock::take(&engines.join("lock"), &mut || progress(Progress::Waiting)).await?;
    if let Ok(engine) = locate(data_folder) {
        return Ok(Installed { engine, already: true });
    }
    progress(Progress::Downloading);
    let engine = npm_ci::install(launcher, npm, &target(data_folder)).await?;
    Ok(Installed { engine, already: false })
}

#[cfg(test)]
mod tests;
