//! The keys of an attached browser: its own, and which settings of a pool mean something to a browser that already runs.
//! Whoever adds a setting of pools is asked by a test below to decide that.

/// The keys that only an attached browser has. `url` is one of a pool too, and something else there.
pub(in crate::settings) const NAMED: [&str; 5] = ["url", "label", "tags", "headers", "start_command"];

/// What a setting of a pool is to a browser that already runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::settings) enum Fit {
    Yes,
    /// It belongs to a context: to one of greenroom's own. In the browser's own context it would reach the tabs of
    /// whoever uses the browser.
    Isolated,
    /// Nothing, and why.
    No(&'static str),
}

const RUNS: Fit = Fit::No("it is settled when a browser is started, and this one already runs");
const ONE: Fit = Fit::No("a browser is one instance, the same all the time");
const CUSTOM: Fit = Fit::No("it is the custom engine's, which attaches to no browser");

const FITS: &[(&str, Fit)] = &[
    ("engine", Fit::Yes),
    ("command", Fit::No("it is the custom engine's; what starts this browser is its `start_command`")),
    ("url", CUSTOM),
    ("isolated", Fit::Yes),
    ("slots", Fit::Yes),
    ("instances", ONE),
    ("instances_max", ONE),
    ("instance_idle", ONE),
    ("warm", Fit::No("nothing is opened in a running browser before it is needed")),
    ("lazy", Fit::No("`attach.eager` says when browsers are connected")),
    ("lease_timeout", Fit::Yes),
    ("lease_strategy", ONE),
    ("health_interval", Fit::Yes),
    ("health_timeout", Fit::Yes),
    ("restarts", Fit::No("a lost browser is tried again until it is back; see `attach.cooldown`")),
    ("timeout", Fit::Yes),
    ("responses", Fit::Yes),
    ("headless", RUNS),
    ("browser", RUNS),
    ("executable_path", RUNS),
    ("wsl_windows", RUNS),
    ("extension", Fit::No("it is another way to reach a running browser: as a pool, not here")),
    ("user_data_dir", RUNS),
    ("storage_state", Fit::Isolated),
    ("no_sandbox", RUNS),
    ("viewport_size", Fit::Isolated),
    ("caps", Fit::Yes),
    ("init_script", Fit::Isolated),
    ("allowed_origins", Fit::Isolated),
    ("blocked_origins", Fit::Isolated),
    ("proxy_server", RUNS),
    ("save_session", Fit::Yes),
    ("output_dir", Fit::Yes),
    ("image_responses", Fit::Yes),
    ("timeout_action", Fit::Yes),
    ("timeout_navigation", Fit::Yes),
    ("timeout_settle", Fit::Yes),
    ("user_agent", Fit::Isolated),
    ("ignore_https_errors", Fit::Isolated),
    ("device", Fit::Isolated),
    ("locale", Fit::Isolated),
    ("timezone", Fit::Isolated),
    ("geolocation", Fit::Isolated),
    ("permissions", Fit::Isolated),
    ("color_scheme", Fit::Isolated),
    ("device_scale_factor", Fit::Isolated),
    ("bypass_csp", Fit::Isolated),
    ("test_id_attribute", Fit::Yes),
    ("snapshot_boxes", Fit::Yes),
    ("codegen", Fit::Yes),
    ("secrets_file", Fit::Yes),
    ("browser_args", RUNS),
    ("is_default", Fit::No("calls choose a browser with `browserIndex`")),
    ("description", Fit::No("`label` and `tags` say what it is")),
    ("alias", Fit::No("its second name is its `label`")),
];

/// What the key of a pool is to a browser. `None` is no key of pools.
pub(in crate::settings) fn fit(name: &str) -> Option<Fit> {
    FITS.iter().find(|(key, _)| *key == name).map(|(_, fit)| *fit)
}

/// The keys that a browser may have, its own first.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    let of_pools = FITS.iter().filter(|(_, fit)| !matches!(fit, Fit::No(_))).map(|(key, _)| *key);
    NAMED.into_iter().chain(of_pools)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::settings::key::Key;

    /// Every key of pools is decided upon, once.
    #[test]
    fn every_key_is_decided() {
        let keys: BTreeSet<_> = Key::all().map(Key::name).collect();
        assert_eq!(FITS.iter().map(|(key, _)| *key).collect::<BTreeSet<_>>(), keys);
        assert_eq!(FITS.len(), keys.len());
    }
}
