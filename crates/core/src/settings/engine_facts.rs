//! What the rest of greenroom must know of each engine without its adapter: which settings go with it, and what it can
//! do. All of it is in one exhaustive `match`, so that the compiler asks for the facts of a new engine.

use super::choice::{ChoiceWords, EngineKind};

/// Facts about an engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineFacts {
    /// The user names the MCP server, by its command or its address. greenroom then starts no browser for it, and does
    /// not know which settings it uses.
    pub is_user_supplied: bool,
    pub attaching: Attaching,
    /// All sessions of an instance share the engine's process, so code that runs in it reaches all of them.
    pub shares_process: bool,
    /// It may have a browser that greenroom does not start: Firefox or WebKit, one on Windows, or one with its extension.
    pub takes_other_browsers: bool,
}

/// Whether an engine drives browsers that already run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attaching {
    Never,
    /// Only in the browser's own context, with its user's cookies.
    OwnContextOnly,
    /// In the browser's own context, or in contexts that the engine makes.
    AnyContext,
}

impl EngineKind {
    pub fn all() -> impl Iterator<Item = Self> {
        Self::ALL.iter().map(|(_, kind)| *kind)
    }

    pub fn facts(self) -> EngineFacts {
        match self {
            Self::Playwright => EngineFacts {
                is_user_supplied: false,
                attaching: Attaching::AnyContext,
                shares_process: true,
                takes_other_browsers: true,
            },
            Self::Devtools => EngineFacts {
                is_user_supplied: false,
                attaching: Attaching::OwnContextOnly,
                shares_process: false,
                takes_other_browsers: false,
            },
            Self::Custom => EngineFacts {
                is_user_supplied: true,
                attaching: Attaching::Never,
                shares_process: false,
                takes_other_browsers: true,
            },
        }
    }

    /// Whether the engine drives browsers that already run.
    pub fn attaches(self) -> bool {
        self.facts().attaching != Attaching::Never
    }
}
