//! A pinned engine, and whether it is installed.

use std::{
    path::{Path, PathBuf},
    sync::LazyLock,
};

use serde::Deserialize;

use super::{InstallError, InstallProgress, InstalledEngine, LocatedEngine, NotInstalled, lock, npm_ci};
use crate::{
    launcher::Launcher,
    node::{Node, NodeError, Npm},
    run_folder::make_private,
};

/// A package's manifest has a few kilobytes.
const MANIFEST_BYTES_MAX: u64 = 1024 * 1024;

/// A pinned engine.
pub struct Package {
    /// Its name, and that of its folder below `engines/`.
    pub name: &'static str,
    /// Its package list.
    pub(crate) manifest: &'static str,
    pub(crate) lock: &'static str,
    pub(crate) npmrc: &'static str,
    /// Its name at npm.
    pub module: &'static str,
    /// The file that Node runs, in the module's folder.
    pub(crate) cli: &'static str,
    /// The main part of its code: its name for messages, and its path below `node_modules`.
    pub(crate) code: (&'static str, &'static str),
    /// The Node versions on which it runs: as text, and as the lowest minor version of each major one; newer versions than
    /// the last work too.
    pub(crate) node: (&'static str, &'static [(u32, u32)]),
    /// The result of [`Package::locked_version`].
    pub(crate) version: LazyLock<String>,
}

impl Package {
    /// The pinned version, from the embedded lock file.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Whether it runs on this Node.
    pub fn runs_on(&self, node: &Node) -> Result<(), NodeError> {
        let mut parts = node.version.split('.').map(|part| part.parse::<u32>().unwrap_or(0));
        let major = parts.next().unwrap_or(0);
        let minor = parts.next().unwrap_or(0);
        let (wanted, least) = self.node;
        let is_suitable = least.iter().any(|(for_major, min)| *for_major == major && minor >= *min)
            || least.last().is_some_and(|(newest, _)| major > *newest);
        if is_suitable {
            return Ok(());
        }
        Err(NodeError::TooOldFor {
            engine: self.name,
            wanted,
            found: node.version.clone(),
            path: node.path.clone(),
        })
    }

    /// The version in the lock file.
    pub(crate) fn locked_version(&self) -> Option<String> {
        let lock: serde_json::Value = serde_json::from_str(self.lock).ok()?;
        let module = format!("node_modules/{}", self.module);
        lock["packages"][module]["version"].as_str().map(ToOwned::to_owned)
    }

    /// The pinned engine's folder, whether or not it is installed.
    pub fn target(&self, data_folder: &Path) -> PathBuf {
        engines(data_folder).join(self.name).join(self.version())
    }

    /// Checks whether the pinned engine is installed. Reads one small file and starts nothing.
    pub fn locate(&self, data_folder: &Path) -> Result<LocatedEngine, NotInstalled> {
        self.check_folder(&self.target(data_folder))
    }

    /// [`Package::locate`] for an engine in `folder`.
    pub(super) fn check_folder(&self, folder: &Path) -> Result<LocatedEngine, NotInstalled> {
        #[derive(Deserialize)]
        struct PackageManifest {
            version: String,
        }

        let engine = self.name;
        if !folder.is_dir() {
            return Err(NotInstalled::Missing { engine, path: folder.to_owned() });
        }
        let damaged = |why: String| NotInstalled::Damaged { engine, why, path: folder.to_owned() };
        let modules = folder.join("node_modules");
        let module = modules.join(self.module);
        let manifest = greenroom_files::read(&module.join("package.json"), MANIFEST_BYTES_MAX)
            .map_err(|_| damaged("it has no package.json".to_owned()))?;
        let PackageManifest { version } = serde_json::from_slice(&manifest)
            .map_err(|_| damaged("its package.json names no version".to_owned()))?;
        if version != self.version() {
            let wanted = self.version().to_owned();
            let path = folder.to_owned();
            return Err(NotInstalled::WrongVersion { engine, found: version, wanted, path });
        }
        let cli = module.join(self.cli);
        // After a power failure a file system may keep names of files whose content it never wrote.
        if !cli.metadata().is_ok_and(|file| file.is_file() && file.len() > 0) {
            let name = cli.file_name().unwrap_or_default().display();
            return Err(damaged(format!("it has no {name}")));
        }
        let (name, code) = self.code;
        if !modules.join(code).is_file() {
            return Err(damaged(format!("it has no {name}")));
        }
        Ok(LocatedEngine { cli, version })
    }

    /// Installs the pinned engine unless it is installed. One installation at a time per data folder: a second one waits for
    /// the first and then finds the engine installed.
    pub async fn install(
        &self,
        launcher: &Launcher,
        data_folder: &Path,
        npm: &Npm,
        progress: &mut (dyn FnMut(InstallProgress) + Send),
    ) -> Result<InstalledEngine, InstallError> {
        if let Ok(engine) = self.locate(data_folder) {
            return Ok(InstalledEngine { engine, already: true });
        }
        let engines = engines(data_folder);
        make_private(&engines).map_err(|source| InstallError::Folder { path: engines.clone(), source })?;
        let _lock = lock::take(&engines.join("lock"), &mut || progress(InstallProgress::Waiting)).await?;
        if let Ok(engine) = self.locate(data_folder) {
            return Ok(InstalledEngine { engine, already: true });
        }
        progress(InstallProgress::Downloading);
        let engine = npm_ci::install(self, launcher, npm, &self.target(data_folder)).await?;
        Ok(InstalledEngine { engine, already: false })
    }
}

fn engines(data_folder: &Path) -> PathBuf {
    data_folder.join("engines")
}
