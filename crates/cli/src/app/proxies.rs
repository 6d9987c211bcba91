//! The egress proxies: one that connects directly, and one for each upstream proxy that a pool is configured with.

use std::{
    collections::{BTreeSet, HashMap},
    net::SocketAddr,
    sync::Arc,
};

use anyhow::Context;
use greenroom_core::settings::Settings;
use greenroom_egress::{Proxy, Upstream};
use greenroom_engine::ports::{PortGuard, Ports};

use crate::report::CliError;

/// The proxies by their configured upstream.
pub struct Proxies(HashMap<Option<String>, (Proxy, PortGuard)>);

impl Proxies {
    pub async fn start(settings: &Settings, ports: &Ports) -> anyhow::Result<Self> {
        let mut proxies = HashMap::new();
        for name in upstreams(settings) {
            let upstream: Option<Upstream> = match &name {
                None => None,
                Some(url) => {
                    Some(url.parse().map_err(|error| CliError::usage(format!("PROXY_SERVER: {error}")))?)
                }
            };
            let proxy = Proxy::start(Arc::new(ports.clone()), upstream)
                .await
                .context("cannot start the egress proxy")?;
            // No browser may connect to the proxy's own port.
            let guard = ports.hold(proxy.address().port()).context("cannot write the list of own ports")?;
            proxies.insert(name, (proxy, guard));
        }
        Ok(Self(proxies))
    }

    pub fn addresses(&self) -> HashMap<Option<String>, SocketAddr> {
        self.0.iter().map(|(name, (proxy, _))| (name.clone(), proxy.address())).collect()
    }

    pub async fn shutdown(self) {
        for (proxy, guard) in self.0.into_values() {
            proxy.shutdown().await;
            drop(guard);
        }
    }
}

/// Every configured upstream, and `None` for direct connections.
fn upstreams(settings: &Settings) -> BTreeSet<Option<String>> {
    let declared = settings
        .pools
        .iter()
        .flat_map(|pool| pool.instances.iter().map(|instance| &instance.pool).chain([&pool.common]));
    let all = declared.chain([&settings.pool]).map(|pool| pool.proxy_server.clone());
    all.chain([None]).collect()
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
