//! How to read the answers of an engine. Only the engine's adapter knows its tools by name and the grammar of its
//! texts.

use serde_json::Value;

use super::BrowserCommand;

/// How to read the answers of one kind of engine. The defaults are for an engine whose answers greenroom cannot read.
pub trait EngineFormat: Send + Sync {
    /// Whether a tool's answers carry page snapshots, as far as the engine's adapter knows.
    fn gives_snapshots(&self, _tool: &str) -> bool {
        false
    }
    /// The input fields of a snapshot whose names satisfy the predicate.
    fn fields(&self, _snapshot: &str, _is_such: &dyn Fn(&str) -> bool) -> Vec<Field> {
        Vec::new()
    }
    /// Identifies the document that an answer shows: another text means another document, or another tab.
    /// `None` if the answer shows no document.
    fn document(&self, _result: &str, _snapshot: &str) -> Option<String> {
        None
    }
    /// Whether the error of a call says that the page has no element with the ref that the call named.
    fn is_missing_ref(&self, _error: &str) -> bool {
        false
    }
    /// A shorter text for a description in the engine's tool list; empty if the description says no more than the name
    /// it belongs to. `None` to keep the engine's own text.
    fn brief(&self, _description: &str) -> Option<&'static str> {
        None
    }
    /// The tools that most tasks need. Empty if they are not known.
    fn core_tools(&self) -> &'static [&'static str] {
        &[]
    }
    /// The tool that answers with the current page's snapshot and needs no arguments.
    fn snapshot_tool(&self) -> Option<&'static str> {
        None
    }
    /// The tool that takes a screenshot of the page.
    fn screenshot_tool(&self) -> Option<&'static str> {
        None
    }
    /// Whether the engine's seats can draw refs on that screenshot ([`super::Call::annotate`]). Other seats refuse the
    /// call.
    fn annotates(&self) -> bool {
        false
    }
    /// Whether [`EngineFormat::data`] can read a tool's answers, so that a caller can ask for parts of them.
    fn gives_data(&self, _tool: &str) -> bool {
        false
    }
    /// An answer as data: a snapshot as a tree of nodes (`role`, `name`, `ref`, …, `children`), the value of an
    /// evaluation. `None` when the answer has no data.
    fn data(&self, _tool: &str, _result: &str, _snapshot: Option<&str>) -> Option<Value> {
        None
    }
    /// The tool and the arguments that carry out a command. `None` if no tool of the engine does.
    fn command(&self, _command: &BrowserCommand) -> Option<(&'static str, Value)> {
        None
    }
    /// Whether the text of a successful answer says that a search found nothing.
    fn found_nothing(&self, _tool: &str, _text: &str) -> bool {
        false
    }
}

/// The format of an engine whose answers greenroom does not read.
pub struct PlainFormat;

impl EngineFormat for PlainFormat {}

/// An input field of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    /// The ref by which calls name the field.
    pub reference: String,
    /// What was entered, as far as the snapshot shows it.
    pub value: Option<String>,
}
