//! The devtools engine: Google's `chrome-devtools-mcp`, in a Chromium that greenroom started, or in an attached one
//! ([`attached_instance`]).
//!
//! It knows one browser and serves one client, so each seat has a Node process and a Chromium of its own, of which all
//! contexts are the seat's; see [`crate::per_seat`]. Its tools pass unchanged. Whatever it would send to others is off: usage
//! statistics, update checks, the addresses of pages.

mod attached_instance;
mod browser_command;
mod calls;
mod command;
mod console;
pub(crate) mod files;
mod format;
mod options;
mod package;
mod reply;
mod text;
mod tree;

use std::{collections::BTreeSet, ops::Deref, path::Path, sync::Arc, time::Duration};

use greenroom_core::{Agent, BoxFuture, Engine, EngineFormat, Instance, InstanceId, StartError, Toolset};

use crate::{
    EngineBase, EngineEntry,
    browser_handle::BrowserHandle,
    cdp_proxy::{EngineRules, SEND_WITHIN, Targets},
    downloads::Downloads,
    launcher::ProcessSpec,
    loss::Loss,
    observed_browser::ObservedBrowser,
    per_seat::{CallAdapter, EngineConnection, ProcessInstance, SeatBrowser, SeatProcessFactory},
    process::{Pipes, Process, StderrParser, StderrUse},
    seat_folder::SeatFolder,
    tool_list,
};

use calls::DevtoolsCalls;
use format::DevtoolsFormat;
pub use package::DEVTOOLS;

/// How long Node may take to exit when it was only asked for its tools.
const STOP_GRACE: Duration = Duration::from_millis(500);

/// The name of its process.
const NAME: &str = "devtools";

pub(crate) static ENTRY: EngineEntry = EngineEntry {
    make: |base| Arc::new(DevtoolsEngine(base)),
    package: Some(&DEVTOOLS),
    page_tool: Some("new_page"),
    check: |_| Ok(()),
};

/// The engine. Cheap to clone.
#[derive(Clone)]
pub struct DevtoolsEngine(pub EngineBase);

impl Deref for DevtoolsEngine {
    type Target = EngineBase;

    fn deref(&self) -> &EngineBase {
        &self.0
    }
}

impl DevtoolsEngine {
    async fn start_node(&self, spec: ProcessSpec) -> Result<(Process, Pipes), StartError> {
        let (process, pipes, _) = self.0.start_node(NAME, spec, STDERR_PARSER).await?;
        Ok((process, pipes))
    }
}

/// The engine prints warnings to its users at every start; these do not explain its end.
const STDERR_PARSER: StderrParser = StderrParser { classify, ..StderrParser::DEFAULT };

fn classify(line: &str, _: bool) -> StderrUse {
    const NOISE: [&str; 4] = [
        "chrome-devtools-mcp exposes content of the browser",
        "debug, and modify any data in the browser",
        "Avoid sharing sensitive or personal information",
        "turning off usage statistics.",
    ];
    let is_noise = line.is_empty() || NOISE.iter().any(|noise| line.starts_with(noise));
    if is_noise { StderrUse::LogOnly } else { StderrUse::ExplainsExit }
}

impl Engine for DevtoolsEngine {
    fn fingerprint(&self) -> String {
        format!("devtools {} optional pageId", DEVTOOLS.version())
    }

    /// None of the enabled tools runs code outside of pages, and they touch files in the session's folder only. Tools for
    /// extensions and installed apps, which could do more, are off.
    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn format(&self) -> &'static dyn EngineFormat {
        &DevtoolsFormat
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        Box::pin(async move {
            let (process, pipes) = self.start_node(command::without_browser(&self.options)?).await?;
            tool_list::list_tools_and_stop(process, pipes, STOP_GRACE).await
        })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async move {
            options::check(&self.options)?;
            // A missing program is reported before anything is started.
            command::without_browser(&self.options)?;
            match &self.options.attach {
                Some(endpoint) => attached_instance::start(self.clone(), endpoint.clone()).await,
                None => ProcessInstance::start(Box::new(self.clone()), self.options.pool.slots).await,
            }
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

impl SeatProcessFactory for DevtoolsEngine {
    fn browser<'a>(&'a self, folder: &'a Path) -> BoxFuture<'a, Result<Option<SeatBrowser>, StartError>> {
        Box::pin(async move {
            let context_ports = self.context_ports()?;
            let spec = self.chromium(&context_ports, Some(self.options.default_context_options()?))?;
            let downloads = folder.join(files::DOWNLOADS);
            let EngineBase { launcher, run, ports, .. } = &self.0;
            // The whole browser belongs to its seat.
            let rules = EngineRules {
                targets: Targets::All,
                downloads: None,
                context_ports: Some(context_ports.clone()),
                forgets_crashed_pages: false,
                send_within: SEND_WITHIN,
            };
            let (handle, observer) = BrowserHandle::start(launcher, run, ports, &spec, rules).await?;
            let browser = ObservedBrowser::new(handle, observer, Loss::default());
            let counted = Arc::new(Downloads::new(self.options.disk_bytes_max()));
            SeatBrowser::exclusive(browser, &spec, &downloads, counted, context_ports.port(&None))
                .await
                .map(Some)
        })
    }

    fn connect<'a>(
        &'a self,
        folder: &'a Path,
        browser: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<EngineConnection, StartError>> {
        Box::pin(async move {
            let browser = browser.ok_or_else(|| StartError::new("there is no browser to attach to"))?;
            let spec = command::connect_to(command::for_seat(&self.options, folder)?, browser.address());
            self.start_node(spec).await.map(Into::into)
        })
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        self.seat_folder()
    }

    /// greenroom ends the browser; the engine has no tool for that.
    fn has_close(&self) -> Option<bool> {
        Some(false)
    }

    fn answers_ping_during_calls(&self) -> bool {
        true
    }

    fn adapter(&self) -> Box<dyn CallAdapter> {
        Box::new(DevtoolsCalls::new(self.options.clone(), true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The engine's output at every start does not explain its end; its complaint about an old Node does.
    #[test]
    fn start_noise_does_not_explain_an_exit() {
        for (line, expected) in [
            (
                "Avoid sharing sensitive or personal information that you do not want to share.",
                StderrUse::LogOnly,
            ),
            (
                "ERROR: `chrome-devtools-mcp` does not support Node v20.1.0. Please upgrade.",
                StderrUse::ExplainsExit,
            ),
        ] {
            assert_eq!(classify(line, false), expected, "{line}");
        }
    }
}
