//! Stands between an engine and a browser that somebody else runs, and lets everything pass but tabs that do not answer.
//!
//! Engines take hold of every tab of a browser before they do anything, and ask all of them for their titles afterwards.
//! One tab that its browser has put to sleep, that hangs, or that shows a dialog is enough to hold them up for ever. So an
//! engine connects here, and hears of such a tab only when it answers ([`gate`]). What the browser's address or headers
//! hold in secrets stays here too.
//!
//! The door is a port of loopback with a secret path, closed to all browsers of greenroom's. Each engine that comes in has
//! a connection of its own to the browser; when one end goes, so does the other.

mod gate;
mod lane;
mod message;
mod own;
mod tab;

use std::{sync::Arc, time::Duration};

use greenroom_cdp::link::{self, Reader, Writer};
use greenroom_core::{Raw, StartError, raw::parse};
use tokio::{
    net::TcpListener,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::{
    gate::{Gate, Out},
    own::Own,
};
use crate::{
    endpoint::Endpoint,
    ports::{PortGuard, Ports},
};

/// How long either end may take to read what it was told. One that reads nothing for so long hangs.
const SEND: Duration = Duration::from_secs(30);

/// How long a goodbye may take.
const CLOSE: Duration = Duration::from_secs(1);

/// Before the next one is let in when that failed: a process that is out of file descriptors may get some back.
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Doorman {
    address: String,
    /// The part of the address that is nobody's business.
    secret: String,
    own: Arc<Own>,
    _task: AbortOnDropHandle<()>,
    _port: PortGuard,
}

impl Doorman {
    /// Opens a door to the browser at this address.
    pub(crate) async fn open(
        endpoint: Arc<Endpoint>,
        browser: String,
        ports: &Ports,
    ) -> Result<Self, StartError> {
        let closed = |error: std::io::Error| StartError::new(format!("no port for the engine: {error}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(closed)?;
        let port = listener.local_addr().map_err(closed)?.port();
        let guard = ports.hold(port).map_err(closed)?;
        let secret = Uuid::new_v4().simple().to_string();
        let path = format!("/{secret}");
        let address = format!("ws://127.0.0.1:{port}{path}");
        let own = Arc::<Own>::default();
        let task = tokio::spawn(receive(listener, path, endpoint, browser, own.clone()));
        Ok(Self { address, secret, own, _task: AbortOnDropHandle::new(task), _port: guard })
    }

    /// Where an engine comes in.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// An engine's text without the way in. It may name where it failed to connect.
    pub(crate) fn unnamed(&self, text: String) -> String {
        if text.contains(&self.secret) { text.replace(&self.secret, "…") } else { text }
    }

    /// The same of an answer. Neither the secret nor what stands for it means anything to JSON.
    pub(crate) fn unnamed_in(&self, body: Result<Raw, Raw>) -> Result<Raw, Raw> {
        let unnamed = |raw: Raw| match raw.get().contains(&self.secret) {
            true => parse(self.unnamed(raw.get().to_owned())).unwrap_or(raw),
            false => raw,
        };
        body.map(unnamed).map_err(unnamed)
    }

    /// A tab that greenroom opened for the engine. What it does is between the two.
    pub(crate) fn owns(&self, tab: &str) {
        self.own.add_tab(tab);
    }
}

async fn receive(
    listener: TcpListener,
    path: String,
    endpoint: Arc<Endpoint>,
    browser: String,
    own: Arc<Own>,
) {
    let mut inside = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "an engine cannot be let in");
                sleep(PAUSE).await;
                continue;
            }
        };
        // Those that have left.
        while inside.try_join_next().is_some() {}
        let (path, endpoint, browser, own) = (path.clone(), endpoint.clone(), browser.clone(), own.clone());
        inside.spawn(async move {
            let Some((to_engine, from_engine)) = link::accept(stream, &path).await else { return };
            match link::dial(&browser, &endpoint.sent_headers()).await {
                Ok((to_browser, from_browser)) => {
                    let ends = Ends { to_engine, from_engine, to_browser, from_browser };
                    ends.carry(Gate::new(own)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "an engine came, and the browser is not there");
                    to_engine.close().await;
                }
            }
        });
    }
}

struct Ends {
    to_engine: Writer,
    from_engine: Reader,
    to_browser: Writer,
    from_browser: Reader,
}

impl Ends {
    /// Carries messages until one end is gone.
    async fn carry(mut self, mut gate: Gate) {
        loop {
            let due = gate.due();
            let out = tokio::select! {
                text = self.from_browser.next() => match text {
                    Some(text) => gate.browser_says(text, Instant::now()),
                    None => break,
                },
                text = self.from_engine.next() => match text {
                    Some(text) => gate.engine_says(text, Instant::now()),
                    None => break,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    // Who has answered already is not late.
                    match self.from_browser.next_if_there() {
                        Some(Some(text)) => gate.browser_says(text, Instant::now()),
                        Some(None) => break,
                        None => gate.time_passed(Instant::now()),
                    }
                }
            };
            if !matches!(timeout(SEND, self.send(out)).await, Ok(true)) {
                break;
            }
        }
        let goodbye = async { tokio::join!(self.to_engine.close(), self.to_browser.close()) };
        // Whoever does not listen needs none.
        let _ = timeout(CLOSE, goodbye).await;
    }

    async fn send(&mut self, out: Vec<Out>) -> bool {
        for out in out {
            let taken = match out {
                Out::ToEngine(text) => self.to_engine.send(text).await,
                Out::ToBrowser(text) => self.to_browser.send(text).await,
            };
            if !taken {
                return false;
            }
        }
        true
    }
}
