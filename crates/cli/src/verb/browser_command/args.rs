//! The arguments of the verbs that drive a browser, and the call that each verb makes of them.

use std::path::PathBuf;

use greenroom_core::{
    Fields, Raw,
    port::{BrowserCommand, FieldInput},
    raw,
    settings::SESSION_VARIABLE,
};
use serde_json::{Map, Value};

use crate::{config::ProcessEnv, report::CliError};

/// The session of a command that names none.
const SESSION_DEFAULT: &str = "default";

/// What every command takes.
#[derive(Debug, Clone, Default, PartialEq, Eq, clap::Args)]
pub struct CallOptions {
    /// The session, by the name that is an MCP client's `sessionId`; a new name opens a browser [env: GREENROOM_SESSION] [default: default]
    #[arg(long, short, value_name = "NAME")]
    pub session: Option<String>,

    /// How much of the page to print: `auto` (whole the first time, then what changed), `inline` (whole), `diff`, `refs` or `raw`
    #[arg(long, value_name = "MODE", value_parser = ["auto", "diff", "inline", "refs", "raw"])]
    pub mode: Option<String>,

    /// Print one JSON object: session, tool, ok, text, ref_id
    #[arg(long)]
    pub json: bool,

    /// Use the greenroom process with this id
    #[arg(long, value_name = "PID")]
    pub pid: Option<u32>,
}

impl CallOptions {
    pub fn session(&self, env: &ProcessEnv) -> Result<String, CliError> {
        let from_env = || env.variable(SESSION_VARIABLE).filter(|name| !name.is_empty());
        match (&self.session, from_env()) {
            (Some(name), _) => Ok(name.clone()),
            (None, None) => Ok(SESSION_DEFAULT.to_owned()),
            (None, Some(name)) => name.to_str().map(ToOwned::to_owned).ok_or_else(|| {
                CliError::usage(format!("`{SESSION_VARIABLE}` is not valid UTF-8"))
                    .hint("give a session name with --session")
            }),
        }
    }
}

/// A verb without arguments of its own.
#[derive(Debug, clap::Args)]
pub struct PlainArgs {
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct OpenArgs {
    /// The address; without a scheme it is https, and http for this machine
    pub url: String,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct ClickArgs {
    /// The element: a ref of the snapshot (e7), or a selector
    pub target: String,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct TypeArgs {
    /// The field: a ref of the snapshot (e7), or a selector
    pub target: String,
    /// The text, which replaces what is there
    #[arg(allow_negative_numbers = true)]
    pub text: String,
    /// Press Enter afterwards
    #[arg(long)]
    pub submit: bool,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct FillArgs {
    /// Fields and their values: TARGET=VALUE for several, or TARGET VALUE for one; `true` and `false` are for checkboxes
    #[arg(required = true, value_name = "TARGET=VALUE")]
    pub fields: Vec<String>,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct PressArgs {
    /// The key: Enter, Escape, ArrowDown, a, Control+a
    pub key: String,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct SelectArgs {
    /// The list: a ref of the snapshot (e7), or a selector
    pub target: String,
    /// The options, by their names or values
    #[arg(required = true)]
    pub values: Vec<String>,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("until").required(true))]
pub struct WaitArgs {
    /// Wait until the page shows this text
    #[arg(long, group = "until")]
    pub text: Option<String>,
    /// Wait until the page no longer shows this text
    #[arg(long, group = "until", value_name = "TEXT")]
    pub gone: Option<String>,
    /// Wait this many seconds
    #[arg(long, group = "until", value_name = "SECONDS", value_parser = seconds)]
    pub time: Option<f64>,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct EvalArgs {
    /// JavaScript: an expression (document.title) or a function (() => document.title)
    #[arg(allow_negative_numbers = true)]
    pub script: String,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct ScreenshotArgs {
    /// The file to write, a PNG; a new file in the folder for temporary files if it is not given
    pub file: Option<PathBuf>,
    /// The whole page instead of the visible part
    #[arg(long)]
    pub full_page: bool,
    /// Draws boxes with the refs of what can be clicked or filled, and lists them
    #[arg(long)]
    pub annotate: bool,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct FindArgs {
    /// The text to search for, in any case
    pub text: String,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct TabsArgs {
    /// `list`, `new [URL]`, `close [NUMBER]` or `select NUMBER`
    #[arg(value_name = "ACTION", value_parser = ["list", "new", "close", "select"], default_value = "list")]
    pub action: String,
    /// The address of a new tab, or the number of the tab
    #[arg(value_name = "URL|NUMBER")]
    pub which: Option<String>,
    #[command(flatten)]
    pub options: CallOptions,
}

#[derive(Debug, clap::Args)]
pub struct CallArgs {
    /// The tool, as MCP clients see it
    pub tool: String,
    /// Its arguments: key=value, where a value that is JSON counts as such, or one JSON object
    #[arg(value_name = "KEY=VALUE")]
    pub arguments: Vec<String>,
    #[command(flatten)]
    pub options: CallOptions,
}

/// A call, and what to do with its answer.
#[derive(Debug)]
pub struct CommandRequest {
    pub options: CallOptions,
    pub call: WantedCall,
    /// The file for the answer's picture.
    pub picture: Option<PathBuf>,
    /// Whether the command starts a server if none runs.
    pub starts_server: bool,
}

/// A command, or a tool with its arguments.
#[derive(Debug, Default)]
pub struct WantedCall {
    pub command: Option<BrowserCommand>,
    pub tool: Option<String>,
    pub arguments: Option<Raw>,
}

impl CommandRequest {
    fn command(options: CallOptions, command: BrowserCommand) -> Self {
        let call = WantedCall { command: Some(command), ..WantedCall::default() };
        Self { options, call, picture: None, starts_server: true }
    }

    pub fn snapshot(args: PlainArgs) -> Self {
        Self::command(args.options, BrowserCommand::Snapshot {})
    }

    pub fn back(args: PlainArgs) -> Self {
        Self::command(args.options, BrowserCommand::Back {})
    }

    /// Closes the session. Starts no server: without one there is no session to close.
    pub fn close(args: PlainArgs) -> Self {
        let call = WantedCall { tool: Some("session_close".to_owned()), ..WantedCall::default() };
        Self { options: args.options, call, picture: None, starts_server: false }
    }
}

impl TryFrom<OpenArgs> for CommandRequest {
    type Error = CliError;

    fn try_from(args: OpenArgs) -> Result<Self, CliError> {
        Ok(Self::command(args.options, BrowserCommand::Open { url: url(&args.url)? }))
    }
}

impl From<ClickArgs> for CommandRequest {
    fn from(args: ClickArgs) -> Self {
        Self::command(args.options, BrowserCommand::Click { target: target(&args.target) })
    }
}

impl From<TypeArgs> for CommandRequest {
    fn from(TypeArgs { target: given, text, submit, options }: TypeArgs) -> Self {
        Self::command(options, BrowserCommand::Type { target: target(&given), text, submit })
    }
}

impl TryFrom<FillArgs> for CommandRequest {
    type Error = CliError;

    fn try_from(args: FillArgs) -> Result<Self, CliError> {
        Ok(Self::command(args.options, BrowserCommand::Fill { fields: fields(&args.fields)? }))
    }
}

impl From<PressArgs> for CommandRequest {
    fn from(args: PressArgs) -> Self {
        Self::command(args.options, BrowserCommand::Press { key: args.key })
    }
}

impl From<SelectArgs> for CommandRequest {
    fn from(SelectArgs { target: given, values, options }: SelectArgs) -> Self {
        Self::command(options, BrowserCommand::Select { target: target(&given), values })
    }
}

impl From<WaitArgs> for CommandRequest {
    fn from(WaitArgs { text, gone, time, options }: WaitArgs) -> Self {
        let command = match (text, gone) {
            (Some(text), _) => BrowserCommand::WaitText { text },
            (None, Some(text)) => BrowserCommand::WaitGone { text },
            (None, None) => BrowserCommand::WaitTime { seconds: time.unwrap_or_default() },
        };
        Self::command(options, command)
    }
}

impl From<EvalArgs> for CommandRequest {
    fn from(args: EvalArgs) -> Self {
        Self::command(args.options, BrowserCommand::Eval { script: args.script })
    }
}

impl From<ScreenshotArgs> for CommandRequest {
    fn from(ScreenshotArgs { file, full_page, annotate, options }: ScreenshotArgs) -> Self {
        Self { picture: file, ..Self::command(options, BrowserCommand::Screenshot { full_page, annotate }) }
    }
}

impl From<FindArgs> for CommandRequest {
    fn from(args: FindArgs) -> Self {
        Self::command(args.options, BrowserCommand::Find { text: args.text })
    }
}

impl TryFrom<TabsArgs> for CommandRequest {
    type Error = CliError;

    fn try_from(TabsArgs { action, which, options }: TabsArgs) -> Result<Self, CliError> {
        let number = || match &which {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                CliError::usage(format!("`{text}` is no number of a tab")).hint("`greenroom tabs` lists them")
            }),
        };
        let command = match action.as_str() {
            "new" => BrowserCommand::TabNew { url: which.as_deref().map(url).transpose()? },
            "close" => BrowserCommand::TabClose { tab: number()? },
            "select" => BrowserCommand::TabSelect {
                tab: number()?.ok_or_else(|| {
                    CliError::usage("which tab to select is missing").hint("`greenroom tabs` lists them")
                })?,
            },
            _ => match which {
                None => BrowserCommand::TabList {},
                Some(more) => {
                    return Err(CliError::usage(format!("`tabs list` takes nothing more: `{more}`")));
                }
            },
        };
        Ok(Self::command(options, command))
    }
}

impl TryFrom<CallArgs> for CommandRequest {
    type Error = CliError;

    fn try_from(CallArgs { tool, arguments: given, mut options }: CallArgs) -> Result<Self, CliError> {
        let arguments = arguments(&given)?;
        options.session = session_of_call(options.session, &arguments)?;
        let call = WantedCall { command: None, tool: Some(tool), arguments: Some(arguments) };
        Ok(Self { options, call, picture: None, starts_server: true })
    }
}

/// The session of a call whose arguments may name one, too. A `sessionId` that is not text is refused by the server.
fn session_of_call(option: Option<String>, arguments: &Raw) -> Result<Option<String>, CliError> {
    let fields = Fields::open(arguments).ok();
    let argument: Option<String> = fields.and_then(|fields| fields.read("sessionId").ok()?);
    match (option, argument) {
        (Some(option), Some(argument)) if option != argument => {
            Err(CliError::usage(format!("two sessions are named: `{option}` and `sessionId={argument}`"))
                .hint("leave out one of them"))
        }
        (option, argument) => Ok(option.or(argument)),
    }
}

/// The longest time to wait: a longer one is probably a mistake in the unit.
const WAIT_SECONDS_MAX: f64 = 600.0;

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is no number of seconds".to_owned())?;
    match (0.0..=WAIT_SECONDS_MAX).contains(&seconds) {
        true => Ok(seconds),
        false => Err(format!("it must be 0 to {WAIT_SECONDS_MAX} seconds")),
    }
}

/// A target without a leading `@`, with which other tools write refs. No selector begins with it.
fn target(given: &str) -> String {
    given.strip_prefix('@').unwrap_or(given).to_owned()
}

/// The schemes of addresses without a host; no `//` follows them. The server refuses most of them, by name. A host `file` may
/// have a port.
const SCHEMES_WITHOUT_HOST: [&str; 6] = ["about:", "data:", "blob:", "javascript:", "view-source:", "file:/"];

/// The address with its scheme.
fn url(given: &str) -> Result<String, CliError> {
    let given = given.trim();
    let is_scheme = |word: &str| word.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '-');
    let has_scheme = given.split_once("://").is_some_and(|(scheme, _)| is_scheme(scheme));
    let begins_with =
        |scheme: &str| given.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if has_scheme || SCHEMES_WITHOUT_HOST.iter().any(|scheme| begins_with(scheme)) {
        return Ok(given.to_owned());
    }
    if given.is_empty() || given.starts_with(['/', '.', '?', '#']) {
        return Err(CliError::usage(format!("`{given}` is no address"))
            .hint("give an address such as `example.com` or `http://localhost:8000/page`"));
    }
    let end = given.find(['/', '?', '#']).unwrap_or(given.len());
    let authority = &given[..end];
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let is_loopback = host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback());
    let is_local = is_loopback || host == "localhost" || host.ends_with(".localhost");
    Ok(format!("{}://{given}", if is_local { "http" } else { "https" }))
}

/// The fields of a form: pairs of the form TARGET=VALUE, or one TARGET and its VALUE.
fn fields(given: &[String]) -> Result<Vec<FieldInput>, CliError> {
    if let [name, value] = given
        && split_pair(name).is_none()
    {
        return Ok(vec![FieldInput { target: target(name), value: value.clone() }]);
    }
    let field = |pair: &String| {
        let (name, value) = split_pair(pair).ok_or_else(|| {
            CliError::usage(format!("`{pair}` has no value")).hint("write TARGET=VALUE, such as e5=Alice")
        })?;
        Ok(FieldInput { target: target(name), value: value.to_owned() })
    };
    given.iter().map(field).collect()
}

/// Splits at the first `=` that is not inside of a selector's brackets: `input[name=city]=London`.
fn split_pair(pair: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    for (index, character) in pair.char_indices() {
        match character {
            '[' | '(' => depth += 1,
            ']' | ')' => depth = depth.saturating_sub(1),
            '=' if depth == 0 && index > 0 => return Some((&pair[..index], &pair[index + 1..])),
            _ => {}
        }
    }
    None
}

/// The arguments of a tool: `key=value` each, or one JSON object.
fn arguments(given: &[String]) -> Result<Raw, CliError> {
    if let [json] = given
        && json.trim_start().starts_with('{')
    {
        return raw::parse(json.trim().to_owned()).map_err(|error| {
            CliError::usage(format!("the arguments are no JSON object: {error}"))
                .hint("put it into single quotes, so that the shell leaves it as it is")
        });
    }
    let mut arguments = Map::new();
    for pair in given {
        let (key, value) = pair.split_once('=').filter(|(key, _)| !key.is_empty()).ok_or_else(|| {
            CliError::usage(format!("`{pair}` is no argument"))
                .hint("write key=value, such as url=https://example.com, or one JSON object")
        })?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if arguments.insert(key.to_owned(), value).is_some() {
            return Err(CliError::usage(format!("`{key}` is given twice")));
        }
    }
    Ok(raw::encode(&arguments))
}

#[cfg(test)]
mod tests;
