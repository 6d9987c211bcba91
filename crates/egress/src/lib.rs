//! The forward proxy that every Chromium goes through: the only way from browsers to the network.
//!
//! A [`Proxy`] has a loopback [`Port`] for each browser context, with the context's user and policy. It resolves names
//! itself, asks the `gate` about each address, and connects only to an address that the gate allowed. So neither
//! the spelling of a URL, nor a redirect, nor a name whose addresses change leads around the verdict. It always
//! refuses greenroom's own ports, its own among them, and cloud metadata services.
//!
//! It serves browsers of greenroom's own user only: `peer_user` asks the kernel who connects.
//!
//! It may have to go out through another proxy, an [`Upstream`]; `dial` says what that means.
//!
//! It does not look into what it carries, keeps nothing but its latest refusals, and speaks HTTP/1.1 only: `CONNECT` in
//! `tunnel`, absolute-form requests in `forward`. Its owner starts it before the browsers, and ends it after them.

mod answer;
mod chain;
mod connection;
mod connection_permits;
mod dial;
mod forward;
mod gate;
mod host;
pub mod peer_user;
mod port;
mod refusals;
mod resolve;
mod this_machine;
mod tunnel;
mod upstream;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use greenroom_core::{
    network::{NetworkPolicy, OwnPorts, PolicyLayers},
    port::{Egress, EgressPort, RefusalReport, RefusalSink},
};
use tokio::sync::watch;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{connection_permits::SharedPermits, dial::Dialer, gate::Gate};
pub use crate::{
    port::Port,
    resolve::{Connect, Resolve, SystemNetwork},
    this_machine::ThisMachine,
    upstream::{Upstream, UpstreamError},
};

/// How long the listener pauses when `accept` fails: if descriptors ran out, other connections have to end first,
/// and asking again at once would only burn a core.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What a proxy is made with. [`ProxyOptions::new`] has the usual parts.
pub struct ProxyOptions {
    /// The pool whose browsers use the proxy, for reports of refusals.
    pub pool: Option<Arc<str>>,
    /// The proxy asks anew for every connection, so ports may come and go while it runs.
    pub own_ports: Arc<dyn OwnPorts>,
    /// What every connection must pass, whatever its session permits.
    pub policy: NetworkPolicy,
    /// With an upstream the proxy sends everything that it does not refuse through it, and connects to no site
    /// directly, even if the upstream does not answer.
    pub upstream: Option<Upstream>,
    /// Whether the upstream gets names and resolves them itself, instead of judged addresses. `None`: it does where the
    /// policy of the connection judges no address.
    pub trust_upstream: Option<bool>,
    /// Whether programs of other users are served too: browsers on Windows connect from outside this Linux.
    pub serves_all_users: bool,
    pub resolver: Arc<dyn Resolve>,
    pub connector: Arc<dyn Connect>,
    pub sink: Arc<dyn RefusalSink>,
}

impl ProxyOptions {
    /// A proxy with the system's resolver and network, which permits all but what no policy permits.
    pub fn new(own_ports: Arc<dyn OwnPorts>) -> Self {
        Self {
            pool: None,
            own_ports,
            policy: NetworkPolicy::OPEN,
            upstream: None,
            trust_upstream: None,
            serves_all_users: false,
            resolver: Arc::new(SystemNetwork),
            connector: Arc::new(SystemNetwork),
            sink: Arc::new(NoSink),
        }
    }
}

/// Keeps nothing.
struct NoSink;

impl RefusalSink for NoSink {
    fn refused(&self, _: RefusalReport<'_>) {}
}

/// A running proxy. Dropping it ends all its ports, their connections and tunnels, soon; [`Proxy::shutdown`] returns
/// when they have ended.
pub struct Proxy {
    shared: Arc<Shared>,
    /// The port of browsers whose contexts have none of their own.
    main: Port,
}

/// What all ports of a proxy share.
pub(crate) struct Shared {
    pool: Option<Arc<str>>,
    dialer: Dialer,
    policy: PolicyLayers,
    permits: SharedPermits,
    sink: Arc<dyn RefusalSink>,
    serves_all_users: bool,
    /// Ends every port.
    stop: CancellationToken,
    /// Owns every port's task.
    tasks: TaskTracker,
}

impl Proxy {
    /// Starts a proxy with one port.
    pub async fn start(options: ProxyOptions) -> io::Result<Self> {
        let gate = Gate::new(options.own_ports, ThisMachine);
        let shared = Arc::new(Shared {
            pool: options.pool,
            dialer: Dialer::new(
                gate,
                options.upstream,
                options.trust_upstream,
                options.resolver,
                options.connector,
            ),
            policy: options.policy.into(),
            permits: SharedPermits::new(),
            sink: options.sink,
            serves_all_users: options.serves_all_users,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        });
        Ok(Self { main: Port::open(&shared)?, shared })
    }

    /// The main port's address: `--proxy-server=http://ADDRESS`.
    pub fn address(&self) -> SocketAddr {
        self.main.address()
    }

    /// How many browser connections are open on the main port now, tunnels included.
    pub fn connections(&self) -> watch::Receiver<usize> {
        self.main.connections()
    }

    /// Opens further ports, as long as the proxy runs.
    pub fn ports(&self) -> Arc<dyn Egress> {
        Arc::new(PortOpener(self.shared.clone()))
    }

    /// Ends the proxy. Returns when its ports are free and every connection through them is closed.
    pub async fn shutdown(self) {
        self.shared.stop.cancel();
        self.shared.tasks.close();
        self.shared.tasks.wait().await;
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.stop.cancel();
    }
}

struct PortOpener(Arc<Shared>);

impl Egress for PortOpener {
    fn open_port(&self) -> io::Result<Arc<dyn EgressPort>> {
        if self.0.stop.is_cancelled() {
            return Err(io::Error::other("the egress proxy has ended"));
        }
        Ok(Arc::new(Port::open(&self.0)?))
    }
}
