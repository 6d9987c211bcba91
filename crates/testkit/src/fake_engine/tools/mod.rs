//! The fake engine's tools as data: name, schema and function of each, one file per group.
//!
//! Tools check their arguments as strictly as the schemas say, to catch a gateway that lets its own selectors through:
//! they answer wrong arguments by a result with `isError`, as the real engines do.

mod fault;
mod plain;
mod recall;
mod state;
mod talk;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Engine, stdio::Response};

pub(crate) use talk::LEVELS;

/// One tool of the fake engine.
pub(crate) struct Tool {
    pub name: &'static str,
    pub description: &'static str,
    /// The inside of the schema's `properties` object, as raw JSON.
    pub properties: &'static str,
    pub required: &'static [&'static str],
    /// Further members of the tool's description, as raw JSON with a leading comma.
    pub more: &'static str,
    /// Whether the function may block; such calls get a thread of their own.
    pub waits: bool,
    pub run: fn(&Engine, &Call) -> Result<ToolReply, serde_json::Error>,
}

impl Tool {
    /// What most tools have in common: no arguments, no thread, an immediate answer.
    const BARE: Self = Self {
        name: "",
        description: "",
        properties: "",
        required: &[],
        more: "",
        waits: false,
        run: |_, _| Ok(ToolReply::Never),
    };
}

/// The outcome of a call.
pub(crate) enum ToolReply {
    /// The raw JSON of `result`.
    Result(String),
    /// The raw JSON of `error`.
    Error(String),
    /// The engine sends nothing, or nothing more.
    Never,
}

/// One tool call as it arrived. Owned, so that it can move to a thread.
pub(crate) struct Call {
    /// The raw id: a number or a quoted string.
    pub id: String,
    pub name: String,
    /// `params`, exactly as received.
    pub params: String,
    arguments: String,
    /// `_meta.progressToken`, raw.
    pub progress_token: Option<String>,
}

impl Call {
    pub fn read(id: &RawValue, params: &RawValue) -> Result<Self, serde_json::Error> {
        #[derive(Deserialize)]
        struct Params<'a> {
            name: String,
            #[serde(borrow)]
            arguments: Option<&'a RawValue>,
            #[serde(borrow, rename = "_meta")]
            meta: Option<Meta<'a>>,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Meta<'a> {
            #[serde(borrow)]
            progress_token: Option<&'a RawValue>,
        }
        let read: Params<'_> = serde_json::from_str(params.get())?;
        Ok(Self {
            id: id.get().to_owned(),
            name: read.name,
            arguments: read.arguments.map_or("{}", RawValue::get).to_owned(),
            progress_token: read
                .meta
                .and_then(|meta| meta.progress_token)
                .map(|token| token.get().to_owned()),
            params: params.get().to_owned(),
        })
    }

    /// The arguments as the tool wants them.
    fn arguments<'a, T: Deserialize<'a>>(&'a self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.arguments)
    }

    /// Sends the call's progress, if the client asked for it.
    fn progress(&self, engine: &Engine, progress: &str, total: u64) {
        let Some(token) = &self.progress_token else { return };
        let params = format!(
            r#"{{"progressToken":{token},"progress":{progress},"total":{total},"message":"step {progress}"}}"#
        );
        engine.stdio.notify("notifications/progress", Some(&params));
    }

    /// Refuses any argument.
    fn no_arguments(&self) -> Result<(), serde_json::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Nothing {}
        self.arguments::<Nothing>().map(|Nothing {}| ())
    }
}

impl ToolReply {
    /// A result with one text part.
    pub fn text(text: &str) -> Self {
        Self::Result(format!(r#"{{"content":[{{"type":"text","text":{}}}]}}"#, quote(text)))
    }

    /// A result that says the tool failed.
    pub fn failure(text: &str) -> Self {
        Self::Result(format!(r#"{{"content":[{{"type":"text","text":{}}}],"isError":true}}"#, quote(text)))
    }

    /// A JSON-RPC error.
    pub fn error(code: i64, message: &str) -> Self {
        Self::Error(format!(r#"{{"code":{code},"message":{}}}"#, quote(message)))
    }

    /// What the client answered to a question: its raw result as text, or its raw error as a failure.
    fn response(response: &Response) -> Self {
        match response {
            Ok(result) => Self::text(result),
            Err(error) => Self::failure(error),
        }
    }
}

pub(crate) fn all() -> impl Iterator<Item = &'static Tool> {
    [plain::TOOLS, recall::TOOLS, state::TOOLS, fault::TOOLS, talk::TOOLS].into_iter().flatten()
}

pub(crate) fn find(name: &str) -> Option<&'static Tool> {
    all().find(|tool| tool.name == name)
}

/// Runs the call and turns wrong arguments into a failed result.
pub(crate) fn run(tool: &Tool, engine: &Engine, call: &Call) -> ToolReply {
    (tool.run)(engine, call)
        .unwrap_or_else(|error| ToolReply::failure(&format!("invalid arguments: {error}")))
}

/// `text` as a JSON string.
pub(crate) fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}
