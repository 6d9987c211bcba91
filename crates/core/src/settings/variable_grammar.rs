//! The names of variables that configure pools: `PW_MCP_PROXY_<KEY>` for all, `PW_MCP_PROXY__<POOL>_<KEY>` for one
//! pool, `PW_MCP_PROXY__<POOL>__<ID>_<KEY>` for one instance.
//!
//! Pool names may hold single underscores, so it is ambiguous where the name ends and the key begins: the longest known
//! key at the end wins. Also here: the names that variables had before they had this prefix.

use super::{
    key::{Key, spell},
    nearest::closest,
    problem::Problem,
};

pub(super) const PREFIX: &str = "PW_MCP_PROXY_";

/// The longest name of a pool. Every tool's description and the metrics contain these names.
const POOL_NAME_MAX: usize = 64;

/// The options of the engine that earlier versions read as `PLAYWRIGHT_<KEY>`. Playwright has many variables of its own
/// with that prefix, so no other name is taken for one of ours.
const OLD_KEYS: [&str; 25] = [
    "HEADLESS",
    "BROWSER",
    "WSL_WINDOWS",
    "VIEWPORT_SIZE",
    "ISOLATED",
    "TIMEOUT",
    "NO_SANDBOX",
    "DEVICE",
    "USER_DATA_DIR",
    "STORAGE_STATE",
    "ALLOWED_ORIGINS",
    "BLOCKED_ORIGINS",
    "PROXY_SERVER",
    "CAPS",
    "SAVE_SESSION",
    "OUTPUT_DIR",
    "TIMEOUT_ACTION",
    "TIMEOUT_NAVIGATION",
    "TIMEOUT_SETTLE",
    "IMAGE_RESPONSES",
    "USER_AGENT",
    "INIT_SCRIPT",
    "IGNORE_HTTPS_ERRORS",
    "EXTENSION",
    "EXECUTABLE_PATH",
];

/// What a variable sets.
pub(super) enum VariableName {
    Global(Key),
    /// A key of a declared pool, or of one of its instances.
    Of(PoolKeyPath),
}

/// One value of a declared pool.
pub(super) struct PoolKeyPath {
    pub pool: String,
    pub instance: Option<usize>,
    pub key: Key,
}

/// Why a variable with our prefix sets nothing.
pub(super) enum VariableNameError {
    Unknown { nearest: Option<String> },
    Pool { name: String },
    NoPool { key: Key },
    Instance { pool: String, id: String, key: Option<Key> },
}

/// Reads a name; `None` when it has another prefix.
pub(super) fn read(variable: &str) -> Option<Result<VariableName, VariableNameError>> {
    let rest = variable.strip_prefix(PREFIX)?;
    Some(match rest.strip_prefix('_') {
        Some(rest) => declared(rest).map(VariableName::Of),
        None => global(rest).map(VariableName::Global),
    })
}

/// The new name of a variable that was renamed.
pub(super) fn renamed(variable: &str) -> Option<String> {
    let key = match variable.strip_prefix("PLAYWRIGHT_")? {
        "VIEWPORT" => "VIEWPORT_SIZE",
        key => OLD_KEYS.into_iter().find(|old| *old == key)?,
    };
    Some(format!("{PREFIX}{key}"))
}

/// Uppercase letters and digits, with single underscores inside.
pub(super) fn is_pool_name(name: &str) -> bool {
    let part =
        |part: &str| !part.is_empty() && part.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit());
    name.len() <= POOL_NAME_MAX && name.split('_').all(part)
}

/// An instance's ID in the one form it has: `0`, never `00` or `+0`.
pub(super) fn instance_id(text: &str) -> Option<usize> {
    text.parse().ok().filter(|id: &usize| id.to_string() == text)
}

pub(super) fn bad_pool_name(name: &str, site: &str) -> Problem {
    let name = name.escape_debug();
    Problem::Pool {
        message: format!("`{name}` cannot be the name of a pool: {site}"),
        hint: format!(
            "pools are named with uppercase letters and digits, and single underscores inside, such as `MY_POOL`; at \
             most {POOL_NAME_MAX} of them"
        ),
    }
}

fn global(rest: &str) -> Result<Key, VariableNameError> {
    Key::find_upper(rest).ok_or_else(|| {
        // The user more likely forgot one underscore than put a pool's name before a global key.
        let pool_level = declared(rest).ok().filter(|_| !rest.contains("__"));
        let nearest = pool_level
            .map(|spot| spell(false, &spot.pool, None, spot.key))
            .or_else(|| closest_key(rest).map(|(_, key)| format!("{PREFIX}{}", key.upper())));
        VariableNameError::Unknown { nearest }
    })
}

fn declared(rest: &str) -> Result<PoolKeyPath, VariableNameError> {
    if let Some((pool, tail)) = rest.split_once("__") {
        return instance(pool, tail);
    }
    // Only keys that leave a pool's name: `HEALTH_TIMEOUT` is the key `TIMEOUT` of a pool `HEALTH`.
    let split = |key: Key| {
        let pool = rest.strip_suffix(&key.upper())?.strip_suffix('_')?;
        (!pool.is_empty()).then_some((pool, key))
    };
    match Key::all().filter_map(split).max_by_key(|(_, key)| key.name().len()) {
        Some((pool, key)) if is_pool_name(pool) => {
            Ok(PoolKeyPath { pool: pool.to_owned(), instance: None, key })
        }
        Some((pool, _)) => Err(VariableNameError::Pool { name: pool.to_owned() }),
        None => Err(match Key::find_upper(rest) {
            Some(key) => VariableNameError::NoPool { key },
            None => VariableNameError::Unknown { nearest: nearest_in_pool(rest) },
        }),
    }
}

fn instance(pool: &str, tail: &str) -> Result<PoolKeyPath, VariableNameError> {
    if !is_pool_name(pool) {
        return Err(VariableNameError::Pool { name: pool.to_owned() });
    }
    let (id, key) = tail.split_once('_').unwrap_or((tail, ""));
    let Some(instance) = instance_id(id) else {
        let pool = pool.to_owned();
        let id = id.to_owned();
        return Err(VariableNameError::Instance { pool, id, key: Key::find_upper(tail) });
    };
    match Key::find_upper(key) {
        Some(key) => Ok(PoolKeyPath { pool: pool.to_owned(), instance: Some(instance), key }),
        None => {
            let nearest = closest_key(key).map(|(_, key)| spell(false, pool, Some(id), key));
            Err(VariableNameError::Unknown { nearest })
        }
    }
}

/// The key with the fewest typing mistakes, over every position where the pool's name may end.
fn nearest_in_pool(rest: &str) -> Option<String> {
    let splits = rest.match_indices('_').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
    splits
        .filter(|(pool, _)| is_pool_name(pool))
        .filter_map(|(pool, key)| closest_key(key).map(|(mistakes, key)| (mistakes, pool, key)))
        .min_by_key(|(mistakes, ..)| *mistakes)
        .map(|(_, pool, key)| spell(false, pool, None, key))
}

fn closest_key(wrong: &str) -> Option<(usize, Key)> {
    let (mistakes, name) = closest(wrong, Key::all().map(Key::name))?;
    Some((mistakes, Key::find(name)?))
}

impl VariableNameError {
    /// The problem of a variable in `place`.
    pub(super) fn problem(self, variable: &str, place: &str) -> Problem {
        let site = format!("`{}` in {place}", variable.escape_debug());
        match self {
            Self::Unknown { nearest } => {
                let variable = variable.escape_debug().to_string();
                Problem::UnknownVariable { variable, place: place.to_owned(), nearest }
            }
            Self::Pool { name } => bad_pool_name(&name, &site),
            Self::NoPool { key } => Problem::Pool {
                message: format!("no pool is named: {site}"),
                hint: format!(
                    "`{PREFIX}{}` is for all pools, `{}` for one",
                    key.upper(),
                    spell(false, "<POOL>", None, key)
                ),
            },
            Self::Instance { pool, id, key } => {
                let hint = match key {
                    Some(key) => format!(
                        "`{}` is for the whole pool, `{}` for one instance",
                        spell(false, &pool, None, key),
                        spell(false, &pool, Some("<ID>"), key)
                    ),
                    None => format!("instances are numbered from 0 on: `{PREFIX}_{pool}__0_<KEY>`"),
                };
                let id = id.escape_debug();
                Problem::Pool {
                    message: format!(
                        "Invalid instance ID in override: {site} has `{id}` where the number belongs"
                    ),
                    hint,
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a name is read as, on one line.
    fn reading(variable: &str) -> String {
        match read(variable).expect("our prefix") {
            Ok(VariableName::Global(key)) => format!("global {}", key.name()),
            Ok(VariableName::Of(PoolKeyPath { pool, instance: None, key })) => {
                format!("{pool} {}", key.name())
            }
            Ok(VariableName::Of(PoolKeyPath { pool, instance: Some(id), key })) => {
                format!("{pool} {id} {}", key.name())
            }
            Err(misnamed) => {
                let problem = misnamed.problem(variable, "the environment");
                format!("{problem} -> {}", problem.hint().expect("a hint"))
            }
        }
    }

    /// A name with underscores ends where the longest known key begins.
    #[test]
    fn longest_key_wins() {
        for (variable, read) in [
            ("PW_MCP_PROXY_TIMEOUT_ACTION", "global timeout_action"),
            ("PW_MCP_PROXY__MY_POOL_INSTANCES", "MY_POOL instances"),
            ("PW_MCP_PROXY__X_IS_DEFAULT", "X is_default"),
            ("PW_MCP_PROXY__DEFAULT_IS_DEFAULT", "DEFAULT is_default"),
            ("PW_MCP_PROXY__A_TIMEOUT_ACTION", "A timeout_action"),
            ("PW_MCP_PROXY__A_TIMEOUT_TIMEOUT", "A_TIMEOUT timeout"),
            ("PW_MCP_PROXY__ISOLATED_ISOLATED", "ISOLATED isolated"),
            ("PW_MCP_PROXY__A_LEASE_TIMEOUT", "A lease_timeout"),
            ("PW_MCP_PROXY__HEALTH_TIMEOUT", "HEALTH timeout"),
            ("PW_MCP_PROXY__2_SLOTS", "2 slots"),
            ("PW_MCP_PROXY__MY_POOL__10_USER_DATA_DIR", "MY_POOL 10 user_data_dir"),
            ("PW_MCP_PROXY__MY_POOL__0_ALIAS", "MY_POOL 0 alias"),
        ] {
            assert_eq!(reading(variable), read, "{variable}");
        }
        assert!(read("PW_MCP_PROXYX").is_none() && read("PW_MCP").is_none());
    }

    /// The error for a name that sets nothing says which name would.
    #[test]
    fn unknown_name_errors_suggest_a_name() {
        for (variable, meant) in [
            ("PW_MCP_PROXY_HEADLES", "did you mean `PW_MCP_PROXY_HEADLESS`?"),
            ("PW_MCP_PROXY_BROWSERS_INSTANCES", "did you mean `PW_MCP_PROXY__BROWSERS_INSTANCES`?"),
            ("PW_MCP_PROXY__BROWSERS_HEADLES", "did you mean `PW_MCP_PROXY__BROWSERS_HEADLESS`?"),
            ("PW_MCP_PROXY__MY_POOL_INSTANCE", "did you mean `PW_MCP_PROXY__MY_POOL_INSTANCES`?"),
            ("PW_MCP_PROXY__A__0_BROWSR", "did you mean `PW_MCP_PROXY__A__0_BROWSER`?"),
            (
                "PW_MCP_PROXY__HEADLESS",
                "`PW_MCP_PROXY_HEADLESS` is for all pools, `PW_MCP_PROXY__<POOL>_HEADLESS` for one",
            ),
            (
                "PW_MCP_PROXY__A__HEADLESS",
                "`PW_MCP_PROXY__A_HEADLESS` is for the whole pool, `PW_MCP_PROXY__A__<ID>_HEADLESS` for one instance",
            ),
            ("PW_MCP_PROXY__A__00_HEADLESS", "instances are numbered from 0 on: `PW_MCP_PROXY__A__0_<KEY>`"),
            ("PW_MCP_PROXY__A___0_HEADLESS", "instances are numbered from 0 on: `PW_MCP_PROXY__A__0_<KEY>`"),
            ("PW_MCP_PROXY__A__x_HEADLESS", "instances are numbered from 0 on: `PW_MCP_PROXY__A__0_<KEY>`"),
            ("PW_MCP_PROXY_", "`greenroom config show` lists every setting"),
            ("PW_MCP_PROXY__", "`greenroom config show` lists every setting"),
            ("PW_MCP_PROXY__A__0_COLOUR", "`greenroom config show` lists every setting"),
        ] {
            let reading = reading(variable);
            assert!(reading.contains(variable) && reading.ends_with(&format!("-> {meant}")), "{reading}");
        }
        for name in ["browsers", "", "_A", "Ä", &"A".repeat(65)] {
            let reading = reading(&format!("PW_MCP_PROXY__{name}__0_SLOTS"));
            assert!(reading.starts_with(&format!("`{name}` cannot be the name of a pool")), "{reading}");
        }
    }

    /// Every old name has a known new one; Playwright's own names are left alone.
    #[test]
    fn every_old_name_has_a_new_one() {
        for old in OLD_KEYS {
            let new = renamed(&format!("PLAYWRIGHT_{old}")).expect("a new name");
            assert!(matches!(read(&new), Some(Ok(VariableName::Global(_)))), "{new}");
        }
        assert_eq!(renamed("PLAYWRIGHT_VIEWPORT").as_deref(), Some("PW_MCP_PROXY_VIEWPORT_SIZE"));
        for theirs in [
            "PLAYWRIGHT_BROWSERS_PATH",
            "PLAYWRIGHT_MCP_HEADLESS",
            "PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD",
            "PLAYWRIGHT_DOWNLOAD_HOST",
            "PLAYWRIGHT_HTML_OUTPUT_DIR",
            "PLAYWRIGHT_",
            "MY_PLAYWRIGHT_HEADLESS",
        ] {
            assert_eq!(renamed(theirs), None, "{theirs}");
        }
    }
}
