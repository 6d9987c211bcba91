//! Whether there is a browser for every pool. Also shows which browser the default pool would use headless and headed.

use greenroom_core::settings::Pool;
use greenroom_engine::browser::{self, Browser, NoBrowser};

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let settings = &installation.resolved.settings;
    if settings.instances().is_empty() {
        return CheckOutcome::skipped("not needed: greenroom attaches to running browsers and starts none");
    }
    if installation.is_custom() {
        return CheckOutcome::skipped("the custom engine brings its own browser");
    }
    let install_paths = installation.env.install_paths();
    let find = |pool: &Pool, headless| {
        browser::find(&install_paths, headless, pool.browser.into(), pool.executable_path.as_deref())
    };
    for (place, pool) in settings.instances().into_iter().filter(|(_, pool)| pool.has_chromium()) {
        if let Err(error) = find(pool, pool.headless) {
            let place = if settings.pools.is_empty() { String::new() } else { format!("{place}: ") };
            return CheckOutcome::failed(format!("{place}{error}")).fix(error.hint());
        }
    }
    let Some(pool) = settings.default_pool().filter(|pool| pool.has_chromium()) else {
        return CheckOutcome::skipped("the engine starts the default pool's browser itself");
    };
    CheckOutcome::ok(format!("headless: {}; headed: {}", name(&find(pool, true)), name(&find(pool, false))))
}

fn name(found: &Result<Browser, NoBrowser>) -> String {
    match found {
        Ok(Browser { path, kind }) => format!("{kind} `{}`", path.display()),
        Err(_) => "none".to_owned(),
    }
}
