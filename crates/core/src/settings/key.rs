//! The keys of declared pools: the settings of `[pool]`, and four that only a declaration has. Each key may be set on
//! some of the three levels global, pool and instance; the error for a key on another level names the right one.

use super::{
    SETTINGS,
    problem::Problem,
    setting_macro::{Guard, Setting, SettingLevel},
    source::SettingLocation,
    value_type::{GivenValue, Switch, TextLine, ValueType, WholeNumber},
};
use crate::lease::INSTANCES_MAX;

/// How many instances a pool may declare: far more than one machine can run, and few enough that a typing mistake
/// starts no million processes.
pub(super) const INSTANCES: WholeNumber = WholeNumber(1..=INSTANCES_MAX);

/// The level on which a value of a declared pool was set; later variants override earlier ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum KeyLevel {
    /// Nowhere.
    Default,
    /// For all pools.
    Global,
    /// For all instances of its pool.
    Pool,
    /// For one instance.
    Instance,
}

impl KeyLevel {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Global => "global",
            Self::Pool => "pool",
            Self::Instance => "instance",
        }
    }
}

/// A key of a declared pool or of one of its instances.
#[derive(Clone, Copy)]
pub(super) enum Key {
    Instances,
    IsDefault,
    Description,
    Alias,
    Setting(&'static Setting),
}

/// The keys that are no settings of `[pool]`.
const DECLARING: [Key; 4] = [Key::Instances, Key::IsDefault, Key::Description, Key::Alias];

impl Key {
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let settings = SETTINGS.iter().filter(|setting| setting.is_of_pools()).map(Self::Setting);
        DECLARING.into_iter().chain(settings)
    }

    /// The key's name in a TOML file.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Instances => "instances",
            Self::IsDefault => "is_default",
            Self::Description => "description",
            Self::Alias => "alias",
            Self::Setting(setting) => setting.name(),
        }
    }

    /// The key's name in a variable.
    pub(super) fn upper(self) -> String {
        self.name().to_uppercase()
    }

    pub(super) fn find(name: &str) -> Option<Self> {
        Self::all().find(|key| key.name() == name)
    }

    pub(super) fn find_upper(name: &str) -> Option<Self> {
        Self::all().find(|key| key.upper() == name)
    }

    /// The key of this name that is no setting of `[pool]`.
    pub(super) fn declaring(name: &str) -> Option<Self> {
        DECLARING.into_iter().find(|key| key.name() == name)
    }

    /// What a file that merely lies in the working directory may do with it.
    pub(super) fn guard(self) -> Guard {
        match self {
            Self::Setting(setting) => setting.guard,
            // These keys decide how many browsers run, and which one a call gets that names none or gives an alias.
            Self::Instances | Self::IsDefault | Self::Alias => Guard::Limit,
            Self::Description => Guard::Open,
        }
    }

    pub(super) fn is_guarded(self) -> bool {
        self.guard() == Guard::Guarded
    }

    /// Whether the key may be set on this level.
    pub(super) fn is_of(self, level: KeyLevel) -> bool {
        match (self, level) {
            (_, KeyLevel::Default) => true,
            (Self::Setting(setting), KeyLevel::Pool) => setting.reach >= SettingLevel::Pool,
            (Self::Setting(setting), KeyLevel::Instance) => setting.reach == SettingLevel::Instance,
            (Self::Setting(_), KeyLevel::Global) | (Self::Alias, KeyLevel::Instance) => true,
            (Self::Description, KeyLevel::Global) => true,
            (Self::Instances | Self::IsDefault | Self::Description, level) => level == KeyLevel::Pool,
            (Self::Alias, KeyLevel::Global | KeyLevel::Pool) => false,
        }
    }

    /// The values that the key accepts, worded to follow "expected" in an error.
    pub(super) fn allowed(self) -> String {
        match self {
            Self::Instances => INSTANCES.allowed(),
            Self::IsDefault => Switch.allowed(),
            Self::Description => TextLine("TEXT").allowed(),
            Self::Alias => "a name that is no number".to_owned(),
            Self::Setting(setting) => setting.allowed(),
        }
    }

    /// A wrong value for a message.
    pub(super) fn show_wrong(self, given: GivenValue<'_>) -> String {
        match self {
            Self::Setting(setting) => (setting.show_wrong)(given),
            Self::Instances | Self::IsDefault | Self::Description | Self::Alias => given.display(),
        }
    }

    /// The problem of `site`, which sets the key on a `level` where it may not be set. `pool` is the pool's name, or
    /// empty.
    pub(super) fn refused(self, level: KeyLevel, pool: &str, site: &SettingLocation) -> Problem {
        let upper = self.upper();
        let spelled = |pool: &str, instance: Option<&str>| spell(site.is_in_file(), pool, instance, self);
        let (whom, hint) = match (self, level) {
            (Self::Setting(setting), _) if setting.reach == SettingLevel::BuiltIn => (
                "per pool",
                format!("a declared pool has as many instances as its `{}`", Self::Instances.upper()),
            ),
            (Self::Alias, KeyLevel::Global) => {
                ("globally", format!("an alias names one instance: `{}`", spelled("<POOL>", Some("<ID>"))))
            }
            (Self::Alias, _) => {
                ("per pool", format!("an alias names one instance: `{}`", spelled(pool, Some("<ID>"))))
            }
            (_, KeyLevel::Global) => {
                ("globally", format!("move it to pool level: `{}`", spelled("<POOL>", None)))
            }
            (Self::Setting(_), _) => {
                let own = spelled(pool, None);
                (
                    "per instance",
                    format!("a pool has one list of tools and one queue: set `{own}` for the whole pool"),
                )
            }
            _ => ("per instance", format!("it belongs to the pool: `{}`", spelled(pool, None))),
        };
        Problem::Pool { message: format!("{upper} defined {whom}: {site}"), hint }
    }
}

/// The name of a value of a declared pool: a dotted key of TOML, or a variable.
pub(super) fn spell(toml: bool, pool: &str, instance: Option<&str>, key: Key) -> String {
    match (toml, instance) {
        (true, None) => format!("pools.{pool}.{}", key.name()),
        (true, Some(id)) => format!("pools.{pool}.instances.{id}.{}", key.name()),
        (false, None) => format!("PW_MCP_PROXY__{pool}_{}", key.upper()),
        (false, Some(id)) => format!("PW_MCP_PROXY__{pool}__{id}_{}", key.upper()),
    }
}
