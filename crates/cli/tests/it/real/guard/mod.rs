//! The guard against hostile pages, with the real engine and real Chromiums: every form of the SSRF corpus, in every way
//! in which a page can connect.
//!
//! The egress proxy runs in the test, with a network that connects to loopback only and records the rest. Under `guarded`
//! nothing is dialled and no victim is reached; the same attack under `open` reaches the victims by every spelling of
//! loopback that Chromium sends.

mod attack_site;
mod audit;
mod corpus;
mod metadata;
mod notes;
mod session_policy;
mod sessions;

use std::{
    io,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex},
    time::Duration,
};

use greenroom_core::{
    BoxFuture, Engine, Instance, InstanceId, Owner,
    network::NetworkPolicy,
    port::{PortUser, RefusalReport, RefusalSink, RefusedConnection},
    settings::{Browser, NetworkPreset},
};
use greenroom_egress::{Connect, Proxy, ProxyOptions, Resolve};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine, browser::InstallPaths, launcher::Launcher, ports::Ports,
    run_folder::RunFolder,
};
use greenroom_testkit::{RecordingDialer, ssrf};
use tokio::net::TcpStream;

use self::attack_site::AttackSite;
use super::{fixture::DataFolder, instance::TestSeat};

/// How long an instance may take to end on its own; the same as the fleet's.
const GRACE: Duration = Duration::from_secs(2);

/// The proxy's network.
struct RecordedNetwork(Arc<RecordingDialer>);

impl Connect for RecordedNetwork {
    fn connect(&self, address: SocketAddr) -> BoxFuture<'_, io::Result<TcpStream>> {
        Box::pin(self.0.dial(address))
    }
}

/// The names of the corpus.
struct CorpusNames;

impl Resolve for CorpusNames {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        Box::pin(async move { ssrf::resolve(name.trim_end_matches('.')) })
    }
}

/// Every refusal, with the user of its port.
#[derive(Default)]
struct KeptRefusals(Mutex<Vec<(Option<PortUser>, RefusedConnection)>>);

impl RefusalSink for KeptRefusals {
    fn refused(&self, report: RefusalReport<'_>) {
        if report.is_new {
            self.0.lock().unwrap().push((report.user.cloned(), report.refused.clone()));
        }
    }
}

/// Ann, in a session of this name with this policy.
fn user(session: &str, network: Option<NetworkPolicy>) -> PortUser {
    PortUser { owner: Owner::new("ann"), session: Some(session.into()), network: network.map(Arc::new) }
}

/// A Chromium behind a proxy with a policy, and the hostile site, which the policy permits.
struct GuardFixture {
    instance: Arc<dyn Instance>,
    site: AttackSite,
    network: Arc<RecordingDialer>,
    refusals: Arc<KeptRefusals>,
    proxy: Proxy,
    _run: Arc<RunFolder>,
    _data: DataFolder,
}

impl GuardFixture {
    async fn start(browser: Browser, preset: NetworkPreset) -> Self {
        let site = AttackSite::start().await;
        let data = DataFolder::new();
        let run = Arc::new(RunFolder::claim(data.path()).unwrap());
        let ports = Ports::new(&run);
        let network = Arc::new(RecordingDialer::new().with_loopback());
        let refusals = Arc::new(KeptRefusals::default());
        let policy =
            NetworkPolicy { preset, allow: vec![site.host().parse().unwrap()], ..NetworkPolicy::OPEN };
        let proxy = Proxy::start(ProxyOptions {
            policy,
            resolver: Arc::new(CorpusNames),
            connector: Arc::new(RecordedNetwork(network.clone())),
            sink: refusals.clone(),
            ..ProxyOptions::new(Arc::new(ports.clone()))
        })
        .await
        .unwrap();
        let install_paths =
            InstallPaths::new(std::env::home_dir(), std::env::var_os("PATH").unwrap_or_default());
        let mut options = EngineOptions::new(data.path().to_owned(), install_paths);
        options.pool.timeout_settle = Some(Duration::ZERO);
        options.pool.slots = 4;
        options.pool.browser = browser;
        let engine = PlaywrightEngine(EngineBase {
            options: Arc::new(options),
            launcher: Launcher::start(run.tag()).unwrap(),
            run: run.clone(),
            ports,
            proxy: proxy.address(),
            egress: proxy.ports(),
            tools_changed: Arc::new(|_| {}),
        });
        let instance = engine.start(InstanceId(0)).await.unwrap_or_else(|error| panic!("{error}"));
        Self { instance, site, network, refusals, proxy, _run: run, _data: data }
    }

    /// Opens a seat for a session of this name.
    async fn seat(&self, session: &str, network: Option<NetworkPolicy>) -> TestSeat {
        let mut seat = TestSeat::open(&self.instance).await;
        seat.0.assign(user(session, network));
        seat
    }

    /// What was dialled, except for the hostile site.
    fn dials(&self) -> Vec<SocketAddr> {
        self.network.dials().into_iter().filter(|dial| dial.port() != self.site.port()).collect()
    }

    fn refusals(&self) -> Vec<(Option<PortUser>, RefusedConnection)> {
        self.refusals.0.lock().unwrap().clone()
    }

    async fn end(self) {
        self.instance.stop(GRACE).await;
        self.proxy.shutdown().await;
    }
}
