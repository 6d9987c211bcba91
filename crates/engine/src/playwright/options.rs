//! What can be set about the playwright engine and its browser, and what must be there before anything starts.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use greenroom_core::StartError;
use serde::Deserialize;

use super::Emulation;
use crate::{
    browser::{Places, Wanted},
    endpoint::Endpoint,
};

/// Caps whose tools reach every tab of a context: routes and offline mode; recordings, traces and videos.
const OF_ALL_TABS: [&str; 2] = ["network", "devtools"];

/// What can be set about the engine and its browser.
#[derive(Debug, Clone)]
pub struct PlaywrightOptions {
    pub data_folder: PathBuf,
    pub node: Option<PathBuf>,
    pub places: Places,
    pub slots: usize,
    /// Whether each seat has a Node of its own, so that code run in it reaches nobody else. For one slot.
    pub own_node: bool,
    pub headless: bool,
    pub browser: PlaywrightBrowser,
    /// The running browser that is attached to. greenroom then starts none, and what belongs to a start has no meaning.
    pub attach: Option<Arc<Endpoint>>,
    pub executable_path: Option<PathBuf>,
    pub no_sandbox: Option<bool>,
    /// Whether a seat has a fresh context of its own; otherwise it has the browser's default one. For one slot.
    pub isolated: bool,
    /// This instance's profile, which stays. Needed where contexts are not isolated and greenroom starts the browser.
    pub user_data_dir: Option<PathBuf>,
    /// Cookies and local storage that every isolated context starts with.
    pub storage_state: Option<PathBuf>,
    pub viewport: (u32, u32),
    pub caps: Vec<String>,
    pub webmcp: bool,
    pub timeout_action: Option<Duration>,
    pub timeout_navigation: Option<Duration>,
    pub timeout_settle: Option<Duration>,
    pub user_agent: Option<String>,
    pub device: Option<String>,
    pub emulation: Emulation,
    pub ignore_https_errors: bool,
    pub allowed_origins: Vec<String>,
    pub blocked_origins: Vec<String>,
    pub init_scripts: Vec<PathBuf>,
    /// What becomes of images in answers: `allow`, `omit` or `only`.
    pub image_responses: Option<String>,
    /// The attribute of test ids, if it is another than the engine's.
    pub test_id_attribute: Option<String>,
    /// Whether snapshots have the places and sizes of elements.
    pub snapshot_boxes: bool,
    /// The language of the code in answers, if it is another than the engine's.
    pub codegen: Option<String>,
    /// Values that answers do not have, by their names.
    pub secrets_file: Option<PathBuf>,
    /// Further flags of a Chromium that greenroom starts.
    pub browser_args: Vec<String>,
    /// Whether the engine writes down each session, beside its other files.
    pub save_session: bool,
    /// Where the folders of seats stay when the seats are gone.
    pub output_dir: Option<PathBuf>,
    /// How much disk space the files of a seat may take, and what pages store in a profile on disk.
    pub disk_bytes_max: u64,
    /// Whether the engine attaches to the user's running browser, through its extension there.
    pub extension: bool,
    /// Whether engine and browser run in the Windows around this Linux.
    pub wsl_windows: bool,
}

/// The browsers that the engine can drive.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaywrightBrowser {
    /// greenroom starts it, and the engine attaches.
    Chromium(Wanted),
    /// The engine starts it.
    Firefox,
    /// The engine starts it.
    Webkit,
}

impl From<Wanted> for PlaywrightBrowser {
    fn from(wanted: Wanted) -> Self {
        Self::Chromium(wanted)
    }
}

impl PlaywrightOptions {
    /// What an instance with one slot and nothing configured has: an isolated, headless Chromium.
    pub fn new(data_folder: PathBuf, places: Places) -> Self {
        Self {
            data_folder,
            node: None,
            places,
            slots: 1,
            own_node: false,
            headless: true,
            browser: Wanted::Any.into(),
            attach: None,
            executable_path: None,
            no_sandbox: None,
            isolated: true,
            user_data_dir: None,
            storage_state: None,
            viewport: (1280, 720),
            caps: Vec::new(),
            webmcp: false,
            timeout_action: None,
            timeout_navigation: None,
            timeout_settle: None,
            user_agent: None,
            device: None,
            emulation: Emulation::default(),
            ignore_https_errors: false,
            allowed_origins: Vec::new(),
            blocked_origins: Vec::new(),
            init_scripts: Vec::new(),
            image_responses: None,
            test_id_attribute: None,
            snapshot_boxes: false,
            codegen: None,
            secrets_file: None,
            browser_args: Vec::new(),
            save_session: false,
            output_dir: None,
            disk_bytes_max: 1 << 30,
            extension: false,
            wsl_windows: false,
        }
    }

    /// Whether seats share a context with whoever the browser belongs to, and keep to tabs of their own there.
    pub(super) fn has_own_tabs(&self) -> bool {
        self.attach.is_some() && !self.isolated
    }

    /// Whether the engine starts, or finds, the browser itself. greenroom then does not see into it.
    pub(super) fn engine_starts_browser(&self) -> bool {
        self.extension || self.wsl_windows || !matches!(self.browser, PlaywrightBrowser::Chromium(_))
    }

    /// Looks for what the options name. The engine would fail on it much later, or not at all.
    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.slots > 1 && (!self.isolated || self.engine_starts_browser()) {
            return Err(StartError::new(format!("such a browser has one slot, not {}", self.slots)).hint(
                "set `slots` to 1; only isolated contexts in a Chromium of greenroom's share a browser",
            ));
        }
        if self.attach.is_some() {
            self.check_attached()?;
        }
        // Paths of Windows mean nothing here.
        if self.wsl_windows {
            return Ok(());
        }
        check_init_scripts(&self.init_scripts)?;
        check_secrets(self.secrets_file.as_deref())?;
        if let Some(path) = &self.storage_state {
            check_storage_state(path)?;
        }
        if self.device.is_some() && !self.isolated && !self.engine_starts_browser() {
            return Err(StartError::new("a device can be emulated in isolated contexts only").hint(
                "set `isolated` to true, or `viewport_size` and `user_agent` in the place of `device`",
            ));
        }
        Ok(())
    }
}

impl PlaywrightOptions {
    /// What cannot be had in a browser that runs already, and what would change it for whoever it belongs to.
    fn check_attached(&self) -> Result<(), StartError> {
        if self.engine_starts_browser() {
            return Err(StartError::new("only a Chromium can be attached to, and only directly")
                .hint("take `browser`, `extension` and `wsl_windows` out of this browser's settings"));
        }
        let everywhere = [
            ("user_agent", self.user_agent.is_some()),
            ("ignore_https_errors", self.ignore_https_errors),
            ("allowed_origins", !self.allowed_origins.is_empty()),
            ("blocked_origins", !self.blocked_origins.is_empty()),
            ("init_script", !self.init_scripts.is_empty()),
            ("caps", self.caps.iter().any(|cap| OF_ALL_TABS.contains(&cap.as_str()))),
        ];
        match everywhere.iter().find(|(_, is_set)| self.has_own_tabs() && *is_set) {
            Some((key, _)) => Err(StartError::new(format!(
                "`{key}` would hold for all tabs of a browser that is attached to, also those of its user"
            ))
            .hint(match *key {
                "caps" => format!("take {} out of `caps`, or set `isolated` to true", all_tabs()),
                _ => format!("take `{key}` out of this browser's settings, or set `isolated` to true"),
            })),
            None => Ok(()),
        }
    }
}

/// Whether all init scripts are there. Also asked before any instance is started, so that a wrong path is no surprise of the
/// first call.
pub fn check_init_scripts(scripts: &[PathBuf]) -> Result<(), StartError> {
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

/// Whether the file of secrets is there. Without it the engine would not start, and say so less clearly.
pub fn check_secrets(file: Option<&Path>) -> Result<(), StartError> {
    let Some(file) = file else { return Ok(()) };
    greenroom_files::open(file).map(drop).map_err(|error| {
        StartError::new(format!("cannot read the file of secrets: {error}: `{}`", file.display()))
            .hint("correct `secrets_file`; it is a file of `NAME=value` lines")
    })
}

fn all_tabs() -> String {
    OF_ALL_TABS.map(|cap| format!("`{cap}`")).join(" and ")
}

/// What a storage state must have; the engine reads more of it.
#[derive(Deserialize)]
struct StorageState {
    #[serde(default, rename = "cookies")]
    _cookies: Vec<Cookie>,
    #[serde(default, rename = "origins")]
    _origins: Vec<Origin>,
}

#[derive(Deserialize)]
struct Cookie {
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
struct Origin {
    #[serde(rename = "origin")]
    _origin: String,
    #[serde(default, rename = "localStorage")]
    _local_storage: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(rename = "name")]
    _name: String,
    #[serde(rename = "value")]
    _value: String,
}

/// A browser keeps up to 10 MiB for a site; a login that uses all of that at six sites is far beyond any that was seen.
const STORAGE_STATE_BYTES_MAX: u64 = 64 * 1024 * 1024;

fn check_storage_state(path: &Path) -> Result<(), StartError> {
    let shown = path.display();
    let text = greenroom_files::read_text(path, STORAGE_STATE_BYTES_MAX).map_err(|error| {
        StartError::new(format!("cannot read the storage state: {error}: `{shown}`"))
            .hint("correct `storage_state`; the tool `browser_storage_state` of a pool with the caps `storage` writes such a file")
    })?;
    // First as an object: a struct would be read from a list as well.
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

    /// A storage state that is missing or is none is refused by name; what playwright saves is taken.
    #[test]
    fn storage_states_are_looked_at() {
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
        for (text, fine) in [
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
            assert_eq!(checked.is_ok(), fine, "{text}");
            let named = |error: StartError| error.message.contains("state.json") && error.hint.is_some();
            assert!(checked.err().is_none_or(named), "{text}");
        }
    }
}
