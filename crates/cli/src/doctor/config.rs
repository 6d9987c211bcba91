//! Where the settings in force come from. A configuration with mistakes never gets here: greenroom refuses to start with
//! one, doctor included.

use greenroom_core::settings::{Origin, Resolved, SETTINGS};

use super::{CheckOutcome, Installation};

pub(super) fn check(installation: &Installation) -> CheckOutcome {
    let sources = sources(&installation.resolved);
    if sources.is_empty() {
        return CheckOutcome::ok("all settings have their defaults");
    }
    let sources: Vec<_> =
        sources.iter().map(|(source, settings)| format!("`{source}` ({})", settings.join(", "))).collect();
    CheckOutcome::ok(format!("set by {}", sources.join(", ")))
}

/// Each source with the settings it decides, in the order of the settings; then those of declared pools, and of browsers.
fn sources(resolved: &Resolved) -> Vec<(String, Vec<String>)> {
    let of_all = SETTINGS.iter().map(|setting| (setting.key.to_owned(), resolved.origin(setting.key)));
    let of_pools = resolved.settings.pools.iter().map(|pool| pool.name.as_str()).flat_map(|pool| {
        // Name a pool once per source, not each of its keys: a pool with many keys would fill the screen.
        let keys = resolved.pool_keys(pool).into_iter();
        keys.map(move |(_, _, origin)| (format!("pool {pool}"), origin))
    });
    let of_browsers = (0..resolved.settings.browsers.len())
        .map(|at| (format!("browser {}", at + 1), resolved.browser_origin(at)));
    let mut sources: Vec<(String, Vec<_>)> = Vec::new();
    for (key, origin) in
        of_all.chain(of_pools).chain(of_browsers).filter(|(_, origin)| **origin != Origin::Default)
    {
        // The variables of a pool contain its name.
        let is_of_pool = key.starts_with("pool ");
        let origin = match origin {
            Origin::Env(_) if is_of_pool => "the environment".to_owned(),
            origin => origin.to_string(),
        };
        match sources.iter_mut().find(|(source, _)| *source == origin) {
            Some((_, keys)) if keys.contains(&key) => {}
            Some((_, keys)) => keys.push(key),
            None => sources.push((origin, vec![key])),
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::{DotEnv, Sources, resolve};

    use super::*;

    /// Declared pools are named once for each source that sets some of their keys.
    #[test]
    fn declared_pools_are_listed_by_source() {
        let variables =
            [("PW_MCP_PROXY__A_IS_DEFAULT", "1"), ("PW_MCP_PROXY__A_SLOTS", "1"), ("HEADLESS", "0")];
        let text = "PW_MCP_PROXY__A_INSTANCES=2\nPW_MCP_PROXY__A__1_ALIAS=x".to_owned();
        let resolved = resolve(&Sources {
            data_dir: Some("/data".into()),
            dotenv: Some(DotEnv { path: "/p/.env".into(), text }),
            environment: variables.map(|(name, value)| (name.into(), value.into())).to_vec(),
            ..Sources::default()
        });
        let owned = |source: &str, key: &str| (source.to_owned(), vec![key.to_owned()]);
        assert_eq!(
            sources(&resolved.unwrap()),
            [
                owned("HEADLESS", "pool.headless"),
                owned("/p/.env", "pool A"),
                owned("the environment", "pool A")
            ]
        );
    }
}
