//! Whether the network policy holds for every browser. It does not where no proxy of greenroom stands in between: for
//! custom engines, the Playwright extension and attached browsers.

use greenroom_core::{network::NetworkPolicy, plural::count, settings::Settings};

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    outcome_for(&installation.resolved.settings)
}

fn outcome_for(settings: &Settings) -> CheckOutcome {
    let instances = settings.instances();
    let mut unproxied: Vec<String> = instances
        .iter()
        .filter(|(_, pool)| !pool.is_proxied())
        .map(|(name, _)| format!("`{name}`"))
        .collect();
    if !settings.browsers.is_empty() {
        unproxied.push(count(settings.browsers.len(), "attached browser"));
    }
    let mut policies: Vec<NetworkPolicy> =
        instances.iter().map(|(_, pool)| settings.network_policy(pool)).collect();
    // With attached browsers alone there is no pool; the settings still say what the user wants.
    policies.push(settings.network_policy(&settings.pool));
    let is_limited = policies.iter().any(NetworkPolicy::judges_addresses);
    let places = unproxied.join(", ");
    match (unproxied.is_empty(), is_limited) {
        (true, false) => CheckOutcome::ok(
            "open: browsers reach everything but greenroom's own ports and cloud metadata services",
        ),
        (true, true) => CheckOutcome::ok("limited: every browser goes through greenroom's proxy"),
        (false, false) => {
            CheckOutcome::ok(format!("open; no proxy, so no network policy would hold: {places}"))
        }
        (false, true) => {
            CheckOutcome::warning(format!("no proxy, so the network policy does not hold: {places}"))
                .fix("limit these browsers by other means, such as a firewall or a container")
        }
    }
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::{Sources, resolve};

    use super::*;
    use crate::doctor::CheckStatus;

    /// A policy that does not hold everywhere is a warning that names the places.
    #[test]
    fn unproxied_browsers_are_named() {
        let custom = [("pool.engine", "custom"), ("pool.command", "x")];
        let guarded = ("network.preset", "guarded");
        for (flags, status, message) in [
            (vec![], CheckStatus::Ok, "open: browsers reach"),
            (vec![guarded], CheckStatus::Ok, "limited: every browser"),
            (vec![("network.deny", "x")], CheckStatus::Ok, "limited: every browser"),
            (custom.to_vec(), CheckStatus::Ok, "open; no proxy, so no network policy would hold: `pool`"),
            (
                [&custom[..], &[guarded]].concat(),
                CheckStatus::Warning,
                "no proxy, so the network policy does not hold: `pool`",
            ),
        ] {
            let flags = flags.iter().map(|(key, value)| (*key, (*value).to_owned())).collect();
            let sources = Sources { data_dir: Some("/d".into()), flags, ..Sources::default() };
            let outcome = outcome_for(&resolve(&sources).unwrap().settings);
            assert!(outcome.message.starts_with(message), "{}", outcome.message);
            assert_eq!(outcome.status, status);
        }
    }
}
