//! What killed greenrooms left in the data folder. That is no fault: the next one that starts removes it.

use greenroom_engine::run_folder;

use super::{Patient, Verdict};

pub(super) fn check(patient: &Patient) -> Verdict {
    match run_folder::left_behind(&patient.resolved.settings.data_dir).len() {
        0 => Verdict::ok("none"),
        1 => Verdict::ok("one run folder of a greenroom that is gone; the next start removes it"),
        count => Verdict::ok(format!(
            "{count} run folders of greenrooms that are gone; the next start removes them"
        )),
    }
}
