//! The command line: the verbs, declared here; a flag for every setting, made from core's table; and the flags that name
//! browsers to attach to, whose order counts.

use std::{ffi::OsString, path::PathBuf};

use clap::{
    Arg, ArgAction, ArgMatches, Command, CommandFactory, FromArgMatches, Parser, Subcommand, error::ErrorKind,
};
use greenroom_core::settings::{
    BROWSER_URL, BrowserFlag, FlagShape, SETTINGS, Setting, Settings, WS_ENDPOINT,
};

use crate::verb;

/// Gives AI agents their own isolated browsers, over MCP.
#[derive(Debug, Parser)]
#[command(name = "greenroom", version, max_term_width = 100)]
pub struct Cli {
    /// Read this configuration file instead of ./greenroom.toml and ~/.config/greenroom/greenroom.toml [env: GREENROOM_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve one agent over stdin and stdout
    Mcp(verb::mcp::McpArgs),
    /// Serve many agents over HTTP until stopped
    Serve(verb::serve::ServeArgs),
    /// Install the pinned engines, or connect a client such as claude, cursor or codex
    Setup(verb::setup::SetupArgs),
    /// Check that this machine can run greenroom, and say how to fix what is wrong
    Doctor(verb::doctor::DoctorArgs),
    /// Open an address in a session's browser, which starts if there is none
    Open(verb::browser_command::OpenArgs),
    /// Show the page of a session, with the refs of its elements
    Snapshot(verb::browser_command::PlainArgs),
    /// Click an element
    Click(verb::browser_command::ClickArgs),
    /// Type a text into a field
    Type(verb::browser_command::TypeArgs),
    /// Fill in the fields of a form
    Fill(verb::browser_command::FillArgs),
    /// Press a key
    Press(verb::browser_command::PressArgs),
    /// Select options of a list
    Select(verb::browser_command::SelectArgs),
    /// Wait until the page shows a text, until a text is gone, or for a time
    Wait(verb::browser_command::WaitArgs),
    /// Evaluate JavaScript in the page
    Eval(verb::browser_command::EvalArgs),
    /// Write a picture of the page to a file
    Screenshot(verb::browser_command::ScreenshotArgs),
    /// List, open, close or select tabs
    Tabs(verb::browser_command::TabsArgs),
    /// Go back in the history of the tab
    Back(verb::browser_command::PlainArgs),
    /// Search the page for a text
    Find(verb::browser_command::FindArgs),
    /// Close a session and its browser
    Close(verb::browser_command::PlainArgs),
    /// Call any tool of the engine, or one of greenroom's own
    Call(verb::browser_command::CallArgs),
    /// Watch several agents shop in a local tea shop, each in its own browser
    Demo(verb::demo::DemoArgs),
    /// Show the greenroom processes that run, with their sessions and pools
    Status(verb::status::StatusArgs),
    /// List, show or close sessions
    #[command(alias = "session")]
    Sessions(verb::sessions::SessionsArgs),
    /// List, show, scale, restart or drain pools of browsers
    #[command(alias = "pools")]
    Pool(verb::pool::PoolArgs),
    /// List, connect, reconnect or disconnect browsers that already run
    #[command(alias = "browser")]
    Browsers(verb::browsers::BrowsersArgs),
    /// Show the recent log of running greenroom processes, or what happened in a session
    Logs(verb::logs::LogsArgs),
    /// Make, list, revoke or rotate the API keys of servers
    #[command(alias = "key")]
    Keys(verb::keys::KeysArgs),
    /// Count, clean up or export the records of calls
    #[command(subcommand)]
    Db(DbVerb),
    /// Copy the records, blobs and keys to a new folder, also while greenroom runs
    Backup(verb::backup::BackupArgs),
    /// Copy a backup into a data folder that has no records yet
    Restore(verb::backup::RestoreArgs),
    /// List the owners of records, give one owner's records to another, or remove all of an owner
    Owners(verb::owners::OwnersArgs),
    /// Show the configuration
    #[command(subcommand)]
    Config(ConfigVerb),
    /// Print the script by which a shell completes greenroom's commands
    Completions(verb::completions::CompletionsArgs),
    /// Print the manual page, or write all manual pages to a folder
    Man(verb::man::ManArgs),
}

#[derive(Debug, Subcommand)]
pub enum DbVerb {
    /// Print how many records and blobs there are, of which owners and since when
    Stats(verb::db::StatsArgs),
    /// Remove records and blobs over the limits, and shrink the database file
    Vacuum(verb::db::VacuumArgs),
    /// Print records as JSON, one object per line, oldest first
    Export(verb::db::ExportArgs),
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print every setting, its value and where the value comes from
    Show(verb::config::ShowArgs),
}

/// Settings whose flags also have a short name, for frequent use.
const SHORT_FLAGS: [(&str, &str); 2] = [("server.listen", "listen"), ("pool.engine", "engine")];

/// The flags of the command line.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags {
    /// Settings: key and value.
    pub settings: Vec<(&'static str, String)>,
    /// Browsers to attach to, in the order of the command line.
    pub browsers: Vec<BrowserFlag>,
}

impl Flags {
    /// The name of the first flag that the user gave, settings before browsers, without its dashes.
    pub fn first_flag_name(&self) -> Option<String> {
        let setting =
            self.settings.first().and_then(|(key, _)| SETTINGS.iter().find(|setting| setting.key == *key));
        let browser = || Some(self.browsers.first()?.flag.trim_start_matches('-').to_owned());
        setting.map(Setting::flag).or_else(browser)
    }
}

/// The verbs whose `--help` lists the settings. The other verbs take the same flags, and their help ends with
/// [`SETTINGS_NOTE`].
const SETTINGS_SHOWN: [&str; 3] = ["mcp", "serve", SETTINGS_TOPIC];

/// A topic of `greenroom help` that lists the settings. It is a hidden subcommand, since clap has no other topics.
const SETTINGS_TOPIC: &str = "settings";

/// What the help of every other verb says about the settings.
const SETTINGS_NOTE: &str = "Every setting is also a flag: see `greenroom help settings`.";

/// The command line as manual pages and completion scripts show it: settings are flags of the verbs that list them, and of
/// no others. A script with all settings at every verb would have a megabyte, which each new shell would read.
pub fn documented_command() -> Command {
    let defaults = displayed_defaults();
    // These tools know no short help, and would leave out what is hidden there.
    let plain = |flag: Arg| flag.global(false).hide(false).hide_short_help(false);
    let mut command = Cli::command().after_help(SETTINGS_NOTE);
    for verb in SETTINGS_SHOWN.into_iter().filter(|verb| *verb != SETTINGS_TOPIC) {
        let settings = with_flags().map(|setting| plain(flag(setting, &defaults)));
        let browsers = browser_args().map(plain);
        command = command.mut_subcommand(verb, |verb| verb.args(settings).args(browsers));
    }
    command
}

/// For display only; `data_dir`'s real default is resolved with the other sources.
fn displayed_defaults() -> Settings {
    Settings::defaults(PathBuf::from("the platform's data folder"))
}

/// Parses a command line into its verb and the settings it gives, as keys and values. The error is clap's: a mistake, or
/// a request for `--help` or `--version`.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<(Cli, Flags), clap::Error> {
    let mut command = command(&displayed_defaults());
    let matches = command.try_get_matches_from_mut(line)?;
    if matches.subcommand_name() == Some(SETTINGS_TOPIC) {
        let help = command.find_subcommand_mut(SETTINGS_TOPIC).map(Command::render_long_help);
        return Err(command.error(ErrorKind::DisplayHelp, help.unwrap_or_default().ansi()));
    }
    Ok((Cli::from_arg_matches(&matches)?, given_flags(&matches)))
}

/// The settings that a flag can set.
fn with_flags() -> impl Iterator<Item = &'static Setting> {
    SETTINGS.iter().filter(|setting| setting.shape() != FlagShape::None)
}

fn command(defaults: &Settings) -> Command {
    let flags = || with_flags().map(|setting| flag(setting, defaults));
    let topic = Command::new(SETTINGS_TOPIC)
        .about("Every setting, as a flag; each is also an environment variable and a key of greenroom.toml (docs/CONFIG.md)")
        .override_usage("greenroom <COMMAND> [SETTINGS]")
        .hide(true);
    let mut command = Cli::command().subcommand(topic).args(flags().map(|flag| flag.hide(true)));
    for verb in SETTINGS_SHOWN {
        // clap hands a global flag down only to verbs that have no flag of that name.
        command = command.mut_subcommand(verb, |verb| verb.args(flags()));
    }
    with_browser_flags(command, false)
}

/// The flags that name browsers, with their other spellings and their help.
const BROWSER_FLAGS: [(&str, &str, &str); 2] = [
    (
        BROWSER_URL,
        "browser-url",
        "Attach to the running browser whose debugger is at this address, such as `http://127.0.0.1:9222`; may be repeated. \
         `LABEL=URL` names the browser. `|` and a command say how `reconnect_browser` starts the browser if it does not \
         answer: a program and its arguments, run without a shell; `{url}` stands for the address. Only `[[browsers]]` in \
         the config file can set headers, because every user of a machine can read its command lines",
    ),
    (
        WS_ENDPOINT,
        "ws-endpoint",
        "The same with a WebSocket address, such as `ws://127.0.0.1:9222/devtools/browser/<id>`. Both flags may be mixed; \
         greenroom numbers the browsers in the order given, after those of the config file",
    ),
];

/// Adds the flags that name browsers to every verb separately: clap hands global flags down by replacing those before the
/// verb, and loses their order.
///
/// The help of the verbs in [`SETTINGS_SHOWN`] lists these flags too; the help of the others ends with
/// [`SETTINGS_NOTE`].
fn with_browser_flags(command: Command, shown: bool) -> Command {
    let args = browser_args().map(|arg| arg.hide(!shown));
    let command = if shown { command } else { command.after_help(SETTINGS_NOTE) };
    command.args(args).mut_subcommands(|verb| {
        let shown = shown || SETTINGS_SHOWN.contains(&verb.get_name());
        with_browser_flags(verb, shown)
    })
}

fn browser_args() -> [Arg; 2] {
    BROWSER_FLAGS.map(|(flag, alias, help)| {
        Arg::new(flag)
            .long(flag.trim_start_matches('-'))
            .alias(alias)
            .value_name("[LABEL=]URL[|COMMAND]")
            .action(ArgAction::Append)
            .help_heading("Browsers")
            .hide_short_help(true)
            .help(help)
    })
}

fn flag(setting: &Setting, defaults: &Settings) -> Arg {
    let doc = setting.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let default = setting.show(defaults);
    let variables: Vec<_> =
        std::iter::once(setting.variable()).chain(setting.alias.map(str::to_owned)).collect();
    let short = SHORT_FLAGS.into_iter().find(|(key, _)| *key == setting.key).map(|(_, short)| short);
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .visible_aliases(short)
        .global(true)
        .help_heading("Settings")
        .hide_short_help(true)
        .help(format!("{doc} [default: {default}] [env: {}]", variables.join(", ")));
    match setting.shape() {
        // `--flag` or `--flag=false`: with a space, the next argument could be a verb.
        FlagShape::Switch => {
            arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        FlagShape::One(name) => arg.value_name(name),
        FlagShape::Many(name) => arg.value_name(name).action(ArgAction::Append),
        FlagShape::None => arg,
    }
}

/// The flags that the user gave. clap hands global flags down to the innermost verb, wherever they stand; the flags
/// that name browsers are not global, so each verb keeps its own.
fn given_flags(matches: &ArgMatches) -> Flags {
    let mut browsers = browser_flags(matches);
    let mut innermost = matches;
    while let Some((_, next)) = innermost.subcommand() {
        innermost = next;
        browsers.extend(browser_flags(next));
    }
    let settings = with_flags().filter_map(|setting| {
        let values: Vec<_> = innermost.get_many::<String>(setting.key)?.cloned().collect();
        Some((setting.key, values.join(",")))
    });
    Flags { settings: settings.collect(), browsers }
}

/// The browsers named between one verb and the next, in their order across both flags.
fn browser_flags(matches: &ArgMatches) -> Vec<BrowserFlag> {
    let flags_of = |flag: &'static str| {
        let values = matches.get_many::<String>(flag).into_iter().flatten().cloned();
        let positions = matches.indices_of(flag).into_iter().flatten();
        positions.zip(values).map(move |(position, value)| (position, BrowserFlag { flag, value }))
    };
    let mut all: Vec<_> = BROWSER_FLAGS.into_iter().flat_map(|(flag, ..)| flags_of(flag)).collect();
    all.sort_by_key(|(position, _)| *position);
    all.into_iter().map(|(_, browser)| browser).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Flags {
        parse(line.split(' ').map(OsString::from)).unwrap().1
    }

    /// clap accepts the flags that the table makes.
    #[test]
    fn clap_accepts_every_flag() {
        command(&Settings::defaults(PathBuf::new())).debug_assert();
        documented_command().debug_assert();
    }

    /// Browsers keep the order of the command line across both flags, all their spellings, and all verbs before them.
    #[test]
    fn browsers_are_read_in_order() {
        let line = "greenroom --wsEndpoint ws://a --browserUrl http://b config --browser-url http://c \
                    --ws-endpoint=ws://d show --browserUrl http://e --log info --wsEndpoint ws://f";
        let named: Vec<_> =
            flags(line).browsers.into_iter().map(|browser| (browser.flag, browser.value)).collect();
        let expected = [
            (WS_ENDPOINT, "ws://a"),
            (BROWSER_URL, "http://b"),
            (BROWSER_URL, "http://c"),
            (WS_ENDPOINT, "ws://d"),
            (BROWSER_URL, "http://e"),
            (WS_ENDPOINT, "ws://f"),
        ];
        assert_eq!(named, expected.map(|(flag, value)| (flag, value.to_owned())));
        let line = ["greenroom", "mcp", "--browserUrl", "http://a|x -y, z", "--engine", "devtools"];
        let given_flags = parse(line.map(OsString::from)).unwrap().1;
        assert_eq!(given_flags.browsers[0].value, "http://a|x -y, z");
        assert_eq!(given_flags.settings, [("pool.engine", "devtools".to_owned())]);
    }

    /// `first_flag_name` finds flags of settings and flags of browsers.
    #[test]
    fn first_flag_name_covers_settings_and_browsers() {
        assert_eq!(flags("greenroom mcp").first_flag_name(), None);
        assert_eq!(
            flags("greenroom mcp --wsEndpoint ws://a").first_flag_name().as_deref(),
            Some("wsEndpoint")
        );
        assert_eq!(
            flags("greenroom mcp --engine devtools").first_flag_name().as_deref(),
            Some("pool-engine")
        );
    }

    /// Flags are read before, between and after verbs; switches need no value; lists may be repeated.
    #[test]
    fn flags_are_read_anywhere() {
        assert_eq!(flags("greenroom mcp"), Flags::default());
        assert_eq!(
            flags(
                "greenroom --pool-headless=false config --log info show --tools-unsafe --tools-deny a --tools-deny b,c"
            )
            .settings,
            [
                ("log", "info".to_owned()),
                ("tools.deny", "a,b,c".to_owned()),
                ("tools.unsafe", "true".to_owned()),
                ("pool.headless", "false".to_owned()),
            ]
        );
    }
}
