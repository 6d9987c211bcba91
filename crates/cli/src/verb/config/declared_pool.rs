//! A declared pool in `greenroom config show`: a table of its instances with the main values, and below it every key
//! that was set, with its source.

use greenroom_core::settings::{DeclaredInstance, DeclaredPool, KeyLevel, Resolved, SETTINGS, Setting};
use serde_json::{Value, json};

use super::{source, table};
use crate::view::text::count;

/// The keys that have a column.
const COLUMNS: [&str; 5] = ["browser", "headless", "isolated", "slots", "timeout"];

/// The levels, strongest first, as the source column names them.
const LEVELS: [KeyLevel; 4] = [KeyLevel::Instance, KeyLevel::Pool, KeyLevel::Global, KeyLevel::Default];

pub(super) fn as_tables(resolved: &Resolved, pool: &DeclaredPool) -> String {
    let count = count(pool.instances.len(), "instance");
    let default = if pool.is_default { ", the default" } else { "" };
    let description =
        if pool.description.is_empty() { String::new() } else { format!(": {}", pool.description) };
    let instances = pool.instances.iter().enumerate().map(|(id, instance)| row(resolved, pool, id, instance));
    let head = ["INSTANCE", "BROWSER", "HEADLESS", "ISOLATED", "SLOTS", "TIMEOUT", "SOURCE"];
    let keys = keys(resolved, pool).into_iter().map(|SetKey { name, key, instance, .. }| {
        let (level, origin) = resolved.pool_origin(&pool.name, instance, key);
        [name, show(pool, instance, key), level.as_str().to_owned(), origin.to_string()]
    });
    format!(
        "\nPool {}{default}, {count}{description}\n\n{}\n{}",
        pool.name,
        table(head, instances),
        table(["KEY", "VALUE", "LEVEL", "SOURCE"], keys)
    )
}

fn row(resolved: &Resolved, pool: &DeclaredPool, id: usize, instance: &DeclaredInstance) -> [String; 7] {
    let name = instance.alias.as_ref().map_or_else(|| id.to_string(), |alias| format!("{id} ({alias})"));
    let [browser, headless, isolated, slots, timeout] = COLUMNS.map(|key| show(pool, Some(id), key));
    let levels = COLUMNS.map(|key| (key, resolved.pool_origin(&pool.name, Some(id), key).0));
    [name, browser, headless, isolated, slots, timeout, summary(&levels)]
}

/// The level from which each key has its value, in short: `browser=instance, rest=global`.
fn summary(levels: &[(&str, KeyLevel)]) -> String {
    let groups = LEVELS.map(|level| {
        let keys = levels.iter().filter(|(_, of)| *of == level).map(|(key, _)| *key);
        (keys.collect::<Vec<_>>(), level.as_str())
    });
    let groups: Vec<_> = groups.into_iter().filter(|(keys, _)| !keys.is_empty()).collect();
    let last = groups.len().saturating_sub(1);
    let words = groups.iter().enumerate().map(|(at, (keys, level))| match keys.len() {
        _ if last == 0 => format!("all={level}"),
        2.. if at == last => format!("rest={level}"),
        _ => format!("{}={level}", keys.join("/")),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// A key that was set.
struct SetKey {
    /// The key, with the instance's number if it is an instance's: `headless`, `0.headless`.
    name: String,
    key: &'static str,
    instance: Option<usize>,
}

/// Keys that were set for all pools and not again for this one, then the pool's own keys, then those of its instances.
fn keys(resolved: &Resolved, pool: &DeclaredPool) -> Vec<SetKey> {
    let is_global = |key: &&str| resolved.pool_origin(&pool.name, None, key).0 == KeyLevel::Global;
    let global = settings().map(Setting::name).filter(is_global).map(|key| (None, key));
    let own = resolved.pool_keys(&pool.name).into_iter().map(|(instance, key, _)| (instance, key));
    let name = |instance: Option<usize>, key: &str| {
        instance.map_or_else(|| key.to_owned(), |id| format!("{id}.{key}"))
    };
    global.chain(own).map(|(instance, key)| SetKey { name: name(instance, key), key, instance }).collect()
}

fn settings() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.is_of_pools())
}

/// The value of a key as people write it.
fn show(pool: &DeclaredPool, instance: Option<usize>, key: &str) -> String {
    let of = instance.and_then(|id| pool.instances.get(id));
    match settings().find(|setting| setting.name() == key) {
        Some(setting) => setting.show_in(of.map_or(&pool.common, |instance| &instance.pool)),
        None => match value(pool, instance, key) {
            Value::String(text) => text,
            other => other.to_string(),
        },
    }
}

/// The value of a key for programs.
fn value(pool: &DeclaredPool, instance: Option<usize>, key: &str) -> Value {
    let of = instance.and_then(|id| pool.instances.get(id));
    match (key, settings().find(|setting| setting.name() == key)) {
        (_, Some(setting)) => setting.json_in(of.map_or(&pool.common, |instance| &instance.pool)),
        ("instances", _) => json!(pool.instances.len()),
        ("is_default", _) => json!(pool.is_default),
        ("description", _) => json!(pool.description),
        _ => json!(of.and_then(|instance| instance.alias.as_deref())),
    }
}

/// The pool with every key, and for each instance what differs from the pool.
pub(super) fn as_json(resolved: &Resolved, pool: &DeclaredPool) -> Value {
    let entry = |instance: Option<usize>, key: &str| {
        let (level, origin) = resolved.pool_origin(&pool.name, instance, key);
        json!({
            "key": key,
            "value": value(pool, instance, key),
            "level": level.as_str(),
            "source": source(origin),
        })
    };
    let own = ["instances", "is_default", "description"].into_iter().chain(settings().map(Setting::name));
    let set = resolved.pool_keys(&pool.name);
    let instances = pool.instances.iter().enumerate().map(|(id, instance)| {
        let overrides = set.iter().filter(|(of, ..)| *of == Some(id)).map(|(of, key, _)| entry(*of, key));
        json!({ "id": id.to_string(), "alias": instance.alias, "overrides": overrides.collect::<Vec<_>>() })
    });
    json!({
        "name": pool.name,
        "is_default": pool.is_default,
        "description": pool.description,
        "settings": own.map(|key| entry(None, key)).collect::<Vec<_>>(),
        "instances": instances.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Levels are named strongest first; the last group is the rest, unless it is a single key or all there is.
    #[test]
    fn keys_are_counted_by_level() {
        use KeyLevel::{Default, Global, Instance, Pool};
        let summary = |levels: [KeyLevel; 3]| {
            let keys = ["browser", "headless", "timeout"];
            super::summary(&keys.into_iter().zip(levels).collect::<Vec<_>>())
        };
        assert_eq!(summary([Instance, Global, Global]), "browser=instance, rest=global");
        assert_eq!(summary([Instance, Instance, Global]), "browser/headless=instance, timeout=global");
        assert_eq!(summary([Global, Global, Global]), "all=global");
        assert_eq!(summary([Global, Pool, Default]), "headless=pool, browser=global, timeout=default");
    }
}
