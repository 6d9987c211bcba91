//! Finds Node and npm on the search path and says whether they are suitable.
//!
//! The pinned engines are Node programs, so greenroom needs Node, and does not ship it. The caller gives the search path;
//! nothing is read from the environment. npm is searched for in Node's folder first, so that the two match.

use std::{
    ffi::{OsStr, OsString},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    time::Duration,
};

use greenroom_core::port::StartError;

use crate::{
    launcher::{Launcher, ProcessSpec},
    run_command::{self, RunError},
};

/// The oldest Node on which the pinned engines' libraries run.
pub const MAJOR_MIN: u32 = 20;

/// `node --version` takes 50 ms; on a machine that swaps it takes seconds, but not this long.
const VERSION_WITHIN: Duration = Duration::from_secs(20);

/// How Node uses memory. By default it takes what suits a busy server: 16 MB for each half of the young generation, four
/// worker threads, and allocator arenas for them all. An engine mostly waits; with these flags it takes 26 MB of 125 less at
/// 12 sessions, and no more time even for a snapshot of 600 KB. With less than 8 MB for each half it does take more
/// time.
pub(crate) const NODE_FLAGS: [&str; 2] = ["--max-semi-space-size=8", "--v8-pool-size=1"];
const NODE_ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

/// A suitable Node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub path: PathBuf,
    /// Without the `v`: `20.20.2`.
    pub version: String,
}

/// The npm that goes with a [`Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Npm {
    pub path: PathBuf,
    /// npm is a script that looks for `node` on its search path: this Node's folder comes first here.
    search_path: OsString,
}

#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    #[error("Node is not on the search path: `{name}`")]
    Missing { name: String },
    #[error("Node is not an executable file: `{}`", .path.display())]
    NotExecutable { path: PathBuf },
    #[error("Node {MAJOR_MIN} or newer is needed, this is {found}: `{}`", .path.display())]
    TooOld { found: String, path: PathBuf },
    #[error("the {engine} engine needs Node {wanted}, this is {found}: `{}`", .path.display())]
    TooOldFor { engine: &'static str, wanted: &'static str, found: String, path: PathBuf },
    #[error("Node did not say its version: `{}`: {why}", .path.display())]
    Unusable { path: PathBuf, why: String },
    #[error("npm is not on the search path: `npm`")]
    NoNpm,
    #[error("npm does not work: `{}`: {why}", .path.display())]
    UnusableNpm { path: PathBuf, why: String },
}

impl NodeError {
    pub fn hint(&self) -> String {
        match self {
            Self::NoNpm | Self::UnusableNpm { .. } => {
                "install npm (`apt-get install npm`; Node's own packages bring it along)".to_owned()
            }
            Self::TooOldFor { wanted, .. } => format!(
                "install Node {wanted} from your system's packages or https://nodejs.org, or set `node` to the path of one"
            ),
            _ => format!(
                "install Node {MAJOR_MIN} or newer from your system's packages or https://nodejs.org, or set `node` \
                 to the path of one"
            ),
        }
    }
}

impl From<NodeError> for StartError {
    fn from(error: NodeError) -> Self {
        Self::new(error.to_string()).hint(error.hint())
    }
}

/// Finds Node without starting it. `configured` is the user's own choice: a path, or a bare name to look up.
pub fn locate(configured: Option<&Path>, search_path: &OsStr) -> Result<PathBuf, NodeError> {
    let configured = configured.unwrap_or(Path::new("node"));
    let name = configured.as_os_str();
    if configured.file_name() == Some(name) {
        return on_path(name, search_path)
            .ok_or_else(|| NodeError::Missing { name: name.display().to_string() });
    }
    if is_executable(configured) {
        Ok(configured.to_owned())
    } else {
        Err(NodeError::NotExecutable { path: configured.to_owned() })
    }
}

/// The command that runs an engine, with only the environment variables that it needs.
pub(crate) fn engine_command(node: PathBuf, cli: PathBuf) -> ProcessSpec {
    let (arenas, count) = NODE_ARENAS;
    ProcessSpec::new(node).minimal_env().env(arenas, count).args(NODE_FLAGS).arg(cli)
}

/// Finds Node as [`locate`] does, and asks it for its version.
pub async fn find(
    launcher: &Launcher,
    configured: Option<&Path>,
    search_path: &OsStr,
) -> Result<Node, NodeError> {
    let path = locate(configured, search_path)?;
    let spec = ProcessSpec::new(&path).arg("--version");
    let version = match version(launcher, "node", spec).await {
        Ok(version) => version,
        Err(why) => return Err(NodeError::Unusable { path, why }),
    };
    let version = version.strip_prefix('v').unwrap_or(&version).to_owned();
    match version.split('.').next().and_then(|major| major.parse::<u32>().ok()) {
        Some(major) if major >= MAJOR_MIN => Ok(Node { path, version }),
        Some(_) => Err(NodeError::TooOld { found: version, path }),
        None => Err(NodeError::Unusable { path, why: format!("it printed `{version}`") }),
    }
}

/// Finds the npm that goes with `node`: in its folder, else on the search path.
pub fn npm(node: &Node, search_path: &OsStr) -> Result<Npm, NodeError> {
    let folder = node.path.parent().unwrap_or(Path::new("/"));
    let folders = std::iter::once(folder.to_owned()).chain(std::env::split_paths(search_path));
    // A search path cannot contain a folder with a colon in its name; npm then uses the Node that it finds.
    let search_path = std::env::join_paths(folders).unwrap_or_else(|_| search_path.to_owned());
    let path = on_path("npm", &search_path).ok_or(NodeError::NoNpm)?;
    Ok(Npm { path, search_path })
}

impl Npm {
    /// Asks npm for its version, which proves that it runs.
    pub async fn version(&self, launcher: &Launcher) -> Result<String, NodeError> {
        version(launcher, "npm", self.spec().arg("--version"))
            .await
            .map_err(|why| NodeError::UnusableNpm { path: self.path.clone(), why })
    }

    pub(crate) fn spec(&self) -> ProcessSpec {
        ProcessSpec::new(&self.path).env("PATH", &self.search_path)
    }
}

async fn version(launcher: &Launcher, name: &str, spec: ProcessSpec) -> Result<String, String> {
    let done = run_command::run(launcher, name, spec, VERSION_WITHIN).await;
    let done = done.map_err(|error: RunError| error.to_string())?;
    let output = done.stdout.lines().next().unwrap_or_default().trim();
    match (done.exit.is_success(), output) {
        (false, _) => Err(format!("{}; its last output: {}", done.exit, done.stderr_tail)),
        (true, "") => Err("it printed nothing".to_owned()),
        (true, output) => Ok(output.to_owned()),
    }
}

/// The first executable file of this name on a search path. Relative entries are skipped: their meaning depends on where
/// greenroom was started.
pub fn on_path(name: impl AsRef<OsStr>, search_path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .map(|folder| folder.join(name.as_ref()))
        .find(|path| is_executable(path))
}

/// Whether this is a file with an execute permission.
pub(crate) fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn script(folder: &Path, name: &str, text: &str) {
        let path = folder.join(name);
        fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    async fn check(text: &str) -> Result<Node, NodeError> {
        let folder = tempfile::tempdir().unwrap();
        script(folder.path(), "node", text);
        find(&Launcher::start("node-test").unwrap(), None, folder.path().as_os_str()).await
    }

    /// Only a Node that prints a new enough version is accepted; each other one is refused by name.
    #[tokio::test]
    async fn node_must_be_new_enough() {
        assert_eq!(check("echo v20.1.0").await.unwrap().version, "20.1.0");
        assert!(
            matches!(check("echo v18.19.1").await, Err(NodeError::TooOld { found, .. }) if found == "18.19.1")
        );
        assert!(matches!(check("echo hello").await, Err(NodeError::Unusable { .. })));
        assert!(matches!(check("exit 1").await, Err(NodeError::Unusable { .. })));
    }

    /// Without Node the error says where greenroom looked, and what to do.
    #[tokio::test]
    async fn missing_node_error_names_the_program() {
        let launcher = Launcher::start("node-test").unwrap();
        for (configured, message) in [
            (None, "Node is not on the search path: `node`"),
            (Some("node22"), "Node is not on the search path: `node22`"),
            (Some("/nowhere/node"), "Node is not an executable file: `/nowhere/node`"),
        ] {
            let error = find(&launcher, configured.map(Path::new), OsStr::new("/nowhere")).await.unwrap_err();
            assert_eq!(error.to_string(), message);
            assert!(error.hint().contains("Node 20"));
        }
    }

    /// npm is the one in Node's folder, even if another comes earlier on the search path.
    #[test]
    fn npm_in_the_folder_of_node_is_preferred() {
        let node_folder = tempfile::tempdir().unwrap();
        let other_folder = tempfile::tempdir().unwrap();
        script(node_folder.path(), "npm", "");
        script(other_folder.path(), "npm", "");
        let node = Node { path: node_folder.path().join("node"), version: "20.0.0".into() };
        assert_eq!(npm(&node, other_folder.path().as_os_str()).unwrap().path, node_folder.path().join("npm"));
        let node = Node { path: "/nowhere/node".into(), version: "20.0.0".into() };
        assert_eq!(
            npm(&node, other_folder.path().as_os_str()).unwrap().path,
            other_folder.path().join("npm")
        );
        assert!(matches!(npm(&node, OsStr::new("/nowhere")), Err(NodeError::NoNpm)));
    }
}
