//! Whether there is a screen for browsers with a window.

use greenroom_engine::chromium::SCREEN_HINT;

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let settings = &installation.resolved.settings;
    if settings.instances().is_empty() {
        return CheckOutcome::skipped("not needed: greenroom attaches to running browsers and starts none");
    }
    let headed = settings.instances().into_iter().find(|(_, pool)| !pool.headless && !pool.wsl_windows);
    let Some((place, _)) = headed else {
        return CheckOutcome::skipped("not needed: `pool.headless` is true");
    };
    let place = if settings.pools.is_empty() { String::new() } else { format!("{place}: ") };
    if cfg!(target_os = "macos") {
        return CheckOutcome::ok("this system always has one");
    }
    let set = |name: &&str| installation.env.variable(name).is_some_and(|value| !value.is_empty());
    match ["WAYLAND_DISPLAY", "DISPLAY"].iter().find(|name| set(name)) {
        Some(name) => CheckOutcome::ok(format!("{name} is set")),
        None => CheckOutcome::failed(format!(
            "{place}`pool.headless` is false, and there is no screen: neither DISPLAY nor WAYLAND_DISPLAY is set",
        ))
        .fix(SCREEN_HINT),
    }
}
