//! The commands of the command line, in words that fit every engine. The adapter of an engine turns a command into a call
//! of one of the engine's tools ([`super::EngineFormat::command`]).

use serde::{Deserialize, Serialize};

/// A command for the browser of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case", deny_unknown_fields)]
pub enum BrowserCommand {
    /// Loads an address in the current tab.
    Open {
        url: String,
    },
    /// Shows the current page.
    Snapshot {},
    Click {
        target: String,
    },
    /// Replaces the text of a field; presses Enter afterwards with `submit`.
    Type {
        target: String,
        text: String,
        submit: bool,
    },
    /// Sets the values of several fields.
    Fill {
        fields: Vec<FieldInput>,
    },
    /// Presses a key, such as `Enter` or `Control+a`.
    Press {
        key: String,
    },
    /// Selects options of a list, by their names.
    Select {
        target: String,
        values: Vec<String>,
    },
    WaitText {
        text: String,
    },
    WaitGone {
        text: String,
    },
    WaitTime {
        seconds: f64,
    },
    /// Evaluates JavaScript in the page: an expression or a function.
    Eval {
        script: String,
    },
    Screenshot {
        full_page: bool,
        /// Draws the refs of elements that can be clicked or filled. `false` is not serialized, because servers of
        /// earlier versions refuse the field.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        annotate: bool,
    },
    TabList {},
    TabNew {
        url: Option<String>,
    },
    /// Closes the tab with this number, or the current tab.
    TabClose {
        tab: Option<u32>,
    },
    TabSelect {
        tab: u32,
    },
    Back {},
    /// Searches the current page for a text.
    Find {
        text: String,
    },
}

/// The value for one field of a form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldInput {
    pub target: String,
    pub value: String,
}

impl BrowserCommand {
    /// The word for the command on the command line.
    pub fn verb(&self) -> &'static str {
        match self {
            Self::Open { .. } => "open",
            Self::Snapshot {} => "snapshot",
            Self::Click { .. } => "click",
            Self::Type { submit: false, .. } => "type",
            Self::Type { submit: true, .. } => "type --submit",
            Self::Fill { .. } => "fill",
            Self::Press { .. } => "press",
            Self::Select { .. } => "select",
            Self::WaitText { .. } => "wait --text",
            Self::WaitGone { .. } => "wait --gone",
            Self::WaitTime { .. } => "wait --time",
            Self::Eval { .. } => "eval",
            Self::Screenshot { .. } => "screenshot",
            Self::TabList {} => "tabs list",
            Self::TabNew { .. } => "tabs new",
            Self::TabClose { .. } => "tabs close",
            Self::TabSelect { .. } => "tabs select",
            Self::Back {} => "back",
            Self::Find { .. } => "find",
        }
    }
}
