//! Attached browsers that are declared, or no longer declared, while greenroom runs. The address identifies a browser: one
//! with a new address is added, one whose address is gone is removed.
//!
//! Whether any are attached decides what a call without a name means, so the first one and the last one wait for the next
//! start; and so do new values of a browser that stays, since sessions may live in it.

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
        let at = |list: &[AttachedBrowser], url: &str| {
            let place = ServerAddress::parse(url);
            list.iter().find(|one| place.may_equal(&ServerAddress::parse(&one.url))).cloned()
        };
        let missing = |of: &[AttachedBrowser], from: &[AttachedBrowser]| {
            of.iter().filter(|one| at(from, &one.url).is_none()).cloned().collect()
        };
        let is_other = |one: &&AttachedBrowser| at(before, &one.url).is_some_and(|was| was != **one);
        Self {
            new: missing(after, before),
            gone: missing(before, after),
            changed: after.iter().filter(is_other).cloned().collect(),
            needs_restart: before.is_empty() || after.is_empty(),
        }
    }

    /// Changes the list of declared and attached browsers accordingly.
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
        let said = |list: &[AttachedBrowser], what: &'static str, effect: Effect| {
            let say = |one: &AttachedBrowser| format!("browser `{}` {what}", one.shown_url());
            list.iter().map(say).map(|what| SettingChange { what, effect }).collect::<Vec<_>>()
        };
        let mut changes = said(&self.gone, "is gone", effect);
        changes.extend(said(&self.new, "is new", effect));
        changes.extend(said(&self.changed, "has other values", Effect::OnRestart));
        changes
    }
}
