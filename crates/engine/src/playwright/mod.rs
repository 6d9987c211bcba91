//! The playwright engine: Microsoft's `@playwright/mcp`, attached to a Chromium that greenroom started, or to one that
//! runs already ([`crate::driven`]).
//!
//! One Node process serves all seats over HTTP on loopback, a context each; where agents may run code in it, each seat
//! has a Node of its own over stdio, so that such code reaches nobody else. Firefox, WebKit, the user's own browser and
//! browsers of Windows are started by their engine ([`launched`]): one process, one seat, and nothing to observe.

mod artifacts;
mod caps;
mod command;
mod console;
mod context;
mod emulation;
pub(crate) mod files;
mod format;
mod instance;
mod launched;
mod linked;
mod options;
mod own_tabs;
mod preload;
mod pulse;
mod seat;
mod selectors;
mod server;
mod settle;
mod shape;
mod text;
mod tree;
mod unannounced_downloads;
mod window;

use std::{collections::BTreeSet, ffi::OsString, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Engine, EngineFormat, Instance, InstanceId, StartError, Toolset};

use crate::{
    browser::{self, Wanted},
    cdp_proxy::Targets,
    chromium::{ChromiumSpec, OwnContext},
    downloads::Downloads,
    driven::Driven,
    install,
    launcher::{Launcher, Spec},
    observer::Observer,
    ports::Ports,
    process::{Listen, Process},
    run_folder::RunFolder,
    tool_list::{self, ToolsChanged},
};

pub use emulation::Emulation;
use format::PlaywrightFormat;
use instance::PlaywrightInstance;
pub use options::{PlaywrightBrowser, PlaywrightOptions, check_init_scripts, check_secrets};

/// How long a Node may take to end by itself once asked that has served nobody: one that was asked for its tools, or whose
/// instance did not start.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long a seat's own Node may take, which may have a recording or a trace to write. Usual are 300 ms.
const SEAT_STOP_GRACE: Duration = Duration::from_secs(2);

/// The tool that closes the context and leaves the session empty.
const CLOSE: &str = "browser_close";

/// The tool that shows all that Node was told.
const CONFIG: &str = "browser_get_config";

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
    /// The engine's command for every use; nothing is started yet.
    fn command(&self) -> Result<Spec, StartError> {
        if self.options.engine_starts_browser() {
            command::starting(&self.options, self.proxy)
        } else {
            command::attached(&self.options)
        }
    }

    /// Starts the browser, or finds it, and observes it.
    async fn browser(
        &self,
        wanted: Wanted,
        downloads: Option<Arc<Downloads>>,
    ) -> Result<(Driven, Observer), StartError> {
        let targets = self.targets();
        match &self.options.attach {
            Some(endpoint) => Driven::attach(endpoint, &self.run, &self.ports, targets, downloads).await,
            None => {
                let spec = self.chromium(wanted)?;
                Driven::start(&self.launcher, &self.run, &self.ports, &spec, targets, downloads).await
            }
        }
    }

    /// What of a browser the engine hears of.
    fn targets(&self) -> Targets {
        match (self.options.isolated, self.options.has_own_tabs()) {
            (true, _) => Targets::OwnContexts,
            (false, true) => Targets::responsive(),
            (false, false) => Targets::All,
        }
    }

    /// Counts the downloads of a browser, unless it is somebody else's, whose own downloads are not ours to stop.
    fn downloads(&self) -> Option<Arc<Downloads>> {
        let counted = !self.options.has_own_tabs();
        counted.then(|| Arc::new(Downloads::new(self.options.disk_bytes_max)))
    }

    fn chromium(&self, wanted: Wanted) -> Result<ChromiumSpec, StartError> {
        let options = &self.options;
        let explicit = options.executable_path.as_deref();
        let browser = browser::find(&options.places, options.headless, wanted, explicit)?;
        let own = match (&options.user_data_dir, options.isolated) {
            (_, true) => None,
            (Some(profile), false) => Some(OwnContext {
                profile: Some(profile.clone()),
                user_agent: options.user_agent.clone(),
                ignore_certificate_errors: options.ignore_https_errors,
            }),
            (None, false) => {
                return Err(StartError::new("a browser whose profile is kept needs a folder for it")
                    .hint("set `user_data_dir`, or `isolated` to true"));
            }
        };
        Ok(ChromiumSpec {
            browser,
            headless: options.headless,
            no_sandbox: options.no_sandbox,
            window: options.viewport,
            proxy: self.proxy,
            own,
            args: options.browser_args.clone(),
            storage_bytes_max: options.disk_bytes_max,
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
            install::PLAYWRIGHT.version(),
            self.options.caps.join(","),
            self.options.webmcp
        )
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        // `browser_annotate` starts a server of its own that outlives everything and drives any browser.
        BTreeSet::from(["browser_run_code_unsafe", "browser_annotate"])
    }

    fn missing_cap(&self, tool: &str) -> Option<&'static str> {
        let cap = caps::of_tool(tool)?;
        self.options.caps.iter().all(|own| own != cap).then_some(cap)
    }

    fn format(&self) -> &'static dyn EngineFormat {
        &PlaywrightFormat
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let spec = self.command()?.pipes();
            let (process, pipes, _) = start_node(&self.launcher, spec).await?;
            tool_list::tools_of(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        let engine = self.clone();
        Box::pin(async move {
            engine.options.check()?;
            let wanted = match engine.options.browser {
                PlaywrightBrowser::Chromium(wanted) if !engine.options.engine_starts_browser() => wanted,
                _ => return launched::start(engine).await,
            };
            let instance = PlaywrightInstance::start(engine, wanted).await?;
            Ok(Arc::new(instance) as Arc<dyn Instance>)
        })
    }

    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(async move {
            match &self.options.attach {
                Some(endpoint) => endpoint.revive(&self.launcher, &self.run).await,
                None => Ok(false),
            }
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
