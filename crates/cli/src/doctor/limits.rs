//! Which limits hold for the browsers that greenroom starts, and by which means: the kernel's cgroups, or greenroom, which
//! watches them. The answer is for a greenroom that is started as this one was: another one may be in another cgroup.

use greenroom_core::settings::{Pool, SETTINGS, Settings};
use greenroom_engine::cgroup::{DelegatedGroup, NotDelegated};

use super::{CheckOutcome, Installation};

/// The settings that are limits of a browser, each with the unit that its value needs.
const LIMITS: [(&str, &str); 6] = [
    ("pool.memory_bytes_max", " memory"),
    ("pool.cpu_cores_max", " cores"),
    ("pool.processes_max", " processes"),
    ("pool.open_files_max", " open files per process"),
    ("pool.profile_bytes_max", " profile"),
    ("sessions.disk_bytes_max", " files per session"),
];

pub(super) async fn check(installation: &Installation) -> Vec<CheckOutcome> {
    findings(&installation.resolved.settings, DelegatedGroup::find().err().as_ref())
}

/// One finding for all instances with the same limits. `watched_because` is why there are no cgroups.
fn findings(settings: &Settings, watched_because: Option<&NotDelegated>) -> Vec<CheckOutcome> {
    let instances = settings.instances();
    if instances.is_empty() {
        return vec![CheckOutcome::skipped(
            "not needed: greenroom attaches to running browsers and starts none",
        )];
    }
    let mut found: Vec<(Option<String>, Vec<String>)> = Vec::new();
    for (place, pool) in instances {
        let limits = pool.has_chromium().then(|| shown(settings, pool));
        match found.iter_mut().find(|(other, _)| *other == limits) {
            Some((_, places)) => places.push(place),
            None => found.push((limits, vec![place])),
        }
    }
    let is_one = found.len() == 1;
    let outcome = |(limits, places): (Option<String>, Vec<String>)| {
        let of = if is_one { String::new() } else { format!("{}: ", places.join("; ")) };
        match limits {
            Some(limits) => CheckOutcome::ok(format!("{of}{limits}; {}", means(watched_because))),
            None => CheckOutcome::warning(format!(
                "{of}no limit of greenroom's holds for a browser that the engine starts itself"
            ))
            .fix("limit greenroom as a whole: with systemd (`MemoryMax=`, `CPUQuota=`, `TasksMax=`) or in its container"),
        }
    };
    found.into_iter().map(outcome).collect()
}

fn means(watched_because: Option<&NotDelegated>) -> String {
    match watched_because {
        None => "held by greenroom and by a cgroup of each browser".to_owned(),
        Some(why) => format!("held by greenroom, which watches its browsers ({why})"),
    }
}

/// The limits of a pool's browsers, as people write them.
fn shown(settings: &Settings, pool: &Pool) -> String {
    let mut values = settings.clone();
    values.pool = pool.clone();
    let limit = |(key, unit): (&str, &str)| {
        let setting = SETTINGS.iter().find(|setting| setting.key == key)?;
        let value = setting.show(&values);
        Some(match value.as_str() {
            "auto" => format!("2GiB (`auto`){unit}"),
            "off" => format!("any{unit}"),
            "1" => format!("1{}", unit.trim_end_matches('s')),
            _ => format!("{value}{unit}"),
        })
    };
    LIMITS.into_iter().filter_map(limit).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::CheckStatus;

    fn settings() -> Settings {
        Settings::defaults("/data".into())
    }

    /// The limits and the means are named, and why there is no cgroup.
    #[test]
    fn limits_and_means_are_named() {
        const LIMITS: &str = "2GiB (`auto`) memory, 1 core, 512 processes, 8192 open files per process, 8GiB profile, \
                              1GiB files per session; held by greenroom";
        let found = findings(&settings(), None);
        assert_eq!(found[0].message, format!("{LIMITS} and by a cgroup of each browser"));
        let found = findings(&settings(), Some(&NotDelegated::Shared(1)));
        let why = "1 other process is in greenroom's cgroup";
        assert_eq!(found[0].message, format!("{LIMITS}, which watches its browsers ({why})"));
        assert!(found.len() == 1 && found[0].status == CheckStatus::Ok);
        let mut off = settings();
        off.pool.cpu_cores_max = None;
        assert!(findings(&off, None)[0].message.contains(" memory, any cores, "));
    }

    /// A browser that the engine starts has no limit of greenroom's, which is a warning.
    #[test]
    fn browsers_of_the_engine_have_no_limits() {
        let mut settings = settings();
        settings.pool.browser = greenroom_core::settings::Browser::Firefox;
        let found = findings(&settings, None);
        assert!(found[0].status == CheckStatus::Warning && found[0].message.starts_with("no limit"));
    }
}
