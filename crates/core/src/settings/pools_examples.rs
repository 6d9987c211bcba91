//! The examples of the pools' specification, word for word, and what each of them means; and the same pools in TOML.

use std::time::Duration;

use super::{
    Browser, DeclaredPool, KeyLevel, Origin, Pool, Resolved, Scope, Sources, resolve,
    resolve::tests::{dotenv, environment, file, sources},
};

const ONE: &str = "\
# .env
# Global defaults apply to all pools
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY_BROWSER=chromium
PW_MCP_PROXY_TIMEOUT=30000
# Single pool configuration
PW_MCP_PROXY__DEFAULT_INSTANCES=3
PW_MCP_PROXY__DEFAULT_IS_DEFAULT=true
";

const TWO: &str = "\
# Global defaults
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY_BROWSER=chromium
# Default pool: Uses global defaults
PW_MCP_PROXY__SESSIONLESS_INSTANCES=5
PW_MCP_PROXY__SESSIONLESS_IS_DEFAULT=true
# Isolated pool: Overrides browser and headless
PW_MCP_PROXY__ISOLATED_INSTANCES=2
PW_MCP_PROXY__ISOLATED_HEADLESS=false
PW_MCP_PROXY__ISOLATED_BROWSER=firefox
PW_MCP_PROXY__ISOLATED_ISOLATED=true
";

const TWO_IN_TOML: &str = r#"
pool = { headless = true, browser = "chromium" }

[pools.SESSIONLESS]
instances = 5
is_default = true

[pools.ISOLATED]
instances = 2
headless = false
browser = "firefox"
isolated = true
"#;

const THREE: &str = "\
# Global defaults
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY_BROWSER=chromium
PW_MCP_PROXY_TIMEOUT=30000
# Pool defaults (inherits global where not specified)
PW_MCP_PROXY__BROWSERS_INSTANCES=3
PW_MCP_PROXY__BROWSERS_IS_DEFAULT=true
# HEADLESS, BROWSER, TIMEOUT inherited from global
# Instance 0: Override browser and add alias
PW_MCP_PROXY__BROWSERS__0_BROWSER=msedge
PW_MCP_PROXY__BROWSERS__0_ALIAS=edge_main
# HEADLESS=true (from global), TIMEOUT=30000 (from global)
# Instance 1: Override browser and headless, add alias
PW_MCP_PROXY__BROWSERS__1_BROWSER=firefox
PW_MCP_PROXY__BROWSERS__1_ALIAS=firefox_debug
PW_MCP_PROXY__BROWSERS__1_HEADLESS=false
# TIMEOUT=30000 (from global)
# Instance 2: Uses all global defaults
# BROWSER=chromium, HEADLESS=true, TIMEOUT=30000 (all from global)
";

const THREE_IN_TOML: &str = r#"
[pool]
headless = true
browser = "chromium"
timeout = 30000

[pools.BROWSERS]
is_default = true
instances.count = 3

[pools.BROWSERS.instances.0]
browser = "msedge"
alias = "edge_main"

[pools.BROWSERS.instances.1]
browser = "firefox"
alias = "firefox_debug"
headless = false
"#;

const FOUR: &str = "\
# Global: All instances use Windows Node.js
PW_MCP_PROXY_WSL_WINDOWS=true
PW_MCP_PROXY_BROWSER=msedge
PW_MCP_PROXY_HEADLESS=false
# Pool inherits all global settings
PW_MCP_PROXY__WINDOWS_INSTANCES=2
PW_MCP_PROXY__WINDOWS_IS_DEFAULT=true
";

const FIVE: &str = r#"
# Global configuration shared by all pools
PW_MCP_PROXY_HEADLESS=true
PW_MCP_PROXY_TIMEOUT=60000
# Pool 1: Chromium (default) - General purpose
PW_MCP_PROXY__CHROMIUM_INSTANCES=5
PW_MCP_PROXY__CHROMIUM_IS_DEFAULT=true
PW_MCP_PROXY__CHROMIUM_BROWSER=chromium
PW_MCP_PROXY__CHROMIUM_DESCRIPTION="General-purpose web scraping and navigation"
# Pool 2: Firefox - Cross-browser testing
PW_MCP_PROXY__FIREFOX_INSTANCES=3
PW_MCP_PROXY__FIREFOX_BROWSER=firefox
PW_MCP_PROXY__FIREFOX_DESCRIPTION="Cross-browser compatibility testing"
# Pool 3: WebKit - Mobile/Safari testing
PW_MCP_PROXY__WEBKIT_INSTANCES=2
PW_MCP_PROXY__WEBKIT_BROWSER=webkit
PW_MCP_PROXY__WEBKIT_DESCRIPTION="Mobile Safari and WebKit-specific testing"
"#;

const MIGRATION_A: &str = "\
# Simplest migration: Use global config
PW_MCP_PROXY_HEADLESS=false
PW_MCP_PROXY_BROWSER=firefox
PW_MCP_PROXY_WSL_WINDOWS=true
# Create single default pool
PW_MCP_PROXY__DEFAULT_INSTANCES=1
PW_MCP_PROXY__DEFAULT_IS_DEFAULT=true
";

const MIGRATION_B: &str = "\
# Explicit pool-level config
PW_MCP_PROXY__DEFAULT_INSTANCES=1
PW_MCP_PROXY__DEFAULT_IS_DEFAULT=true
PW_MCP_PROXY__DEFAULT_HEADLESS=false
PW_MCP_PROXY__DEFAULT_BROWSER=firefox
PW_MCP_PROXY__DEFAULT_WSL_WINDOWS=true
";

/// Resolves an example as a `.env` and as the environment that a shell makes of it, which mean the same.
#[track_caller]
fn read(example: &str) -> Resolved {
    let resolved = resolve(&Sources { dotenv: dotenv(example), ..sources() }).unwrap();
    let lines = example.lines().filter(|line| !line.starts_with('#'));
    let variables: Vec<_> = lines.filter_map(|line| line.split_once('=')).collect();
    let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.trim_matches('"'))).collect();
    let shell = resolve(&Sources { environment: environment(&variables), ..sources() }).unwrap();
    assert_eq!(resolved.settings, shell.settings);
    resolved
}

/// A declared pool's values, as the examples give them.
fn pool(browser: Browser, headless: bool, timeout: u64) -> Pool {
    Pool { browser, headless, timeout: Duration::from_millis(timeout), ..Pool::declared_defaults() }
}

/// Name, description and default of a pool, and the values that all its instances share.
#[track_caller]
fn plain(pool: &DeclaredPool) -> (&str, &str, bool, usize, &Pool) {
    assert!(pool.instances.iter().all(|instance| instance.alias.is_none() && instance.pool == pool.common));
    (&pool.name, &pool.description, pool.is_default, pool.instances.len(), &pool.common)
}

/// Example 1: three headless Chromiums with 30 s, in the default pool; calls without a session lease a browser each.
#[test]
fn global_defaults_with_a_single_pool() {
    let settings = read(ONE).settings;
    assert_eq!(settings.pools.len(), 1);
    assert_eq!(plain(&settings.pools[0]), ("DEFAULT", "", true, 3, &pool(Browser::Chromium, true, 30_000)));
    assert_eq!(settings.sessions.scope, Scope::Call);
    let common = &settings.pools[0].common;
    assert_eq!((common.isolated, common.slots, common.lease_timeout.as_secs()), (false, 1, 30));
}

/// Example 2: one pool with the values of all pools, another with a browser of its own; in TOML the same.
#[test]
fn global_defaults_with_pool_overrides() {
    let settings = read(TWO).settings;
    let isolated = Pool { isolated: true, ..pool(Browser::Firefox, false, 30_000) };
    assert_eq!(settings.pools.len(), 2);
    assert_eq!(plain(&settings.pools[0]), ("ISOLATED", "", false, 2, &isolated));
    assert_eq!(
        plain(&settings.pools[1]),
        ("SESSIONLESS", "", true, 5, &pool(Browser::Chromium, true, 30_000))
    );
    let toml = resolve(&Sources { files: file(TWO_IN_TOML, false), ..sources() }).unwrap();
    assert_eq!(toml.settings, settings);
}

/// Example 3: each instance has its own values over the pool's over those of all; in TOML the same. Every value knows
/// its level.
#[test]
fn instance_values_override_pool_and_global_values() {
    let resolved = read(THREE);
    let [browsers] = resolved.settings.pools.as_slice() else { panic!("{:?}", resolved.settings.pools) };
    assert_eq!(browsers.common, pool(Browser::Chromium, true, 30_000));
    let instances: Vec<_> =
        browsers.instances.iter().map(|instance| (instance.alias.as_deref(), &instance.pool)).collect();
    assert_eq!(
        instances,
        [
            (Some("edge_main"), &pool(Browser::Msedge, true, 30_000)),
            (Some("firefox_debug"), &pool(Browser::Firefox, false, 30_000)),
            (None, &pool(Browser::Chromium, true, 30_000)),
        ]
    );
    let level = |instance, key| resolved.pool_origin("BROWSERS", Some(instance), key).0;
    let levels = |instance| ["browser", "headless", "timeout", "slots"].map(|key| level(instance, key));
    assert_eq!(levels(0), [KeyLevel::Instance, KeyLevel::Global, KeyLevel::Global, KeyLevel::Default]);
    assert_eq!(levels(1), [KeyLevel::Instance, KeyLevel::Instance, KeyLevel::Global, KeyLevel::Default]);
    assert_eq!(levels(2), [KeyLevel::Global, KeyLevel::Global, KeyLevel::Global, KeyLevel::Default]);
    assert_eq!(level(2, "instances"), KeyLevel::Pool);
    let origin = resolved.pool_origin("BROWSERS", Some(0), "browser").1;
    assert_eq!(*origin, Origin::DotEnv("/project/.env".into()));

    let toml = resolve(&Sources { files: file(THREE_IN_TOML, false), ..sources() }).unwrap();
    assert_eq!(toml.settings, resolved.settings);
    let table = THREE_IN_TOML.replace("instances.count = 3", "").replace(
        "[pools.BROWSERS.instances.0]",
        "[pools.BROWSERS.instances]\ncount = 3\n[pools.BROWSERS.instances.0]",
    );
    let toml = resolve(&Sources { files: file(&table, false), ..sources() }).unwrap();
    assert_eq!(toml.settings, resolved.settings);
}

/// Example 4: two headed Edges on the Windows side, from a `.env` too: the file names no program.
#[test]
fn wsl_pool_starts_edge_on_windows() {
    let settings = read(FOUR).settings;
    let windows = Pool { wsl_windows: true, ..pool(Browser::Msedge, false, 30_000) };
    assert_eq!(plain(&settings.pools[0]), ("WINDOWS", "", true, 2, &windows));
}

/// Example 5: three pools with one deadline and their descriptions without quotes.
#[test]
fn several_pools_with_descriptions() {
    let settings = read(FIVE).settings;
    let pools: Vec<_> = settings.pools.iter().map(plain).collect();
    let [chromium, firefox, webkit] =
        [Browser::Chromium, Browser::Firefox, Browser::Webkit].map(|browser| pool(browser, true, 60_000));
    assert_eq!(
        pools,
        [
            ("CHROMIUM", "General-purpose web scraping and navigation", true, 5, &chromium),
            ("FIREFOX", "Cross-browser compatibility testing", false, 3, &firefox),
            ("WEBKIT", "Mobile Safari and WebKit-specific testing", false, 2, &webkit),
        ]
    );
}

/// Both ways to migrate make the same pool.
#[test]
fn both_migrations_make_the_same_pool() {
    let a = read(MIGRATION_A).settings.pools;
    let b = read(MIGRATION_B).settings.pools;
    let wanted = Pool { wsl_windows: true, ..pool(Browser::Firefox, false, 30_000) };
    assert_eq!(plain(&a[0]), ("DEFAULT", "", true, 1, &wanted));
    assert_eq!(a, b);
}
