//! What settings demand of each other, in the built-in pool or in each declared one. Called by `resolve` when every
//! source is read.

use std::collections::BTreeSet;

use super::{
    choice::{Browser, EngineKind},
    key::Key,
    problem::Problem,
    resolve::Resolved,
    source::Origin,
    table::Pool,
};

/// Two keys of a pool that do not go together.
struct Rule {
    keys: [&'static str; 2],
    broken: fn(&Pool) -> bool,
    /// What to do; keys stand in braces.
    hint: &'static str,
}

const RULES: &[Rule] = &[
    Rule {
        keys: ["engine", "command"],
        broken: |pool| pool.engine == EngineKind::Custom && pool.command.is_empty(),
        hint: "set `{command}` to the program of the MCP server and its arguments",
    },
    Rule {
        keys: ["command", "engine"],
        broken: |pool| pool.engine != EngineKind::Custom && !pool.command.is_empty(),
        hint: "set `{engine}` to `custom`, or leave `{command}` out",
    },
    Rule {
        keys: ["slots", "isolated"],
        broken: |pool| pool.slots > 1 && !pool.isolated,
        hint: "set `{slots}` to 1, or `{isolated}` to `true`: several sessions in one profile would share their cookies",
    },
    Rule {
        keys: ["slots", "user_data_dir"],
        broken: |pool| pool.slots > 1 && pool.user_data_dir.is_some(),
        hint: "set `{slots}` to 1, or leave `{user_data_dir}` out: a profile is one session's",
    },
    Rule {
        keys: ["slots", "extension"],
        broken: |pool| pool.slots > 1 && pool.extension,
        hint: "set `{slots}` to 1: an open browser is one session's",
    },
    Rule {
        keys: ["slots", "browser"],
        broken: |pool| pool.slots > 1 && is_engines_own(pool.browser),
        hint: "set `{slots}` to 1, and more instances: the engine starts this browser, for one session each",
    },
    Rule {
        keys: ["slots", "wsl_windows"],
        broken: |pool| pool.slots > 1 && pool.wsl_windows,
        hint: "set `{slots}` to 1, and more instances: the engine starts this browser, for one session each",
    },
    Rule {
        keys: ["storage_state", "isolated"],
        broken: |pool| pool.storage_state.is_some() && !pool.isolated,
        hint: "set `{isolated}` to `true`: a profile that stays has a state of its own",
    },
    Rule {
        keys: ["user_data_dir", "isolated"],
        broken: |pool| pool.user_data_dir.is_some() && pool.isolated,
        hint: "set `{isolated}` to `false`, or leave `{user_data_dir}` out: isolated sessions have no profile that stays",
    },
    Rule {
        // A browser that the engine starts is made as the device from the beginning.
        keys: ["device", "isolated"],
        broken: |pool| {
            let engines_own = is_engines_own(pool.browser) || pool.wsl_windows;
            pool.device.is_some() && !pool.isolated && (!engines_own || pool.extension)
        },
        hint: "set `{isolated}` to `true`: the browser's own context cannot be made another device",
    },
    Rule {
        keys: ["executable_path", "wsl_windows"],
        broken: |pool| pool.executable_path.is_some() && pool.wsl_windows,
        hint: "leave `{executable_path}` out: it names a file of this side, and the browser is Windows'",
    },
    Rule {
        keys: ["extension", "browser"],
        broken: |pool| pool.extension && is_engines_own(pool.browser),
        hint: "set `{browser}` to `chrome` or `msedge`: the extension is for those",
    },
];

fn is_engines_own(browser: Browser) -> bool {
    matches!(browser, Browser::Firefox | Browser::Webkit)
}

/// Settings that do not go together. A setting in `wrong` has no value worth comparing.
pub(super) fn conflicts(resolved: &Resolved, wrong: &BTreeSet<&'static str>) -> Vec<Problem> {
    let settings = &resolved.settings;
    if settings.pools.is_empty() {
        return Subject { resolved, wrong, of: None, pool: &settings.pool }.conflicts();
    }
    let mut problems = built_in_only(resolved);
    for pool in &settings.pools {
        let common = Subject { resolved, wrong, of: Some((&pool.name, None)), pool: &pool.common };
        problems.extend(common.conflicts());
        for (id, instance) in pool.instances.iter().enumerate() {
            let of = Some((pool.name.as_str(), Some(id)));
            problems.extend(Subject { resolved, wrong, of, pool: &instance.pool }.conflicts());
        }
    }
    problems
}

/// What only the built-in pool has means nothing once it is not there.
fn built_in_only(resolved: &Resolved) -> Vec<Problem> {
    let names: Vec<_> = resolved.settings.pools.iter().map(|pool| format!("`{}`", pool.name)).collect();
    ["pool.instances_max", "pool.instance_idle"]
        .into_iter()
        .filter(|key| *resolved.origin(key) != Origin::Default)
        .map(|key| Problem::Conflict {
            message: format!(
                "`{key}` (from {}) is for the built-in pool, but pools are declared: {}",
                resolved.origin(key),
                names.join(", ")
            ),
            hint: format!(
                "leave `{key}` out: a declared pool has as many instances as its `INSTANCES`, all the time"
            ),
        })
        .collect()
}

/// One set of values that has to fit together: the built-in pool's, what a declared pool's instances have in common, or
/// one instance's.
struct Subject<'a> {
    resolved: &'a Resolved,
    wrong: &'a BTreeSet<&'static str>,
    /// The declared pool and the instance.
    of: Option<(&'a str, Option<usize>)>,
    pool: &'a Pool,
}

impl Subject<'_> {
    fn conflicts(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for Rule { keys, broken, hint } in RULES {
            if broken(self.pool) && self.is_own(keys) {
                let [a, b] = keys;
                let message = format!(
                    "{}{} ({}), but {} ({})",
                    self.who(),
                    self.has(a),
                    self.from(a),
                    self.has(b),
                    self.from(b)
                );
                let named = |hint: String, key: &&str| hint.replace(&format!("{{{key}}}"), &self.name(key));
                problems
                    .push(Problem::Conflict { message, hint: keys.iter().fold((*hint).to_owned(), named) });
            }
        }
        let custom = self.pool.engine == EngineKind::Custom;
        let is_unsafe = self.resolved.settings.tools.r#unsafe && !self.wrong.contains("tools.unsafe");
        if is_unsafe && self.pool.slots > 1 && !custom && self.is_own(&["slots", "engine"]) {
            let (slots, from) = (self.name("slots"), self.from("slots"));
            problems.push(Problem::Conflict {
                message: format!(
                    "{}`tools.unsafe` (from {}) requires `{slots}` to be 1, but it is {} ({from})",
                    self.who(),
                    self.resolved.origin("tools.unsafe"),
                    self.pool.slots
                ),
                hint: format!(
                    "set `{slots}` to 1: code in the engine's process reaches every session of that process"
                ),
            });
        }
        problems
    }

    /// Whether a conflict of these keys is to be told here: no key has a problem of its own, and an instance brought
    /// at least one of them, or it is the whole pool's.
    fn is_own(&self, keys: &[&str]) -> bool {
        let drafts = self.resolved.drafts();
        let is_wrong = |key: &&str| {
            let declared = self.of.is_some_and(|(pool, id)| {
                drafts.get(pool).is_some_and(|draft| {
                    let instance = id.and_then(|id| draft.instances.get(&id));
                    std::iter::once(&draft.own).chain(instance).any(|layer| layer.wrong.contains(key))
                })
            });
            declared || self.wrong.iter().any(|wrong| wrong.strip_prefix("pool.") == Some(key))
        };
        let brought = |key: &&str| match self.of {
            Some((pool, Some(id))) => self.resolved.site(pool, Some(id), key).is_some(),
            _ => true,
        };
        !keys.iter().any(is_wrong) && keys.iter().any(brought)
    }

    fn who(&self) -> String {
        match self.of {
            None => String::new(),
            Some((pool, None)) => format!("pool `{pool}`: "),
            Some((pool, Some(id))) => format!("pool `{pool}`, instance {id}: "),
        }
    }

    fn name(&self, key: &str) -> String {
        if self.of.is_some() { key.to_uppercase() } else { format!("pool.{key}") }
    }

    /// A key with its value.
    fn has(&self, key: &str) -> String {
        let value = match Key::find(key) {
            Some(Key::Setting(_)) if key == "command" && self.pool.command.is_empty() => "empty".to_owned(),
            Some(Key::Setting(setting)) if !setting.guarded || key == "extension" => {
                format!("`{}`", setting.show_in(self.pool))
            }
            _ => "set".to_owned(),
        };
        format!("`{}` is {value}", self.name(key))
    }

    fn from(&self, key: &str) -> String {
        let site = self.of.and_then(|(pool, id)| {
            let own = id.and_then(|_| self.resolved.site(pool, id, key));
            own.or_else(|| self.resolved.site(pool, None, key))
        });
        match (site, self.resolved.origin(&format!("pool.{key}"))) {
            (Some(site), _) => format!("from {site}"),
            (None, Origin::Default) => "the default".to_owned(),
            (None, origin) => format!("from {origin}"),
        }
    }
}
