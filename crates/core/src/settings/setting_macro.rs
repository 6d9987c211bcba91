//! The form of a declaration: [`Setting`], a row of the table, and the `settings!` macro that makes the typed
//! structs and the rows from one list. Used by `table.rs` only.

use super::{
    attached_browsers::AppliesTo,
    choice::EngineKind,
    table::{Pool, Settings},
    value_type::{FlagShape, GivenValue, InvalidValue},
};

/// The description of one setting, for all code that does not use its typed value.
pub struct Setting {
    /// The dotted key in TOML; the variable and the flag are made from it.
    pub key: &'static str,
    /// What the setting means, in sentences.
    pub doc: &'static str,
    /// What a file that merely lies in the working directory may do with the setting.
    pub guard: Guard,
    /// A second variable for the setting; [`Setting::variable`] wins.
    pub alias: Option<&'static str>,
    /// For a pool setting: down to which level it may be set.
    pub reach: SettingLevel,
    /// For a pool setting: whether it applies to a browser that already runs.
    pub(super) applies_to: Option<AppliesTo>,
    /// The only engine that has the setting, if not all have it.
    pub(super) only: Option<EngineKind>,
    pub(super) copy: fn(&Settings, &mut Settings),
    pub(super) set: fn(&mut Settings, GivenValue<'_>) -> Result<(), InvalidValue>,
    pub(super) same: fn(&Settings, &Settings) -> bool,
    pub(super) show: fn(&Settings) -> String,
    pub(super) show_wrong: fn(GivenValue<'_>) -> String,
    pub(super) json: fn(&Settings) -> serde_json::Value,
    pub(super) allowed: fn() -> String,
    pub(super) shape: fn() -> FlagShape,
    pub(super) amount: fn(&Settings) -> Option<u64>,
}

/// What a file that merely lies in the working directory, a `greenroom.toml` or a `.env`, may do with a setting. Such a
/// file may have come with a cloned repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Guard {
    /// The file may not set it, because it names a program or permits something that only the user may permit.
    /// Otherwise cloning a repository would be enough to run its commands.
    Guarded,
    /// The file may set it if the user has not. It limits what agents and pages can do, what stays on disk, or how
    /// much of the machine greenroom uses. If the user has set it, the file may lower a number and change nothing
    /// else.
    Limit,
    /// Like `Limit`, and the setting also counts as set by the user if the user has set one of these others: with
    /// another value of this setting the others would limit less, or nothing.
    LimitWith(&'static [&'static str]),
    /// The file may set it: no value permits anything new.
    Open,
}

/// Down to which level a pool setting may be set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SettingLevel {
    /// Only for the built-in pool, which exists if no pool is declared.
    BuiltIn,
    /// For all pools and for each, but not for one instance: a pool has one list of tools and one queue.
    Pool,
    /// For all pools, for each, and for each instance.
    Instance,
}

/// A group of settings: a TOML table and a struct. The first section has no name: its keys are at the top of the file.
pub struct Section {
    pub name: &'static str,
    pub doc: &'static str,
}

impl Setting {
    /// The environment variable: `GREENROOM_POOL_SLOTS` for `pool.slots`.
    pub fn variable(&self) -> String {
        format!("GREENROOM_{}", self.key.replace('.', "_").to_uppercase())
    }

    /// The flag without its dashes: `pool-slots` for `pool.slots`.
    pub fn flag(&self) -> String {
        self.key.replace(['.', '_'], "-")
    }

    /// The name of its section; empty for keys at the top.
    pub fn section(&self) -> &'static str {
        self.key.split_once('.').map_or("", |(section, _)| section)
    }

    /// Its key without the section: `slots` for `pool.slots`.
    pub fn name(&self) -> &'static str {
        self.key.rsplit_once('.').map_or(self.key, |(_, name)| name)
    }

    /// Whether no file that merely lies in the working directory may set it.
    pub fn is_guarded(&self) -> bool {
        self.guard == Guard::Guarded
    }

    /// Whether a file that merely lies in the working directory may set it only where the user has not.
    pub fn is_limit(&self) -> bool {
        matches!(self.guard, Guard::Limit | Guard::LimitWith(_))
    }

    /// Whether the setting is as strict in `now` as in `own`: the same value, or a lower number.
    pub(super) fn is_as_strict(&self, own: &Settings, now: &Settings) -> bool {
        let lower = matches!(((self.amount)(own), (self.amount)(now)), (Some(own), Some(now)) if now <= own);
        lower || self.is_same(own, now)
    }

    /// Whether the setting is one of pools.
    pub fn is_of_pools(&self) -> bool {
        self.section() == "pool"
    }

    /// Whether the setting applies to attached browsers.
    pub fn is_of_browsers(&self) -> bool {
        matches!(self.applies_to, Some(AppliesTo::Yes | AppliesTo::Isolated))
    }

    /// Whether the setting has the same value in both. Comparing shown values is not enough: they omit passwords.
    pub fn is_same(&self, one: &Settings, other: &Settings) -> bool {
        (self.same)(one, other)
    }

    /// Whether it has the same value in both pools.
    pub fn is_same_in(&self, one: &Pool, other: &Pool) -> bool {
        self.is_same(&Settings::around(one.clone()), &Settings::around(other.clone()))
    }

    /// The value it has in a pool, as people write it.
    pub fn show_in(&self, pool: &Pool) -> String {
        self.show(&Settings::around(pool.clone()))
    }

    /// The value it has in a pool, for programs.
    pub fn json_in(&self, pool: &Pool) -> serde_json::Value {
        self.json(&Settings::around(pool.clone()))
    }

    /// Its value as people write it.
    pub fn show(&self, settings: &Settings) -> String {
        (self.show)(settings)
    }

    /// Its value for programs: `null` when unset, lists as arrays, durations as text with their unit.
    pub fn json(&self, settings: &Settings) -> serde_json::Value {
        (self.json)(settings)
    }

    /// The values that it accepts, worded to follow "expected" in an error.
    pub fn allowed(&self) -> String {
        (self.allowed)()
    }

    pub fn shape(&self) -> FlagShape {
        (self.shape)()
    }
}

/// `"key" field: Type = default => kind, guard, option = value;` for each setting: the keys at the top under the struct
/// `Settings`, then each section under a struct of its own. The doc comments are the settings' meaning everywhere.
macro_rules! settings {
    (
        defaults($($arg:ident: $arg_type:ty),*)
        $(#[doc = $top_doc:literal])+
        {
            $( $(#[doc = $doc:literal])+
               $key:literal $field:ident: $type:ty = $default:expr => $kind:expr, $guard:expr
               $(, $option:ident = $value:expr)*; )*
        }
        $(
            $(#[doc = $section_doc:literal])+
            $section:ident: $Section:ident {
                $( $(#[doc = $s_doc:literal])+
                   $s_key:literal $s_field:ident: $s_type:ty = $s_default:expr => $s_kind:expr, $s_guard:expr
                   $(, $s_option:ident = $s_value:expr)*; )*
            }
        )*
    ) => {
        /// Every setting, typed and checked.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub struct Settings {
            $( $(#[doc = $doc])+ pub $field: $type, )*
            $( $(#[doc = $section_doc])+ pub $section: $Section, )*
            /// The pools that were declared, by name. When there are none, one pool is made of `pool`.
            pub pools: Vec<DeclaredPool>,
            /// Running browsers to attach to, in the order of their indices. If there are some and no pools are
            /// declared, there is no built-in pool.
            pub browsers: Vec<AttachedBrowser>,
            /// Whether the data folder has API keys. The cli looks, after it has resolved the settings.
            pub has_stored_keys: bool,
            /// The values of a browser that is attached while greenroom runs; see [`Settings::attached`].
            pub(super) attached: Option<Result<Pool, String>>,
        }

        $(
            $(#[doc = $section_doc])+
            #[derive(Debug, Clone, PartialEq, Eq)]
            pub struct $Section { $( $(#[doc = $s_doc])+ pub $s_field: $s_type, )* }
        )*

        impl Settings {
            /// The values when nothing is configured. The caller passes in the values that depend on the platform.
            pub fn defaults($($arg: $arg_type),*) -> Self {
                Self {
                    $( $field: $default, )*
                    $( $section: $Section { $( $s_field: $s_default, )* }, )*
                    pools: Vec::new(),
                    browsers: Vec::new(),
                    has_stored_keys: false,
                    attached: None,
                }
            }
        }

        /// The sections, in the order of the reference page.
        pub static SECTIONS: &[Section] = &[
            Section { name: "", doc: concat!($($top_doc, "\n"),+) },
            $( Section { name: stringify!($section), doc: concat!($($section_doc, "\n"),+) }, )*
        ];

        /// Every setting, section by section.
        pub static SETTINGS: &[Setting] = &[
            $( settings!(@row $key, concat!($($doc, "\n"),+), [$field], $kind, $guard $(, $option = $value)*), )*
            $( $( settings!(
                @row $s_key, concat!($($s_doc, "\n"),+), [$section . $s_field], $s_kind, $s_guard
                $(, $s_option = $s_value)*
            ), )* )*
        ];
    };
    (@row $key:expr, $doc:expr, [$($place:tt)+], $kind:expr, $guard:expr $(, $option:ident = $value:expr)*) => {{
        #[allow(clippy::needless_update, reason = "a row may name every option")]
        Setting {
            $( $option: $value, )*
            ..Setting {
                key: $key,
                doc: $doc,
                guard: $guard,
                alias: None,
                reach: SettingLevel::Instance,
                applies_to: None,
                only: None,
                copy: |from, to| to.$($place)+.clone_from(&from.$($place)+),
                set: |settings, given| {
                    settings.$($place)+ = $kind.parse(given)?;
                    Ok(())
                },
                same: |one, other| one.$($place)+ == other.$($place)+,
                show: |settings| $kind.show(&settings.$($place)+),
                show_wrong: |given| $kind.show_wrong(given),
                json: |settings| $kind.json(&settings.$($place)+),
                allowed: || $kind.allowed(),
                shape: || $kind.shape(),
                amount: |settings| $kind.amount(&settings.$($place)+),
            }
        }
    }};
}
pub(super) use settings;
