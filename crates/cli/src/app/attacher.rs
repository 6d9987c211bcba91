//! Attaches browsers that already run: configured ones, and those that agents attach while greenroom runs.
//!
//! greenroom checks an address that an agent names before it connects there: a debugger of greenroom's own would give
//! the agent the browsers of others, and a cloud's metadata service its machine's keys. It resolves a name once, and
//! connects to the address that it checked. Over TLS it keeps the name, since no debugger of greenroom's own speaks
//! TLS.

use std::{net::IpAddr, sync::Arc, time::Duration};

use greenroom_core::{
    BoxFuture,
    lease::Strategy,
    network::{self, NetworkPolicy, OwnAddresses, OwnPorts, rule::canonical_host, verdict},
    settings::{AttachedBrowser, Attaching, EngineKind, Settings},
};
use greenroom_egress::ThisMachine;
use greenroom_engine::{Endpoint, ports::GreenroomPorts};
use greenroom_fleet::{BrowserSettings, InstanceSettings, PoolSettings, PoolSize, Retry, pool_name};
use greenroom_gateway::{Attach, AttachError, AttachRequest, Attachment, AttachmentBuilder};
use tokio::{
    net::{TcpStream, lookup_host},
    time::timeout,
};

use super::{engines::Engines, pool_settings::pool_answers};

/// How long resolving a name may take. Milliseconds are usual.
const LOOKUP_TIMEOUT: Duration = Duration::from_secs(5);

/// How long one of a name's several addresses may take to accept. A reachable machine takes milliseconds, one on another
/// continent a few hundred.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// Attaches browsers while greenroom runs.
pub struct Attacher {
    pub settings: Arc<Settings>,
    pub engines: Engines,
}

impl Attach for Attacher {
    fn prepare(&self, request: AttachRequest) -> BoxFuture<'_, Result<AttachmentBuilder, AttachError>> {
        Box::pin(async move {
            let mut pool = self.settings.attached().map_err(AttachError::new)?;
            if let Some(engine) = request.engine {
                pool.engine = EngineKind::from(engine);
            }
            if pool.engine.facts().attaching == Attaching::OwnContextOnly && pool.isolated {
                let message = format!(
                    "the {} engine has no contexts of its own, and `pool.isolated` is set",
                    pool.engine
                );
                return Err(AttachError::new(message).hint("leave `engine` out, or say `playwright`"));
            }
            let AttachRequest { url, label, tags, .. } = request;
            let browser = AttachedBrowser { label, tags, ..AttachedBrowser::at(url, pool) };
            let endpoint = self.resolve_and_check(endpoint(&browser)).await?;
            // Refuse an unreachable browser: with a second attached browser, every call would have to name one.
            endpoint
                .check()
                .await
                .map_err(|error| AttachError { hint: error.hint, ..AttachError::down(error.message) })?;
            let settings = self.settings.clone();
            let engines = self.engines.clone();
            Ok(Box::new(move |index| attachment(&settings, &browser, endpoint, &engines, index))
                as AttachmentBuilder)
        })
    }
}

impl Attacher {
    /// A declared browser. The operator gave its address, so it is not checked.
    pub fn declared(&self, browser: &AttachedBrowser, index: u32) -> Attachment {
        attachment(&self.settings, browser, endpoint(browser), &self.engines, index)
    }

    /// Resolves the browser's address and pins the result, if an agent may name it.
    async fn resolve_and_check(&self, endpoint: Endpoint) -> Result<Endpoint, AttachError> {
        let shown = endpoint.url_without_secrets();
        let refused =
            |why: &dyn std::fmt::Display| AttachError::new(format!("cannot attach to `{shown}`: {why}"));
        let Some((host, port)) = endpoint.host_and_port() else { return Err(refused(&"it names no host")) };
        check_name(&host, port).map_err(|blocked| refused(&blocked))?;
        let addresses: Vec<IpAddr> = match timeout(LOOKUP_TIMEOUT, lookup_host((host.as_str(), port))).await {
            Ok(Ok(addresses)) => addresses.map(|address| address.ip()).collect(),
            Ok(Err(error)) => return Err(refused(&error)),
            Err(_) => return Err(refused(&"its name is not found in time")),
        };
        check_addresses(&host, port, &addresses, &GreenroomPorts(self.engines.ports.clone()), &ThisMachine)
            .map_err(|blocked| refused(&blocked))?;
        let address =
            first_reachable(&addresses, port).await.ok_or_else(|| refused(&"its name has no address"))?;
        Ok(endpoint.pinned(address))
    }
}

/// Whether greenroom may resolve a name for an agent.
fn check_name(host: &str, port: u16) -> Result<(), network::Blocked> {
    verdict::check_name(&canonical_host(host), port, &NetworkPolicy::OPEN.into())
}

/// Whether an agent may name all addresses of a name. One forbidden address is enough to refuse: the agent cannot choose
/// which of them greenroom connects to.
fn check_addresses(
    host: &str,
    port: u16,
    addresses: &[IpAddr],
    own: &dyn OwnPorts,
    machine: &dyn OwnAddresses,
) -> Result<(), network::Blocked> {
    let target =
        |address: &IpAddr| network::DialTarget { host: canonical_host(host), address: *address, port };
    // Debuggers are on loopback and in local networks, which the policy of browsers' own connections may close.
    let policy = NetworkPolicy::OPEN.into();
    addresses.iter().try_for_each(|address| verdict::check_target(&target(address), own, machine, &policy))
}

/// The first address that accepts a connection. A name may have several addresses, and a debugger may listen at one of
/// them: `localhost` has two on most machines. If none accepts, this is the first, and connecting to it gives the
/// error.
async fn first_reachable(addresses: &[IpAddr], port: u16) -> Option<IpAddr> {
    if let [_, _, ..] = addresses {
        for address in addresses {
            if let Ok(Ok(_)) = timeout(CONNECT_TIMEOUT, TcpStream::connect((*address, port))).await {
                return Some(*address);
            }
        }
    }
    addresses.first().copied()
}

fn endpoint(browser: &AttachedBrowser) -> Endpoint {
    let headers = browser.headers.iter().map(|header| (header.name.clone(), header.value.clone()));
    Endpoint {
        url: browser.url.clone(),
        headers: headers.collect(),
        start_command: browser.start_command.clone().into(),
    }
}

fn attachment(
    settings: &Arc<Settings>,
    browser: &AttachedBrowser,
    endpoint: Endpoint,
    engines: &Engines,
    index: u32,
) -> Attachment {
    let AttachedBrowser { label, tags, pool, .. } = browser;
    let name: Arc<str> = pool_name(index).into();
    let port = endpoint.local_port().map(|port| engines.ports.hold_attached(port));
    // If the list of closed ports cannot be written, attach all the same: browsers of greenroom's own then fail to
    // start, so none can reach this port.
    let port = port.transpose().unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot write the list of ports");
        None
    });
    let engine = engines.attach(settings, &name, pool, Arc::new(endpoint));
    let instance = InstanceSettings {
        alias: None,
        engine: engine.clone(),
        slots: pool.slots,
        lazy: true,
        call_timeout: pool.timeout,
        restarts: pool.restarts,
        retry: Retry::attached(settings.attach.cooldown),
        health_interval: pool.health_interval,
        health_timeout: pool.health_timeout,
        browser: super::pool_settings::browser(pool).to_owned(),
        headless: pool.headless,
    };
    let pool_settings = PoolSettings {
        name: name.to_string(),
        description: String::new(),
        is_default: false,
        size: PoolSize::Fixed(1),
        instance: Arc::new(move |_| {
            // Keeps the port closed to greenroom's own browsers for as long as this browser is attached.
            let _held = &port;
            instance.clone()
        }),
        strategy: Strategy::Fifo,
        sharing: super::pool_settings::sharing(pool),
        lease_timeout: pool.lease_timeout,
        warm: 0,
        spare_pause: Duration::ZERO,
        local_only: !pool.isolated,
        network: None,
        unproxied: true,
    };
    let settings = BrowserSettings {
        url: browser.shown_url(),
        address: browser.url.clone(),
        label: label.clone(),
        tags: tags.clone(),
        engine: pool.engine.to_string(),
        pool: pool_settings,
    };
    Attachment { settings, engine, answers: pool_answers(pool) }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use tokio::net::TcpListener;

    use super::*;

    struct OwnPort(u16);

    impl OwnPorts for OwnPort {
        fn contains(&self, port: u16) -> bool {
            port == self.0
        }
    }

    /// A machine that has this address and loopback.
    struct MachineWith(&'static str);

    impl OwnAddresses for MachineWith {
        fn contains(&self, address: IpAddr) -> Option<bool> {
            Some(self.0.parse() == Ok(address))
        }
    }

    fn ips(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// Of several addresses the first that accepts is taken; a single address is taken without a connection; if none
    /// accepts, the first.
    #[tokio::test]
    async fn the_first_address_that_accepts_is_chosen() {
        // All of 127.0.0.0/8 is this machine, and each of its addresses has ports of its own.
        let third = TcpListener::bind((Ipv4Addr::new(127, 0, 0, 3), 0)).await.unwrap();
        let port = third.local_addr().unwrap().port();
        let chosen = async |texts: &[&str]| first_reachable(&ips(texts), port).await.map(|ip| ip.to_string());
        assert_eq!(chosen(&["127.0.0.3"]).await.as_deref(), Some("127.0.0.3"));
        let connection = tokio::time::timeout(Duration::ZERO, third.accept()).await;
        assert!(connection.is_err(), "there is nothing to choose");
        assert_eq!(chosen(&["127.0.0.1", "127.0.0.2", "127.0.0.3"]).await.as_deref(), Some("127.0.0.3"));
        assert_eq!(chosen(&["127.0.0.2", "127.0.0.1"]).await.as_deref(), Some("127.0.0.2"));
        assert_eq!(chosen(&[]).await, None);
    }

    /// Every address of a name is checked: one forbidden address is enough, wherever it stands.
    #[test]
    fn one_forbidden_address_is_enough_to_refuse() {
        let machine = MachineWith("203.0.113.7");
        let checked =
            |texts: &[&str], port| check_addresses("chrome.lan", port, &ips(texts), &OwnPort(9222), &machine);
        assert_eq!(checked(&["192.0.2.1", "127.0.0.1"], 9223), Ok(()));
        assert_eq!(checked(&["192.0.2.1", "127.0.0.1"], 9222), Err(network::Blocked::OwnPort));
        assert_eq!(checked(&["192.0.2.1"], 9222), Ok(()), "another machine's port");
        assert_eq!(checked(&["192.0.2.1", "203.0.113.7"], 9222), Err(network::Blocked::OwnPort));
        assert_eq!(checked(&["192.0.2.1", "169.254.169.254"], 80), Err(network::Blocked::Metadata));
    }

    /// Metadata services are refused to agents by every name and address of the corpus; other names and addresses are not,
    /// since debuggers are on loopback and in local networks.
    #[test]
    fn metadata_services_are_refused() {
        for form in greenroom_testkit::ssrf::forms() {
            let Some(host) = form.host else { continue };
            let addresses: Vec<IpAddr> = form.address.into_iter().collect();
            let judged = check_name(host, 9223).and_then(|()| {
                check_addresses(host, 9223, &addresses, &OwnPort(9222), &MachineWith("203.0.113.7"))
            });
            let expected = if form.class == "metadata" { Err(network::Blocked::Metadata) } else { Ok(()) };
            assert_eq!(judged, expected, "{form:?}");
        }
    }
}
