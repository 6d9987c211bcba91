//! The egress proxies: one for each pool, and one more for each upstream proxy and network policy that some instances of a
//! pool have of their own.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use greenroom_core::{
    network::NetworkPolicy,
    port::{Egress, RefusalSink},
    settings::{Pool, Settings},
};
use greenroom_egress::{Proxy, ProxyOptions, Upstream};
use greenroom_engine::ports::{PortGuard, Ports};

use super::pool_settings::BUILT_IN;
use crate::report::CliError;

/// The running proxies, each with what it was made for.
pub struct Proxies(Vec<(ProxyKey, Proxy, PortGuard)>);

/// What tells proxies apart. Instances with equal keys share a proxy.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ProxyKey {
    /// Refusals are counted for each pool.
    pool: Arc<str>,
    upstream: Option<String>,
    trust_upstream: Option<bool>,
    policy: NetworkPolicy,
    /// The browsers of Windows connect from outside this Linux, so its kernel cannot say which user they belong to.
    serves_windows: bool,
}

impl ProxyKey {
    fn of_pool(settings: &Settings, name: &Arc<str>, pool: &Pool) -> Self {
        Self {
            pool: name.clone(),
            upstream: pool.proxy_server.clone(),
            trust_upstream: settings.network.trust_upstream,
            policy: settings.network_policy(pool),
            serves_windows: pool.wsl_windows,
        }
    }
}

/// How the browsers of a pool reach the network.
#[derive(Clone)]
pub struct PoolEgress {
    /// The proxy's port for browsers that an engine starts.
    pub address: SocketAddr,
    /// Opens the ports for browsers that greenroom starts.
    pub ports: Arc<dyn Egress>,
}

/// The proxies as engines use them. Cheap to clone.
#[derive(Clone)]
pub struct EgressDirectory(Arc<[(ProxyKey, PoolEgress)]>);

impl EgressDirectory {
    /// The egress proxy of the pool's browsers. A pool whose network was configured after the start has none: the reload
    /// logs that it needs a restart.
    pub fn find(&self, settings: &Settings, name: &Arc<str>, pool: &Pool) -> PoolEgress {
        let key = ProxyKey::of_pool(settings, name, pool);
        let found = self.0.iter().find(|(known, _)| *known == key);
        found.map_or_else(
            || PoolEgress { address: NO_PROXY, ports: Arc::new(NoEgress) },
            |(_, egress)| egress.clone(),
        )
    }
}

/// The discard port of loopback: nothing listens there, so that traffic of browsers without a proxy fails.
const NO_PROXY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

/// Stands for a proxy that was not started.
struct NoEgress;

impl Egress for NoEgress {
    fn open_port(&self) -> std::io::Result<Arc<dyn greenroom_core::port::EgressPort>> {
        Err(std::io::Error::other("the pool's network settings have changed: restart greenroom"))
    }
}

impl Proxies {
    pub async fn start(
        settings: &Settings,
        ports: &Ports,
        sink: &Arc<dyn RefusalSink>,
    ) -> anyhow::Result<Self> {
        let mut proxies: Vec<(ProxyKey, Proxy, PortGuard)> = Vec::new();
        for key in keys(settings) {
            if proxies.iter().any(|(known, ..)| *known == key) {
                continue;
            }
            let upstream: Option<Upstream> = match &key.upstream {
                None => None,
                Some(url) => {
                    Some(url.parse().map_err(|error| CliError::usage(format!("PROXY_SERVER: {error}")))?)
                }
            };
            let options = ProxyOptions {
                pool: Some(key.pool.clone()),
                policy: key.policy.clone(),
                upstream,
                trust_upstream: key.trust_upstream,
                serves_all_users: key.serves_windows,
                sink: sink.clone(),
                ..ProxyOptions::new(Arc::new(ports.clone()))
            };
            let proxy = Proxy::start(options).await.context("cannot start the egress proxy")?;
            // No browser may connect to the proxy's own port.
            let guard = ports.hold(proxy.address().port()).context("cannot write the list of own ports")?;
            proxies.push((key, proxy, guard));
        }
        Ok(Self(proxies))
    }

    pub fn directory(&self) -> EgressDirectory {
        let egress = |(key, proxy, _): &(ProxyKey, Proxy, PortGuard)| {
            (key.clone(), PoolEgress { address: proxy.address(), ports: proxy.ports() })
        };
        EgressDirectory(self.0.iter().map(egress).collect())
    }

    pub async fn shutdown(self) {
        for (_, proxy, guard) in self.0 {
            proxy.shutdown().await;
            drop(guard);
        }
    }
}

/// What the proxies of all pools must be made for.
fn keys(settings: &Settings) -> Vec<ProxyKey> {
    let mut keys = Vec::new();
    if let Some(pool) = settings.built_in() {
        keys.push(ProxyKey::of_pool(settings, &BUILT_IN.into(), pool));
    }
    for declared in &settings.pools {
        let name: Arc<str> = declared.name.as_str().into();
        let instances = declared.instances.iter().map(|instance| &instance.pool);
        keys.extend(instances.chain([&declared.common]).map(|pool| ProxyKey::of_pool(settings, &name, pool)));
    }
    keys
}

#[cfg(test)]
mod tests {
    use greenroom_core::settings::{Sources, resolve};

    use super::*;

    /// The setting and the egress proxy both parse the address, and agree on credentials.
    #[test]
    fn setting_and_proxy_agree_on_credentials() {
        for credentials in [
            "ann:secret@",
            "ann@",
            "ann:@",
            "ann:a:b@",
            "CORP%5Cann:p%40s%3As%2f%25%C3%A9@",
            "ann:50%off@",
            "ann:50%@",
            "ann:p@ss@",
            "ann:p/ss@",
            "ann:p?ss@",
            "ann:p#ss@",
            "@",
            ":secret@",
            "a%3ab:secret@",
        ] {
            let url = format!("http://{credentials}proxy:1");
            let flags = vec![("pool.proxy_server", url.clone())];
            let setting = resolve(&Sources { data_dir: Some("/d".into()), flags, ..Sources::default() });
            assert_eq!(setting.is_ok(), url.parse::<Upstream>().is_ok(), "{url}");
        }
    }
}
