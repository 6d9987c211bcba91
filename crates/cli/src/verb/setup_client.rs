//! `greenroom setup CLIENT`: adds greenroom to a client's MCP servers, after showing the change and asking. With `--skill` it
//! writes greenroom's skill instead, in `setup_skill.rs`.
//!
//! Without a terminal it writes nothing unless `--yes` is given. Settings reach the entry only after `--`, where they are
//! clearly the client's; before it they would be lost, and are refused.

use std::{
    ffi::OsString,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::Context;
use greenroom_core::{
    printable::printable_lines,
    settings::{CONFIG_VARIABLE, Resolved, SETTINGS, is_ours},
};
use serde_json::json;

use super::{confirm, setup_skill};
use crate::{
    args::{self, Flags},
    client::{ClientApp, ClientTransport, EntryScope, MergeOutcome, ServerEntry, diff, file::File},
    config::{ConfigSources, ProcessEnv},
    packages, progress,
    report::CliError,
};

#[derive(Debug, clap::Args)]
pub struct ClientArgs {
    /// Print the entry and write nothing
    #[arg(long, requires = "client", conflicts_with = "yes")]
    pub print: bool,

    /// Write without asking
    #[arg(long, short, requires = "client")]
    pub yes: bool,

    /// Change the client's file for the project in this folder, instead of your own for all projects
    #[arg(long, requires = "client")]
    pub project: bool,

    /// Let the client connect to `greenroom serve` at this URL, instead of starting `greenroom mcp`
    #[arg(long, requires = "client", conflicts_with = "mcp_args")]
    pub url: Option<String>,

    /// Write greenroom's skill, which teaches the client's agents its shell commands, instead of an MCP server
    #[arg(long, requires = "client", conflicts_with_all = ["url", "mcp_args"])]
    pub skill: bool,

    /// After `--`: flags for the `greenroom mcp` that the client starts
    #[arg(last = true, requires = "client", value_name = "FLAG")]
    pub mcp_args: Vec<String>,
}

/// How the command ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ClientSetupOutcome {
    Added,
    Replaced,
    Already,
    Printed,
    /// The user said no.
    Declined,
}

impl ClientSetupOutcome {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Replaced => "replaced",
            Self::Already => "already",
            Self::Printed => "printed",
            Self::Declined => "declined",
        }
    }
}

/// Which client to connect, and how.
struct ClientSetup {
    client: ClientApp,
    scope: EntryScope,
    entry: ServerEntry,
    path: PathBuf,
    /// What the user must do first, before the client can use greenroom.
    needs: Option<&'static str>,
}

pub fn run(
    resolved: &Resolved,
    env: &ProcessEnv,
    client: ClientApp,
    args: &ClientArgs,
    as_json: bool,
) -> anyhow::Result<ExitCode> {
    let client = client.in_use(env);
    let scope = if args.project { EntryScope::Project } else { EntryScope::User };
    if args.skill {
        return setup_skill::run(env, client, scope, args, as_json);
    }
    if args.project && !client.has_project_file() {
        return Err(CliError::usage(format!("{} reads no file of a project", client.name()))
            .hint("leave --project out: the entry then counts in all projects")
            .into());
    }
    let path = client.file(env, scope).ok_or_else(|| {
        CliError::usage("there is no home folder to look for the client's file in")
            .hint("set HOME, or give --project")
    })?;
    let mut entry = client.entry(&server(env, args)?);
    if args.url.is_none() {
        let EnvSettings { variables, withheld } = settings_from_env(env);
        if !variables.is_empty() {
            entry.insert(client.env_key().to_owned(), variables.into());
        }
        for name in withheld {
            progress::note(&format!(
                "note: {name} is not written, as it may hold a password; the client's greenroom does not have it unless your greenroom.toml does"
            ));
        }
    }
    let needs = if args.url.is_some() {
        Some("see that `greenroom serve` runs there")
    } else {
        engine_is_missing(resolved).then_some("run `greenroom setup`, which installs the engine")
    };
    let setup = ClientSetup { client, scope, entry, path, needs };
    let outcome = if args.print { ClientSetupOutcome::Printed } else { write(&setup, args.yes)? };
    let text = if as_json {
        to_json(&setup, outcome)?
    } else {
        printable_lines(&to_lines(&setup, outcome)).into_owned()
    };
    io::stdout().lock().write_all(text.as_bytes())?;
    if args.print && !as_json {
        progress::note(&format!("this belongs in `{}`", setup.path.display()));
    }
    Ok(if outcome == ClientSetupOutcome::Declined { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Refuses settings on this command line: they would apply to this run, which does not use them, and not to the client's.
pub fn refuse_settings(client: ClientApp, config: bool, flags: &Flags) -> Result<(), CliError> {
    let flag = match flags.first_flag_name() {
        Some(flag) => flag,
        None if config => "config".to_owned(),
        None => return Ok(()),
    };
    Err(CliError::usage(format!("`--{flag}` would not reach the client")).hint(format!(
        "put it after `--`: `greenroom setup {} -- --{flag} …`; or set it in your greenroom.toml",
        client.cli_name()
    )))
}

/// Settings in the environment, which the client's greenroom would otherwise lack.
struct EnvSettings {
    variables: ServerEntry,
    /// Names of variables that are not written to a file, since they may hold a secret.
    withheld: Vec<String>,
}

fn settings_from_env(env: &ProcessEnv) -> EnvSettings {
    let mut settings = EnvSettings { variables: ServerEntry::new(), withheld: Vec::new() };
    let is_setting = |name: &str| {
        name == CONFIG_VARIABLE
            || (name.starts_with("PW_MCP_PROXY_") && is_ours(name))
            || SETTINGS.iter().any(|setting| setting.variable() == name)
    };
    let own_variables = env
        .variables
        .iter()
        .filter_map(|(name, value)| Some((name.to_str().filter(|name| is_setting(name))?, value.to_str()?)));
    for (name, value) in own_variables {
        if may_be_secret(value) {
            settings.withheld.push(name.to_owned());
        } else {
            settings.variables.insert(name.to_owned(), value.into());
        }
    }
    // A fixed order, whatever the environment's is.
    settings.variables.sort_keys();
    settings.withheld.sort();
    settings
}

/// Whether a value has a user and a password in an address, or names a credential.
fn may_be_secret(value: &str) -> bool {
    let lower = value.to_lowercase();
    let has_login =
        value.split("://").skip(1).any(|rest| rest.split('/').next().is_some_and(|host| host.contains('@')));
    has_login
        || ["password", "token", "secret", "api_key", "apikey", "authorization"]
            .iter()
            .any(|word| lower.contains(word))
}

fn engine_is_missing(resolved: &Resolved) -> bool {
    let settings = &resolved.settings;
    packages::required(settings).iter().any(|package| package.locate(&settings.data_dir).is_err())
}

fn server(env: &ProcessEnv, args: &ClientArgs) -> anyhow::Result<ClientTransport> {
    if let Some(url) = &args.url {
        return Ok(ClientTransport::Url(checked_url(url)?));
    }
    check_flags(env, &args.mcp_args)?;
    let program = std::env::current_exe().context("cannot tell where this program lies")?;
    let program = program.into_os_string().into_string().map_err(|path| {
        CliError::failure(format!("this program's path is not UTF-8: `{}`", path.display()))
            .hint("move it to a folder with a plain name")
    })?;
    let args = std::iter::once("mcp".to_owned()).chain(args.mcp_args.iter().cloned()).collect();
    Ok(ClientTransport::Command { program, args })
}

/// Checks the flags: a mistake would otherwise show only in the client, as a server that does not start.
fn check_flags(env: &ProcessEnv, flags: &[String]) -> anyhow::Result<()> {
    let line = ["greenroom", "mcp"].into_iter().map(OsString::from).chain(flags.iter().map(OsString::from));
    let parsed = args::parse(line).map_err(|stop| {
        let message = stop.to_string();
        let first = message.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned();
        CliError::usage(format!("`greenroom mcp` would not take these flags: {first}"))
            .hint("see `greenroom mcp --help`")
    });
    let (cli, flags) = parsed?;
    ConfigSources { env: env.clone(), config: cli.config, flags }.resolve()?;
    Ok(())
}

/// Refuses only an address that can never work; the client finds out whether a server listens there.
fn checked_url(url: &str) -> Result<String, CliError> {
    let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    let plain = !url.contains(|c: char| c.is_whitespace() || c.is_control());
    let parts = rest.filter(|_| plain).and_then(|rest| rest.split_once('/'));
    match parts {
        Some((host, path)) if !host.is_empty() && !path.is_empty() => Ok(url.to_owned()),
        _ => Err(CliError::usage(format!("this is not the address of an MCP server: `{url}`"))
            .hint("give all of it, as in `--url http://127.0.0.1:34501/mcp`")),
    }
}

/// Shows the change, asks, writes.
fn write(setup: &ClientSetup, yes: bool) -> anyhow::Result<ClientSetupOutcome> {
    let ClientSetup { client, scope, entry, path, .. } = setup;
    let file = File::read(path.clone())?;
    let shown = path.display();
    let merge = client.merge(file.text(), *scope, entry).map_err(|broken| {
        CliError::failure(format!("cannot read `{shown}`: {broken}")).hint("correct it; nothing was written")
    })?;
    let (text, replaced) = match merge {
        MergeOutcome::Same => return Ok(ClientSetupOutcome::Already),
        MergeOutcome::Changed { text, replaced } => (text, replaced),
        MergeOutcome::Refused(why) => {
            progress::note(&client.new_file_text(entry));
            return Err(CliError::failure(format!("cannot change `{shown}`: {why}"))
                .hint("put the lines above in by hand; nothing was written")
                .into());
        }
    };
    let new = if file.exists() { "" } else { ", a new file" };
    progress::note(&format!("{}: `{shown}`{new}\n", client.name()));
    progress::note(&diff::show(file.text(), &text));
    if *scope == EntryScope::Project && entry.contains_key("command") {
        progress::note("note: others may share this file, and the path is this machine's\n");
    }
    let question = if replaced { "Replace the entry?" } else { "Write this?" };
    if !yes && !confirm::ask(question, "the entry")? {
        return Ok(ClientSetupOutcome::Declined);
    }
    file.write(&text, *scope)?;
    Ok(if replaced { ClientSetupOutcome::Replaced } else { ClientSetupOutcome::Added })
}

fn to_lines(setup: &ClientSetup, outcome: ClientSetupOutcome) -> String {
    let ClientSetup { client, scope, entry, path, .. } = setup;
    let word = client.cli_name();
    let line = format!("{word:7}  {}: `{}`\n", outcome.as_str(), path.display());
    match outcome {
        ClientSetupOutcome::Printed => client.new_file_text(entry),
        ClientSetupOutcome::Declined => format!("{word:7}  nothing written\n"),
        ClientSetupOutcome::Already => format!("{word:7}  already there: `{}`\n", path.display()),
        ClientSetupOutcome::Added | ClientSetupOutcome::Replaced => {
            let next = client.next_step(*scope);
            let needs = setup.needs.map_or_else(String::new, |needs| format!("next     {needs}\n"));
            format!("{line}{needs}next     {next}\n")
        }
    }
}

fn to_json(setup: &ClientSetup, outcome: ClientSetupOutcome) -> serde_json::Result<String> {
    let object = json!({
        "client": setup.client.cli_name(),
        "file": setup.path,
        "outcome": outcome.as_str(),
        "entry": setup.entry,
    });
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An address needs a scheme, a host and a path.
    #[test]
    fn a_url_needs_scheme_host_and_path() {
        for url in ["http://127.0.0.1:34501/mcp", "https://gr.example/mcp?x=1"] {
            assert_eq!(checked_url(url).unwrap(), url);
        }
        for url in
            ["127.0.0.1:34501/mcp", "http://127.0.0.1:34501", "http://x/", "http:///mcp", "http://x/m cp", ""]
        {
            assert!(checked_url(url).is_err(), "{url}");
        }
    }
}
