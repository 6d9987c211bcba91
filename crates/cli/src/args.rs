//! The command line: the verbs, declared here, and a flag for every setting, made from core's table.

use std::{ffi::OsString, path::PathBuf};

use clap::{Arg, ArgAction, ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand};
use greenroom_core::settings::{SETTINGS, Setting, Settings, Shape};

use crate::verb;

/// Gives AI agents their own isolated browsers, over MCP.
#[derive(Debug, Parser)]
#[command(name = "greenroom", version, max_term_width = 100)]
pub struct Cli {
    /// The configuration file, instead of ./greenroom.toml and the user's own [env: GREENROOM_CONFIG]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Serve one agent over stdin and stdout
    Mcp(verb::mcp::Args),
    /// Serve many agents over HTTP, until stopped
    Serve(verb::serve::Args),
    /// Install the pinned engine, or connect a client: claude, cursor, vscode or codex
    Setup(verb::setup::Args),
    /// Check that everything is in place, and say how to fix what is not
    Doctor(verb::doctor::Args),
    /// Show what greenroom does: a tea shop on this machine, and agents that shop side by side
    Demo(verb::demo::Args),
    /// Show the greenrooms that run, their sessions and their pools
    Status(verb::status::Args),
    /// Look at sessions, or close one
    #[command(subcommand)]
    Sessions(SessionsVerb),
    /// Look at pools of browsers, or change one
    #[command(subcommand)]
    Pool(PoolVerb),
    /// Look at attached browsers, connect one again, attach one or let one go
    Browsers(verb::browsers::Args),
    /// Show what running greenrooms have logged lately, or what happened in a session
    Logs(verb::logs::Args),
    /// Look at the records of calls, make room, or take them out
    #[command(subcommand)]
    Db(DbVerb),
    /// Look at the configuration
    #[command(subcommand)]
    Config(ConfigVerb),
}

#[derive(Debug, Subcommand)]
pub enum DbVerb {
    /// Print how much is kept, of whom and since when
    Stats(verb::db::StatsArgs),
    /// Remove what is too old or too much, and make the database as small as it can be
    Vacuum(verb::db::VacuumArgs),
    /// Print records, one JSON object a line, oldest first
    Export(verb::db::ExportArgs),
}

#[derive(Debug, Subcommand)]
pub enum ConfigVerb {
    /// Print the settings in force and where each came from
    Show(verb::config::ShowArgs),
}

/// Settings whose flags have a short name too, which everybody uses.
const SHORT: [(&str, &str); 1] = [("server.listen", "listen")];

#[derive(Debug, Subcommand)]
pub enum SessionsVerb {
    /// List the sessions of every greenroom that runs
    List(verb::sessions::ListArgs),
    /// Print all that is known of a session
    Show(verb::sessions::WhichArgs),
    /// Close a session and free its browser; its agent is told with its next call
    Close(verb::sessions::WhichArgs),
}

#[derive(Debug, Subcommand)]
pub enum PoolVerb {
    /// List the pools of every greenroom that runs
    List(verb::pool::ListArgs),
    /// Print all that is known of a pool, and its instances
    Show(verb::pool::WhichArgs),
    /// Give a pool more instances, or fewer; no lease that is out is cut
    Scale(verb::pool::ScaleArgs),
    /// Start instances again: failed ones now, running ones when their leases are back
    Restart(verb::pool::InstanceArgs),
    /// Lend no more of instances, and stop them when their leases are back
    Drain(verb::pool::InstanceArgs),
}

/// Settings given as flags: key and value.
pub type Flags = Vec<(&'static str, String)>;

/// Parses a command line into its verb and the settings it gives, as keys and values. The error is clap's: a mistake, or
/// a wish for `--help` or `--version`.
pub fn parse(line: impl IntoIterator<Item = OsString>) -> Result<(Cli, Flags), clap::Error> {
    // Only shown; the real default of `data_dir` is found with the other sources.
    let defaults = Settings::defaults(PathBuf::from("the platform's data folder"));
    let command = Cli::command().args(SETTINGS.iter().map(|setting| flag(setting, &defaults)));
    let matches = command.try_get_matches_from(line)?;
    Ok((Cli::from_arg_matches(&matches)?, given(&matches)))
}

fn flag(setting: &Setting, defaults: &Settings) -> Arg {
    let doc = setting.doc.split_whitespace().collect::<Vec<_>>().join(" ");
    let default = setting.show(defaults);
    let variables: Vec<_> =
        std::iter::once(setting.variable()).chain(setting.alias.map(str::to_owned)).collect();
    let short = SHORT.into_iter().find(|(key, _)| *key == setting.key).map(|(_, short)| short);
    let arg = Arg::new(setting.key)
        .long(setting.flag())
        .visible_aliases(short)
        .global(true)
        .help_heading("Settings")
        .hide_short_help(true)
        .help(format!("{doc} [default: {default}] [env: {}]", variables.join(", ")));
    match setting.shape() {
        // `--flag` or `--flag=false`: with a space, the next argument could be a verb.
        Shape::Switch => {
            arg.value_name("BOOL").num_args(0..=1).require_equals(true).default_missing_value("true")
        }
        Shape::One(name) => arg.value_name(name),
        Shape::Many(name) => arg.value_name(name).action(ArgAction::Append),
    }
}

/// The settings that were given. clap hands global flags down to the innermost verb, wherever they stood.
fn given(matches: &ArgMatches) -> Flags {
    let mut innermost = matches;
    while let Some((_, next)) = innermost.subcommand() {
        innermost = next;
    }
    SETTINGS
        .iter()
        .filter_map(|setting| {
            let values: Vec<_> = innermost.get_many::<String>(setting.key)?.cloned().collect();
            Some((setting.key, values.join(",")))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(line: &str) -> Flags {
        parse(line.split(' ').map(OsString::from)).unwrap().1
    }

    /// clap finds no fault in the flags that the table makes.
    #[test]
    fn flags_are_sound() {
        let defaults = Settings::defaults(PathBuf::new());
        Cli::command().args(SETTINGS.iter().map(|setting| flag(setting, &defaults))).debug_assert();
    }

    /// Flags are read before, between and after verbs; switches need no value; lists may be repeated.
    #[test]
    fn flags_are_read_anywhere() {
        assert_eq!(flags("greenroom mcp"), []);
        assert_eq!(
            flags(
                "greenroom --pool-headless=false config --log info show --tools-unsafe --tools-deny a --tools-deny b,c"
            ),
            [
                ("log", "info".to_owned()),
                ("tools.deny", "a,b,c".to_owned()),
                ("tools.unsafe", "true".to_owned()),
                ("pool.headless", "false".to_owned()),
            ]
        );
    }
}
