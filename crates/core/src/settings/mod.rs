//! The configuration of greenroom, declared once.
//!
//! [`table`] declares every setting: its key, its type, its default, its meaning, and who may set it. Parsing,
//! the command line's flags, `greenroom config show` and `docs/CONFIG.md` all come from there. [`resolve()`] merges
//! the [`Sources`] in their order of precedence and reports every problem at once.
//!
//! Nothing here reads a file or the environment: the cli hands in their text.

mod address;
mod api_keys;
mod attached_browsers;
mod browser_args;
mod bytes;
mod check;
mod choice;
mod compose;
mod cores;
mod declared_pools;
mod dotenv;
mod draft;
mod duration;
mod emulation;
mod engine_facts;
mod key;
mod limits;
mod list;
mod nearest;
mod network;
mod path;
mod pools_toml;
mod problem;
mod proxies;
mod reference;
mod reference_browsers;
mod reference_pools;
mod resolve;
mod server_url;
mod setting_macro;
mod source;
mod table;
mod value_type;
mod variable_grammar;
mod variables;
mod viewport;
mod web;

#[cfg(test)]
mod limits_tests;
#[cfg(test)]
mod pools_conflicts;
#[cfg(test)]
mod pools_examples;
#[cfg(test)]
mod pools_tests;

pub use api_keys::ConfiguredApiKey;
pub use attached_browsers::{
    AttachedBrowser, BROWSERS_MAX, HEADERS_MAX, Header, LABEL_BYTES_MAX, TAGS_MAX, browser_label,
    browser_tags, browser_url,
};
pub use choice::{
    AutoOnOff, Browser, Cap, Codegen, ColorScheme, EngineKind, ImageResponses, NetworkPreset, Permission,
    Pictures, Responses, Scope, ToolProfile,
};
pub use cores::Cores;
pub use declared_pools::{DeclaredInstance, DeclaredPool};
pub use duration::parse_duration;
pub use emulation::{Geolocation, Scale};
pub use engine_facts::{Attaching, EngineFacts};
pub use key::KeyLevel;
pub use network::NETWORK_RULES_MAX;
pub use problem::{Problem, Problems};
pub use reference::reference;
pub use resolve::{Resolved, resolve};
pub use setting_macro::{Guard, Section, Setting, SettingLevel};
pub use source::{
    API_KEY_VARIABLE, BROWSER_URL, BrowserFlag, CONFIG_FLAG, CONFIG_VARIABLE, ConfigFile, DotEnv, Origin,
    SESSION_VARIABLE, Sources, WS_ENDPOINT,
};
pub use table::{
    Attach, Blobs, Network, Pool, Records, SECTIONS, SETTINGS, Server, Sessions, Settings, Tools,
};
pub use value_type::FlagShape;
pub use variables::is_ours;
pub use viewport::Viewport;
