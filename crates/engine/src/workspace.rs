//! The agent's workspace: which of its files may pass into a session's folder, and which places a result may go to.
//!
//! An agent names files of its own workspace: to upload them, or to have a result written there. An engine may touch the
//! session's folder only. So files that an agent hands over are checked against its roots and copied in, and files that
//! it asked for by name are copied out. greenroom's own data folder is nobody's workspace, also where it lies within
//! one: the private folders of all sessions are in it. Which arguments of which tools are files, each engine's adapter
//! knows.

use std::path::{Component, Path, PathBuf};

use greenroom_core::Agent;

/// The folders that a session's files are judged by.
pub(crate) struct Place<'a> {
    /// The session's own.
    pub(crate) folder: &'a Path,
    /// greenroom's, with those of all sessions.
    pub(crate) data: &'a Path,
}

/// Why a file cannot pass. Said to the agent as a failed tool.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("file is outside your workspace: `{path}`\n\nhint: {hint}")]
    Outside { path: String, hint: String },
    #[error("file belongs to greenroom: `{path}`")]
    Ours { path: String },
    #[error("local files are out of reach for browsers: `{url}`")]
    LocalUrl { url: String },
    #[error("cannot read the file: {error}: `{path}`")]
    Unreadable { path: String, error: std::io::Error },
    #[error("not a regular file: `{path}`")]
    NotAFile { path: String },
    #[error("cannot copy the file into the session: {error}: `{path}`")]
    Copy { path: String, error: std::io::Error },
}

/// Whether a page at this address would show files of this machine. Engines refuse `file:` themselves, but not
/// behind `view-source:`, which is for pages of the web then. Browsers read over blanks and control characters.
pub(crate) fn shows_local_files(url: &str) -> bool {
    let plain: String = url.chars().filter(|c| !c.is_whitespace() && !c.is_control()).collect();
    let plain = plain.to_ascii_lowercase();
    let source = plain.strip_prefix("view-source:");
    plain.starts_with("file:")
        || source.is_some_and(|source| !["http:", "https:"].iter().any(|web| source.starts_with(web)))
}

/// The agent's folders, links followed.
pub(crate) struct Roots {
    folders: Vec<PathBuf>,
    /// greenroom's own folder, which is never among them.
    data: PathBuf,
}

impl Roots {
    pub(crate) async fn of(agent: &dyn Agent, data: &Path) -> Self {
        let mut folders = Vec::new();
        for root in agent.roots().await {
            match tokio::fs::canonicalize(&root).await {
                Ok(root) => folders.push(root),
                Err(error) => {
                    tracing::debug!(%error, root = %root.display(), "a root of the client cannot be used");
                }
            }
        }
        let data = tokio::fs::canonicalize(data).await.unwrap_or_else(|_| data.to_owned());
        Self { folders, data }
    }

    fn outside(&self, path: &str) -> Refused {
        let roots: Vec<_> = self.folders.iter().map(|root| format!("`{}`", root.display())).collect();
        let hint = if roots.is_empty() {
            "your client has no folder here: it offers no roots, or it came over HTTP, where files cannot cross; \
             `greenroom mcp` can hand them over"
                .to_owned()
        } else {
            format!("allowed folders are {}", roots.join(", "))
        };
        Refused::Outside { path: path.to_owned(), hint }
    }

    /// Relative names start at the first root.
    fn absolute(&self, path: &str) -> Result<PathBuf, Refused> {
        let root = self.folders.first().ok_or_else(|| self.outside(path))?;
        Ok(root.join(path))
    }

    /// Judges a file, given as `path`, that is really at `real`.
    fn admit(&self, path: &str, real: &Path) -> Result<(), Refused> {
        if real.starts_with(&self.data) {
            return Err(Refused::Ours { path: path.to_owned() });
        }
        let inside = self.folders.iter().any(|root| real.starts_with(root));
        if inside { Ok(()) } else { Err(self.outside(path)) }
    }

    /// Copies a file of the agent's into a folder.
    pub(crate) async fn copy_in(&self, path: &str, folder: &Path) -> Result<PathBuf, Refused> {
        let named = self.absolute(path)?;
        let unreadable = |error| Refused::Unreadable { path: path.to_owned(), error };
        let real = tokio::fs::canonicalize(&named).await.map_err(unreadable)?;
        self.admit(path, &real)?;
        if !tokio::fs::metadata(&real).await.map_err(unreadable)?.is_file() {
            return Err(Refused::NotAFile { path: path.to_owned() });
        }
        let failed = |error| Refused::Copy { path: path.to_owned(), error };
        tokio::fs::create_dir_all(folder).await.map_err(failed)?;
        let copy = folder.join(named.file_name().unwrap_or_default());
        tokio::fs::copy(&real, &copy).await.map_err(failed)?;
        Ok(copy)
    }

    /// Where a file goes that the agent named. What it writes there it may overwrite, but not through a link.
    pub(crate) async fn admit_out(&self, agent_name: &str) -> Result<PathBuf, Refused> {
        let target = normal(&self.absolute(agent_name)?).ok_or_else(|| self.outside(agent_name))?;
        // The folder may not exist yet; whatever of its path does, must lie within a root.
        let mut existing = target.parent();
        let real = loop {
            let Some(folder) = existing else { return Err(self.outside(agent_name)) };
            match tokio::fs::canonicalize(folder).await {
                Ok(real) => break real,
                Err(_) => existing = folder.parent(),
            }
        };
        let link = tokio::fs::symlink_metadata(&target).await.is_ok_and(|meta| meta.is_symlink());
        self.admit(agent_name, &real)?;
        if link {
            return Err(self.outside(agent_name));
        }
        Ok(target)
    }
}

/// The path without `.` and `..`, or nothing when it climbs above the root of the file system.
fn normal(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                normal.pop().then_some(())?;
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    Some(normal)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Local files are recognised behind every spelling that a browser accepts; pages of the web are none.
    #[test]
    fn local_urls() {
        for url in [
            "file:///etc/passwd",
            "View-Source:file:///etc/passwd",
            " view-source:\tfi\nle:///etc/passwd",
            "view-source:view-source:file:///etc/passwd",
            "view-source:filesystem:file:///x",
        ] {
            assert!(shows_local_files(url), "{url:?}");
        }
        for url in
            ["https://a/file:", "view-source:https://a/", "file.example", "localhost:3000", "about:blank"]
        {
            assert!(!shows_local_files(url), "{url:?}");
        }
    }
}
