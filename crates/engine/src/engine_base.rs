//! What every engine is made with: its settings, and what it needs to start processes and reach browsers.
//!
//! Adapters read settings here by their names in `core/src/settings/table.rs`, so no code between has to pass
//! a new setting on.

use std::{net::SocketAddr, path::PathBuf, sync::Arc};

use greenroom_core::{
    StartError,
    port::Egress,
    settings::{Pool, Settings},
};
use tokio::sync::oneshot;

use crate::{
    browser::{self, BrowserChoice, InstallPaths},
    browser_limits::BrowserLimits,
    chromium::{ChromiumSpec, DefaultContextOptions},
    context_ports::ContextPorts,
    endpoint::Endpoint,
    install::Package,
    launcher::{Launcher, ProcessSpec},
    node,
    ports::Ports,
    process::{Pipes, Process, StderrParser},
    run_folder::RunFolder,
    seat_folder::SeatFolder,
    tool_list::ToolsChanged,
};

/// The configuration of an engine of one pool, instance or attached browser.
#[derive(Debug, Clone)]
pub struct EngineOptions {
    /// All settings, for code that reads settings which belong to no pool.
    pub settings: Arc<Settings>,
    /// The settings of its pool or instance.
    pub pool: Pool,
    /// Where browsers and Node are looked for.
    pub install_paths: InstallPaths,
    /// The browser to attach to, if any. greenroom then starts none, and settings for a start have no effect.
    pub attach: Option<Arc<Endpoint>>,
    /// This instance's persistent profile. Required if sessions are not isolated and greenroom starts the browser.
    pub profile: Option<PathBuf>,
}

impl EngineOptions {
    /// The options of an instance with one slot and no configuration: an isolated, headless Chromium.
    pub fn new(data_folder: PathBuf, install_paths: InstallPaths) -> Self {
        let settings = Arc::new(Settings::defaults(data_folder));
        let pool = Pool { slots: 1, ..settings.pool.clone() };
        Self { settings, pool, install_paths, attach: None, profile: None }
    }

    /// Changes settings for this engine alone.
    pub fn settings_mut(&mut self) -> &mut Settings {
        Arc::make_mut(&mut self.settings)
    }

    /// Whether seats share a context with the browser's user, and keep to tabs of their own there.
    pub(crate) fn has_own_tabs(&self) -> bool {
        self.attach.is_some() && !self.pool.isolated
    }

    /// Whether the engine starts, or finds, the browser itself. greenroom then cannot observe it.
    pub(crate) fn engine_starts_browser(&self) -> bool {
        !self.pool.has_chromium()
    }

    /// How much disk space the files of a seat may take, and pages' storage in a profile on disk.
    pub(crate) fn disk_bytes_max(&self) -> u64 {
        self.settings.sessions.disk_bytes_max
    }

    /// `node cli.js` of a pinned engine.
    pub(crate) fn node(&self, package: &Package) -> Result<ProcessSpec, StartError> {
        let cli = package.locate(&self.settings.data_dir)?.cli;
        let node = node::locate(self.settings.node.as_deref(), &self.install_paths.search_path)?;
        Ok(node::engine_command(node, cli))
    }

    /// The browser's default context.
    pub(crate) fn default_context_options(&self) -> Result<DefaultContextOptions, StartError> {
        if !self.pool.isolated && self.profile.is_none() {
            return Err(StartError::new("a browser whose profile is kept needs a folder for it")
                .hint("set `user_data_dir`, or `isolated` to true"));
        }
        Ok(DefaultContextOptions {
            profile: self.profile.clone().filter(|_| !self.pool.isolated),
            user_agent: self.pool.user_agent.clone(),
            ignore_certificate_errors: self.pool.ignore_https_errors,
        })
    }
}

/// All that an engine needs to start instances. Cheap to clone.
#[derive(Clone)]
pub struct EngineBase {
    pub options: Arc<EngineOptions>,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    /// The port of the egress proxy for browsers that an engine starts.
    pub proxy: SocketAddr,
    /// Opens the ports of the egress proxy for browsers that greenroom starts.
    pub egress: Arc<dyn Egress>,
    pub tools_changed: ToolsChanged,
}

impl EngineBase {
    /// Opens the egress ports of a browser that greenroom is about to start.
    pub(crate) fn context_ports(&self) -> Result<Arc<ContextPorts>, StartError> {
        ContextPorts::new(self.egress.clone(), &self.ports).map(Arc::new)
    }

    /// How greenroom starts its Chromium, which goes through these ports. `default_context` has the options of the default
    /// context, if sessions use that context.
    pub(crate) fn chromium(
        &self,
        context_ports: &ContextPorts,
        default_context: Option<DefaultContextOptions>,
    ) -> Result<ChromiumSpec, StartError> {
        let EngineOptions { pool, install_paths, .. } = &*self.options;
        let explicit = pool.executable_path.as_deref();
        Ok(ChromiumSpec {
            browser: browser::find(
                install_paths,
                pool.headless,
                BrowserChoice::from(pool.browser),
                explicit,
            )?,
            headless: pool.headless,
            no_sandbox: pool.no_sandbox,
            window: (pool.viewport_size.width, pool.viewport_size.height),
            proxy: context_ports.browser_address(),
            default_context,
            args: pool.browser_args.clone(),
            storage_bytes_max: self.options.disk_bytes_max(),
            limits: BrowserLimits::of(pool),
        })
    }

    /// Starts Node with pipes. `parser` knows the line by which it reports that it is ready.
    pub(crate) async fn start_node(
        &self,
        name: &'static str,
        spec: ProcessSpec,
        parser: StderrParser,
    ) -> Result<(Process, Pipes, oneshot::Receiver<String>), StartError> {
        let node = spec.program.clone();
        let (process, pipes, ready) = Process::start(&self.launcher, name, spec.pipes(), parser)
            .await
            .map_err(|error| StartError::new(format!("cannot start Node: {error}: `{}`", node.display())))?;
        let pipes = pipes.ok_or_else(|| StartError::new("Node has no pipes"))?;
        Ok((process, pipes, ready))
    }

    /// A folder for a seat.
    pub(crate) fn seat_folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.run, self.options.pool.output_dir.as_deref())
    }

    /// Starts the attached browser again, if its operator gave a command for that.
    pub(crate) async fn revive(&self) -> Result<bool, StartError> {
        match &self.options.attach {
            Some(endpoint) => endpoint.revive(&self.launcher, &self.run).await,
            None => Ok(false),
        }
    }
}
