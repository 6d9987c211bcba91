//! What can be set about the devtools engine and its browser.

use std::{path::PathBuf, sync::Arc};

use greenroom_core::StartError;

use crate::{
    browser::{Places, Wanted},
    endpoint::Endpoint,
};

/// What can be set about the engine and its browser.
#[derive(Debug, Clone)]
pub struct DevtoolsOptions {
    pub data_folder: PathBuf,
    pub node: Option<PathBuf>,
    pub places: Places,
    /// The running browser that is attached to. greenroom then starts none, and what belongs to a start has no meaning.
    pub attach: Option<Arc<Endpoint>>,
    /// How many seats an instance has. With one the instance is its Node and its browser.
    pub slots: usize,
    pub headless: bool,
    pub browser: Wanted,
    pub executable_path: Option<PathBuf>,
    pub no_sandbox: Option<bool>,
    /// Whether the browser's profile goes with its seat. One that stays is for one slot; one that is attached to stays.
    pub isolated: bool,
    /// This instance's profile, which stays. Needed where browsers are not isolated.
    pub user_data_dir: Option<PathBuf>,
    pub viewport: (u32, u32),
    pub user_agent: Option<String>,
    pub ignore_https_errors: bool,
    pub allowed_origins: Vec<String>,
    pub blocked_origins: Vec<String>,
    /// Further flags of a Chromium that greenroom starts.
    pub browser_args: Vec<String>,
    /// Where the folders of seats stay when the seats are gone.
    pub output_dir: Option<PathBuf>,
    /// How much disk space the files of a seat may take, and what pages store in a profile on disk.
    pub disk_bytes_max: u64,
}

impl DevtoolsOptions {
    /// What an instance with one slot and nothing configured has: an isolated, headless Chromium.
    pub fn new(data_folder: PathBuf, places: Places) -> Self {
        Self {
            data_folder,
            node: None,
            places,
            attach: None,
            slots: 1,
            headless: true,
            browser: Wanted::Any,
            executable_path: None,
            no_sandbox: None,
            isolated: true,
            user_data_dir: None,
            viewport: (1280, 720),
            user_agent: None,
            ignore_https_errors: false,
            allowed_origins: Vec::new(),
            blocked_origins: Vec::new(),
            browser_args: Vec::new(),
            output_dir: None,
            disk_bytes_max: 1 << 30,
        }
    }

    pub(super) fn check(&self) -> Result<(), StartError> {
        if self.isolated && self.attach.is_some() {
            let message = "the devtools engine makes no contexts of its own in a browser that is attached to";
            return Err(
                StartError::new(message).hint("set `isolated` to false, or use the playwright engine")
            );
        }
        if self.slots > 1 && self.attach.is_some() {
            return Err(StartError::new(format!(
                "a browser that is attached to has one slot, not {}",
                self.slots
            ))
            .hint("set `slots` to 1: its tabs share their cookies"));
        }
        if self.slots > 1 && !self.isolated {
            return Err(StartError::new(format!("such a browser has one slot, not {}", self.slots))
                .hint("set `slots` to 1, or `isolated` to true: two browsers cannot share a profile"));
        }
        Ok(())
    }
}
