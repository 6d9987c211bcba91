//! A client's file on disk: read before the question, written after it, whole or not at all.
//!
//! A link stays a link: its target is written. The mode stays, and the owner where that is allowed. A file that another
//! program changed in between is left alone. No backup is made: everything but the lines shown stays in the file.

use std::{
    fs, io,
    io::Write,
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::Context;

use super::EntryScope;
use crate::report::CliError;

/// No client's configuration is this large; a larger file is something else.
const FILE_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// A file as it was read.
pub struct File {
    path: PathBuf,
    /// Its text; `None` if there is no file.
    text: Option<String>,
}

impl File {
    pub fn read(path: PathBuf) -> anyhow::Result<Self> {
        let text = read(&path).with_context(|| format!("cannot read `{}`", path.display()))?;
        Ok(Self { path, text })
    }

    pub fn exists(&self) -> bool {
        self.text.is_some()
    }

    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    /// Writes the new text, if the file is still as it was read.
    pub fn write(&self, text: &str, scope: EntryScope) -> anyhow::Result<()> {
        let context = || format!("cannot write `{}`", self.path.display());
        if read(&self.path).with_context(context)? != self.text {
            return Err(CliError::failure(format!("`{}` has just been changed", self.path.display()))
                .hint("run this again")
                .into());
        }
        self.replace(text, scope).with_context(context)
    }

    fn replace(&self, text: &str, scope: EntryScope) -> io::Result<()> {
        let path = if self.exists() { fs::canonicalize(&self.path)? } else { self.path.clone() };
        if self.exists() && !fs::metadata(&path)?.is_file() {
            return Err(io::Error::other(format!("`{}` is not a regular file", path.display())));
        }
        // A link that came with a project may point to any file of its user. The kernel names the working directory without
        // links, so every link on the way is the project's.
        if scope == EntryScope::Project && self.path.ancestors().any(is_link) {
            return Err(io::Error::other(
                "it is a link, or lies in a folder that is one, which may lead out of the project",
            ));
        }
        let folder = path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder)?;
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let part = folder.join(format!(".{name}.{}.part", std::process::id()));
        // Others may read a project's file; the user's own file may hold secrets later.
        let mode = if scope == EntryScope::Project { 0o666 } else { 0o600 };
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(mode).open(&part)?;
        let written = self
            .keep_attributes(&path, &file)
            .and_then(|()| file.write_all(text.as_bytes()))
            .and_then(|()| file.sync_all())
            .and_then(|()| fs::rename(&part, &path));
        written.inspect_err(|_| {
            let _ = fs::remove_file(&part);
        })
    }

    fn keep_attributes(&self, path: &Path, file: &fs::File) -> io::Result<()> {
        if !self.exists() {
            return Ok(());
        }
        let old = fs::metadata(path)?;
        file.set_permissions(fs::Permissions::from_mode(old.mode() & 0o7777))?;
        // Only root may give files away. Any other user owns the file, or may not keep its owner.
        let _ = std::os::unix::fs::fchown(file, Some(old.uid()), Some(old.gid()));
        Ok(())
    }
}

/// Whether something is at this path, be it a link that leads nowhere.
pub fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

fn is_link(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_symlink())
}

/// The file's text; none if there is no file.
fn read(path: &Path) -> io::Result<Option<String>> {
    match greenroom_files::read_text(path, FILE_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => match fs::read_link(path) {
            Ok(target) => Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("it is a link to what does not exist: `{}`", target.display()),
            )),
            Err(_) => Ok(None),
        },
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// A link that came with a project and leads out of its folder is not written through, and a device is not replaced; the
    /// user's own link is written through.
    #[test]
    fn project_links_are_refused_and_user_links_followed() {
        let folder = tempfile::tempdir().unwrap();
        let project = folder.path().join("project");
        let other = folder.path().join("other.json");
        fs::create_dir(&project).unwrap();
        fs::write(&other, "{}").unwrap();
        let link = project.join("mcp.json");
        symlink(&other, &link).unwrap();
        let refused = File::read(link.clone()).unwrap().write("new", EntryScope::Project).unwrap_err();
        assert!(format!("{refused:#}").contains("may lead out of the project"), "{refused:#}");
        let home = folder.path().join("home");
        let own = project.join(".cursor");
        fs::create_dir(&home).unwrap();
        symlink(&home, &own).unwrap();
        for text in [None, Some("{}")] {
            if let Some(text) = text {
                fs::write(home.join("mcp.json"), text).unwrap();
            }
            let refused =
                File::read(own.join("mcp.json")).unwrap().write("new", EntryScope::Project).unwrap_err();
            assert!(format!("{refused:#}").contains("may lead out of the project"), "{refused:#}");
            assert_eq!(fs::read_to_string(home.join("mcp.json")).ok().as_deref(), text);
        }
        assert_eq!(fs::read_to_string(&other).unwrap(), "{}");
        File::read(link).unwrap().write("new", EntryScope::User).unwrap();
        assert_eq!(fs::read_to_string(&other).unwrap(), "new");
    }

    /// Only a regular file is replaced.
    #[test]
    fn only_regular_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = File { path: folder.path().to_owned(), text: Some(String::new()) };
        let refused = file.replace("new", EntryScope::User).unwrap_err();
        assert!(refused.to_string().contains("is not a regular file"), "{refused}");
        assert!(folder.path().is_dir());
    }
}
