//! `greenroom setup`: installs the configured pinned engines into the data folder and checks everything else that is
//! needed.
//!
//! With a client's name it connects that client instead, in `setup_client.rs`. Otherwise it goes on after a problem, so
//! that one run reports everything that is missing. Run again, it repeats nothing that is done.

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::Context;
use greenroom_core::{
    printable::printable_lines,
    settings::{Pool, Resolved},
};
use greenroom_engine::{
    browser::{self, Browser},
    install::{InstallProgress, InstalledEngine, Package},
    launcher::Launcher,
    node::{self, Node, NodeError},
    run_folder::make_private,
};
use greenroom_gateway::control::ProcessKind;
use serde_json::{Value, json};

use super::setup_client;
use crate::{
    app::App,
    args::Flags,
    client::ClientApp,
    config::ProcessEnv,
    packages, progress,
    report::{self, CliError},
};

#[derive(Debug, clap::Args)]
pub struct SetupArgs {
    /// Add greenroom to the MCP servers of this client, or its skill, after a confirmation
    pub client: Option<ClientApp>,

    #[command(flatten)]
    pub connect: setup_client::ClientArgs,

    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

impl SetupArgs {
    /// Refuses settings that would be lost; see [`setup_client::refuse_settings`].
    pub fn check(&self, config: bool, flags: &Flags) -> Result<(), CliError> {
        self.client.map_or(Ok(()), |client| setup_client::refuse_settings(client, config, flags))
    }
}

/// What was found, installed, or missing.
#[derive(Default)]
struct SetupOutcome {
    node: Option<Node>,
    /// The installed engines, by name.
    engines: Vec<(&'static str, InstalledEngine)>,
    browser: Option<Browser>,
    /// How many tools the engine has.
    tools: Option<usize>,
    /// Every engine is the user's own and needs nothing of greenroom's.
    custom: bool,
    problems: Vec<SetupProblem>,
}

struct SetupProblem {
    step: &'static str,
    message: String,
    hint: String,
}

impl SetupOutcome {
    /// Keeps a step's result, or its problem.
    fn record<T>(&mut self, step: &'static str, result: Result<T, (String, String)>) -> Option<T> {
        result.map_err(|(message, hint)| self.problems.push(SetupProblem { step, message, hint })).ok()
    }
}

pub async fn run(resolved: &Resolved, env: &ProcessEnv, args: &SetupArgs) -> anyhow::Result<ExitCode> {
    if let Some(client) = args.client {
        return setup_client::run(resolved, env, client, &args.connect, args.json);
    }
    let launcher = Launcher::start("setup").context("cannot start the launcher's thread")?;
    let packages = packages::required(&resolved.settings);
    let mut outcome = SetupOutcome { custom: packages.is_empty(), ..SetupOutcome::default() };
    let folder = make_private(&resolved.settings.data_dir).map_err(|error| {
        let path = resolved.settings.data_dir.display();
        (
            format!("cannot make the data folder: `{path}`: {error}"),
            "set `data_dir` to another folder".to_owned(),
        )
    });
    outcome.record("data-folder", folder);
    if !outcome.custom {
        let node = find_node(&launcher, resolved, env, &packages).await;
        let mut engines = Vec::new();
        for package in packages {
            let installed = install_engine(&launcher, resolved, env, package, node.as_ref()).await;
            engines.push((package.name, installed));
        }
        outcome.node = outcome.record("node", node.map_err(|error| (error.to_string(), error.hint())));
        for (name, installed) in engines {
            let installed = outcome.record("engine", installed);
            outcome.engines.extend(installed.map(|installed| (name, installed)));
        }
        if let Some(pool) = resolved.settings.default_pool().filter(|pool| pool.has_chromium()) {
            let browser = find_browser(pool, env);
            outcome.browser = outcome.record("browser", browser);
        }
    }
    if outcome.problems.is_empty() {
        let tools = progress::step("asking the engine for its tools", list_tools(resolved, env)).await;
        outcome.tools = outcome.record("tools", tools);
    }
    let text = if args.json { as_json(&outcome)? } else { printable_lines(&as_lines(&outcome)).into_owned() };
    io::stdout().lock().write_all(text.as_bytes())?;
    for (n, problem) in outcome.problems.iter().enumerate() {
        if n > 0 {
            progress::note("");
        }
        report::problem(&problem.message, Some(&problem.hint));
    }
    Ok(if outcome.problems.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn find_node(
    launcher: &Launcher,
    resolved: &Resolved,
    env: &ProcessEnv,
    packages: &[&Package],
) -> Result<Node, NodeError> {
    let named = resolved.settings.node.as_deref();
    let found = node::find(launcher, named, env.search_path());
    let node = progress::step("asking Node for its version", found).await?;
    packages.iter().try_for_each(|package| package.runs_on(&node))?;
    Ok(node)
}

/// Only an engine that is missing needs npm.
async fn install_engine(
    launcher: &Launcher,
    resolved: &Resolved,
    env: &ProcessEnv,
    package: &Package,
    node: Result<&Node, &NodeError>,
) -> Result<InstalledEngine, (String, String)> {
    let data_folder = &resolved.settings.data_dir;
    let missing = match package.locate(data_folder) {
        Ok(engine) => return Ok(InstalledEngine { engine, already: true }),
        Err(missing) => missing,
    };
    let Ok(node) = node else {
        return Err((missing.to_string(), "run `greenroom setup` again when Node is there".to_owned()));
    };
    let npm = node::npm(node, env.search_path()).map_err(|error| (error.to_string(), error.hint()))?;
    let mut on_progress = |at| match at {
        InstallProgress::Waiting => {
            progress::note("waiting for another greenroom that is installing the engine …");
        }
        InstallProgress::Downloading => {}
    };
    let what = format!("installing the {} engine {}", package.name, package.version());
    progress::step(&what, package.install(launcher, data_folder, &npm, &mut on_progress))
        .await
        .map_err(|error| (error.to_string(), error.hint()))
}

fn find_browser(pool: &Pool, env: &ProcessEnv) -> Result<Browser, (String, String)> {
    browser::find(&env.install_paths(), pool.headless, pool.browser.into(), pool.executable_path.as_deref())
        .map_err(|error| (error.to_string(), error.hint()))
}

/// Asks the engine for its tools and caches the list, so that the first agent does not wait for it.
async fn list_tools(resolved: &Resolved, env: &ProcessEnv) -> Result<usize, (String, String)> {
    let app = App::build(ProcessKind::Stdio, &resolved.settings, env)
        .await
        .map_err(|error| (format!("{error:#}"), "set `data_dir` to another folder".to_owned()))?;
    let listed = app.gateway.catalog.refresh().await;
    app.shut_down(std::future::ready(())).await;
    match listed {
        Ok(listed) => Ok(listed.iter().count()),
        Err(error) => Err((
            format!("cannot list the engine's tools: {error}"),
            error.hint.unwrap_or_else(|| "run `greenroom doctor`".to_owned()),
        )),
    }
}

fn as_lines(outcome: &SetupOutcome) -> String {
    let mut lines = String::new();
    let mut line = |what: &str, text: String| lines += &format!("{what:7}  {text}\n");
    if outcome.custom {
        line("engine", "custom: nothing to install".to_owned());
    }
    if let Some(Node { path, version }) = &outcome.node {
        line("node", format!("{version}: `{}`", path.display()));
    }
    for (name, InstalledEngine { engine, already }) in &outcome.engines {
        let when = if *already { "already installed" } else { "installed" };
        line("engine", format!("{name} {}, {when}: `{}`", engine.version, engine.cli.display()));
    }
    if let Some(Browser { path, kind }) = &outcome.browser {
        line("browser", format!("{kind}: `{}`", path.display()));
    }
    if let Some(tools) = outcome.tools {
        line("tools", format!("{tools}, known without starting the engine"));
    }
    lines
}

fn as_json(outcome: &SetupOutcome) -> serde_json::Result<String> {
    let problem = |problem: &SetupProblem| json!({"step": problem.step, "message": problem.message, "hint": problem.hint});
    let object = json!({
        "ok": outcome.problems.is_empty(),
        "node": outcome.node.as_ref().map(|node| json!({"version": node.version, "path": node.path})),
        "engines": engines_json(outcome),
        "browser": outcome.browser.as_ref().map(|browser| json!({
            "kind": browser.kind.to_string(),
            "path": browser.path,
        })),
        "tools": outcome.tools,
        "problems": outcome.problems.iter().map(problem).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&object)? + "\n")
}

fn engines_json(outcome: &SetupOutcome) -> Value {
    let engine = |(name, InstalledEngine { engine, already }): &(&str, InstalledEngine)| json!({ "kind": name, "version": engine.version, "path": engine.cli, "already": already });
    match outcome.custom {
        true => json!([{ "kind": "custom" }]),
        false => outcome.engines.iter().map(engine).collect(),
    }
}
