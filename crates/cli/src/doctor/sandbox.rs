//! Whether the browser runs inside its sandbox, which keeps a page that breaks out of its renderer from everything
//! else this user can reach.

use rustix::process::geteuid;

use super::{Patient, Verdict};

pub(super) fn check(patient: &Patient) -> Verdict {
    let settings = &patient.resolved.settings;
    let Some(default) = settings.default_pool() else {
        return Verdict::skipped("not needed: greenroom attaches to running browsers and starts none");
    };
    let without = settings.instances().into_iter().find(|(_, pool)| pool.no_sandbox == Some(true));
    let (setting, origin) = match without {
        Some((place, pool)) if !settings.pools.is_empty() => (pool.no_sandbox, place),
        _ => (default.no_sandbox, patient.resolved.origin("pool.no_sandbox").to_string()),
    };
    judge(setting, geteuid().is_root(), &origin)
}

fn judge(no_sandbox: Option<bool>, root: bool, origin: &str) -> Verdict {
    const USER: &str = "run greenroom as an ordinary user";
    match (no_sandbox, root) {
        (Some(true), _) => Verdict::warning(format!(
            "the browser runs without its sandbox: `pool.no_sandbox` is true (from {origin})"
        ))
        .fix("leave `pool.no_sandbox` out"),
        (Some(false), true) => Verdict::failed(
            "as root, Chromium refuses to start with its sandbox, and `pool.no_sandbox` is false",
        )
        .fix(USER),
        (None, true) => Verdict::warning("as root, the browser runs without its sandbox").fix(USER),
        (_, false) => Verdict::ok("the browser runs inside its sandbox"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    /// Only an ordinary user who did not turn it off has the sandbox; root with the sandbox has no browser.
    #[test]
    fn who_has_the_sandbox() {
        for (setting, root, status) in [
            (None, false, CheckStatus::Ok),
            (Some(false), false, CheckStatus::Ok),
            (None, true, CheckStatus::Warning),
            (Some(true), false, CheckStatus::Warning),
            (Some(true), true, CheckStatus::Warning),
            (Some(false), true, CheckStatus::Failed),
        ] {
            assert_eq!(judge(setting, root, "--flag").status, status, "{setting:?} {root}");
        }
    }
}
