//! The playwright engine: Microsoft's `@playwright/mcp`, in a Chromium that greenroom started, or in an attached one
//! ([`crate::browser_handle`]).
//!
//! One Node process serves all seats over HTTP on loopback, with a context each. If agents may run code in Node, each seat
//! has a Node process of its own over stdio, so that such code reaches no other session. The engine itself starts Firefox,
//! WebKit, the user's own browser and browsers of Windows ([`engine_started_browser`]): one process, one seat, and no
//! observer.

mod annotate;
mod browser_command;
mod caps;
mod command;
mod console;
mod context;
mod emulation;
mod engine_started_browser;
mod file_links;
pub(crate) mod files;
mod format;
mod health_probe;
mod instance;
mod options;
mod own_tabs;
mod package;
mod preload;
mod reply;
mod seat;
mod selectors;
mod server;
mod settle;
mod shared_output_folder;
mod short_descriptions;
mod text;
mod tree;
mod unannounced_downloads;
mod window;

use std::{collections::BTreeSet, ffi::OsString, ops::Deref, path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Engine, EngineFormat, Instance, InstanceId, StartError, Toolset};

use crate::{
    EngineBase, EngineEntry,
    browser_handle::BrowserHandle,
    cdp_proxy::{EngineRules, SEND_WITHIN, Targets},
    context_ports::ContextPorts,
    downloads::Downloads,
    launcher::ProcessSpec,
    observer::Observer,
    process::StderrParser,
    tool_list::{self, ToolsChanged},
};

pub(crate) use annotate::PAGE_VIEW;
use format::PlaywrightFormat;
use instance::PlaywrightInstance;
pub use package::PLAYWRIGHT;

/// How long a Node process that served no seat may take to exit once asked: it was only asked for its tools, or its instance
/// did not start.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// How long a seat's own Node may take to exit; it may have a recording or a trace to write. It usually takes 300 ms.
const SEAT_STOP_GRACE: Duration = Duration::from_secs(2);

/// The tool that closes the context and leaves the session empty.
const CLOSE: &str = "browser_close";

/// The tool that shows Node's whole configuration.
const CONFIG: &str = "browser_get_config";

/// The name of its process.
const NAME: &str = "playwright";

pub(crate) static ENTRY: EngineEntry = EngineEntry {
    make: |base| Arc::new(PlaywrightEngine(base)),
    package: Some(&PLAYWRIGHT),
    page_tool: Some("browser_navigate"),
    check: options::check_files,
};

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct PlaywrightEngine(pub EngineBase);

impl Deref for PlaywrightEngine {
    type Target = EngineBase;

    fn deref(&self) -> &EngineBase {
        &self.0
    }
}

impl PlaywrightEngine {
    /// The engine's command for every use; starts nothing.
    fn command(&self) -> Result<ProcessSpec, StartError> {
        if self.options.engine_starts_browser() {
            command::starting_browser(&self.options, self.proxy)
        } else {
            command::for_chromium(&self.options)
        }
    }

    /// Starts or finds the browser, and observes it.
    async fn browser(
        &self,
        downloads: Option<Arc<Downloads>>,
        context_ports: Option<Arc<ContextPorts>>,
    ) -> Result<(BrowserHandle, Observer), StartError> {
        let rules = EngineRules {
            targets: self.targets(),
            downloads,
            context_ports: context_ports.clone(),
            forgets_crashed_pages: true,
            send_within: SEND_WITHIN,
        };
        match (&self.options.attach, &context_ports) {
            (Some(endpoint), _) => BrowserHandle::attach(endpoint, &self.run, &self.ports, rules).await,
            (None, None) => Err(StartError::new("a browser that greenroom starts needs an egress port")),
            (None, Some(context_ports)) => {
                let options = &self.options;
                let default_context =
                    (!options.pool.isolated).then(|| options.default_context_options()).transpose()?;
                let spec = self.chromium(context_ports, default_context)?;
                BrowserHandle::start(&self.launcher, &self.run, &self.ports, &spec, rules).await
            }
        }
    }

    /// The targets of a browser that the engine sees.
    fn targets(&self) -> Targets {
        match (self.options.pool.isolated, self.options.has_own_tabs()) {
            (true, _) => Targets::OwnContexts,
            (false, true) => Targets::responsive(),
            (false, false) => Targets::All,
        }
    }

    /// Counts the downloads of a browser, unless it is an attached one, whose user's downloads greenroom must not stop.
    fn downloads(&self) -> Option<Arc<Downloads>> {
        let counted = !self.options.has_own_tabs();
        counted.then(|| Arc::new(Downloads::new(self.options.disk_bytes_max())))
    }

    /// Only page-made tools can change the list of an engine whose version and options are fixed; without them,
    /// greenroom ignores the change that the engine announces with every new session.
    fn tools_changed(&self) -> Option<ToolsChanged> {
        self.options.settings.tools.webmcp.then(|| self.tools_changed.clone())
    }
}

impl Engine for PlaywrightEngine {
    fn fingerprint(&self) -> String {
        let caps: Vec<_> = self.options.pool.caps.iter().map(|cap| cap.as_str()).collect();
        format!(
            "playwright {} caps={} webmcp={}",
            PLAYWRIGHT.version(),
            caps.join(","),
            self.options.settings.tools.webmcp
        )
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        // `browser_annotate` starts a server of its own that outlives everything and drives any browser.
        BTreeSet::from(["browser_run_code_unsafe", "browser_annotate"])
    }

    fn missing_cap(&self, tool: &str) -> Option<&'static str> {
        let cap = caps::cap_of_tool(tool)?;
        self.options.pool.caps.iter().all(|own| own.as_str() != cap).then_some(cap)
    }

    fn format(&self) -> &'static dyn EngineFormat {
        &PlaywrightFormat
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let (process, pipes, _) = self.start_node(NAME, self.command()?, STDERR_PARSER).await?;
            tool_list::list_tools_and_stop(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        let engine = self.clone();
        Box::pin(async move {
            options::check(&engine.options)?;
            if engine.options.engine_starts_browser() {
                return engine_started_browser::start(engine).await;
            }
            Ok(Arc::new(PlaywrightInstance::start(engine).await?) as Arc<dyn Instance>)
        })
    }

    fn revive(&self) -> BoxFuture<'_, Result<bool, StartError>> {
        Box::pin(self.0.revive())
    }

    /// This engine asks its client nothing, so a spare suits every agent.
    fn spare_suits(&self, _: &dyn Agent) -> bool {
        true
    }
}

const STDERR_PARSER: StderrParser = StderrParser { ready: listening, ..StderrParser::DEFAULT };

/// The line with the address at which the engine listens.
fn listening(line: &str) -> Option<String> {
    line.strip_prefix("Listening on ").map(ToOwned::to_owned)
}

/// Where Node keeps its own files: in the instance's own folder, so that nothing is left elsewhere.
///
/// It makes a socket for each browser, whose path the system limits to 108 bytes; a data folder's path can be longer than
/// that. So the socket's folder is given relative to Node's working directory. It also keeps a list of browsers, by default
/// in the user's home.
fn with_temp(spec: ProcessSpec, folder: &Path) -> ProcessSpec {
    spec.env("TMPDIR", OsString::from(folder))
        .env("PWTEST_SOCKETS_DIR", "s")
        .env("PWTEST_SERVER_REGISTRY", folder.join("registry"))
        .folder(folder)
}
