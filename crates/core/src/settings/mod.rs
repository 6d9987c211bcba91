//! The configuration of greenroom, declared once.
//!
//! [`table`] declares every setting: its key, its type, its default, what it means, and who may set it. Parsing,
//! the command line's flags, `greenroom config show` and `docs/CONFIG.md` all come from there. [`resolve()`] merges
//! the [`Sources`] in their order of precedence and reports every problem at once.
//!
//! Nothing here reads a file or the environment: the cli hands in their text.

mod address;
mod check;
mod choice;
mod declare;
mod dotenv;
mod duration;
mod kind;
mod list;
mod nearest;
mod path;
mod pools;
mod problem;
mod reference;
mod resolve;
mod table;
mod viewport;
mod web;

pub use choice::{Browser, Cap, EngineKind, ImageResponses, LeaseStrategy, Scope};
pub use declare::{Reach, Section, Setting};
pub use kind::Shape;
pub use pools::{DeclaredInstance, DeclaredPool};
pub use problem::{Problem, Problems};
pub use reference::reference;
pub use resolve::{
    CONFIG_FLAG, CONFIG_VARIABLE, ConfigFile, DotEnv, Origin, Resolved, Sources, is_ours, resolve,
};
pub use table::{Pool, SECTIONS, SETTINGS, Server, Sessions, Settings, Tools};
pub use viewport::Viewport;
