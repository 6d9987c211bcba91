//! Reads `[pools.NAME]` of a config file: the keys of a pool, and `[pools.NAME.instances.0]` for those of one instance.
//!
//! `instances` is a number, or a table when instances have values of their own, since TOML has no key that is both; the
//! number is then its `count`.

use std::path::Path;

use super::{
    key::{Key, spell},
    nearest::nearest,
    problem::Problem,
    resolve::SettingsMerge,
    source::{ConfigFile, Origin, SettingLocation},
    value_type::{GivenForm, GivenValue, display},
    variable_grammar::{PoolKeyPath, bad_pool_name, instance_id, is_pool_name},
};

/// The name of the table that holds the pools.
pub(super) const POOLS: &str = "pools";

/// The key for the number of instances in a table of instances.
const COUNT: &str = "count";

impl SettingsMerge<'_> {
    /// `value` is what stands under `pools`.
    pub(super) fn pools(&mut self, file: &ConfigFile, value: &toml::Value) {
        let Some(pools) = value.as_table() else {
            return self.no_table(file, POOLS, value, "a table for each pool, `[pools.NAME]`");
        };
        for (name, value) in pools {
            let site = site(file, format!("{POOLS}.{}", name.escape_debug()));
            match value.as_table() {
                _ if !is_pool_name(name) => {
                    self.problems.push(bad_pool_name(name, &site.to_string()));
                }
                None => self.no_table(file, &site.name, value, &format!("a table, `[{POOLS}.{name}]`")),
                Some(table) => {
                    self.drafts.declare(name, &site);
                    self.pool(file, name, table);
                }
            }
        }
    }

    fn pool(&mut self, file: &ConfigFile, pool: &str, table: &toml::Table) {
        for (name, value) in table {
            match (Key::find(name), value.as_table()) {
                (Some(Key::Instances), Some(instances)) => self.instances(file, pool, instances),
                (Some(key), _) => self.pool_value(file, pool, None, key, value),
                (None, _) => self.unknown(file, pool, None, name),
            }
        }
    }

    fn instances(&mut self, file: &ConfigFile, pool: &str, table: &toml::Table) {
        for (name, value) in table {
            let site = site(file, format!("{POOLS}.{pool}.instances.{}", name.escape_debug()));
            match (instance_id(name), value.as_table()) {
                _ if name == COUNT => self.pool_value(file, pool, None, Key::Instances, value),
                (None, _) => self.problems.push(Problem::Pool {
                    message: format!("Invalid instance ID in override: {site}"),
                    hint: format!("instances are numbered from 0 on: `[{POOLS}.{pool}.instances.0]`; `{COUNT}` says how many"),
                }),
                (Some(_), None) => {
                    self.no_table(file, &site.name, value, &format!("a table, `[{}]`", site.name));
                }
                (Some(id), Some(values)) => {
                    self.drafts.declare(pool, &site).layer(Some(id), &site);
                    for (name, value) in values {
                        match Key::find(name) {
                            Some(key) => self.pool_value(file, pool, Some(id), key, value),
                            None => self.unknown(file, pool, Some(id), name),
                        }
                    }
                }
            }
        }
    }

    fn pool_value(
        &mut self,
        file: &ConfigFile,
        pool: &str,
        instance: Option<usize>,
        key: Key,
        value: &toml::Value,
    ) {
        let id = instance.map(|id| id.to_string());
        let site = site(file, spell(true, pool, id.as_deref(), key));
        let spot = PoolKeyPath { pool: pool.to_owned(), instance, key };
        if key.is_guarded() && !file.trusted {
            return self.guarded_in_pool(&spot, &site);
        }
        let base = file.path.parent().unwrap_or(Path::new(""));
        let given = GivenValue { written: GivenForm::Toml(value), base };
        self.problems.extend(self.drafts.set(&spot, given, site).err());
    }

    fn unknown(&mut self, file: &ConfigFile, pool: &str, instance: Option<usize>, name: &str) {
        let id = instance.map(|id| id.to_string());
        let nearest = nearest(name, Key::all().map(Key::name)).and_then(Key::find);
        let nearest = nearest.map(|key| spell(true, pool, id.as_deref(), key));
        let under = id.map_or_else(String::new, |id| format!("instances.{id}."));
        let key = format!("{POOLS}.{pool}.{under}{}", name.escape_debug());
        self.problems.push(Problem::UnknownKey { file: file.path.clone(), key, nearest });
    }

    pub(super) fn no_table(&mut self, file: &ConfigFile, key: &str, value: &toml::Value, allowed: &str) {
        self.problems.push(Problem::Value {
            key: key.to_owned(),
            value: display(value),
            place: Some(file.path.display().to_string()),
            allowed: allowed.to_owned(),
            why: None,
        });
    }
}

fn site(file: &ConfigFile, name: String) -> SettingLocation {
    SettingLocation { name, origin: Origin::File(file.path.clone()) }
}
