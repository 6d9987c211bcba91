//! Finds and reads the configuration's files: the user's own, the working directory's, and its `.env`.

use std::{
    io,
    path::{Path, PathBuf},
};

use greenroom_core::settings::{CONFIG_VARIABLE, ConfigFile, DotEnv};

use super::env::ProcessEnv;
use crate::report::CliError;

/// The longest file that greenroom reads. A configuration with 64 browsers and as many pools has some ten kilobytes,
/// and a `.env`, which other programs share, no more; a file a hundred times that size is something else.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The config files, later ones winning: only the named one, if one is named; else the user's own and then the working
/// directory's.
pub fn config_files(env: &ProcessEnv, named: Option<PathBuf>) -> Result<Vec<ConfigFile>, CliError> {
    let by_variable = || env.variable(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    if let Some((path, by)) =
        named.map(|path| (path, "--config")).or_else(|| by_variable().map(|path| (path, CONFIG_VARIABLE)))
    {
        let path = env.working_dir.join(path);
        return match read(&path)? {
            Some(text) => Ok(vec![ConfigFile { path, text, trusted: true }]),
            None => Err(CliError::usage(format!(
                "the config file does not exist: `{}` (from {by})",
                path.display()
            ))),
        };
    }
    let user_file = env.user_file();
    let local_file = env.working_dir.join("greenroom.toml");
    let mut files = Vec::new();
    // If the working directory is the user's config folder, the two are one file.
    for (path, trusted) in
        [(user_file.clone(), true), (Some(local_file).filter(|path| Some(path) != user_file.as_ref()), false)]
    {
        if let Some(path) = path
            && let Some(text) = read(&path)?
        {
            files.push(ConfigFile { path, text, trusted });
        }
    }
    Ok(files)
}

/// The files that the configuration is read from, whether they exist or not.
pub fn watched_files(env: &ProcessEnv, named: Option<PathBuf>) -> Vec<PathBuf> {
    let by_variable = env.variable(CONFIG_VARIABLE).filter(|path| !path.is_empty()).map(PathBuf::from);
    let in_working_dir = |name: PathBuf| env.working_dir.join(name);
    match named.or(by_variable) {
        Some(path) => vec![in_working_dir(path), in_working_dir(".env".into())],
        None => env
            .user_file()
            .into_iter()
            .chain([in_working_dir("greenroom.toml".into()), in_working_dir(".env".into())])
            .collect(),
    }
}

/// The `.env` of the working directory.
pub fn dotenv(env: &ProcessEnv) -> Result<Option<DotEnv>, CliError> {
    let path = env.working_dir.join(".env");
    // A Python virtual environment is often a folder with this name.
    if path.is_dir() {
        return Ok(None);
    }
    // Lines of other programs may hold bytes that are not UTF-8. In a line of greenroom's, the value fails to parse.
    match greenroom_files::read(&path, FILE_BYTES_MAX) {
        Ok(bytes) => Ok(Some(DotEnv { text: String::from_utf8_lossy(&bytes).into_owned(), path })),
        Err(error) => none_if_missing(&path, &error),
    }
}

fn read(path: &Path) -> Result<Option<String>, CliError> {
    match greenroom_files::read_text(path, FILE_BYTES_MAX) {
        Ok(text) => Ok(Some(text)),
        Err(error) => none_if_missing(path, &error),
    }
}

/// A missing file is no error; an unreadable one is.
fn none_if_missing<T>(path: &Path, error: &io::Error) -> Result<Option<T>, CliError> {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
        _ => Err(CliError::usage(format!("cannot read `{}`: {error}", path.display()))),
    }
}
