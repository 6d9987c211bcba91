//! Whether each configured engine is installed: the pinned ones in the data folder. An engine of the user's own is only
//! shown, by its command or its address.

use greenroom_core::settings::Pool;

use super::{CheckOutcome, Installation};
use crate::packages;

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let settings = &installation.resolved.settings;
    let mut installed = Vec::new();
    for package in packages::required(settings) {
        match package.locate(&settings.data_dir) {
            Ok(engine) => {
                installed.push(format!("{} {}: `{}`", package.name, engine.version, engine.cli.display()));
            }
            Err(error) => return CheckOutcome::failed(error.to_string()).fix(error.hint()),
        }
    }
    let mut custom: Vec<_> =
        settings.instances().into_iter().filter_map(|(_, pool)| custom_engine(pool)).collect();
    custom.dedup();
    let all = [installed, custom].concat().join("; ");
    if installation.is_custom() { CheckOutcome::skipped(all) } else { CheckOutcome::ok(all) }
}

/// An engine of the user's own. Its command line is not checked any further, and its address is shown without its query.
fn custom_engine(pool: &Pool) -> Option<String> {
    if !pool.engine.facts().is_user_supplied {
        return None;
    }
    let url = pool.shown_url().map(|url| format!("custom, contacted when it is needed: `{url}`"));
    Some(url.unwrap_or_else(|| format!("custom, started when it is needed: `{}`", pool.command.join(" "))))
}
