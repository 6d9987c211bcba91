//! Whether each configured engine is there: the pinned ones in the data folder, or the user's own by its command or its
//! address.

use greenroom_core::settings::{EngineKind, Pool};

use super::{Patient, Verdict};
use crate::packages;

pub(super) fn check(patient: &Patient) -> Verdict {
    let settings = &patient.resolved.settings;
    let mut there = Vec::new();
    for package in packages::needed(settings) {
        match package.locate(&settings.data_dir) {
            Ok(engine) => {
                there.push(format!("{} {}: `{}`", package.name, engine.version, engine.cli.display()));
            }
            Err(error) => return Verdict::failed(error.to_string()).fix(error.hint()),
        }
    }
    let mut custom: Vec<_> = settings.instances().into_iter().filter_map(|(_, pool)| own(pool)).collect();
    custom.dedup();
    let all = [there, custom].concat().join("; ");
    if patient.is_custom() { Verdict::skipped(all) } else { Verdict::ok(all) }
}

/// An engine of the user's own. Its command line is not checked any further, and its address is shown without its query.
fn own(pool: &Pool) -> Option<String> {
    if pool.engine != EngineKind::Custom {
        return None;
    }
    let url = pool.shown_url().map(|url| format!("custom, contacted when it is needed: `{url}`"));
    Some(url.unwrap_or_else(|| format!("custom, started when it is needed: `{}`", pool.command.join(" "))))
}
