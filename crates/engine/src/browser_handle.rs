//! The browser behind an instance or a seat: a Chromium that greenroom started, or an attached one.
//!
//! Both have a debugger and an observer. greenroom ends a browser that it started, and that browser's exit status explains
//! its end. Of an attached browser greenroom sees only that its debugger is gone, and never ends it.

use std::{sync::Arc, time::Duration};

use greenroom_cdp::Closed;
use greenroom_core::{Lost, StartError};
use tokio::time::timeout;

use crate::{
    cdp_proxy::{CdpProxy, Debugger, EngineRules},
    chromium::{Chromium, ChromiumSpec},
    endpoint::Endpoint,
    launcher::Launcher,
    observer::Observer,
    orphan_tabs,
    ports::{PortGuard, Ports},
    process::Process,
    run_folder::{RunFolder, unwritable_error},
};

/// How long a dying browser may take until its exit is seen. Its debugger's connection ends at the same moment; the
/// code that sees the connection end waits this long for the exit status, which explains more.
pub(crate) const BROWSER_EXIT_WITHIN: Duration = Duration::from_secs(2);

/// How long a browser whose start failed may take to exit once asked.
const STOP_GRACE: Duration = Duration::from_millis(500);

pub(crate) struct BrowserHandle {
    browser: BrowserSource,
    /// The proxy through which engines connect to the browser.
    pub(crate) cdp_proxy: Arc<CdpProxy>,
}

enum BrowserSource {
    Started(Chromium),
    Attached {
        endpoint: Arc<Endpoint>,
        /// Keeps greenroom's browsers from connecting to its debugger's port.
        _port: Option<PortGuard>,
    },
}

impl BrowserHandle {
    /// Starts a browser and observes it. `rules` say how the proxy serves its engine.
    pub(crate) async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        ports: &Ports,
        spec: &ChromiumSpec,
        rules: EngineRules,
    ) -> Result<(Self, Observer), StartError> {
        let chromium = Chromium::start(launcher, run, ports, spec).await?;
        let connected = async {
            let observer = Observer::connect(&chromium.endpoint, rules.context_ports.clone()).await?;
            let debugger = Debugger { address: chromium.endpoint.clone(), headers: Vec::new() };
            Ok((observer, CdpProxy::open(debugger, rules, ports).await?))
        };
        match connected.await {
            Ok((observer, cdp_proxy)) => Ok((
                Self { browser: BrowserSource::Started(chromium), cdp_proxy: Arc::new(cdp_proxy) },
                observer,
            )),
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                Err(error)
            }
        }
    }

    /// Finds a running browser and observes it. Removes what another greenroom left in it. Refuses an address with one
    /// of greenroom's own ports: a caller may use an address again much later, when one of greenroom's browsers has got
    /// that port.
    pub(crate) async fn attach(
        endpoint: &Arc<Endpoint>,
        run: &RunFolder,
        ports: &Ports,
        rules: EngineRules,
    ) -> Result<(Self, Observer), StartError> {
        // greenroom checks the port of the address before its first message, and below the port that it really
        // reached: a name may lead to another port.
        refuse_greenroom_port(endpoint, endpoint.local_port(), ports)?;
        let address = endpoint.reach().await?;
        let observer = Observer::attach(endpoint, &address).await?;
        refuse_greenroom_port(endpoint, observer.local_port(), ports)?;
        orphan_tabs::close_orphans(run, &observer).await;
        let port = observer.local_port().map(|port| ports.hold_attached(port)).transpose();
        let port = port.map_err(|error| unwritable_error(run, &error))?;
        let debugger = Debugger { address, headers: endpoint.sent_headers() };
        let cdp_proxy = Arc::new(CdpProxy::open(debugger, rules, ports).await?);
        let browser = BrowserSource::Attached { endpoint: endpoint.clone(), _port: port };
        Ok((Self { browser, cdp_proxy }, observer))
    }

    /// The WebSocket address at which an engine finds its debugger.
    pub(crate) fn address(&self) -> &str {
        self.cdp_proxy.address()
    }

    /// Resolves with why the browser is gone, or why its engine has lost it.
    pub(crate) async fn ended(&self, observer: &Observer) -> Lost {
        tokio::select! {
            biased;
            lost = self.browser_gone(observer) => lost,
            lost = self.engine_disconnected(observer) => lost,
        }
    }

    /// Resolves when an engine has lost its connection to the browser. If the browser is gone, the reason says so.
    async fn engine_disconnected(&self, observer: &Observer) -> Lost {
        self.cdp_proxy.connection_lost().await;
        match timeout(BROWSER_EXIT_WITHIN, self.browser_gone(observer)).await {
            Ok(lost) => lost,
            Err(_) => Lost::Protocol("the connection between engine and browser is broken".into()),
        }
    }

    async fn browser_gone(&self, observer: &Observer) -> Lost {
        match &self.browser {
            BrowserSource::Started(chromium) => {
                let browser = chromium.process();
                let exit = browser.wait();
                tokio::pin!(exit);
                let status = tokio::select! {
                    status = &mut exit => Ok(status),
                    why = observer.ended() => timeout(BROWSER_EXIT_WITHIN, exit).await.map_err(|_| why),
                };
                match status {
                    Ok(status) => Lost::Browser { status: status.into(), stderr_tail: Arc::default() },
                    Err(why) => loss_of_closed_connection(why)
                        .unwrap_or_else(|| Lost::Protocol("the browser's debugger is gone".into())),
                }
            }
            BrowserSource::Attached { endpoint, .. } => {
                let why = observer.ended().await;
                loss_of_closed_connection(why).unwrap_or_else(|| {
                    let status = format!("its debugger at {} is gone", endpoint.url_without_secrets());
                    Lost::Browser { status: status.into(), stderr_tail: Arc::default() }
                })
            }
        }
    }

    /// Declares a tab that greenroom has opened in it for an engine.
    pub(crate) fn declare_own_tab(&self, tab: &str) {
        self.cdp_proxy.declare_own_tab(tab);
    }

    /// Its process, if greenroom started it.
    pub(crate) fn process(&self) -> Option<&Process> {
        match &self.browser {
            BrowserSource::Started(chromium) => Some(chromium.process()),
            BrowserSource::Attached { .. } => None,
        }
    }

    /// How much memory all its processes may take, if that is set.
    pub(crate) fn memory_bytes_max(&self) -> Option<u64> {
        match &self.browser {
            BrowserSource::Started(chromium) => chromium.memory_bytes_max(),
            BrowserSource::Attached { .. } => None,
        }
    }

    /// Ends it, if greenroom started it.
    pub(crate) async fn stop(&self, grace: Duration) {
        if let BrowserSource::Started(chromium) = &self.browser {
            chromium.stop(grace).await;
        }
    }

    /// Whether this is an attached browser, which greenroom did not start.
    pub(crate) fn is_attached(&self) -> bool {
        matches!(self.browser, BrowserSource::Attached { .. })
    }
}

/// The loss of a running browser whose connection greenroom gives up because of its messages.
fn loss_of_closed_connection(why: Option<Closed>) -> Option<Lost> {
    match why? {
        why @ (Closed::Overflow | Closed::Protocol(_)) => {
            Some(Lost::HealthCheckFailed(why.to_string().into()))
        }
        Closed::ByBrowser | Closed::Broken(_) | Closed::Unused => None,
    }
}

fn refuse_greenroom_port(endpoint: &Endpoint, port: Option<u16>, ports: &Ports) -> Result<(), StartError> {
    match port.filter(|port| ports.is_greenroom_port(*port)) {
        None => Ok(()),
        Some(port) => {
            let url = endpoint.url_without_secrets();
            Err(StartError::new(format!("port {port} of this machine is greenroom's own now: `{url}`")).hint(
                "start the browser with another --remote-debugging-port, and correct this browser's address",
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If greenroom gives up a browser because of its messages, the reason does not say that its debugger is gone.
    #[test]
    fn connection_closed_by_greenroom_is_explained() {
        let loss_text = |why| loss_of_closed_connection(Some(why)).map(|lost| lost.to_string());
        assert_eq!(
            loss_text(Closed::Overflow).as_deref(),
            Some(
                "greenroom gave up the browser: it sends events faster than greenroom can read them: 4096 events or 268435456 bytes are waiting"
            )
        );
        assert!(loss_text(Closed::Protocol("no JSON".into())).unwrap().ends_with("protocol: no JSON"));
        assert_eq!((loss_text(Closed::ByBrowser), loss_of_closed_connection(None)), (None, None));
    }
}
