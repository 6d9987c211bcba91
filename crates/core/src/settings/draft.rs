//! Declarations of pools while the sources are read: what each source says of each pool and each instance, and where.
//! `compose.rs` makes pools of them.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    key::{INSTANCES, Key, KeyLevel},
    problem::Problem,
    setting_macro::Setting,
    source::{Origin, SettingLocation},
    table::{Pool, Settings},
    value_type::{GivenValue, InvalidValue, Switch, TextLine, ValueType},
    variable_grammar::PoolKeyPath,
};

/// All declarations. Pools that variables declare are kept apart, because they replace a file's pool of the same name
/// as a whole: a mixture of both would be a pool that the user never wrote.
#[derive(Default)]
pub(super) struct Drafts {
    files: BTreeMap<String, Draft>,
    variables: BTreeMap<String, Draft>,
}

/// What the sources say of one pool.
#[derive(Debug, Clone)]
pub(super) struct Draft {
    /// The first source that mentions the pool.
    pub declared_by: SettingLocation,
    /// The file's pool that this one replaces.
    pub replaces: Option<Box<Self>>,
    /// Guarded values of the replaced pool that a `.env` would drop. An untrusted file may not set such values, so
    /// these are the user's own.
    pub robs: Vec<SettingLocation>,
    pub count: Option<usize>,
    pub is_default: bool,
    pub description: String,
    pub own: Layer,
    /// What the sources say of single instances, by ID.
    pub instances: BTreeMap<usize, Layer>,
}

/// Values on one level of one pool, with where each was set.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    /// The first source that mentions this level.
    pub declared_by: SettingLocation,
    /// Only the keys in `sites` count.
    values: Settings,
    pub alias: Option<String>,
    pub sites: BTreeMap<&'static str, SettingLocation>,
    /// Keys with a problem of their own: their conflicts with others are not reported.
    pub wrong: BTreeSet<&'static str>,
}

impl Drafts {
    /// The draft of a pool that `site` mentions.
    pub(super) fn declare(&mut self, pool: &str, site: &SettingLocation) -> &mut Draft {
        let drafts = if site.is_in_file() { &mut self.files } else { &mut self.variables };
        drafts.entry(pool.to_owned()).or_insert_with(|| Draft {
            declared_by: site.clone(),
            replaces: None,
            robs: Vec::new(),
            count: None,
            is_default: false,
            description: String::new(),
            own: Layer::new(site),
            instances: BTreeMap::new(),
        })
    }

    /// Adds a value.
    pub(super) fn set(
        &mut self,
        spot: &PoolKeyPath,
        given: GivenValue<'_>,
        site: SettingLocation,
    ) -> Result<(), Problem> {
        let key = spot.key;
        let draft = self.declare(&spot.pool, &site);
        let level = if spot.instance.is_some() { KeyLevel::Instance } else { KeyLevel::Pool };
        if !key.is_of(level) {
            return Err(key.refused(level, &spot.pool, &site));
        }
        match draft.put(spot, given, &site) {
            Ok(()) => {
                draft.layer(spot.instance, &site).sites.insert(key.name(), site);
                Ok(())
            }
            Err(InvalidValue(why)) => {
                draft.layer(spot.instance, &site).wrong.insert(key.name());
                let value = key.show_wrong(given);
                let place = site.place();
                let allowed = key.allowed();
                Err(Problem::Value { key: site.name, value, place, allowed, why })
            }
        }
    }

    /// Notes that a value is invalid, or may not be set at this place.
    pub(super) fn mark_invalid(&mut self, spot: &PoolKeyPath, site: &SettingLocation) {
        self.declare(&spot.pool, site).layer(spot.instance, site).wrong.insert(spot.key.name());
    }

    /// The pools that result from files and variables, by name.
    pub(super) fn into_pools(self) -> BTreeMap<String, Draft> {
        let mut drafts = self.files;
        for (name, mut draft) in self.variables {
            if let Some(replaced) = drafts.remove(&name) {
                if draft.is_of_dotenv() {
                    draft.robs = replaced.guarded();
                }
                draft.replaces = Some(Box::new(replaced));
            }
            drafts.insert(name, draft);
        }
        drafts
    }
}

impl Draft {
    /// The level that a value belongs to: the pool's own, or an instance's.
    pub(super) fn layer(&mut self, instance: Option<usize>, site: &SettingLocation) -> &mut Layer {
        match instance {
            None => &mut self.own,
            Some(id) => self.instances.entry(id).or_insert_with(|| Layer::new(site)),
        }
    }

    /// Takes missing values from the file's pool that this one replaces, unless this one sets the number of
    /// instances itself.
    pub(super) fn complete(&mut self) {
        let Some(replaced) = self.replaces.take().filter(|_| self.count.is_none()) else { return };
        self.count = replaced.count;
        if !self.own.sites.contains_key(Key::IsDefault.name()) {
            self.is_default = replaced.is_default;
        }
        self.own.complete(&replaced.own);
        for (id, layer) in &replaced.instances {
            self.layer(Some(*id), &layer.declared_by).complete(layer);
        }
    }

    /// Whether only a `.env` makes this a pool. The `.env` is read before the environment, so `declared_by` names the
    /// `.env` if it mentions the pool; an environment that sets `INSTANCES` declares the pool by itself.
    fn is_of_dotenv(&self) -> bool {
        let by_environment = self
            .own
            .sites
            .get(Key::Instances.name())
            .is_some_and(|site| matches!(site.origin, Origin::Env(_)));
        matches!(self.declared_by.origin, Origin::DotEnv(_)) && !by_environment
    }

    /// Where guarded values were set, for the pool or for an instance.
    fn guarded(&self) -> Vec<SettingLocation> {
        let layers = std::iter::once(&self.own).chain(self.instances.values());
        let sites = layers.flat_map(|layer| &layer.sites);
        let guarded = sites.filter(|(name, _)| Key::find(name).is_some_and(Key::is_guarded));
        guarded.map(|(_, site)| site.clone()).collect()
    }

    /// Gives the pool the description of all pools, unless it has its own.
    pub(super) fn default_description(&mut self, description: Option<&str>) {
        if let Some(description) = description.filter(|_| !self.own.sites.contains_key("description")) {
            description.clone_into(&mut self.description);
        }
    }

    fn put(
        &mut self,
        spot: &PoolKeyPath,
        given: GivenValue<'_>,
        site: &SettingLocation,
    ) -> Result<(), InvalidValue> {
        match spot.key {
            Key::Instances => self.count = Some(INSTANCES.parse(given)?),
            Key::IsDefault => self.is_default = Switch.parse(given)?,
            Key::Description => self.description = line(given)?,
            Key::Alias => self.layer(spot.instance, site).alias = alias(given)?,
            Key::Setting(setting) => self.layer(spot.instance, site).set(setting, given)?,
        }
        Ok(())
    }
}

impl Layer {
    pub(super) fn new(site: &SettingLocation) -> Self {
        Self {
            declared_by: site.clone(),
            values: Settings::around(Pool::declared_defaults()),
            alias: None,
            sites: BTreeMap::new(),
            wrong: BTreeSet::new(),
        }
    }

    pub(super) fn set(&mut self, setting: &Setting, given: GivenValue<'_>) -> Result<(), InvalidValue> {
        (setting.set)(&mut self.values, given)
    }

    /// Takes from `other` the values that are not set here.
    fn complete(&mut self, other: &Self) {
        for (name, site) in &other.sites {
            if self.sites.contains_key(name) {
                continue;
            }
            match Key::find(name) {
                Some(Key::Setting(setting)) => (setting.copy)(&other.values, &mut self.values),
                Some(Key::Alias) => self.alias.clone_from(&other.alias),
                _ => {}
            }
            self.sites.insert(name, site.clone());
        }
    }

    /// `pool`, overridden by this level's values.
    pub(super) fn over(&self, pool: Pool) -> Pool {
        let mut whole = Settings::around(pool);
        for name in self.sites.keys() {
            if let Some(Key::Setting(setting)) = Key::find(name) {
                (setting.copy)(&self.values, &mut whole);
            }
        }
        whole.pool
    }
}

/// One line of text, possibly empty.
pub(super) fn line(given: GivenValue<'_>) -> Result<String, InvalidValue> {
    if given.text() == Some("") { Ok(String::new()) } else { TextLine("TEXT").parse(given) }
}

/// An alias, unless it is empty. A number would be another instance's ID.
fn alias(given: GivenValue<'_>) -> Result<Option<String>, InvalidValue> {
    let alias = line(given)?;
    if !alias.is_empty() && alias.chars().all(|c| c.is_ascii_digit()) {
        return Err(InvalidValue(Some("numbers are the IDs of instances".to_owned())));
    }
    Ok(Some(alias).filter(|alias| !alias.is_empty()))
}
