//! What killed greenroom processes left in the data folder. That is no fault: the next greenroom that starts removes
//! it.

use greenroom_engine::run_folder;

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    match run_folder::leftover_run_folders(&installation.resolved.settings.data_dir).len() {
        0 => CheckOutcome::ok("none"),
        1 => CheckOutcome::ok("one run folder of a greenroom that is gone; the next start removes it"),
        count => CheckOutcome::ok(format!(
            "{count} run folders of greenrooms that are gone; the next start removes them"
        )),
    }
}
