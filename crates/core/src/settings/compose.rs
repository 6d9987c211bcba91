//! Makes pools of the declarations. Values for all pools override the defaults, the pool's own override those, and the
//! instance's override all. Also finds problems between the pools; `check.rs` finds those within one.

use std::collections::BTreeMap;

use super::{
    SETTINGS,
    declared_pools::{DeclaredInstance, DeclaredPool},
    draft::Draft,
    key::{Key, spell},
    problem::Problem,
    resolve::Resolved,
    source::{Origin, SettingLocation},
    table::{Pool, Settings},
};

/// The pools of `drafts`, by name. `resolved` has the values for all pools.
pub(super) fn pools(resolved: &Resolved, drafts: &BTreeMap<String, Draft>) -> Vec<DeclaredPool> {
    let global = global(resolved);
    drafts
        .iter()
        .map(|(name, draft)| {
            let common = draft.own.over(global.clone());
            let instances = (0..draft.count.unwrap_or(0)).map(|id| match draft.instances.get(&id) {
                Some(layer) => {
                    DeclaredInstance { alias: layer.alias.clone(), pool: layer.over(common.clone()) }
                }
                None => DeclaredInstance { alias: None, pool: common.clone() },
            });
            DeclaredPool {
                name: name.clone(),
                description: draft.description.clone(),
                is_default: draft.is_default,
                instances: instances.collect(),
                common,
            }
        })
        .collect()
}

/// The defaults of declared pools, overridden by the values that are set for all pools.
pub(super) fn global(resolved: &Resolved) -> Pool {
    let mut whole = Settings::around(Pool::declared_defaults());
    for setting in SETTINGS.iter().filter(|setting| setting.is_of_pools()) {
        if *resolved.origin(setting.key) != Origin::Default {
            (setting.copy)(&resolved.settings, &mut whole);
        }
    }
    whole.pool
}

/// Problems of the declarations themselves.
pub(super) fn problems(drafts: &BTreeMap<String, Draft>) -> Vec<Problem> {
    let mut problems = Vec::new();
    for (name, draft) in drafts {
        match draft.count {
            None if draft.own.wrong.contains("instances") => {}
            None => problems.push(missing_count(name, draft, drafts)),
            Some(count) => problems.extend(unknown_instances(draft, count)),
        }
        problems.extend(duplicate_aliases(name, draft));
        problems.extend(dropped_guarded_values(name, draft));
    }
    problems.extend(default(drafts));
    problems
}

fn missing_count(name: &str, draft: &Draft, drafts: &BTreeMap<String, Draft>) -> Problem {
    let by = &draft.declared_by;
    let mut hint = format!("add `{}`", spell(by.is_in_file(), name, None, Key::Instances));
    if let Some(replaced) = &draft.replaces {
        hint += &format!("; variables replace the whole pool of a file, here {}", replaced.declared_by);
    }
    // `A_LEASE_TIMEOUT` is the key `LEASE_TIMEOUT` of pool `A`, even when `A_LEASE` is a pool.
    if let Some(longer) =
        drafts.keys().find(|other| by.name.contains(&format!("__{other}_")) && *other != name)
    {
        hint += &format!(
            "; if it was meant for pool `{longer}`, give that pool another name: the longest key wins"
        );
    }
    Problem::Pool {
        message: format!("Pool missing INSTANCES configuration: pool `{name}`, declared by {by}"),
        hint,
    }
}

/// The problem of a `.env` that drops guarded values. A `.env` may come with a cloned repository: it must not drop the
/// proxy or the sandbox that the user chose.
fn dropped_guarded_values(name: &str, draft: &Draft) -> Option<Problem> {
    let by = &draft.declared_by;
    let robbed: Vec<_> = draft.robs.iter().map(SettingLocation::to_string).collect();
    (!robbed.is_empty()).then(|| Problem::Pool {
        message: format!(
            "pool `{name}` may not be replaced by a file in the working directory: {by} would drop {}",
            robbed.join(", ")
        ),
        hint: format!(
            "declare pool `{name}` in the environment instead, or rename the one in {}",
            by.place().unwrap_or_default()
        ),
    })
}

/// The problems of values for instances that do not exist.
fn unknown_instances(draft: &Draft, count: usize) -> impl Iterator<Item = Problem> {
    draft.instances.range(count..).map(move |(id, layer)| {
        let hint = match count {
            1 => "use ID 0 or increase `INSTANCES`".to_owned(),
            _ => format!("use ID 0-{} or increase `INSTANCES`", count - 1),
        };
        let others = layer.sites.values().filter(|site| **site != layer.declared_by);
        let sites: Vec<_> =
            std::iter::once(&layer.declared_by).chain(others).map(SettingLocation::to_string).collect();
        let sites = sites.join(", ");
        Problem::Pool {
            message: format!(
                "Invalid instance ID in override: {sites}: the ID is {id}, but `INSTANCES` is {count}"
            ),
            hint,
        }
    })
}

/// The problems of aliases that two instances of a pool share.
fn duplicate_aliases(name: &str, draft: &Draft) -> Vec<Problem> {
    let mut first: BTreeMap<&str, &SettingLocation> = BTreeMap::new();
    let mut problems = Vec::new();
    for layer in draft.instances.values() {
        if let (Some(alias), Some(site)) = (layer.alias.as_deref(), layer.sites.get("alias")) {
            match first.get(alias) {
                None => {
                    first.insert(alias, site);
                }
                Some(other) => problems.push(Problem::Pool {
                    message: format!(
                        "Duplicate alias in pool `{name}`: {other} and {site} are both `{alias}`"
                    ),
                    hint: "use unique aliases per pool".to_owned(),
                }),
            }
        }
    }
    problems
}

/// The problem of a configuration in which not exactly one pool is the default.
fn default(drafts: &BTreeMap<String, Draft>) -> Option<Problem> {
    let defaults: Vec<_> = drafts
        .values()
        .filter(|draft| draft.is_default)
        .filter_map(|draft| draft.own.sites.get("is_default"))
        .collect();
    let unsure = drafts.values().any(|draft| draft.own.wrong.contains("is_default"));
    let (name, draft) = drafts.first_key_value()?;
    match defaults.as_slice() {
        [_] => None,
        [] if unsure => None,
        [] => {
            let names: Vec<_> = drafts.keys().map(|name| format!("`{name}`")).collect();
            let key = spell(draft.declared_by.is_in_file(), name, None, Key::IsDefault);
            Some(Problem::Pool {
                message: format!("No default pool defined: {}", names.join(", ")),
                hint: format!("set one pool's `IS_DEFAULT=true`, such as `{key}`"),
            })
        }
        sites => {
            let sites: Vec<_> = sites.iter().map(|site| site.to_string()).collect();
            Some(Problem::Pool {
                message: format!("Multiple default pools defined: {}", sites.join(", ")),
                hint: "set exactly one pool as default".to_owned(),
            })
        }
    }
}
