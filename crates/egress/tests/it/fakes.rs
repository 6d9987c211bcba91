//! What stands behind the proxy in tests of its policy: names from a table, connections that are recorded and not made,
//! and refusals that are kept.

use std::{
    collections::HashMap,
    io,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use greenroom_core::{
    BoxFuture,
    network::NetworkPolicy,
    port::{EgressPort, PortUser, RefusalReport, RefusalSink, RefusedConnection},
};
use greenroom_egress::{Connect, Proxy, ProxyOptions, Resolve};
use greenroom_testkit::{RecordingDialer, recording_dialer::reaches_loopback, ssrf};
use tokio::net::TcpStream;

use crate::{RawConnection, TestPorts, options};

/// A public address that no test connects to.
pub(crate) const PUBLIC: &str = "93.184.216.34";

/// The proxy's network.
pub(crate) struct RecordedNetwork(pub(crate) Arc<RecordingDialer>);

impl Connect for RecordedNetwork {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(self.0.dial(address))
    }
}

/// Connects to loopback only, so that a verdict which fails in a test reaches no other machine.
pub(crate) struct LoopbackOnly;

impl Connect for LoopbackOnly {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(async move {
            assert!(reaches_loopback(address.ip()), "{address} is not on loopback");
            TcpStream::connect(address).await
        })
    }
}

/// Names from a table, then those of the corpus. Asks no name server.
#[derive(Default)]
pub(crate) struct KnownNames(HashMap<String, Vec<IpAddr>>);

impl KnownNames {
    pub(crate) fn new(names: &[(&str, &[&str])]) -> Self {
        let parse = |addresses: &[&str]| addresses.iter().map(|address| address.parse().unwrap()).collect();
        Self(names.iter().map(|(name, addresses)| ((*name).to_owned(), parse(addresses))).collect())
    }
}

impl Resolve for KnownNames {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            match self.0.get(&name.trim_end_matches('.').to_ascii_lowercase()) {
                Some(addresses) => Ok(addresses.clone()),
                None => ssrf::resolve(name),
            }
        })
    }
}

/// Every new refusal, with the user of the port, and the number of all.
#[derive(Default)]
pub(crate) struct KeptRefusals(Mutex<Vec<(Option<PortUser>, RefusedConnection)>>, AtomicUsize);

impl KeptRefusals {
    pub(crate) fn reports(&self) -> usize {
        self.1.load(Ordering::Relaxed)
    }

    pub(crate) fn all(&self) -> Vec<(Option<PortUser>, RefusedConnection)> {
        self.0.lock().unwrap().clone()
    }
}

impl RefusalSink for KeptRefusals {
    fn refused(&self, report: RefusalReport<'_>) {
        assert_eq!(report.pool, Some("TEST"));
        self.1.fetch_add(1, Ordering::Relaxed);
        if report.is_new {
            self.0.lock().unwrap().push((report.user.cloned(), report.refused.clone()));
        }
    }
}

/// A proxy with recorded connections.
pub(crate) struct PolicyFixture {
    pub(crate) proxy: Proxy,
    pub(crate) network: Arc<RecordingDialer>,
    pub(crate) refusals: Arc<KeptRefusals>,
}

impl PolicyFixture {
    pub(crate) async fn new(policy: NetworkPolicy, names: &[(&str, &[&str])]) -> Self {
        Self::with(policy, Arc::new(KnownNames::new(names)), RecordingDialer::new()).await
    }

    pub(crate) async fn with(
        policy: NetworkPolicy,
        resolver: Arc<dyn Resolve>,
        network: RecordingDialer,
    ) -> Self {
        let network = Arc::new(network);
        let refusals = Arc::new(KeptRefusals::default());
        let options = ProxyOptions {
            pool: Some("TEST".into()),
            policy,
            resolver,
            connector: Arc::new(RecordedNetwork(network.clone())),
            sink: refusals.clone(),
            ..options(TestPorts::containing(&[]))
        };
        Self { proxy: Proxy::start(options).await.unwrap(), network, refusals }
    }

    /// Opens a port.
    pub(crate) fn port(&self) -> Arc<dyn EgressPort> {
        self.proxy.ports().open_port().unwrap()
    }

    /// The outcome of a connection to `host:port` through the main port.
    pub(crate) async fn outcome(&self, host: &str, port: u16) -> Outcome {
        outcome(self.proxy.address(), host, port).await
    }
}

/// What became of a request, by its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The proxy dialled the host; the recorded connection was not made.
    Dialled,
    /// The proxy refused it with this word.
    Refused(String),
    /// The proxy could not resolve the name.
    Unresolved,
    /// The proxy did not understand the request.
    NotUnderstood,
}

pub(crate) fn refused(word: &str) -> Outcome {
    Outcome::Refused(word.to_owned())
}

/// Asks a port of the proxy for `host:port` in both ways in which a browser can; they must have one outcome.
pub(crate) async fn outcome(proxy: SocketAddr, host: &str, port: u16) -> Outcome {
    let plain = answer(proxy, "GET", &format!("http://{host}:{port}/")).await;
    let tunnel = answer(proxy, "CONNECT", &format!("{host}:{port}")).await;
    let outcome = read_outcome(&plain);
    // `CONNECT` has no user before its host.
    if !host.contains('@') {
        assert_eq!(read_outcome(&tunnel), outcome, "{host}:{port}: {plain}\n{tunnel}");
    }
    outcome
}

/// The whole answer to one request on a connection of its own.
pub(crate) async fn answer(proxy: SocketAddr, method: &str, target: &str) -> String {
    let mut browser = RawConnection::to(proxy).await;
    browser.send(&format!("{method} {target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")).await;
    browser.read_to_end().await
}

fn read_outcome(answer: &str) -> Outcome {
    let status = answer.get(9..12).unwrap_or_else(|| panic!("no answer: {answer:?}"));
    let word = answer.lines().find_map(|line| line.strip_prefix("x-greenroom-refused: "));
    match (status, word) {
        ("403", Some(word)) => Outcome::Refused(word.to_owned()),
        ("502", None) if answer.contains(" cannot be resolved: ") => Outcome::Unresolved,
        ("502", None) if answer.contains("recorded and not made") => Outcome::Dialled,
        ("400", None) => Outcome::NotUnderstood,
        _ => panic!("an unexpected answer: {answer}"),
    }
}
