//! Holds the user's limits against what merely lies in the working directory. Such a `greenroom.toml` or `.env` may come
//! with a cloned repository, so it may set a [limit](super::Guard::Limit) only where the user has not.
//!
//! What the user's own sources say is resolved once more without the others, and each value of both is compared: in
//! `[pool]` and all other tables, in each declared pool, and in each of its instances. So it does not matter by which
//! way, or on which level, a limit would be lifted. Called by `resolve()`.

use std::collections::BTreeSet;

use super::{
    SETTINGS, Setting, Settings, compose,
    declare::Guard,
    draft::Draft,
    key::{Key, Level, spell},
    pools::DeclaredPool,
    problem::Problem,
    resolve::{Resolved, find, merge},
    source::{Origin, Site, Sources},
    table::Pool,
};

/// What of the user's limits would not hold any more, because of files that lie in the working directory.
pub(super) fn loosened(resolved: &Resolved, sources: &Sources) -> Vec<Problem> {
    if sources.dotenv.is_none() && sources.files.iter().all(|file| file.trusted) {
        return Vec::new();
    }
    let (own, _) = merge(&sources.own());
    let common = compose::global(&own);
    let mut check =
        Check { own: &own, resolved, sources, common, told: BTreeSet::new(), problems: Vec::new() };
    for setting in SETTINGS.iter().filter(|setting| setting.is_limit()) {
        check.of_all(setting);
    }
    for pool in &resolved.settings.pools {
        check.pool(pool);
    }
    check.problems
}

struct Check<'a> {
    /// What the user's own sources say.
    own: &'a Resolved,
    /// What all sources say.
    resolved: &'a Resolved,
    sources: &'a Sources,
    /// What the user's own sources say of all declared pools.
    common: Pool,
    /// Keys with the places that change them: one line in a file may change many instances.
    told: BTreeSet<(String, String)>,
    problems: Vec<Problem>,
}

impl Check<'_> {
    /// A setting as it stands in its own table, for all pools if it is one of `[pool]`.
    fn of_all(&mut self, setting: &'static Setting) {
        let (own, now) = (&self.own.settings, &self.resolved.settings);
        let Some(holder) = self.holder(setting, self.own.origin(setting.key)) else { return };
        if !setting.is_as_strict(own, now) {
            let holds = holder.holds(&setting.show(own));
            let place = self.resolved.origin(setting.key).to_string();
            self.tell(setting.key.to_owned(), place, holds, self.sources.instead(setting));
        }
    }

    fn pool(&mut self, pool: &DeclaredPool) {
        let Some(draft) = self.resolved.drafts().get(&pool.name) else { return };
        // Said once for the whole pool, where guarded values are lost with it.
        if !draft.robs.is_empty() {
            return;
        }
        let own = self.own.settings.pools.iter().find(|own| own.name == pool.name);
        if own.is_none() {
            self.added(pool, draft);
        }
        self.declaration(&pool.name, draft);
        let base = own.map_or_else(|| self.common.clone(), |own| own.common.clone());
        self.values(draft, &pool.name, None, &base, &pool.common);
        for (id, instance) in pool.instances.iter().enumerate() {
            let own = own.and_then(|own| own.instances.get(id)).map_or(&base, |own| &own.pool);
            self.values(draft, &pool.name, Some(id), own, &instance.pool);
        }
    }

    /// The values of a pool, or of one of its instances.
    fn values(&mut self, draft: &Draft, pool: &str, instance: Option<usize>, own: &Pool, now: &Pool) {
        let (own, now) = (Settings::around(own.clone()), Settings::around(now.clone()));
        for setting in SETTINGS.iter().filter(|setting| setting.is_of_pools() && setting.is_limit()) {
            let (level, origin) = self.own.pool_origin(pool, instance, setting.name());
            let Some(holder) = self.holder(setting, origin) else { continue };
            if setting.is_as_strict(&own, &now) {
                continue;
            }
            let resolved = self.resolved;
            let site = resolved
                .site(pool, instance, setting.name())
                .or_else(|| resolved.site(pool, None, setting.name()));
            // What changes it for all pools was told above.
            if site.is_some() || level >= Level::Pool {
                let holds = holder.holds(&setting.show(&own));
                self.tell_of_pool(draft, pool, instance, Key::Setting(setting), site, holds);
            }
        }
    }

    /// What only a declaration has: how many instances there are, and which of them a call gets.
    fn declaration(&mut self, pool: &str, draft: &Draft) {
        let Some(own) = self.own.drafts().get(pool) else { return };
        let count = own.count.filter(|count| draft.count.is_some_and(|now| now > *count));
        let is_default = Some(own.is_default).filter(|own| draft.is_default != *own);
        let aliases = own.instances.iter().filter_map(|(id, layer)| {
            let now = draft.instances.get(id).and_then(|layer| layer.alias.as_ref());
            layer.alias.clone().filter(|alias| now != Some(alias)).map(|alias| (Some(*id), Key::Alias, alias))
        });
        let changed = count
            .map(|count| (None, Key::Instances, count.to_string()))
            .into_iter()
            .chain(is_default.map(|own| (None, Key::IsDefault, own.to_string())))
            .chain(aliases);
        for (instance, key, value) in changed {
            if let Some(site) = self.own.site(pool, instance, key.name()) {
                let holds = Holder::Itself(site.origin.clone()).holds(&value);
                let site = self.resolved.site(pool, instance, key.name());
                self.tell_of_pool(draft, pool, instance, key, site, holds);
            }
        }
    }

    /// What makes a setting one that the user has limited; `origin` is where the user has set it.
    fn holder(&self, setting: &Setting, origin: &Origin) -> Option<Holder> {
        if *origin != Origin::Default {
            return Some(Holder::Itself(origin.clone()));
        }
        let Guard::LimitWith(others) = setting.guard else { return None };
        let defaults = Settings::defaults(self.own.settings.data_dir.clone());
        let mut others = others.iter().filter_map(|key| find(key));
        let other = others.find(|other| !other.is_same(&self.own.settings, &defaults))?;
        Some(Holder::Other(other.key, self.own.origin(other.key).clone()))
    }

    /// Checks a pool that the working directory adds to the user's own. Agents choose between pools, so its limits must be
    /// as strict as those of each of the user's pools.
    fn added(&mut self, pool: &DeclaredPool, draft: &Draft) {
        let own = self.own;
        let levels = |pool: &DeclaredPool| {
            let instances = pool.instances.iter().enumerate();
            let instances =
                instances.map(|(id, instance)| (Some(id), Settings::around(instance.pool.clone())));
            std::iter::once((None, Settings::around(pool.common.clone())))
                .chain(instances)
                .collect::<Vec<_>>()
        };
        for mine in &own.settings.pools {
            for (of, limited) in levels(mine) {
                for setting in SETTINGS.iter().filter(|setting| setting.guard == Guard::Limit) {
                    let Some(limit) = own.site(&mine.name, of, setting.name()) else { continue };
                    for (id, now) in levels(pool) {
                        if !setting.is_as_strict(&limited, &now) {
                            let site = self.resolved.site(&pool.name, id, setting.name());
                            let holds = format!("{limit} is `{}`", setting.show(&limited));
                            self.tell_of_pool(draft, &pool.name, id, Key::Setting(setting), site, holds);
                        }
                    }
                }
            }
        }
    }

    /// `site` is what sets it now; there is none where a `.env` replaces a whole pool.
    fn tell_of_pool(
        &mut self,
        draft: &Draft,
        pool: &str,
        instance: Option<usize>,
        key: Key,
        site: Option<&Site>,
        holds: String,
    ) {
        let by = site.unwrap_or(&draft.declared_by);
        // An instance that says nothing itself has what its pool has.
        let id = instance.filter(|_| matches!(key, Key::Alias)).map(|id| id.to_string());
        let name = match site {
            Some(site) => site.name.clone(),
            None => spell(by.is_in_file(), pool, id.as_deref(), key),
        };
        let place = by.place().unwrap_or_else(|| by.name.clone());
        let instead = self.sources.instead_in_pool(&name, by);
        self.tell(name, place, holds, instead);
    }

    fn tell(&mut self, key: String, place: String, holds: String, instead: String) {
        if self.told.insert((key.clone(), place.clone())) {
            self.problems.push(Problem::Limited { key, place, holds, instead });
        }
    }
}

/// What of the user's makes a limit hold.
enum Holder {
    /// Its own value, from there.
    Itself(Origin),
    /// Another setting, from there.
    Other(&'static str, Origin),
}

impl Holder {
    /// What holds, for a message; `value` is the limit's own.
    fn holds(&self, value: &str) -> String {
        match self {
            Self::Itself(origin) => format!("it is `{value}` (from {origin})"),
            Self::Other(key, origin) => {
                format!("it is `{value}`, and `{key}` (from {origin}) was written for that")
            }
        }
    }
}
