//! Puts the house together: run folder, launcher, egress proxy, engine, fleet, gateway. And takes it apart again,
//! in the order that leaves nothing behind.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock, Weak},
    time::Duration,
};

use anyhow::Context;
use greenroom_core::{
    Engine, Policy,
    lease::Limits,
    settings::{EngineKind, Settings},
};
use greenroom_egress::Proxy;
use greenroom_engine::{
    CustomEngine, Offer, PlaywrightEngine, PlaywrightOptions, ToolsChanged,
    browser::Wanted,
    launcher::Launcher,
    ports::{PortGuard, Ports},
    run_folder::{self, RunFolder},
};
use greenroom_fleet::{Fleet, FleetSettings, PoolSettings};
use greenroom_gateway::{
    Catalog, Facts, Gateway, Source,
    control::{self, Control, Identity, Journal, Kind},
};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::{config::Surroundings, control::Listening};

/// How long a shutdown may take. Sessions close within a second or two; what takes longer is killed when this
/// process ends.
const SHUTDOWN: Duration = Duration::from_secs(10);

/// The one pool there is until others are declared.
const DEFAULT_POOL: &str = "DEFAULT";

/// How many spares a server keeps unless told otherwise. One is enough for sessions that come one by one; more
/// would cost memory on every machine for bursts that few have.
const SERVER_WARM: usize = 1;

/// How long the successor of a spare waits. Opening it takes a processor for as long as a session's first page does,
/// and that page is waited for: 165 ms with the two at once, 107 ms one after the other, on two cores.
const SPARE_PAUSE: Duration = Duration::from_millis(250);

/// How many spares are kept. One agent may never need a browser, so nothing is started before it calls; many agents
/// over a long time find browsers ready.
fn warm(kind: Kind, settings: &Settings) -> usize {
    settings.pool.warm.unwrap_or(match kind {
        Kind::Stdio => 0,
        Kind::Server => SERVER_WARM,
    })
}

/// Everything that has to be taken down again.
pub struct House {
    pub gateway: Arc<Gateway>,
    /// Whether browsers start before anybody calls.
    eager: bool,
    launcher: Launcher,
    proxy: Proxy,
    ports: Ports,
    /// Keeps browsers away from their own door.
    _proxy_port: PortGuard,
    run: Arc<RunFolder>,
    data_folder: PathBuf,
    /// Where whoever owns this process looks in; `None` for a house that serves no agents.
    control: Option<Listening>,
}

impl House {
    /// Starts nothing heavy: no browser, no engine.
    pub async fn build(kind: Kind, settings: &Settings, surroundings: &Surroundings) -> anyhow::Result<Self> {
        let data = &settings.data_dir;
        let place = || format!("cannot use the data folder: `{}`", data.display());
        run_folder::make_private(data).with_context(place)?;
        run_folder::reap(data);
        let run = Arc::new(RunFolder::claim(data).with_context(place)?);
        let launcher = Launcher::start(run.tag()).context("cannot start the launcher's thread")?;
        let ports = Ports::new(&run);
        let proxy =
            Proxy::start(Arc::new(ports.clone()), None).await.context("cannot start the egress proxy")?;
        let proxy_port = ports.hold(proxy.address().port()).with_context(place)?;

        let (tools_changed, catalog_slot) = later(DEFAULT_POOL);
        let engine: Arc<dyn Engine> = match settings.pool.engine {
            EngineKind::Playwright => Arc::new(PlaywrightEngine {
                options: Arc::new(options(settings, surroundings)),
                launcher: launcher.clone(),
                run: run.clone(),
                ports: ports.clone(),
                proxy: proxy.address(),
                tools_changed,
            }),
            EngineKind::Custom => Arc::new(custom(settings, launcher.clone(), run.clone(), tools_changed)?),
        };
        let source = Source { pool: DEFAULT_POOL.into(), engine: engine.clone(), several: false };
        let catalog = Catalog::new(vec![source], settings.sessions.scope, data.join("cache"));
        let _ = catalog_slot.set(Arc::downgrade(&catalog));
        let policy = policy(settings, &catalog)?;
        let warm = warm(kind, settings);
        let fleet = Fleet::new(fleet_settings(settings, warm), engine);
        let gateway = Arc::new(Gateway {
            fleet,
            catalog,
            policy,
            scope: settings.sessions.scope,
            facts: facts(settings),
            folder: surroundings.working_dir.clone(),
            parking: greenroom_gateway::Parking::default(),
            metrics: Arc::new(greenroom_gateway::Metrics::new(false)),
        });
        let data_folder = data.clone();
        let (eager, control) = (kind == Kind::Server || warm > 0, None);
        let _proxy_port = proxy_port;
        Ok(Self { gateway, eager, launcher, proxy, ports, _proxy_port, run, data_folder, control })
    }

    /// Begins to start the first browser and its spares, if this house has them ready before anybody calls.
    pub fn warm_up(&self) {
        if self.eager {
            self.gateway.fleet.start();
        }
    }

    /// Closes a port of greenroom's own to its browsers.
    pub fn hold(&self, port: u16) -> anyhow::Result<PortGuard> {
        self.ports.hold(port).context("cannot write the list of own ports")
    }

    /// This process's folder, and its name, which no other process has had.
    pub fn run_folder(&self) -> (&Path, &str) {
        (self.run.path(), self.run.tag())
    }

    /// Opens the control socket, with further routes beside its own. For a house that serves agents, before the first
    /// one is served. Without a socket greenroom serves agents all the same: some file systems have none.
    pub fn open_control(
        &mut self,
        kind: Kind,
        listen: Option<String>,
        journal: Arc<Journal>,
        routes: axum::Router,
    ) {
        let closing = CancellationToken::new();
        let control = Arc::new(Control {
            gateway: self.gateway.clone(),
            identity: Identity::new(env!("CARGO_PKG_VERSION"), kind, listen, self.data_folder.clone()),
            journal,
            closing: closing.clone(),
        });
        let routes = control::router(control).merge(routes).fallback(control::fallback);
        match Listening::open(self.run.path(), routes, closing) {
            Ok(listening) => self.control = Some(listening),
            Err(error) => {
                tracing::warn!(%error, "no control socket: `greenroom status` will not see this process");
            }
        }
    }

    /// Ends every session and every browser and waits for the fronts to end, then everything else. The control socket ends last, so that whoever
    /// looks in sees how.
    pub async fn take_down(self, fronts: impl Future<Output = ()>) {
        let Self { gateway, launcher, proxy, _proxy_port, run, control, .. } = self;
        let orderly = async {
            // Together: a front's end may wait for a session's, and a session's for the fleet's.
            tokio::join!(gateway.fleet.shutdown(), fronts);
            launcher.all_ended().await;
            proxy.shutdown().await;
        };
        if timeout(SHUTDOWN, orderly).await.is_err() {
            tracing::warn!("shutting down took too long; what is left is killed");
        }
        if let Some(control) = control {
            control.close().await;
        }
        drop((gateway, run));
    }
}

/// The engine of a pool tells of changed tools, the catalog is told; the engine comes first, so the catalog is filled in.
fn later(pool: &'static str) -> (ToolsChanged, Arc<OnceLock<Weak<Catalog>>>) {
    let slot = Arc::new(OnceLock::<Weak<Catalog>>::new());
    let told = slot.clone();
    let changed: ToolsChanged = Arc::new(move |offer| {
        let Some(catalog) = told.get().and_then(Weak::upgrade) else { return };
        match offer {
            Offer::AtStart(set) => catalog.offered(pool, &set),
            Offer::Announced(set) => catalog.announced(pool, &set),
        }
    });
    (changed, slot)
}

fn options(settings: &Settings, surroundings: &Surroundings) -> PlaywrightOptions {
    let pool = &settings.pool;
    PlaywrightOptions {
        data_folder: settings.data_dir.clone(),
        node: settings.node.clone(),
        places: surroundings.places(),
        slots: pool.slots,
        own_node: settings.tools.r#unsafe,
        headless: pool.headless,
        browser: Wanted::from(pool.browser).into(),
        executable_path: pool.executable_path.clone(),
        no_sandbox: pool.no_sandbox,
        viewport: (pool.viewport_size.width, pool.viewport_size.height),
        caps: pool.caps.iter().map(ToString::to_string).collect(),
        webmcp: settings.tools.webmcp,
        timeout_action: pool.timeout_action,
        timeout_navigation: pool.timeout_navigation,
        timeout_settle: pool.timeout_settle,
        user_agent: pool.user_agent.clone(),
        device: pool.device.clone(),
        ignore_https_errors: pool.ignore_https_errors,
        isolated: true,
        user_data_dir: None,
        storage_state: None,
        allowed_origins: Vec::new(),
        blocked_origins: Vec::new(),
        init_scripts: Vec::new(),
        image_responses: None,
        save_session: false,
        output_dir: None,
        extension: false,
        wsl_windows: false,
    }
}

fn custom(
    settings: &Settings,
    launcher: Launcher,
    run: Arc<RunFolder>,
    tools_changed: ToolsChanged,
) -> anyhow::Result<CustomEngine> {
    let (program, args) = settings.pool.command.split_first().context("`pool.command` is empty")?;
    let (program, args, slots) = (program.into(), args.to_vec(), settings.pool.slots);
    Ok(CustomEngine { program, args, slots, launcher, run, tools_changed })
}

fn policy(settings: &Settings, catalog: &Catalog) -> anyhow::Result<Policy> {
    let tools = &settings.tools;
    Policy::new(&tools.allow, &tools.deny, catalog.unsafe_tools(), tools.r#unsafe)
        .context("`tools.allow` or `tools.deny` has a bad pattern")
}

fn fleet_settings(settings: &Settings, warm: usize) -> FleetSettings {
    let (pool, sessions) = (&settings.pool, &settings.sessions);
    FleetSettings {
        pool: PoolSettings {
            name: DEFAULT_POOL.to_owned(),
            limits: Limits { slots: pool.slots, instances_max: pool.instances_max },
            lease_timeout: pool.lease_timeout,
            instance_idle: pool.instance_idle,
            warm,
            spare_pause: SPARE_PAUSE,
        },
        call_timeout: pool.timeout,
        idle_timeout: sessions.idle_timeout,
        max_lifetime: sessions.max_lifetime,
    }
}

fn facts(settings: &Settings) -> Facts {
    Facts {
        idle_timeout: settings.sessions.idle_timeout,
        max_lifetime: settings.sessions.max_lifetime,
        headless: settings.pool.headless,
        declared: false,
    }
}
