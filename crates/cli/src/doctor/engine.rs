//! Whether the engine is there: the pinned one in the data folder, or the user's own command.

use greenroom_engine::install;

use super::{Patient, Verdict};

pub(super) fn check(patient: &Patient) -> Verdict {
    if patient.is_custom() {
        let command = patient.resolved.settings.default_instance().command.join(" ");
        return Verdict::skipped(format!("custom, started when it is needed: `{command}`"));
    }
    match install::PLAYWRIGHT.locate(&patient.resolved.settings.data_dir) {
        Ok(engine) => Verdict::ok(format!("playwright {}: `{}`", engine.version, engine.cli.display())),
        Err(error) => Verdict::failed(error.to_string()).fix(error.hint()),
    }
}
