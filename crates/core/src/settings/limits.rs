//! Enforces the user's limits against files that merely lie in the working directory. Such a `greenroom.toml` or `.env` may
//! come with a cloned repository, so it may set a [limit](super::Guard::Limit) only where the user has not.
//!
//! This module resolves the user's own sources once more without the others, and compares each value of both: in
//! `[pool]` and all other tables, in each declared pool, and in each of its instances. So it does not matter in which
//! way, or on which level, a file would loosen a limit. `resolve()` calls it.
//!
//! The user's own sources need not declare a pool completely: a file in the working directory may add the number of
//! instances, or the whole pool. Values that the user has set for such a pool are limits as everywhere. For all other
//! values it counts as a pool that the file adds, and must obey the limits of all the user's pools and browsers,
//! because agents choose between pools.

use std::collections::BTreeSet;

use super::{
    SETTINGS, Setting, Settings, compose,
    declared_pools::DeclaredPool,
    draft::Draft,
    key::{Key, KeyLevel, spell},
    problem::Problem,
    resolve::{Resolved, find, merge},
    setting_macro::Guard,
    source::{Origin, SettingLocation, Sources},
    table::Pool,
};

/// The limits of the user that files in the working directory would loosen.
pub(super) fn loosened(resolved: &Resolved, sources: &Sources) -> Vec<Problem> {
    if sources.dotenv.is_none() && sources.files.iter().all(|file| file.trusted) {
        return Vec::new();
    }
    let (mut own, _) = merge(&sources.own());
    own.complete_from_files();
    let common = compose::global(&own);
    let mut check =
        LimitCheck { own: &own, resolved, sources, common, reported: BTreeSet::new(), problems: Vec::new() };
    for setting in SETTINGS.iter().filter(|setting| setting.is_limit()) {
        check.of_all(setting);
    }
    for pool in &resolved.settings.pools {
        check.pool(pool);
    }
    check.problems
}

struct LimitCheck<'a> {
    /// The user's own sources, resolved.
    own: &'a Resolved,
    /// All sources, resolved.
    resolved: &'a Resolved,
    sources: &'a Sources,
    /// The user's own values for all declared pools.
    common: Pool,
    /// Problems reported so far, by key and by the source that changes it: one line in a file may change many instances.
    reported: BTreeSet<(String, String)>,
    problems: Vec<Problem>,
}

/// A declared pool, or one of its instances, as all sources have it.
#[derive(Clone, Copy)]
struct LimitSubject<'a> {
    pool: &'a str,
    instance: Option<usize>,
    draft: &'a Draft,
}

impl<'a> LimitCheck<'a> {
    /// Checks a setting in its own table, for all pools if it is one of `[pool]`.
    fn of_all(&mut self, setting: &'static Setting) {
        let own = &self.own.settings;
        let now = &self.resolved.settings;
        let Some(holder) = self.holder(setting, self.own.origin(setting.key)) else { return };
        if !setting.is_as_strict(own, now) {
            let rule = holder.rule(&setting.show(own));
            let place = self.resolved.origin(setting.key).to_string();
            let instead = self.sources.instead(setting);
            self.report(setting.key.to_owned(), changed(setting, own, now), place, rule, instead);
        }
    }

    fn pool(&mut self, pool: &DeclaredPool) {
        let Some(draft) = self.resolved.drafts().get(&pool.name) else { return };
        // If the pool loses guarded values, one problem is already reported for the whole pool.
        if !draft.robs.is_empty() {
            return;
        }
        self.declaration(&pool.name, draft);
        let instances = pool.instances.iter().enumerate().map(|(id, instance)| (Some(id), &instance.pool));
        for (instance, now) in std::iter::once((None, &pool.common)).chain(instances) {
            self.values(LimitSubject { pool: &pool.name, instance, draft }, now);
        }
    }

    /// Checks the values of a pool, or of one of its instances.
    fn values(&mut self, subject: LimitSubject<'_>, now: &Pool) {
        let LimitSubject { pool, instance, .. } = subject;
        let own = Settings::around(self.own_values(pool, instance));
        let now = Settings::around(now.clone());
        let is_declared = self.own.drafts().get(pool).is_some_and(|own| own.count.is_some());
        for setting in SETTINGS.iter().filter(|setting| setting.is_of_pools() && setting.is_limit()) {
            let (level, origin) = self.own.pool_origin(pool, instance, setting.name());
            if level < KeyLevel::Pool && !is_declared {
                self.added(subject, setting, &now);
                continue;
            }
            let Some(holder) = self.holder(setting, origin) else { continue };
            let site = self.site(subject, setting);
            // A change for all pools was reported above.
            let is_reported = level < KeyLevel::Pool && site.is_none();
            if !setting.is_as_strict(&own, &now) && !is_reported {
                let rule = holder.rule(&setting.show(&own));
                self.report_in_pool(subject, Key::Setting(setting), site, changed(setting, &own, &now), rule);
            }
        }
    }

    /// The values of a pool, or of one of its instances, from the user's own sources alone, even if these do not say
    /// how many instances there are.
    fn own_values(&self, pool: &str, instance: Option<usize>) -> Pool {
        let Some(draft) = self.own.drafts().get(pool) else { return self.common.clone() };
        let common = draft.own.over(self.common.clone());
        match instance.and_then(|id| draft.instances.get(&id)) {
            Some(layer) => layer.over(common),
            None => common,
        }
    }

    /// The source that sets a value now, for the instance or for its pool.
    fn site(&self, subject: LimitSubject<'_>, setting: &Setting) -> Option<&'a SettingLocation> {
        let LimitSubject { pool, instance, .. } = subject;
        let own = self.resolved.site(pool, instance, setting.name());
        own.or_else(|| self.resolved.site(pool, None, setting.name()))
    }

    /// Checks the keys that only a declaration has: how many instances there are, and which of them a call gets.
    fn declaration(&mut self, pool: &str, draft: &Draft) {
        let Some(own) = self.own.drafts().get(pool) else { return };
        let mut lost = Vec::new();
        if let (Some(own), Some(now)) = (own.count, draft.count)
            && now > own
        {
            lost.push((None, Key::Instances, own.to_string(), format!("raised to `{now}`")));
        }
        if own.is_default != draft.is_default {
            let now = format!("changed to `{}`", draft.is_default);
            lost.push((None, Key::IsDefault, own.is_default.to_string(), now));
        }
        for (id, layer) in &own.instances {
            let now = draft.instances.get(id).and_then(|layer| layer.alias.as_ref());
            if let Some(alias) = layer.alias.as_ref().filter(|alias| now != Some(alias)) {
                let now = now.map_or_else(
                    || "removed".to_owned(),
                    |now| format!("changed to `{}`", now.escape_debug()),
                );
                lost.push((Some(*id), Key::Alias, alias.clone(), now));
            }
        }
        for (instance, key, value, now) in lost {
            if let Some(site) = self.own.site(pool, instance, key.name()) {
                let rule = LimitHolder::Itself(site.origin.clone()).rule(&value);
                let site = self.resolved.site(pool, instance, key.name());
                let refused = format!("{now} {BY_FOLDER}");
                self.report_in_pool(LimitSubject { pool, instance, draft }, key, site, refused, rule);
            }
        }
    }

    /// Why a setting is a limit of the user's; `origin` is where the user has set it.
    fn holder(&self, setting: &Setting, origin: &Origin) -> Option<LimitHolder> {
        if *origin != Origin::Default {
            return Some(LimitHolder::Itself(origin.clone()));
        }
        self.other(setting)
    }

    /// Another setting of the user's that depends on the user's value of this one.
    fn other(&self, setting: &Setting) -> Option<LimitHolder> {
        let Guard::LimitWith(others) = setting.guard else { return None };
        let defaults = Settings::defaults(self.own.settings.data_dir.clone());
        let mut others = others.iter().filter_map(|key| find(key));
        let other = others.find(|other| !other.is_same(&self.own.settings, &defaults))?;
        Some(LimitHolder::Other(other.key, self.own.origin(other.key).clone()))
    }

    /// Checks a value that the user has not set, in a pool that the working directory adds. It must be as strict as the
    /// user's limit on every pool and browser.
    fn added(&mut self, subject: LimitSubject<'_>, setting: &'static Setting, now: &Settings) {
        let limits = self.limits(setting);
        let site = self.site(subject, setting);
        let broken = limits.iter().find(|limit| {
            // A change for all pools was reported above.
            let is_reported = limit.is_global && site.is_none();
            !is_reported && !setting.is_as_strict(&limit.values, now)
        });
        let rule = match (broken, self.other(setting)) {
            (Some(limit), _) => {
                let differs = |other: &&Limit| {
                    let one = &limit.values;
                    let other = &other.values;
                    !setting.is_as_strict(one, other) && !setting.is_as_strict(other, one)
                };
                let other = limits.iter().find(differs).map_or_else(String::new, |other| {
                    format!(" and {}, so no value is as strict as both", other.set_to(setting))
                });
                format!("you set {}{other}", limit.set_to(setting))
            }
            (None, Some(holder)) => {
                let used = self.used(setting);
                let is_reported =
                    site.is_none() && !setting.is_as_strict(&self.own.settings, &self.resolved.settings);
                if is_reported || used.iter().any(|used| setting.is_same(used, now)) {
                    return;
                }
                let used: BTreeSet<_> = used.iter().map(|used| setting.show(used)).collect();
                holder.rule(&used.into_iter().collect::<Vec<_>>().join("` and `"))
            }
            (None, None) => return,
        };
        let refused = format!("`{}` in a pool that a file in the working directory adds", setting.show(now));
        self.report_in_pool(subject, Key::Setting(setting), site, refused, rule);
    }

    /// Where the user has limited a setting: for all pools, for a pool, an instance or a browser. A setting that is a
    /// limit only because of another one, such as the engine because of the lists of tools, is not included for its
    /// value in one pool; see `used`.
    fn limits(&self, setting: &Setting) -> Vec<Limit> {
        let mut limits = Vec::new();
        let origin = self.own.origin(setting.key);
        if *origin != Origin::Default {
            let site = SettingLocation { name: setting.key.to_owned(), origin: origin.clone() };
            let values = Settings::around(self.common.clone());
            limits.push(Limit { site, values, is_global: true });
        }
        if setting.guard != Guard::Limit {
            return limits;
        }
        for (pool, draft) in self.own.drafts() {
            for instance in std::iter::once(None).chain(draft.instances.keys().map(|id| Some(*id))) {
                if let Some(site) = self.own.site(pool, instance, setting.name()) {
                    let values = Settings::around(self.own_values(pool, instance));
                    limits.push(Limit { site: site.clone(), values, is_global: false });
                }
            }
        }
        for (draft, browser) in self.own.browser_drafts().iter().zip(&self.own.settings.browsers) {
            if let Some(site) = draft.own.sites.get(setting.name()) {
                let values = Settings::around(browser.pool.clone());
                limits.push(Limit { site: site.clone(), values, is_global: false });
            }
        }
        limits
    }

    /// The values of a setting in the user's own pools and browsers, or in the built-in pool where there are none.
    fn used(&self, setting: &Setting) -> Vec<Settings> {
        let says = |draft: &Draft| draft.count.is_some() || draft.own.sites.contains_key(setting.name());
        let pools = self.own.drafts().iter().filter(|(_, draft)| says(draft));
        let pools = pools.map(|(pool, _)| self.own_values(pool, None));
        let browsers = self.own.settings.browsers.iter().map(|browser| browser.pool.clone());
        let mut used: Vec<_> = pools.chain(browsers).map(Settings::around).collect();
        if used.is_empty() {
            used.push(Settings::around(self.common.clone()));
        }
        used
    }

    /// `site` sets the value now; `None` if a pool that is added, or that a `.env` replaces, leaves the value out.
    fn report_in_pool(
        &mut self,
        subject: LimitSubject<'_>,
        key: Key,
        site: Option<&SettingLocation>,
        refused: String,
        rule: String,
    ) {
        let LimitSubject { pool, instance, draft } = subject;
        // A declaration without a number of instances is not a pool, so the source of that number made the pool.
        let made_by = draft.own.sites.get(Key::Instances.name()).unwrap_or(&draft.declared_by);
        let by = site.unwrap_or(made_by);
        // An instance without a value of its own has its pool's.
        let id = instance.filter(|_| matches!(key, Key::Alias)).map(|id| id.to_string());
        let name = match site {
            Some(site) => site.name.clone(),
            None => spell(by.is_in_file(), pool, id.as_deref(), key),
        };
        let place = by.place().unwrap_or_else(|| by.name.clone());
        let instead = self.sources.instead_in_pool(&name, by);
        self.report(name, refused, place, rule, instead);
    }

    fn report(&mut self, key: String, refused: String, place: String, rule: String, instead: String) {
        if self.reported.insert((key.clone(), place.clone())) {
            self.problems.push(Problem::Limited { key, refused, place, rule, instead });
        }
    }
}

const BY_FOLDER: &str = "by a file in the working directory";

/// What a file may not do with a setting, worded to follow "may not be" in an error.
fn changed(setting: &Setting, own: &Settings, now: &Settings) -> String {
    let is_raised = (setting.amount)(own).is_some() && (setting.amount)(now).is_some();
    let verb = if is_raised { "raised" } else { "changed" };
    format!("{verb} to `{}` {BY_FOLDER}", setting.show(now))
}

/// A limit that the user has set somewhere, with the values that hold there.
struct Limit {
    site: SettingLocation,
    values: Settings,
    /// Whether the limit was set for all pools.
    is_global: bool,
}

impl Limit {
    /// The setting, its value and its source, worded to follow "you set" in an error.
    fn set_to(&self, setting: &Setting) -> String {
        let SettingLocation { name, origin } = &self.site;
        let value = setting.show(&self.values);
        match origin.to_string() {
            from if from == *name => format!("`{name}` to `{value}`"),
            from => format!("`{name}` to `{value}` (from {from})"),
        }
    }
}

/// Why a limit holds.
enum LimitHolder {
    /// The user set it in this source.
    Itself(Origin),
    /// The user set this other setting in this source.
    Other(&'static str, Origin),
}

impl LimitHolder {
    /// Why the change is refused, for a message; `value` is the limit's own.
    fn rule(&self, value: &str) -> String {
        match self {
            Self::Itself(origin) => format!("you set `{value}` (from {origin})"),
            Self::Other(key, origin) => format!("your `{key}` (from {origin}) names tools of `{value}`"),
        }
    }
}
