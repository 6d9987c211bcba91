//! Attached browsers, driven by the devtools engine.
//!
//! The instance is greenroom's own connection to the browser; Node starts with a seat, of which there is one
//! at a time. The seat has tabs of its own, the first of which greenroom opens before it starts Node, and a
//! script in Node, `tab_guard.mjs`, lets the engine use no others. Tools that act on a page name it by an
//! argument, so no call reaches another tab unless the agent names that tab.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{
    BoxFuture, HealthCheckFailed, Instance, Lost, NoAgent, StartError, port::human, raw::encode,
};
use serde_json::json;
use tokio::time::timeout;

use super::{DevtoolsEngine, calls::DevtoolsCalls, command};
use crate::{
    EngineBase,
    browser_handle::BrowserHandle,
    cdp_proxy::{CdpProxy, EngineRules, SEND_WITHIN, Targets},
    endpoint::Endpoint,
    loss::Loss,
    observed_browser::ObservedBrowser,
    own_tabs,
    per_seat::{CallAdapter, EngineConnection, ProcessInstance, SeatBrowser, SeatProcessFactory},
    run_folder::{ScratchFolder, unwritable_error},
    seat_folder::SeatFolder,
    tool_answer::{ensure_success, first_text},
    upstream::Upstream,
};

/// How long the engine may take to connect to the browser. It usually takes a tenth of a second; it attaches to every tab
/// before it answers, so a single hanging tab delays it.
const CONNECT_WITHIN: Duration = Duration::from_secs(15);

/// The address of a seat's first tab, by which programs and people recognise it.
const FIRST_TAB_URL: &str = "about:blank#greenroom";

struct AttachedFactory {
    engine: DevtoolsEngine,
    browser: Arc<ObservedBrowser>,
    /// The folder with the list of the seat's own tabs, and with Node's configuration, which holds the
    /// browser's address.
    folder: ScratchFolder,
}

/// Attaches to a browser. Changes nothing in it until a seat opens.
pub(super) async fn start(
    engine: DevtoolsEngine,
    endpoint: Arc<Endpoint>,
) -> Result<Arc<dyn Instance>, StartError> {
    let folder = engine.run.new_folder("instances").map_err(|error| unwritable_error(&engine.run, &error))?;
    command::write_tab_guard(folder.path()).map_err(|error| unwritable_error(&engine.run, &error))?;
    let EngineBase { run, ports, .. } = &engine.0;
    let rules = EngineRules {
        targets: Targets::responsive(),
        downloads: None,
        context_ports: None,
        forgets_crashed_pages: false,
        send_within: SEND_WITHIN,
    };
    let (handle, observer) = BrowserHandle::attach(&endpoint, run, ports, rules).await?;
    let browser = Arc::new(ObservedBrowser::new(handle, observer, Loss::default()));
    ProcessInstance::start(Box::new(AttachedFactory { engine, browser, folder }), 1).await
}

impl AttachedFactory {
    fn cdp_proxy(&self) -> &Arc<CdpProxy> {
        &self.browser.handle().cdp_proxy
    }
}

impl SeatProcessFactory for AttachedFactory {
    fn is_process(&self) -> bool {
        false
    }

    fn browser<'a>(&'a self, _: &'a Path) -> BoxFuture<'a, Result<Option<SeatBrowser>, StartError>> {
        Box::pin(async move {
            let browser =
                SeatBrowser::in_attached_browser(self.browser.clone(), self.folder.path(), FIRST_TAB_URL)
                    .await?;
            Ok(Some(browser))
        })
    }

    fn connect<'a>(
        &'a self,
        folder: &'a Path,
        browser: Option<&'a SeatBrowser>,
    ) -> BoxFuture<'a, Result<EngineConnection, StartError>> {
        Box::pin(async move {
            let tab = browser.and_then(SeatBrowser::first_tab);
            let tab = tab.ok_or_else(|| StartError::new("there is no tab for the seat"))?;
            let spec = command::for_seat(&self.engine.options, folder)?;
            let spec = command::load_tab_guard(spec, &self.engine.options, self.folder.path(), tab)?;
            let spec = command::connect_to(spec, self.browser.handle().address());
            self.engine.start_node(spec).await.map(Into::into)
        })
    }

    /// The engine connects to the browser with its first call, and must then use the seat's own tab.
    fn prepare<'a>(&'a self, upstream: &'a Upstream) -> BoxFuture<'a, Result<(), StartError>> {
        Box::pin(async move {
            let list = encode(&json!({ "name": "list_pages", "arguments": {} }));
            let listed =
                timeout(CONNECT_WITHIN, upstream.call(&list, Arc::new(NoAgent))).await.map_err(|_| {
                    StartError::new(format!(
                        "the engine could not attach to the browser's tabs within {}",
                        human(CONNECT_WITHIN)
                    ))
                    .hint("a tab there may hang, or show a dialog that waits for an answer")
                })?;
            let body = listed.map_err(|gone| StartError::new(gone.to_string()))?;
            ensure_success(&body).map_err(|text| {
                let text = self.cdp_proxy().without_secret(text);
                StartError::new(format!("the engine cannot use the browser: {text}"))
            })?;
            let text = body.ok().and_then(|body| first_text(body.get())).unwrap_or_default();
            let is_first = |line: &str| line.ends_with("[selected]") && line.contains(FIRST_TAB_URL);
            match text.lines().any(is_first) {
                true => Ok(()),
                false => Err(StartError::new("the engine does not keep to a tab of its own")),
            }
        })
    }

    fn ended(&self) -> BoxFuture<'_, Lost> {
        let mut lost = self.browser.lost();
        Box::pin(async move {
            let why = lost.wait_for(Option::is_some).await.ok().and_then(|why| why.clone());
            why.unwrap_or(Lost::Shutdown)
        })
    }

    fn gone(&self) -> BoxFuture<'_, Option<Lost>> {
        Box::pin(self.browser.gone())
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        Box::pin(self.browser.ping())
    }

    fn silent(&self) -> Option<Arc<str>> {
        self.browser.silent()
    }

    fn folder(&self) -> Result<SeatFolder, StartError> {
        self.engine.seat_folder()
    }

    fn has_close(&self) -> Option<bool> {
        Some(false)
    }

    fn answers_ping_during_calls(&self) -> bool {
        true
    }

    fn stopped(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            own_tabs::close_remaining_tabs(self.browser.observer(), &self.engine.run, self.folder.path())
                .await;
            self.folder.clear().await;
        })
    }

    fn adapter(&self) -> Box<dyn CallAdapter> {
        let is_local = self.browser.observer().local_port().is_some();
        Box::new(DevtoolsCalls::new(self.engine.options.clone(), is_local))
    }
}
