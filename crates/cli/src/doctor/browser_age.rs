//! Whether the browsers that greenroom starts are new enough: the oldest supported version, the versions found, and what
//! does not work with them.

use std::{collections::BTreeSet, path::PathBuf};

use greenroom_engine::browser::{
    self,
    version::{MAJOR_MIN, Version},
};

use super::{CheckOutcome, Installation};

pub(super) async fn check(installation: &Installation) -> CheckOutcome {
    let programs = programs(installation);
    if programs.is_empty() {
        return CheckOutcome::skipped("found no browser that greenroom could start");
    }
    let mut descriptions = Vec::new();
    for program in programs {
        let version = match Version::of_program(&installation.launcher, &program).await {
            Ok(version) => version,
            Err(why) => {
                let message = format!("cannot find out the version: {why}: `{}`", program.display());
                return CheckOutcome::warning(message)
                    .fix(format!("see that it is Chromium {MAJOR_MIN} or newer"));
            }
        };
        if let Some(complaint) = version.complaint() {
            return CheckOutcome::warning(format!("{complaint}: `{}`", program.display())).fix(
                "upgrade it (on Debian: `apt-get update && apt-get install chromium chromium-headless-shell`), or set \
                 `pool.executable_path` to the path of a newer one",
            );
        }
        descriptions.push(describe(&version));
    }
    descriptions.dedup();
    CheckOutcome::ok(format!("{}; {MAJOR_MIN} or newer is supported", descriptions.join(", ")))
}

fn describe(version: &Version) -> String {
    match version.lacks()[..] {
        [] => version.to_string(),
        ref lacks => format!("{version} (too old for {})", lacks.join(", ")),
    }
}

/// The programs of all pools whose browser greenroom starts.
fn programs(installation: &Installation) -> BTreeSet<PathBuf> {
    let install_paths = installation.env.install_paths();
    let pools = installation.resolved.settings.instances().into_iter().map(|(_, pool)| pool);
    let found = pools.filter(|pool| pool.has_chromium()).filter_map(|pool| {
        browser::find(&install_paths, pool.headless, pool.browser.into(), pool.executable_path.as_deref())
            .ok()
    });
    found.map(|browser| browser.path).collect()
}
