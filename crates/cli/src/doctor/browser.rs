//! Whether there is a browser for the pool: the one that is needed, and what there is for the other mode.

use greenroom_engine::browser::{self, Browser, NoBrowser};

use super::{Patient, Verdict};

pub(super) fn check(patient: &Patient) -> Verdict {
    if patient.is_custom() {
        return Verdict::skipped("the custom engine brings its own browser");
    }
    let pool = &patient.resolved.settings.pool;
    let places = patient.surroundings.places();
    let find =
        |headless| browser::find(&places, headless, pool.browser.into(), pool.executable_path.as_deref());
    let message = format!("headless: {}; headed: {}", name(&find(true)), name(&find(false)));
    match find(pool.headless) {
        Ok(_) => Verdict::ok(message),
        Err(error) => Verdict::failed(error.to_string()).fix(error.hint()),
    }
}

fn name(found: &Result<Browser, NoBrowser>) -> String {
    match found {
        Ok(Browser { path, kind }) => format!("{kind} `{}`", path.display()),
        Err(_) => "none".to_owned(),
    }
}
