//! Where the settings in force come from. A configuration with mistakes never gets here: greenroom refuses to
//! start with one, doctor included.

use greenroom_core::settings::{Origin, Resolved, SETTINGS};

use super::{Patient, Verdict};

pub(super) fn check(patient: &Patient) -> Verdict {
    let sources = sources(&patient.resolved);
    if sources.is_empty() {
        return Verdict::ok("all settings have their defaults");
    }
    let sources: Vec<_> =
        sources.iter().map(|(source, settings)| format!("`{source}` ({})", settings.join(", "))).collect();
    Verdict::ok(format!("set by {}", sources.join(", ")))
}

/// Each source with the settings it decides, in the order of the settings.
fn sources(resolved: &Resolved) -> Vec<(String, Vec<&'static str>)> {
    let mut sources: Vec<(String, Vec<_>)> = Vec::new();
    for setting in SETTINGS {
        let origin = resolved.origin(setting.key);
        if *origin == Origin::Default {
            continue;
        }
        let origin = origin.to_string();
        match sources.iter_mut().find(|(source, _)| *source == origin) {
            Some((_, settings)) => settings.push(setting.key),
            None => sources.push((origin, vec![setting.key])),
        }
    }
    sources
}
