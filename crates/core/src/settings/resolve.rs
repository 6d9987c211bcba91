//! Merges the sources of configuration: defaults < TOML < `.env` < environment < flags. A wrong value is a problem even
//! where a higher source would hide it, and all problems are reported at once.
//!
//! Called once by the cli, which reads the files and the environment. `variables.rs` reads variables,
//! `pools_toml.rs` the tables of pools, `attached_browsers/` the browsers to attach to.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use super::{
    SECTIONS, SETTINGS, Scope, Setting, Settings,
    attached_browsers::{self, BROWSERS, BrowserDraft},
    check, compose, dotenv,
    draft::{self, Draft, Drafts},
    key::{Key, KeyLevel, spell},
    limits,
    nearest::nearest,
    pools_toml::POOLS,
    problem::{Problem, Problems},
    source::{ConfigFile, DotEnv, Origin, SettingLocation, Sources},
    value_type::{GivenForm, GivenValue},
    variable_grammar::PoolKeyPath,
    variables::{Variables, is_ours},
};

/// The settings in force, and where each came from.
#[derive(Debug, Clone)]
pub struct Resolved {
    pub settings: Settings,
    origins: BTreeMap<&'static str, Origin>,
    /// The declarations of the pools, by name.
    drafts: BTreeMap<String, Draft>,
    /// The declarations of the browsers to attach to, in the order of their indices.
    browsers: Vec<BrowserDraft>,
    /// Possible mistakes: variables of greenroom's prefix that it does not know.
    pub warnings: Vec<Problem>,
}

impl Resolved {
    /// Where the value of `key` came from.
    pub fn origin(&self, key: &str) -> &Origin {
        self.origins.get(key).unwrap_or(&Origin::Default)
    }

    /// Where the value of a declared pool's key, or of one of its instances', came from. The key is a pool's, such as
    /// `headless` or `instances`.
    pub fn pool_origin(&self, pool: &str, instance: Option<usize>, key: &str) -> (KeyLevel, &Origin) {
        if let Some(site) = instance.and_then(|_| self.site(pool, instance, key)) {
            return (KeyLevel::Instance, &site.origin);
        }
        if let Some(site) = self.site(pool, None, key) {
            return (KeyLevel::Pool, &site.origin);
        }
        let global = SETTINGS.iter().find(|setting| setting.is_of_pools() && setting.name() == key);
        match global.map(|setting| self.origin(setting.key)) {
            None | Some(Origin::Default) => (KeyLevel::Default, &Origin::Default),
            Some(origin) => (KeyLevel::Global, origin),
        }
    }

    /// The keys that a pool's declaration sets, the pool's own and then each instance's, with where.
    pub fn pool_keys(&self, pool: &str) -> Vec<(Option<usize>, &'static str, &Origin)> {
        let Some(draft) = self.drafts.get(pool) else { return Vec::new() };
        let own = draft.own.sites.iter().map(|(key, site)| (None, *key, &site.origin));
        let instances = draft
            .instances
            .iter()
            .flat_map(|(id, layer)| layer.sites.iter().map(|(key, site)| (Some(*id), *key, &site.origin)));
        own.chain(instances).collect()
    }

    /// Where a key of a pool, or of an instance itself, was set.
    pub(super) fn site(&self, pool: &str, instance: Option<usize>, key: &str) -> Option<&SettingLocation> {
        let draft = self.drafts.get(pool)?;
        match instance {
            None => draft.own.sites.get(key),
            Some(id) => draft.instances.get(&id)?.sites.get(key),
        }
    }

    pub(super) fn browser_drafts(&self) -> &[BrowserDraft] {
        &self.browsers
    }

    pub(super) fn drafts(&self) -> &BTreeMap<String, Draft> {
        &self.drafts
    }

    /// Environment variables may declare a pool that a file declares too, and replace it. If they do not set
    /// `INSTANCES`, this copies the missing values from the file's pool, so that the check of limits sees
    /// both: a `.env` may add the `INSTANCES` later. It does not change the pools in `settings`.
    pub(super) fn complete_from_files(&mut self) {
        self.drafts.values_mut().for_each(Draft::complete);
    }
}

/// Reads and merges all sources, then checks the whole.
pub fn resolve(sources: &Sources) -> Result<Resolved, Problems> {
    let (resolved, mut problems) = merge(sources);
    problems.extend(limits::loosened(&resolved, sources));
    if problems.is_empty() { Ok(resolved) } else { Err(Problems(problems)) }
}

/// The valid values of all sources, merged, and all problems.
pub(super) fn merge(sources: &Sources) -> (Resolved, Vec<Problem>) {
    let defaults = Settings::defaults(sources.data_dir.clone().unwrap_or_default());
    let mut merge = SettingsMerge {
        sources,
        resolved: Resolved {
            settings: defaults,
            origins: BTreeMap::new(),
            drafts: BTreeMap::new(),
            browsers: Vec::new(),
            warnings: Vec::new(),
        },
        wrong: BTreeSet::new(),
        drafts: Drafts::default(),
        browsers: Vec::new(),
        description: None,
        problems: Vec::new(),
        warnings: Vec::new(),
    };
    for file in &sources.files {
        merge.file(file);
    }
    if let Some(DotEnv { path, text }) = &sources.dotenv {
        merge.variables(&Variables { dotenv: Some(path.clone()) }, dotenv::variables(text));
    }
    let environment = sources.environment.iter().filter_map(|(name, value)| {
        let name = name.to_str().filter(|name| is_ours(name))?;
        Some((name.to_owned(), value.to_str().map(str::to_owned)))
    });
    merge.variables(&Variables { dotenv: None }, environment.collect());
    for (key, value) in &sources.flags {
        if let Some(setting) = find(key) {
            let flag = format!("--{}", setting.flag());
            let label = SettingLabel { key: setting.key.to_owned(), place: Some(flag.clone()) };
            let given = GivenValue { written: GivenForm::Text(value), base: &sources.working_dir };
            merge.set(setting, given, Origin::Flag(flag), label);
        }
    }
    for browser in &sources.browsers {
        merge.browser_flag(browser);
    }
    merge.finish()
}

pub(super) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

/// How messages name a wrong value: its setting or its variable, and where it was set, unless the name says it.
pub(super) struct SettingLabel {
    pub key: String,
    pub place: Option<String>,
}

pub(super) struct SettingsMerge<'a> {
    pub sources: &'a Sources,
    resolved: Resolved,
    /// Keys with a problem of their own: their conflicts with others are not reported.
    pub wrong: BTreeSet<&'static str>,
    pub drafts: Drafts,
    pub browsers: Vec<BrowserDraft>,
    /// The description of declared pools that have none of their own.
    pub description: Option<String>,
    pub problems: Vec<Problem>,
    pub warnings: Vec<Problem>,
}

impl SettingsMerge<'_> {
    fn file(&mut self, file: &ConfigFile) {
        match file.text.parse::<toml::Table>() {
            Ok(table) => self.table(file, "", &table),
            Err(error) => {
                let start = error.span().map_or(0, |span| span.start);
                let line = 1 + file.text.bytes().take(start).filter(|byte| *byte == b'\n').count();
                let message = error.message().replace('\n', ", ");
                self.problems.push(Problem::Syntax { file: file.path.clone(), line, message });
            }
        }
    }

    fn table(&mut self, file: &ConfigFile, section: &str, table: &toml::Table) {
        for (name, value) in table {
            let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
            let place = file.path.display().to_string();
            let origin = Origin::File(file.path.clone());
            if let Some(setting) = find(&key) {
                if setting.is_guarded() && !file.trusted {
                    self.guarded(setting, place);
                } else {
                    let base = file.path.parent().unwrap_or(Path::new(""));
                    let given = GivenValue { written: GivenForm::Toml(value), base };
                    self.set(setting, given, origin, SettingLabel { key, place: Some(place) });
                }
            } else if key == POOLS {
                self.pools(file, value);
            } else if key == BROWSERS {
                self.browsers(file, value);
            } else if section.is_empty() && SECTIONS.iter().any(|section| section.name == name) {
                match value.as_table() {
                    Some(table) => self.table(file, name, table),
                    None => self.no_table(file, name, value, &format!("a table, `[{name}]`")),
                }
            } else if let Some(key) = Key::declaring(name).filter(|_| section == "pool") {
                let site = SettingLocation { name: format!("pool.{name}"), origin };
                let base = file.path.parent().unwrap_or(Path::new(""));
                self.declare_for_all(key, GivenValue { written: GivenForm::Toml(value), base }, &site);
            } else {
                // A list of tables can only have been meant for `browsers`, the one key that is a list of tables.
                let several = value.as_array().is_some_and(|list| list.iter().any(toml::Value::is_table));
                let tables = SECTIONS.iter().map(|section| section.name).chain([POOLS]);
                let names: Vec<_> = match several {
                    true => vec![BROWSERS],
                    false => tables
                        .filter(|_| value.is_table())
                        .chain(SETTINGS.iter().map(|setting| setting.key))
                        .collect(),
                };
                let nearest = nearest(&key, names).map(str::to_owned);
                let key = key.escape_debug().to_string();
                self.problems.push(Problem::UnknownKey { file: file.path.clone(), key, nearest });
            }
        }
    }

    /// Sets a key of declarations for all pools, or refuses it.
    pub(super) fn declare_for_all(&mut self, key: Key, given: GivenValue<'_>, site: &SettingLocation) {
        if !key.is_of(KeyLevel::Global) {
            return self.problems.push(key.refused(KeyLevel::Global, "", site));
        }
        match draft::line(given) {
            Ok(description) => self.description = Some(description),
            Err(wrong) => {
                self.problems.push(Problem::Value {
                    key: site.name.clone(),
                    value: key.show_wrong(given),
                    place: site.place(),
                    allowed: key.allowed(),
                    why: wrong.0,
                });
            }
        }
    }

    pub(super) fn set(
        &mut self,
        setting: &'static Setting,
        given: GivenValue<'_>,
        origin: Origin,
        label: SettingLabel,
    ) {
        match (setting.set)(&mut self.resolved.settings, given) {
            Ok(()) => {
                self.resolved.origins.insert(setting.key, origin);
            }
            Err(wrong) => {
                self.wrong.insert(setting.key);
                let SettingLabel { key, place } = label;
                let value = (setting.show_wrong)(given);
                let allowed = setting.allowed();
                self.problems.push(Problem::Value { key, value, place, allowed, why: wrong.0 });
            }
        }
    }

    pub(super) fn guarded(&mut self, setting: &'static Setting, place: String) {
        self.wrong.insert(setting.key);
        let instead = self.sources.instead(setting);
        self.problems.push(Problem::Guarded { key: setting.key.to_owned(), place, instead });
    }

    /// The same for a value of a declared pool.
    pub(super) fn guarded_in_pool(&mut self, spot: &PoolKeyPath, site: &SettingLocation) {
        self.drafts.mark_invalid(spot, site);
        let id = spot.instance.map(|id| id.to_string());
        let key = spell(site.is_in_file(), &spot.pool, id.as_deref(), spot.key);
        let instead = self.sources.instead_in_pool(&key, site);
        let place = site.place().unwrap_or_default();
        self.problems.push(Problem::Guarded { key, place, instead });
    }

    fn finish(self) -> (Resolved, Vec<Problem>) {
        let Self { sources, mut resolved, wrong, drafts, browsers, description, mut problems, warnings } =
            self;
        resolved.warnings = warnings;
        resolved.drafts = drafts.into_pools();
        for draft in resolved.drafts.values_mut() {
            draft.default_description(description.as_deref());
        }
        resolved.settings.pools = compose::pools(&resolved, &resolved.drafts);
        problems.extend(compose::problems(&resolved.drafts));
        let base = attached_browsers::base(&resolved);
        resolved.settings.browsers = browsers.iter().map(|draft| draft.browser(&base)).collect();
        problems.extend(attached_browsers::problems(&browsers));
        resolved.browsers = browsers;
        if resolved.settings.built_in().is_none() && *resolved.origin("sessions.scope") == Origin::Default {
            resolved.settings.sessions.scope = Scope::Call;
        }
        problems.extend(check::conflicts(&resolved, &wrong));
        resolved.settings.attached =
            Some(check::at_run_time(&resolved, attached_browsers::at_run_time(base)));
        let home_unknown = sources.data_dir.is_none() && *resolved.origin("data_dir") == Origin::Default;
        if home_unknown && !wrong.contains("data_dir") {
            let instead = "set HOME, or name a folder with GREENROOM_DATA_DIR or --data-dir".to_owned();
            problems.push(Problem::NoDataDir { instead });
        }
        (resolved, problems)
    }
}

#[cfg(test)]
#[path = "resolve_tests.rs"]
pub(super) mod tests;
