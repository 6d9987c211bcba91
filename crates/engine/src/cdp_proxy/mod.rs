//! A proxy between engines and a browser's debugger: every engine drives its browser through it, no matter who started the
//! browser.
//!
//! An engine does what agents and pages make it do, so the proxy judges its calls before the browser gets them: where pages
//! navigate, how large things become ([`rules`]). And an engine attaches to every page that it sees, so the proxy shows it
//! only its own ([`Targets`]). Secrets in a browser's address or headers stay here too.
//!
//! The proxy listens on a loopback port, closed to all of greenroom's browsers, with a secret path. Each connection of an
//! engine has a connection of its own to the browser; when one end closes, so does the other.

mod address_limit;
mod answer_limit;
mod binding_limit;
mod bounded_calls;
mod clipboard;
mod console_limit;
mod context_proxies;
mod crashed_pages;
mod download_limit;
mod failed_navigations;
mod filter;
mod long_events;
mod message;
mod network_limit;
mod own_contexts;
mod own_evaluations;
mod own_frames;
mod realm_limits;
mod rules;
mod script;
mod silent_tabs;
mod sizes;

use std::{sync::Arc, time::Duration};

use greenroom_cdp::{
    BrowserPipe,
    message_stream::{self, MessageReader, MessageWriter, Text},
};
use greenroom_core::{Raw, StartError, raw::parse};
use tokio::{
    net::TcpListener,
    sync::watch,
    task::JoinSet,
    time::{Instant, sleep, sleep_until, timeout},
};
use tokio_util::task::AbortOnDropHandle;
use uuid::Uuid;

use self::{
    filter::{Filter, UnreadableCall},
    silent_tabs::EngineTabs,
};
use crate::{
    context_ports::ContextPorts,
    downloads::Downloads,
    ports::{PortGuard, Ports},
};

/// How long either end may take to read its messages. An end that reads nothing for so long hangs.
pub(crate) const SEND_WITHIN: Duration = Duration::from_secs(30);

/// How long closing a connection may take.
const CLOSE_WITHIN: Duration = Duration::from_secs(1);

/// The pause after a connection could not be accepted: a process that is out of file descriptors may get some back.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Which pages, workers and other targets of a browser an engine sees.
#[derive(Clone)]
pub(crate) enum Targets {
    /// All of them: the browser belongs to one seat.
    All,
    /// Those in contexts that its own connection made: other contexts belong to other seats or to the browser's user.
    OwnContexts,
    /// All except tabs that do not answer, since most tabs belong to the browser's user. `EngineTabs` lists the engine's own tabs.
    Responsive(Arc<EngineTabs>),
}

impl Targets {
    /// All that answer, in a browser that a person uses.
    pub(crate) fn responsive() -> Self {
        Self::Responsive(Arc::default())
    }
}

/// How the proxy serves an engine.
#[derive(Clone)]
pub(crate) struct EngineRules {
    pub(crate) targets: Targets,
    /// Counts what the engine downloads; `None` counts nothing.
    pub(crate) downloads: Option<Arc<Downloads>>,
    /// The ports through which contexts of the engine reach the network; `None` in an attached browser, which has its own
    /// network.
    pub(crate) context_ports: Option<Arc<ContextPorts>>,
    /// Whether the engine fails if the browser answers calls to a page after the page has crashed.
    pub(crate) forgets_crashed_pages: bool,
    /// How long either end may take to read its messages: [`SEND_WITHIN`], and less in tests.
    pub(crate) send_within: Duration,
}

/// How the browser's debugger is reached.
pub(crate) enum Debugger {
    /// That of an attached browser, with headers for every connection.
    WebSocket { address: String, headers: Vec<(String, String)> },
    /// That of a browser that greenroom started.
    Pipe(BrowserPipe),
}

impl Debugger {
    async fn connect(&self) -> Result<(MessageWriter, MessageReader), greenroom_cdp::Error> {
        match self {
            Self::WebSocket { address, headers } => message_stream::dial(address, headers).await,
            Self::Pipe(pipe) => pipe.connect().await,
        }
    }
}

/// A message, and where it goes.
#[derive(Debug, PartialEq, Eq)]
enum ProxyMessage {
    ToEngine(Text),
    ToBrowser(Text),
}

pub(crate) struct CdpProxy {
    address: String,
    /// The random path of the address. A process that knows it can drive the browser, so it is never shown.
    secret: String,
    targets: Targets,
    /// Whether an engine has lost its connection without closing it.
    connection_lost: watch::Receiver<bool>,
    _task: AbortOnDropHandle<()>,
    _port: PortGuard,
}

impl CdpProxy {
    /// Listens for engines that drive a browser.
    pub(crate) async fn open(
        debugger: Debugger,
        rules: EngineRules,
        ports: &Ports,
    ) -> Result<Self, StartError> {
        let closed = |error: std::io::Error| StartError::new(format!("no port for the engine: {error}"));
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.map_err(closed)?;
        let port = listener.local_addr().map_err(closed)?.port();
        let guard = ports.hold(port).map_err(closed)?;
        let secret = Uuid::new_v4().simple().to_string();
        let path = format!("/{secret}");
        let address = format!("ws://127.0.0.1:{port}{path}");
        let (connection_lost_sender, connection_lost) = watch::channel(false);
        let targets = rules.targets.clone();
        let send_within = rules.send_within;
        let task = tokio::spawn(accept_engines(
            listener,
            path,
            Arc::new(debugger),
            move || Filter::new(&rules),
            send_within,
            connection_lost_sender,
        ));
        Ok(Self {
            address,
            secret,
            targets,
            connection_lost,
            _task: AbortOnDropHandle::new(task),
            _port: guard,
        })
    }

    /// Resolves when an engine has lost its connection without closing it. The browser drops the contexts of that
    /// connection; the engine reconnects by itself, and would go on with empty contexts.
    pub(crate) async fn connection_lost(&self) {
        if self.connection_lost.clone().wait_for(|is_lost| *is_lost).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The address for engines to connect to.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// An engine's text without the secret. An engine's error may contain the address to which it failed to connect.
    pub(crate) fn without_secret(&self, text: String) -> String {
        if text.contains(&self.secret) { text.replace(&self.secret, "…") } else { text }
    }

    /// The same for an answer. Neither the secret nor its replacement needs escapes in JSON.
    pub(crate) fn answer_without_secret(&self, body: Result<Raw, Raw>) -> Result<Raw, Raw> {
        let without_secret = |raw: Raw| match raw.get().contains(&self.secret) {
            true => parse(self.without_secret(raw.get().to_owned())).unwrap_or(raw),
            false => raw,
        };
        body.map(without_secret).map_err(without_secret)
    }

    /// Declares a tab that greenroom opened for the engine. The proxy does not check such a tab for signs of life.
    pub(crate) fn declare_own_tab(&self, tab: &str) {
        if let Targets::Responsive(engine_tabs) = &self.targets {
            engine_tabs.add_tab(tab);
        }
    }
}

async fn accept_engines(
    listener: TcpListener,
    path: String,
    debugger: Arc<Debugger>,
    filter: impl Fn() -> Filter,
    send_within: Duration,
    connection_lost: watch::Sender<bool>,
) {
    let mut connections = JoinSet::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept an engine's connection");
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // Reaps ended connections.
        while connections.try_join_next().is_some() {}
        let path = path.clone();
        let debugger = debugger.clone();
        let filter = filter();
        let connection_lost = connection_lost.clone();
        connections.spawn(async move {
            let Some((to_engine, from_engine)) = message_stream::accept(stream, &path).await else { return };
            match debugger.connect().await {
                Ok((to_browser, from_browser)) => {
                    let connection = ProxyConnection { to_engine, from_engine, to_browser, from_browser };
                    if connection.relay_messages(filter, send_within).await == ConnectionEnd::Lost {
                        connection_lost.send_replace(true);
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "an engine connected, but the browser cannot be reached");
                    to_engine.close().await;
                }
            }
        });
    }
}

/// How an engine's connection has ended.
#[derive(Debug, PartialEq, Eq)]
enum ConnectionEnd {
    /// The engine closed it.
    ClosedByEngine,
    /// The browser is gone, or one end sent an unreadable message or did not read its messages.
    Lost,
}

struct ProxyConnection {
    to_engine: MessageWriter,
    from_engine: MessageReader,
    to_browser: MessageWriter,
    from_browser: MessageReader,
}

impl ProxyConnection {
    /// Passes messages on until one end is gone.
    async fn relay_messages(mut self, mut filter: Filter, send_within: Duration) -> ConnectionEnd {
        let end = loop {
            let due = filter.due();
            let out = tokio::select! {
                text = self.from_browser.next() => match text {
                    Some(text) => filter.on_browser_message(text, Instant::now()),
                    None => break ConnectionEnd::Lost,
                },
                text = self.from_engine.next() => match text.map(|text| filter.on_engine_call(&text, Instant::now())) {
                    Some(Ok(out)) => out,
                    Some(Err(UnreadableCall)) => {
                        tracing::warn!("an engine sent a message that is not a CDP call; its connection to the browser ends");
                        break ConnectionEnd::Lost;
                    }
                    None => break ConnectionEnd::ClosedByEngine,
                },
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    // An answer that has arrived already is not late.
                    match self.from_browser.try_next() {
                        Some(Some(text)) => filter.on_browser_message(text, Instant::now()),
                        Some(None) => break ConnectionEnd::Lost,
                        None => filter.on_deadline(Instant::now()),
                    }
                }
            };
            match timeout(send_within, self.send(out)).await {
                Ok(true) => {}
                Ok(false) => break ConnectionEnd::Lost,
                Err(_) => {
                    tracing::warn!(
                        "the engine or the browser does not read its messages; their connection ends"
                    );
                    break ConnectionEnd::Lost;
                }
            }
        };
        let close_both = async { tokio::join!(self.to_engine.close(), self.to_browser.close()) };
        // An end that does not listen needs no close message.
        let _ = timeout(CLOSE_WITHIN, close_both).await;
        end
    }

    async fn send(&mut self, out: Vec<ProxyMessage>) -> bool {
        for out in out {
            let taken = match out {
                ProxyMessage::ToEngine(text) => self.to_engine.send(text).await,
                ProxyMessage::ToBrowser(text) => self.to_browser.send(text).await,
            };
            if !taken {
                return false;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::sync::mpsc;

    use super::*;
    use crate::run_folder::RunFolder;

    /// An engine that closes its connection is no loss. A connection that is cut is one, since the engine would reconnect to
    /// empty contexts.
    #[tokio::test]
    async fn lost_connection_is_reported() {
        let data = tempfile::tempdir().unwrap();
        let run = RunFolder::claim(data.path()).unwrap();
        let browser = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("ws://{}/browser", browser.local_addr().unwrap());
        let (browser_left, mut has_left) = mpsc::unbounded_channel();
        let _browser = AbortOnDropHandle::new(tokio::spawn(async move {
            while let Ok((stream, _)) = browser.accept().await {
                let (_writer, mut reader) = message_stream::accept(stream, "/browser").await.unwrap();
                while reader.next().await.is_some() {}
                browser_left.send(()).unwrap();
            }
        }));
        let debugger = Debugger::WebSocket { address, headers: Vec::new() };
        let rules = EngineRules {
            targets: Targets::All,
            downloads: None,
            context_ports: None,
            forgets_crashed_pages: false,
            send_within: SEND_WITHIN,
        };
        let proxy = CdpProxy::open(debugger, rules, &Ports::new(&run)).await.unwrap();

        let (engine, _) = message_stream::dial(proxy.address(), &[]).await.unwrap();
        engine.close().await;
        has_left.recv().await.unwrap();
        assert!(!*proxy.connection_lost.borrow());

        let (mut engine, _reader) = message_stream::dial(proxy.address(), &[]).await.unwrap();
        assert!(engine.send("no call".into()).await);
        timeout(SEND_WITHIN, proxy.connection_lost()).await.unwrap();
    }

    /// An engine that is stopped reads nothing: its connection is lost, with all of its contexts. It must not go on with empty
    /// ones when it continues. So is a browser's that reads nothing.
    #[tokio::test]
    async fn stopped_ends_lose_the_connection() {
        for stopped in ["engine", "browser"] {
            let data = tempfile::tempdir().unwrap();
            let run = RunFolder::claim(data.path()).unwrap();
            let browser = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let address = format!("ws://{}/browser", browser.local_addr().unwrap());
            let long: Text = json!({ "method": "Page.x", "params": "x".repeat(1 << 20) }).to_string().into();
            let event = long.clone();
            let _browser = AbortOnDropHandle::new(tokio::spawn(async move {
                let (stream, _) = browser.accept().await.unwrap();
                let (mut writer, _reader) = message_stream::accept(stream, "/browser").await.unwrap();
                // The reader is kept, and never read: the browser is stopped, or sends only.
                while stopped == "engine" && writer.send(event.clone()).await {}
                std::future::pending::<()>().await;
            }));
            let debugger = Debugger::WebSocket { address, headers: Vec::new() };
            let rules = EngineRules {
                targets: Targets::All,
                downloads: None,
                context_ports: None,
                forgets_crashed_pages: false,
                send_within: Duration::from_millis(50),
            };
            let proxy = CdpProxy::open(debugger, rules, &Ports::new(&run)).await.unwrap();
            let (mut engine, _reader) = message_stream::dial(proxy.address(), &[]).await.unwrap();
            let call: Text =
                json!({ "id": 1, "method": "Page.x", "params": { "x": *long } }).to_string().into();
            let calls = async {
                while stopped == "browser" && engine.send(call.clone()).await {}
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = calls => {}
                lost = timeout(SEND_WITHIN, proxy.connection_lost()) => lost.expect(stopped),
            }
        }
    }
}
