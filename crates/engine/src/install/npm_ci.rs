//! Runs `npm ci` in a fresh folder, and renames that folder to the engine's.
//!
//! The caller holds the installation lock, so every unfinished folder belongs to a process that has ended.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{InstallError, LocatedEngine, Package};
use crate::{launcher::Launcher, node::Npm, run_command, run_folder::make_private};

/// npm takes a second on a good connection and a minute on a poor one. By itself it gives up on one address after five
/// minutes, and tries twice more.
pub(super) const NPM_CI_WITHIN: Duration = Duration::from_secs(15 * 60);

/// The prefix of unfinished installations' folders.
const PARTIAL_PREFIX: &str = ".part-";

/// Installs into `target`, and replaces an existing installation.
pub(super) async fn install(
    package: &Package,
    launcher: &Launcher,
    npm: &Npm,
    target: &Path,
) -> Result<LocatedEngine, InstallError> {
    let family = target.parent().unwrap_or(target);
    let failed = |source: io::Error| InstallError::Folder { path: family.to_owned(), source };
    make_private(family).map_err(failed)?;
    remove_partial_installs(family).map_err(failed)?;
    let partial = family.join(format!("{PARTIAL_PREFIX}{}", std::process::id()));
    write_npm_files(package, &partial).map_err(failed)?;
    let installed = match run(package, launcher, npm, &partial, target).await {
        Ok(()) => package.check_folder(&partial).map_err(InstallError::Unusable),
        Err(error) => Err(error),
    };
    if let Err(error) = installed {
        // The next run removes what cannot be removed now.
        let _ = fs::remove_dir_all(&partial);
        return Err(error);
    }
    replace(&partial, target).map_err(failed)?;
    package.check_folder(target).map_err(InstallError::Unusable)
}

/// Removes what interrupted installations left.
fn remove_partial_installs(family: &Path) -> io::Result<()> {
    for entry in fs::read_dir(family)?.flatten() {
        if entry.file_name().to_string_lossy().starts_with(PARTIAL_PREFIX) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

/// Makes the folder and writes the files that npm reads.
fn write_npm_files(package: &Package, partial: &Path) -> io::Result<()> {
    make_private(partial)?;
    let Package { manifest, lock, npmrc, .. } = *package;
    for (name, text) in [("package.json", manifest), ("package-lock.json", lock), (".npmrc", npmrc)] {
        fs::write(partial.join(name), text)?;
    }
    Ok(())
}

async fn run(
    package: &Package,
    launcher: &Launcher,
    npm: &Npm,
    partial: &Path,
    target: &Path,
) -> Result<(), InstallError> {
    let spec = npm
        .spec()
        .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=dev"])
        // With these npm reports a failure as an object on stdout, not as a stack trace.
        .args(["--json", "--loglevel=error"])
        .env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1")
        .folder(partial);
    let done = run_command::run(launcher, "npm", spec, NPM_CI_WITHIN).await?;
    if done.exit.is_success() {
        return Ok(());
    }
    let stderr_tail = summary(&done.stdout).unwrap_or_else(|| match &*done.stderr_tail {
        "" => done.exit.to_string(),
        stderr => stderr.to_owned(),
    });
    let engine = package.name;
    let wanted = package.version().to_owned();
    Err(InstallError::Failed { engine, wanted, stderr_tail, target: PathBuf::from(target) })
}

/// The summary in npm's own report of a failure.
fn summary(stdout: &str) -> Option<String> {
    let report: serde_json::Value = serde_json::from_str(stdout).ok()?;
    let summary = report["error"]["summary"].as_str()?.trim();
    (!summary.is_empty()).then(|| summary.lines().collect::<Vec<_>>().join(" "))
}

/// Replaces the old engine by the new one. For a moment there is none, but never half of one.
fn replace(partial: &Path, target: &Path) -> io::Result<()> {
    let old = partial.with_extension("old");
    match fs::rename(target, &old) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    fs::rename(partial, target)?;
    // The next installation removes what cannot be removed now.
    let _ = fs::remove_dir_all(&old);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// npm's report of a failure is reduced to its summary, in one line.
    #[test]
    fn failure_report_is_reduced_to_its_summary() {
        let report = r#"{"error": {"code": "E404", "summary": "not found\nat all", "detail": "x"}}"#;
        assert_eq!(summary(report).as_deref(), Some("not found at all"));
        assert_eq!(summary(r#"{"error": {"summary": " "}}"#), None);
        assert_eq!(summary("not JSON"), None);
    }
}
