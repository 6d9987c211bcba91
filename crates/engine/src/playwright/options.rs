//! Refuses options that the playwright engine cannot fulfil, and checks the files that must exist before anything starts.

use std::{
    io,
    path::{Path, PathBuf},
};

use greenroom_core::{StartError, settings::Pool};
use serde::Deserialize;

use crate::EngineOptions;

/// Checks options and the files that they name. The engine would fail on these much later, or not at all.
pub(super) fn check(options: &EngineOptions) -> Result<(), StartError> {
    if options.pool.slots > 1 && (!options.pool.isolated || options.engine_starts_browser()) {
        return Err(StartError::new(format!(
            "this kind of browser has one slot, not {}",
            options.pool.slots
        ))
        .hint("set `slots` to 1; only isolated contexts in a Chromium of greenroom's share a browser"));
    }
    if options.attach.is_some() {
        check_attached(options)?;
    }
    check_files(&options.pool)?;
    // greenroom cannot check paths of Windows.
    if options.pool.wsl_windows {
        return Ok(());
    }
    if let Some(path) = &options.pool.storage_state {
        check_storage_state(path)?;
    }
    if options.pool.device.is_some() && !options.pool.isolated && !options.engine_starts_browser() {
        return Err(StartError::new("a device can be emulated in isolated contexts only")
            .hint("set `isolated` to true, or `viewport_size` and `user_agent` in the place of `device`"));
    }
    Ok(())
}

/// Refuses options that an attached browser cannot have, and those that would change it for its user.
fn check_attached(options: &EngineOptions) -> Result<(), StartError> {
    if options.engine_starts_browser() {
        return Err(StartError::new("only a Chromium can be attached to, and only directly")
            .hint("take `browser`, `extension` and `wsl_windows` out of this browser's settings"));
    }
    let affects_all_tabs = [
        ("user_agent", options.pool.user_agent.is_some()),
        ("ignore_https_errors", options.pool.ignore_https_errors),
        ("allowed_origins", !options.pool.allowed_origins.is_empty()),
        ("blocked_origins", !options.pool.blocked_origins.is_empty()),
        ("init_script", !options.pool.init_script.is_empty()),
        ("caps", options.pool.caps.iter().any(|cap| cap.reaches_all_tabs())),
    ];
    match affects_all_tabs.iter().find(|(_, is_set)| options.has_own_tabs() && *is_set) {
        Some((key, _)) => Err(StartError::new(format!(
            "`{key}` would apply to all tabs of the attached browser, also to its user's"
        ))
        .hint(match *key {
            "caps" => "take `network` and `devtools` out of `caps`, or set `isolated` to true".to_owned(),
            _ => format!("take `{key}` out of this browser's settings, or set `isolated` to true"),
        })),
        None => Ok(()),
    }
}

/// Checks that the init scripts and the file of secrets exist. Also called before any instance is started, so that a wrong
/// path does not surface only with the first call. Storage states may come later: a tool of the engine writes them.
pub(super) fn check_files(pool: &Pool) -> Result<(), StartError> {
    // greenroom cannot check paths of Windows.
    if pool.wsl_windows {
        return Ok(());
    }
    check_init_scripts(&pool.init_script)?;
    check_secrets(pool.secrets_file.as_deref())
}

fn check_init_scripts(scripts: &[PathBuf]) -> Result<(), StartError> {
    for script in scripts {
        if let Err(error) = greenroom_files::open(script) {
            let why = match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "no such init script".to_owned(),
                _ => format!("cannot read the init script: {error}"),
            };
            return Err(StartError::new(format!("{why}: `{}`", script.display()))
                .hint("correct `init_script`; it takes paths of JavaScript files"));
        }
    }
    Ok(())
}

/// Without the file of secrets the engine would not start, and its error is less clear.
fn check_secrets(file: Option<&Path>) -> Result<(), StartError> {
    let Some(file) = file else { return Ok(()) };
    greenroom_files::open(file).map(drop).map_err(|error| {
        StartError::new(format!("cannot read the file of secrets: {error}: `{}`", file.display()))
            .hint("correct `secrets_file`; it is a file of `NAME=value` lines")
    })
}

/// The required fields of a storage state; the engine reads more of it.
#[derive(Deserialize)]
struct StorageState {
    #[serde(default, rename = "cookies")]
    _cookies: Vec<StateCookie>,
    #[serde(default, rename = "origins")]
    _origins: Vec<StateOrigin>,
}

#[derive(Deserialize)]
struct StateCookie {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "value")]
    _value: String,
    #[serde(rename = "domain")]
    _domain: String,
    #[serde(rename = "path")]
    _path: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct StateOrigin {
    #[serde(rename = "origin")]
    _origin: String,
    #[serde(default, rename = "localStorage")]
    _local_storage: Vec<StorageItem>,
}

#[derive(Deserialize)]
struct StorageItem {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "value")]
    _value: String,
}

/// The largest storage state that is read. A browser stores up to 10 MiB for a site, and no known login uses all of
/// that at six sites.
const STORAGE_STATE_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn check_storage_state(path: &Path) -> Result<(), StartError> {
    let shown = path.display();
    let text = greenroom_files::read_text(path, STORAGE_STATE_BYTES_MAX).map_err(|error| {
        StartError::new(format!("cannot read the storage state: {error}: `{shown}`"))
            .hint("correct `storage_state`; the tool `browser_storage_state` of a pool with the caps `storage` writes such a file")
    })?;
    // The text is parsed as an object first, because serde would also accept a list for the struct.
    let object = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
    object.and_then(|object| StorageState::deserialize(serde_json::Value::Object(object))).map(drop).map_err(
        |error| {
            StartError::new(format!("this is no storage state: {error}: `{shown}`"))
                .hint("it is JSON with a list of `cookies` and a list of `origins`, as playwright saves it")
        },
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A storage state that is missing or invalid is refused by name; a file that playwright saved is accepted.
    #[test]
    fn storage_states_are_checked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.json");
        let missing = check_storage_state(&path).unwrap_err();
        assert!(
            missing.message.contains("cannot read the storage state")
                && missing.message.contains("state.json")
        );
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let fifo = check_storage_state(&path).unwrap_err();
        assert!(fifo.message.contains("not a regular file: a FIFO"), "{fifo}");
        fs::remove_file(&path).unwrap();
        for (text, is_accepted) in [
            (
                r#"{"cookies":[{"name":"a","value":"b","domain":"x","path":"/","expires":-1}],"origins":[{"origin":"http://x","localStorage":[{"name":"a","value":"b"}]}]}"#,
                true,
            ),
            ("{}", true),
            ("", false),
            ("[]", false),
            (r#"{"cookies":{}}"#, false),
            (r#"{"cookies":[{"name":"a"}]}"#, false),
            (r#"{"origins":[{"localStorage":[]}]}"#, false),
        ] {
            fs::write(&path, text).unwrap();
            let checked = check_storage_state(&path);
            assert_eq!(checked.is_ok(), is_accepted, "{text}");
            let named = |error: StartError| error.message.contains("state.json") && error.hint.is_some();
            assert!(checked.err().is_none_or(named), "{text}");
        }
    }
}
