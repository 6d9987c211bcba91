//! Which of the pinned engines a configuration needs. `setup` installs these, `doctor` looks for them.

use greenroom_core::settings::Settings;
use greenroom_engine::{install::Package, registry};

/// The pinned engines of all pools and attached browsers, each once.
pub fn required(settings: &Settings) -> Vec<&'static Package> {
    settings.engines().into_iter().filter_map(|kind| registry::entry(kind).package).collect()
}
