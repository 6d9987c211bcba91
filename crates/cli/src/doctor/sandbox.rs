//! Whether the browser runs inside its sandbox. Without one, a page that breaks out of its renderer reaches everything
//! that this user can reach.

use rustix::process::geteuid;

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let settings = &installation.resolved.settings;
    let Some(default) = settings.default_pool() else {
        return CheckOutcome::skipped("not needed: greenroom attaches to running browsers and starts none");
    };
    let unsandboxed = settings.instances().into_iter().find(|(_, pool)| pool.no_sandbox == Some(true));
    let (setting, origin) = match unsandboxed {
        Some((place, pool)) if !settings.pools.is_empty() => (pool.no_sandbox, place),
        _ => (default.no_sandbox, installation.resolved.origin("pool.no_sandbox").to_string()),
    };
    outcome_for(setting, geteuid().is_root(), &origin)
}

fn outcome_for(no_sandbox: Option<bool>, root: bool, origin: &str) -> CheckOutcome {
    const USER: &str = "run greenroom as an ordinary user";
    match (no_sandbox, root) {
        (Some(true), _) => CheckOutcome::warning(format!(
            "the browser runs without its sandbox: `pool.no_sandbox` is true (from {origin})"
        ))
        .fix("leave `pool.no_sandbox` out"),
        (Some(false), true) => CheckOutcome::failed(
            "as root, Chromium refuses to start with its sandbox, and `pool.no_sandbox` is false",
        )
        .fix(USER),
        (None, true) => CheckOutcome::warning("as root, the browser runs without its sandbox").fix(USER),
        (_, false) => CheckOutcome::ok("the browser runs inside its sandbox"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    /// The browser has a sandbox only for an ordinary user who did not turn it off; for root, it does not start with
    /// one.
    #[test]
    fn the_sandbox_needs_an_ordinary_user() {
        for (setting, root, status) in [
            (None, false, CheckStatus::Ok),
            (Some(false), false, CheckStatus::Ok),
            (None, true, CheckStatus::Warning),
            (Some(true), false, CheckStatus::Warning),
            (Some(true), true, CheckStatus::Warning),
            (Some(false), true, CheckStatus::Failed),
        ] {
            assert_eq!(outcome_for(setting, root, "--flag").status, status, "{setting:?} {root}");
        }
    }
}
