//! The browser behind an instance: a Chromium that greenroom started, or one that somebody else did.
//!
//! Both have a debugger and an observer. One of ours ends with its instance, and its exit explains its end; of another's
//! we see only that its debugger is gone, and we never end it.

use std::{path::Path, sync::Arc, time::Duration};

use greenroom_core::{Lost, StartError, raw::encode};
use serde_json::{Map, Value, json};
use tokio::time::timeout;

use super::{PlaywrightEngine, STOP_GRACE, command};
use crate::{
    browser::Wanted,
    chromium::Chromium,
    endpoint::Endpoint,
    launcher::Spec,
    left_tabs,
    observer::Observer,
    ports::PortGuard,
    process::Process,
    run_folder::{unwritable, write_whole},
};

/// How long a dying browser may take until its exit is seen. Its debugger's connection ends at the same moment,
/// and whoever saw that waits here for the better explanation.
pub(super) const EXIT: Duration = Duration::from_secs(2);

/// Below an instance's folder: what Node must know and nobody may read off its command line.
const CONFIG: &str = "engine.json";

pub(super) enum Driven {
    Ours(Chromium),
    Attached(Attached),
}

/// A browser that is not ours.
pub(super) struct Attached {
    pub(super) endpoint: Arc<Endpoint>,
    /// Where it was reached.
    address: String,
    /// Its debugger is as closed to browsers as our own are.
    _port: Option<PortGuard>,
}

impl Driven {
    /// Starts the browser, or finds it, and observes it.
    pub(super) async fn get(
        engine: &PlaywrightEngine,
        wanted: Wanted,
    ) -> Result<(Self, Observer), StartError> {
        if let Some(endpoint) = &engine.options.attach {
            let address = endpoint.reach().await?;
            let observer = Observer::attach(endpoint, &address).await?;
            left_tabs::close(&engine.run, &observer).await;
            let port = observer.local_port().map(|port| engine.ports.hold_theirs(port)).transpose();
            let port = port.map_err(|error| unwritable(&engine.run, &error))?;
            let attached = Attached { endpoint: endpoint.clone(), address, _port: port };
            return Ok((Self::Attached(attached), observer));
        }
        let spec = engine.chromium(wanted)?;
        let chromium = Chromium::start(&engine.launcher, &engine.run, &engine.ports, &spec).await?;
        match Observer::connect(&chromium.endpoint).await {
            Ok(observer) => Ok((Self::Ours(chromium), observer)),
            Err(error) => {
                chromium.stop(STOP_GRACE).await;
                Err(error)
            }
        }
    }

    /// Has Node attach to it. Headers are secrets, so they are in a file that only this user can read.
    pub(super) fn configure(&self, spec: Spec, folder: &Path) -> Result<Spec, StartError> {
        match self {
            Self::Ours(chromium) => Ok(command::attach(spec, &chromium.endpoint)),
            Self::Attached(Attached { endpoint, address, .. }) => {
                let spec = command::attach(spec, address);
                let headers: Map<String, Value> =
                    endpoint.sent_headers().into_iter().map(|(name, value)| (name, value.into())).collect();
                if headers.is_empty() {
                    return Ok(spec);
                }
                let path = folder.join(CONFIG);
                let config = encode(&json!({ "browser": { "cdpHeaders": headers } }));
                write_whole(&path, config.get().as_bytes()).map_err(|error| {
                    StartError::new(format!("cannot write to the data folder: {error}: `{}`", path.display()))
                })?;
                Ok(spec.arg("--config").arg(path))
            }
        }
    }

    /// Resolves with why it is gone.
    pub(super) async fn ended(&self, observer: &Observer) -> Lost {
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

    /// Its process, if it is ours.
    pub(super) fn process(&self) -> Option<&Process> {
        match self {
            Self::Ours(chromium) => Some(chromium.process()),
            Self::Attached(_) => None,
        }
    }

    /// Ends it, if it is ours.
    pub(super) async fn stop(&self, grace: Duration) {
        if let Self::Ours(chromium) = self {
            chromium.stop(grace).await;
        }
    }

    pub(super) fn attached(&self) -> Option<&Attached> {
        match self {
            Self::Attached(attached) => Some(attached),
            Self::Ours(_) => None,
        }
    }
}
