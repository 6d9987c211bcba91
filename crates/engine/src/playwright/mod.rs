//! The playwright engine: Microsoft's `@playwright/mcp`, attached to a Chromium that greenroom started.
//!
//! With several slots one Node process serves all seats over HTTP on loopback, a context each; with one slot the
//! seat has a Node process of its own over stdio, so that code run in it reaches nobody else.

mod files;
mod instance;
mod seat;
mod settle;
mod text;

use std::{
    collections::BTreeSet,
    ffi::OsString,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use greenroom_core::{Agent, BoxFuture, Engine, Instance, InstanceId, StartError, Toolset};

use crate::{
    browser::{self, Places, Wanted},
    chromium::ChromiumSpec,
    install,
    launcher::{Launcher, Spec},
    node,
    ports::Ports,
    process::{Listen, Process},
    run_folder::RunFolder,
    upstream::{self, ToolsChanged},
};

use instance::PlaywrightInstance;

/// How long Node may take to end by itself once asked.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How Node keeps its memory. By itself it takes what suits a busy server: 16 MB for each half of the young objects,
/// four worker threads, and arenas of the allocator for them all. The engine mostly waits; with these it takes 26 MB
/// of 125 less at 12 sessions, and no more time even for a snapshot of 600 KB. Below 8 MB a half it does take more.
const NODE_FLAGS: [&str; 2] = ["--max-semi-space-size=8", "--v8-pool-size=1"];
const NODE_ARENAS: (&str, &str) = ("MALLOC_ARENA_MAX", "2");

/// What can be set about the engine and its browser.
#[derive(Debug, Clone)]
pub struct PlaywrightOptions {
    pub data_folder: PathBuf,
    pub node: Option<PathBuf>,
    pub places: Places,
    pub slots: usize,
    pub headless: bool,
    pub browser: Wanted,
    pub executable_path: Option<PathBuf>,
    pub no_sandbox: Option<bool>,
    pub viewport: (u32, u32),
    pub caps: Vec<String>,
    pub webmcp: bool,
    pub timeout_action: Option<Duration>,
    pub timeout_navigation: Option<Duration>,
    pub timeout_settle: Option<Duration>,
    pub user_agent: Option<String>,
    pub device: Option<String>,
    pub ignore_https_errors: bool,
}

/// The engine with all it needs to start instances. Cheap to clone.
#[derive(Clone)]
pub struct PlaywrightEngine {
    pub options: Arc<PlaywrightOptions>,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    /// The egress proxy that every browser goes through.
    pub proxy: SocketAddr,
    pub tools_changed: ToolsChanged,
}

impl PlaywrightEngine {
    /// `node cli.js` with the options of every use; nothing is started yet.
    fn command(&self) -> Result<Spec, StartError> {
        let options = &self.options;
        let cli = install::locate(&options.data_folder)?.cli;
        let node = node::locate(options.node.as_deref(), &options.places.search_path)?;
        let (width, height) = options.viewport;
        let (arenas, count) = NODE_ARENAS;
        let mut spec = Spec::new(node).few_variables().env(arenas, count).args(NODE_FLAGS).arg(cli);
        spec = spec.args(["--isolated", "--idle-timeout", "0"]);
        match &options.device {
            Some(device) => spec = spec.arg("--device").arg(device),
            None => spec = spec.arg("--viewport-size").arg(format!("{width}x{height}")),
        }
        for (flag, value) in [
            ("--timeout-action", options.timeout_action),
            ("--timeout-navigation", options.timeout_navigation),
        ] {
            if let Some(value) = value {
                spec = spec.arg(flag).arg(value.as_millis().to_string());
            }
        }
        if !options.caps.is_empty() {
            spec = spec.arg("--caps").arg(options.caps.join(","));
        }
        if let Some(user_agent) = &options.user_agent {
            spec = spec.arg("--user-agent").arg(user_agent);
        }
        if options.ignore_https_errors {
            spec = spec.arg("--ignore-https-errors");
        }
        if !options.webmcp {
            spec = spec.arg("--no-webmcp");
        }
        Ok(spec)
    }

    fn chromium(&self) -> Result<ChromiumSpec, StartError> {
        let options = &self.options;
        let explicit = options.executable_path.as_deref();
        let browser = browser::find(&options.places, options.headless, options.browser, explicit)?;
        Ok(ChromiumSpec {
            browser,
            headless: options.headless,
            no_sandbox: options.no_sandbox,
            window: options.viewport,
            proxy: self.proxy,
        })
    }

    /// Only page-made tools can change the list of an engine whose version and options are fixed; the engine
    /// announces a change with every new session, which says nothing.
    fn tools_changed(&self) -> Option<ToolsChanged> {
        self.options.webmcp.then(|| self.tools_changed.clone())
    }
}

impl Engine for PlaywrightEngine {
    fn fingerprint(&self) -> String {
        format!(
            "playwright {} caps={} webmcp={}",
            install::version(),
            self.options.caps.join(","),
            self.options.webmcp
        )
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        // `browser_annotate` starts a server of its own that outlives everything and drives any browser.
        BTreeSet::from(["browser_run_code_unsafe", "browser_annotate"])
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let spec = self.command()?.pipes();
            let (process, pipes, _) = start_node(&self.launcher, spec).await?;
            upstream::tools_of(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        let engine = self.clone();
        Box::pin(async move {
            let instance = PlaywrightInstance::start(engine).await?;
            Ok(Arc::new(instance) as Arc<dyn Instance>)
        })
    }

    /// This engine asks its client nothing, so it is the same for every agent.
    fn spare_suits(&self, _: &dyn Agent) -> bool {
        true
    }
}

/// Starts Node with pipes.
async fn start_node(
    launcher: &Launcher,
    spec: Spec,
) -> Result<(Process, crate::process::Pipes, tokio::sync::oneshot::Receiver<String>), StartError> {
    let node = spec.program.clone();
    let (process, pipes, ready) = Process::start(launcher, "playwright", spec, LISTEN)
        .await
        .map_err(|error| StartError::new(format!("cannot start Node: {error}: `{}`", node.display())))?;
    let pipes = pipes.ok_or_else(|| StartError::new("Node has no pipes"))?;
    Ok((process, pipes, ready))
}

const LISTEN: Listen = Listen { ready: listening, ..Listen::PLAIN };

/// The line that says where the engine listens.
fn listening(line: &str) -> Option<String> {
    line.strip_prefix("Listening on ").map(ToOwned::to_owned)
}

/// Where Node keeps what it writes by itself: in the instance's own folder, so that nothing is left elsewhere.
///
/// It makes a socket for each browser, whose path the system limits to 108 bytes; a data folder can be longer than
/// that. So the socket's folder is given relative to Node's working directory. And it keeps a list of browsers in
/// the user's home unless told where.
fn with_temp(spec: Spec, folder: &Path) -> Spec {
    spec.env("TMPDIR", OsString::from(folder))
        .env("PWTEST_SOCKETS_DIR", "s")
        .env("PWTEST_SERVER_REGISTRY", folder.join("registry"))
        .folder(folder)
}
