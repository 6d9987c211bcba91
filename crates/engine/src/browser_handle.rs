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
    Started(Box<Chromium>),
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
        let chromium = Chromium::start(launcher, run, spec).await?;
        let connected = async {
            let observer = Observer::connect(chromium.debugger(), rules.context_ports.clone()).await?;
            if let Some(cgroup) = chromium.cgroup() {
                observer.ask_cgroup(cgroup.clone());
            }
            chromium.check_limits().await?;
            let debugger = Debugger::Pipe(chromium.debugger().clone());
            Ok((observer, CdpProxy::open(debugger, rules, ports).await?))
        };
        match connected.await {
            Ok((observer, cdp_proxy)) => Ok((
                Self { browser: BrowserSource::Started(Box::new(chromium)), cdp_proxy: Arc::new(cdp_proxy) },
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
        let debugger = Debugger::WebSocket { address, headers: endpoint.sent_headers() };
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
                    Ok(status) => {
                        let lost = Lost::Browser { status: status.into(), stderr_tail: Arc::default() };
                        chromium.explain(lost)
                    }
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
        self.started().map(Chromium::process)
    }

    /// The browser, if greenroom started it.
    pub(crate) fn started(&self) -> Option<&Chromium> {
        match &self.browser {
            BrowserSource::Started(chromium) => Some(chromium),
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
    use std::{fs, net::SocketAddr};

    use serde_json::{Value, json};

    use super::*;
    use crate::{
        browser::{Browser, BrowserKind},
        cdp_proxy::Targets,
    };

    /// Both kinds of Chromium, each with the script in front of it.
    const BROWSERS: [(BrowserKind, &str, &str); 2] = [
        (
            BrowserKind::HeadlessShell,
            "/usr/lib/chromium/chromium-headless-shell",
            "/usr/bin/chromium-headless-shell",
        ),
        (BrowserKind::Chromium, "/usr/lib/chromium/chromium", "/usr/bin/chromium"),
    ];

    /// Past the proxy the browser itself refuses to load files, in every context of it.
    #[tokio::test]
    async fn browser_loads_no_local_files() {
        const SECRET: &str = "correct horse battery staple";
        for (kind, binary, _) in BROWSERS {
            let data = tempfile::tempdir().unwrap();
            let run = RunFolder::claim(data.path()).unwrap();
            let file = data.path().join("secret.txt");
            fs::write(&file, SECRET).unwrap();
            let launcher = Launcher::start(run.tag()).unwrap();
            let (handle, _observer) = start(&launcher, &run, kind, binary).await;
            let BrowserSource::Started(chromium) = &handle.browser else { panic!("it was not started") };
            let (client, _events) = chromium.debugger().client().await.unwrap();
            let ask = async |session: Option<&str>, method: &str, params: Value| -> Value {
                let answer = match session {
                    Some(session) => client.call_in(session, method, &params).await,
                    None => client.call(method, &params).await,
                };
                serde_json::from_str(answer.unwrap().get()).unwrap()
            };
            let made = ask(None, "Target.createBrowserContext", json!({})).await;
            for context in [Some(made["browserContextId"].clone()), None] {
                let mut target = json!({ "url": "about:blank" });
                if let Some(context) = context {
                    target["browserContextId"] = context;
                }
                let target = ask(None, "Target.createTarget", target).await;
                let params = json!({ "targetId": target["targetId"], "flatten": true });
                let attached = ask(None, "Target.attachToTarget", params).await;
                let session = attached["sessionId"].as_str();
                for scheme in ["file:", "view-source:file:"] {
                    let url = format!("{scheme}//{}", file.display());
                    let navigated = ask(session, "Page.navigate", json!({ "url": url })).await;
                    assert!(navigated["errorText"].is_string(), "{kind:?} {url}: {navigated}");
                    let script = json!({ "expression": "document.documentElement.outerHTML" });
                    let shown = ask(session, "Runtime.evaluate", script).await;
                    assert!(!shown.to_string().contains(SECRET), "{kind:?} {url}: {shown}");
                }
            }
            handle.stop(STOP_GRACE).await;
        }
    }

    /// A script in front of a browser passes its debugging pipes on.
    #[tokio::test]
    async fn wrapper_scripts_pass_the_pipes() {
        for (kind, _, script) in BROWSERS {
            let data = tempfile::tempdir().unwrap();
            let run = RunFolder::claim(data.path()).unwrap();
            let launcher = Launcher::start(run.tag()).unwrap();
            let (handle, observer) = start(&launcher, &run, kind, script).await;
            observer.ping().await.unwrap();
            handle.stop(STOP_GRACE).await;
            assert!(matches!(handle.ended(&observer).await, Lost::Browser { .. }));
        }
    }

    async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        kind: BrowserKind,
        path: &str,
    ) -> (BrowserHandle, Observer) {
        let spec = ChromiumSpec {
            browser: Browser { path: path.into(), kind },
            headless: true,
            no_sandbox: None,
            window: (800, 600),
            proxy: SocketAddr::from(([127, 0, 0, 1], 1)),
            args: Vec::new(),
            storage_bytes_max: 1 << 20,
            limits: crate::browser_limits::BrowserLimits::of(
                &greenroom_core::settings::Settings::defaults("/d".into()).pool,
            ),
            default_context: None,
        };
        let rules = EngineRules {
            targets: Targets::All,
            downloads: None,
            context_ports: None,
            forgets_crashed_pages: false,
            send_within: crate::cdp_proxy::SEND_WITHIN,
        };
        BrowserHandle::start(launcher, run, &Ports::new(run), &spec, rules).await.unwrap()
    }

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
