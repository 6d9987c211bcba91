//! The devtools engine: Google's `chrome-devtools-mcp`, attached to a Chromium that greenroom started, or to one that
//! somebody else did ([`attached`]).
//!
//! It knows one browser and serves one client, so each seat has a Node and a Chromium of its own, of which all contexts
//! are the seat's; see [`crate::stdio`]. Its tools pass as they are. What it would tell others is off: usage statistics,
//! update checks, the addresses of pages.

mod attached;
mod calls;
mod command;
mod console;
pub(crate) mod files;
mod format;
mod options;
mod shape;
mod text;
mod tree;

use std::{collections::BTreeSet, net::SocketAddr, path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Engine, EngineFormat, Instance, InstanceId, StartError, Toolset};

use crate::{
    browser,
    cdp_proxy::Targets,
    chromium::{ChromiumSpec, OwnContext},
    downloads::Downloads,
    driven::Driven,
    install::DEVTOOLS,
    launcher::{Launcher, Spec},
    loss::Loss,
    observed_browser::ObservedBrowser,
    ports::Ports,
    process::{Listen, Pipes, Process, Tells},
    run_folder::RunFolder,
    seat_folder::SeatFolder,
    stdio::{CallAdapter, Connection, Kind, Processes, SeatBrowser},
    tool_list::{self, ToolsChanged},
};

use calls::DevtoolsCalls;
use format::DevtoolsFormat;
pub use options::DevtoolsOptions;

/// How long Node may take to end by itself when it was only asked for its tools.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// The engine with all it needs to start instances. Cheap to clone.
#[derive(Clone)]
pub struct DevtoolsEngine {
    pub options: Arc<DevtoolsOptions>,
    pub launcher: Launcher,
    pub run: Arc<RunFolder>,
    pub ports: Ports,
    /// The egress proxy that every browser goes through.
    pub proxy: SocketAddr,
    pub tools_changed: ToolsChanged,
}

impl DevtoolsEngine {
    fn chromium(&self) -> Result<ChromiumSpec, StartError> {
        let options = &self.options;
        let explicit = options.executable_path.as_deref();
        let browser = browser::find(&options.places, options.headless, options.browser, explicit)?;
        let profile = match (options.isolated, &options.user_data_dir) {
            (true, _) => None,
            (false, Some(profile)) => Some(profile.clone()),
            (false, None) => {
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
            own: Some(OwnContext {
                profile,
                user_agent: options.user_agent.clone(),
                ignore_certificate_errors: options.ignore_https_errors,
            }),
            args: options.browser_args.clone(),
            storage_bytes_max: options.disk_bytes_max,
        })
    }

    async fn start_node(&self, spec: Spec) -> Result<(Process, Pipes), StartError> {
        let node = spec.program.clone();
        let (process, pipes, _) = Process::start(&self.launcher, "devtools", spec.pipes(), LISTEN)
            .await
            .map_err(|error| StartError::new(format!("cannot start Node: {error}: `{}`", node.display())))?;
        let pipes = pipes.ok_or_else(|| StartError::new("Node has no pipes"))?;
        Ok((process, pipes))
    }
}

/// The engine warns its users at every start, which explains no end of it.
const LISTEN: Listen = Listen { tells, ..Listen::PLAIN };

fn tells(line: &str, _: bool) -> Tells {
    const NOISE: [&str; 4] = [
        "chrome-devtools-mcp exposes content of the browser",
        "debug, and modify any data in the browser",
        "Avoid sharing sensitive or personal information",
        "turning off usage statistics.",
    ];
    let noise = line.is_empty() || NOISE.iter().any(|noise| line.starts_with(noise));
    if noise { Tells::LogOnly } else { Tells::LastWords }
}

impl Engine for DevtoolsEngine {
    fn fingerprint(&self) -> String {
        format!("devtools {} optional pageId", DEVTOOLS.version())
    }

    /// None of those that are on runs code outside of pages, and files they touch in the session's folder only. Those for
    /// extensions and installed apps, which could do more, are off.
    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn format(&self) -> &'static dyn EngineFormat {
        &DevtoolsFormat
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let (process, pipes) = self.start_node(command::plain(&self.options)?).await?;
            tool_list::tools_of(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async move {
            self.options.check()?;
            // Whatever is missing is named before anything is started.
            command::plain(&self.options)?;
            match &self.options.attach {
                Some(endpoint) => attached::start(self.clone(), endpoint.clone()).await,
                None => Processes::start(Box::new(self.clone()), self.options.slots).await,
            }
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

impl Kind for DevtoolsEngine {
    fn browser<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Result<Option<SeatBrowser>, StartError>> {
        Box::pin(async move {
            let (spec, downloads) = (self.chromium()?, folder.join(files::DOWNLOADS));
            let Self { launcher, run, ports, .. } = self;
            // All of the browser is its seat's.
            let driven = Driven::start(launcher, run, ports, &spec, Targets::All, None).await?;
            let browser = ObservedBrowser::new(driven, Loss::default());
            let counted = Arc::new(Downloads::new(self.options.disk_bytes_max));
            SeatBrowser::whole(browser, &spec, &downloads, counted).await.map(Some)
        })
    }

    fn connect<'a>(
        &'a self,
        folder: &'a Path,
        browser: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<Connection, StartError>> {
        Box::pin(async move {
            let browser = browser.ok_or_else(|| StartError::new("there is no browser to attach to"))?;
            let spec = command::attach(command::attached(&self.options, folder)?, browser.address());
            self.start_node(spec).await.map(Into::into)
        })
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        SeatFolder::make(&self.run, self.options.output_dir.as_deref())
    }

    /// Its browser is greenroom's to end.
    fn has_close(&self) -> Option<bool> {
        Some(false)
    }

    fn answers_beside_calls(&self) -> bool {
        true
    }

    fn adapter(&self) -> Box<dyn CallAdapter> {
        Box::new(DevtoolsCalls::new(self.options.clone(), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the engine says at every start is no explanation of its end; what it says of a Node that is too old is.
    #[test]
    fn noise() {
        for (line, told) in [
            (
                "Avoid sharing sensitive or personal information that you do not want to share.",
                Tells::LogOnly,
            ),
            ("ERROR: `chrome-devtools-mcp` does not support Node v20.1.0. Please upgrade.", Tells::LastWords),
        ] {
            assert_eq!(tells(line, false), told, "{line}");
        }
    }
}
