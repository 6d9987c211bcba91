//! Whether the browsers that greenroom starts are new enough: the oldest supported version, the versions found, and what
//! does not work with them.

use std::{collections::BTreeSet, path::PathBuf};

use greenroom_engine::browser::{
    self,
    version::{MAJOR_MIN, Version},
};

use super::{Patient, Verdict};

pub(super) async fn check(patient: &Patient) -> Verdict {
    let programs = programs(patient);
    if programs.is_empty() {
        return Verdict::skipped("found no browser that greenroom could start");
    }
    let mut fine = Vec::new();
    for program in programs {
        let version = match Version::of_program(&patient.launcher, &program).await {
            Ok(version) => version,
            Err(why) => {
                let message = format!("cannot find out the version: {why}: `{}`", program.display());
                return Verdict::warning(message)
                    .fix(format!("see that it is Chromium {MAJOR_MIN} or newer"));
            }
        };
        if let Some(complaint) = version.complaint() {
            return Verdict::warning(format!("{complaint}: `{}`", program.display())).fix(
                "upgrade it (on Debian: `apt-get update && apt-get install chromium chromium-headless-shell`), or set \
                 `pool.executable_path` to the path of a newer one",
            );
        }
        fine.push(told(&version));
    }
    fine.dedup();
    Verdict::ok(format!("{}; {MAJOR_MIN} or newer is supported", fine.join(", ")))
}

fn told(version: &Version) -> String {
    match version.lacks()[..] {
        [] => version.to_string(),
        ref lacks => format!("{version} (too old for {})", lacks.join(", ")),
    }
}

/// The programs of all pools whose browser greenroom starts.
fn programs(patient: &Patient) -> BTreeSet<PathBuf> {
    let places = patient.surroundings.places();
    let pools = patient.resolved.settings.instances().into_iter().map(|(_, pool)| pool);
    let found = pools.filter(|pool| pool.has_chromium()).filter_map(|pool| {
        browser::find(&places, pool.headless, pool.browser.into(), pool.executable_path.as_deref()).ok()
    });
    found.map(|browser| browser.path).collect()
}
