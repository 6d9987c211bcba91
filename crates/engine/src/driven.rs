//! The browser behind an instance or a seat: a Chromium that greenroom started, or one that somebody else did.
//!
//! Both have a debugger and an observer. One of ours ends when it is told to, and its exit explains its end; of another's
//! we see only that its debugger is gone, and we never end it.

use std::{sync::Arc, time::Duration};

use greenroom_core::{Lost, StartError};
use tokio::time::timeout;

use crate::{
    chromium::{Chromium, ChromiumSpec},
    doorman::Doorman,
    endpoint::Endpoint,
    launcher::Launcher,
    left_tabs,
    observer::Observer,
    ports::{PortGuard, Ports},
    process::Process,
    run_folder::{RunFolder, unwritable},
};

/// How long a dying browser may take until its exit is seen. Its debugger's connection ends at the same moment,
/// and whoever saw that waits here for the better explanation.
pub(crate) const EXIT: Duration = Duration::from_secs(2);

/// How long a browser of which nothing came may take to end by itself once asked.
const STOP_GRACE: Duration = Duration::from_millis(500);

pub(crate) enum Driven {
    Ours(Chromium),
    Attached(Attached),
}

/// A browser that is not ours.
pub(crate) struct Attached {
    pub(crate) endpoint: Arc<Endpoint>,
    /// Who lets an engine in.
    pub(crate) doorman: Arc<Doorman>,
    /// Its debugger is as closed to browsers as our own are.
    _port: Option<PortGuard>,
}

impl Driven {
    /// Starts a browser and observes it.
    pub(crate) async fn start(
        launcher: &Launcher,
        run: &RunFolder,
        ports: &Ports,
        spec: &ChromiumSpec,
    ) -> Result<(Self, Observer), StartError> {
        let chromium = Chromium::start(launcher, run, ports, spec).await?;
        match Observer::connect(&chromium.endpoint).await {
            Ok(observer) => Ok((Self::Ours(chromium), observer)),
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                Err(error)
            }
        }
    }

    /// Finds a browser that runs already and observes it. What another greenroom left behind in it goes. Refuses a port
    /// of greenroom's own: it may be asked again much later, when one of our browsers has got that port.
    pub(crate) async fn attach(
        endpoint: &Arc<Endpoint>,
        run: &RunFolder,
        ports: &Ports,
    ) -> Result<(Self, Observer), StartError> {
        // Before anything is said to it, and again by the port that was really reached, whatever its name.
        not_ours(endpoint, endpoint.local_port(), ports)?;
        let address = endpoint.reach().await?;
        let observer = Observer::attach(endpoint, &address).await?;
        not_ours(endpoint, observer.local_port(), ports)?;
        left_tabs::close(run, &observer).await;
        let port = observer.local_port().map(|port| ports.hold_theirs(port)).transpose();
        let port = port.map_err(|error| unwritable(run, &error))?;
        let doorman = Arc::new(Doorman::open(endpoint.clone(), address, ports).await?);
        let attached = Attached { endpoint: endpoint.clone(), doorman, _port: port };
        Ok((Self::Attached(attached), observer))
    }

    /// The WebSocket address at which an engine finds its debugger.
    pub(crate) fn address(&self) -> &str {
        match self {
            Self::Ours(chromium) => &chromium.endpoint,
            Self::Attached(attached) => attached.doorman.address(),
        }
    }

    /// Resolves with why it is gone.
    pub(crate) async fn ended(&self, observer: &Observer) -> Lost {
        match self {
            Self::Ours(chromium) => {
                let browser = chromium.process();
                let exit = async {
                    let exit = browser.wait();
                    tokio::pin!(exit);
                    tokio::select! {
                        status = &mut exit => Some(status),
                        () = observer.ended() => timeout(EXIT, exit).await.ok(),
                    }
                };
                match exit.await {
                    Some(status) => Lost::Browser { status, stderr_tail: Arc::default() },
                    None => Lost::Protocol("the browser's debugger is gone".into()),
                }
            }
            Self::Attached(Attached { endpoint, .. }) => {
                observer.ended().await;
                let status = format!("its debugger at {} is gone", endpoint.shown());
                Lost::Browser { status: status.into(), stderr_tail: Arc::default() }
            }
        }
    }

    /// greenroom has opened this tab in it for an engine.
    pub(crate) fn opened(&self, tab: &str) {
        if let Self::Attached(attached) = self {
            attached.doorman.owns(tab);
        }
    }

    /// Its process, if it is ours.
    pub(crate) fn process(&self) -> Option<&Process> {
        match self {
            Self::Ours(chromium) => Some(chromium.process()),
            Self::Attached(_) => None,
        }
    }

    /// Ends it, if it is ours.
    pub(crate) async fn stop(&self, grace: Duration) {
        if let Self::Ours(chromium) = self {
            chromium.stop(grace).await;
        }
    }

    pub(crate) fn attached(&self) -> Option<&Attached> {
        match self {
            Self::Attached(attached) => Some(attached),
            Self::Ours(_) => None,
        }
    }
}

fn not_ours(endpoint: &Endpoint, port: Option<u16>, ports: &Ports) -> Result<(), StartError> {
    match port.filter(|port| ports.is_ours(*port)) {
        None => Ok(()),
        Some(port) => {
            let shown = endpoint.shown();
            Err(StartError::new(format!("port {port} of this machine is greenroom's own now: `{shown}`"))
                .hint("start the browser with another --remote-debugging-port, and correct this browser's address"))
        }
    }
}
