//! Declared browsers that come and go while greenroom runs. The address identifies a browser: greenroom adds a browser
//! with a new address, and removes one whose address is gone.
//!
//! Whether any browser is attached decides where a call goes that names none, so adding the first browser and removing
//! the last one wait for the next start. So do new values of a browser that stays, since it may have sessions.

use greenroom_core::{
    settings::{AttachedBrowser, Settings},
    web_address::ServerAddress,
};

use super::change::{Effect, SettingChange};

/// The changes of the declared browsers.
#[derive(Debug)]
pub struct BrowserChanges {
    pub new: Vec<AttachedBrowser>,
    pub gone: Vec<AttachedBrowser>,
    changed: Vec<AttachedBrowser>,
    /// The changes wait for the next start of greenroom.
    needs_restart: bool,
}

impl BrowserChanges {
    pub fn between(before: &Settings, after: &Settings) -> Self {
        let before = &before.browsers;
        let after = &after.browsers;
        // Another spelling of an address means the same browser.
        let find = |list: &[AttachedBrowser], url: &str| {
            let address = ServerAddress::parse(url);
            list.iter().find(|one| address.may_equal(&ServerAddress::parse(&one.url))).cloned()
        };
        let not_in = |list: &[AttachedBrowser], other: &[AttachedBrowser]| {
            list.iter().filter(|one| find(other, &one.url).is_none()).cloned().collect()
        };
        let is_other = |one: &&AttachedBrowser| find(before, &one.url).is_some_and(|was| was != **one);
        Self {
            new: not_in(after, before),
            gone: not_in(before, after),
            changed: after.iter().filter(is_other).cloned().collect(),
            needs_restart: before.is_empty() || after.is_empty(),
        }
    }

    /// Makes these changes in the list of declared browsers, unless they need a restart.
    pub fn apply_to(self, browsers: &mut Vec<AttachedBrowser>) {
        if self.needs_restart {
            return;
        }
        browsers.retain(|one| self.gone.iter().all(|gone| gone.url != one.url));
        browsers.extend(self.new);
    }

    /// The changes for the log. Each browser is named by its address without its query, which may be a secret.
    pub fn changes(&self) -> Vec<SettingChange> {
        let effect = if self.needs_restart { Effect::OnRestart } else { Effect::Immediate };
        let describe = |list: &[AttachedBrowser], what: &'static str, effect: Effect| {
            let text = |one: &AttachedBrowser| format!("browser `{}` {what}", one.shown_url());
            list.iter().map(text).map(|what| SettingChange { what, effect }).collect::<Vec<_>>()
        };
        let mut changes = describe(&self.gone, "is gone", effect);
        changes.extend(describe(&self.new, "is new", effect));
        changes.extend(describe(&self.changed, "has other values", Effect::OnRestart));
        changes
    }
}
