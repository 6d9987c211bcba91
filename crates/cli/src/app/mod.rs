//! [`App`] is everything that runs in a greenroom that serves agents: run folder, launcher, egress proxies, engines,
//! store, fleet, gateway, control socket. [`App::build`] makes these parts, [`App::shut_down`] ends them in an order
//! that leaves nothing behind. `verb/serve.rs` and `verb/mcp.rs` own the app and add their fronts.

mod attacher;
pub mod audit;
mod declared;
mod engines;
mod pool_settings;
mod proxies;
pub mod records;
mod refusals;

use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use greenroom_core::{
    Policy, Records,
    audit::Audit,
    port::RefusalSink,
    settings::{AutoOnOff, Settings},
};
use greenroom_engine::{
    cgroup::DelegatedGroup,
    launcher::Launcher,
    ports::{PortGuard, Ports},
    run_folder::{self, RunFolder},
};
use greenroom_fleet::{Fleet, FleetSettings};
use greenroom_gateway::{
    AttachPolicy, Catalog, FleetWatcher, Gateway, Recall,
    control::{self, Control, ProcessIdentity, ProcessKind, RecentLog},
};
use greenroom_store::{AuditLog, Store};
use tokio::time::timeout;
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

use self::{
    attacher::Attacher, declared::DeclaredBrowsers, engines::Engines, proxies::Proxies,
    refusals::ReportedRefusals,
};
use crate::{
    config::ProcessEnv,
    control::{ControlServer, NETWORK_FILE},
    join,
    owner_quotas::OwnerQuotas,
    reload::BrowserChanges,
    sleep_watch,
};

/// How long a shutdown may take. Sessions close within a second or two; processes that take longer are killed when this
/// process ends.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// The parts that run. [`App::shut_down`] ends them.
pub struct App {
    pub gateway: Arc<Gateway>,
    /// What each owner may use at once; a server with keys says what those permit.
    pub quotas: Arc<OwnerQuotas>,
    /// Whether browsers start before the first call.
    starts_browsers_eagerly: bool,
    /// Whether greenroom connects to attached browsers before the first call.
    connects_browsers_eagerly: bool,
    launcher: Launcher,
    proxies: Proxies,
    engines: Engines,
    declared: DeclaredBrowsers,
    ports: Ports,
    run: Arc<RunFolder>,
    /// The store of call records, if they are kept.
    store: Option<Arc<Store>>,
    audit_log: Option<Arc<AuditLog>>,
    data_folder: PathBuf,
    /// Its network policies, as [`crate::join::network_text`] writes them.
    network: String,
    /// Detects that the machine slept.
    _sleep_watch: AbortOnDropHandle<()>,
    /// The control socket for this process's user; `None` in a process that serves no agents.
    control: Option<ControlServer>,
}

impl App {
    /// Makes all parts, and starts no browser and no engine.
    pub async fn build(kind: ProcessKind, settings: &Settings, env: &ProcessEnv) -> anyhow::Result<Self> {
        engines::check(settings)?;
        let data = &settings.data_dir;
        let context = || format!("cannot use the data folder: `{}`", data.display());
        run_folder::make_private(data).with_context(context)?;
        run_folder::reap(data);
        let run = Arc::new(RunFolder::claim(data).with_context(context)?);
        let launcher = Launcher::start(run.tag()).context("cannot start the launcher's thread")?;
        // Before the first child starts: a cgroup with children cannot be divided.
        let launcher = match DelegatedGroup::find().and_then(DelegatedGroup::claim) {
            Ok(tree) => launcher.with_cgroups(tree),
            Err(why) => {
                tracing::debug!(%why, "browsers get no cgroups; greenroom watches them");
                launcher
            }
        };
        let ports = Ports::new(&run);
        let metrics = Arc::new(greenroom_gateway::Metrics::default());
        let audit_log = audit::start(settings);
        let audit = audit_log.clone().map(|log| -> Arc<dyn Audit> { log });
        let sink: Arc<dyn RefusalSink> =
            Arc::new(ReportedRefusals { audit: audit.clone(), metrics: metrics.clone() });
        let proxies = Proxies::start(settings, &ports, &sink).await?;
        let engines = Engines {
            launcher: launcher.clone(),
            run: run.clone(),
            ports: ports.clone(),
            install_paths: env.install_paths(),
            egress: proxies.directory(),
            catalog: Arc::default(),
        };
        let catalog = Catalog::new(
            pool_settings::sources(settings, &engines),
            settings.sessions.scope,
            settings.tools.profile,
            settings.records.enabled,
            data.join("cache"),
        );
        let _ = engines.catalog.set(Arc::downgrade(&catalog));
        let policy = policy(settings, &catalog)?;
        let pools = pool_settings::settings(kind, settings, &engines);
        let starts_browsers_eagerly = kind == ProcessKind::Server || pools.iter().any(|pool| pool.warm > 0);
        let quotas = Arc::new(OwnerQuotas::new(settings));
        let fleet_settings = FleetSettings {
            pools,
            starts_max: std::thread::available_parallelism().map_or(1, NonZeroUsize::get),
            idle_timeout: settings.sessions.idle_timeout,
            max_lifetime: settings.sessions.max_lifetime,
            quotas: quotas.clone(),
        };
        let attacher = Arc::new(Attacher { settings: Arc::new(settings.clone()), engines: engines.clone() });
        let store = records::open(settings, run.tag());
        let records = store.clone().map(|store| -> Arc<dyn Records> { store });
        let watch = Arc::new(FleetWatcher { metrics: metrics.clone(), records: records.clone() });
        let gateway = Arc::new(Gateway {
            fleet: Fleet::new(fleet_settings, watch),
            catalog,
            policy,
            scope: settings.sessions.scope,
            facts: pool_settings::instruction_facts(settings),
            attaching: AttachPolicy {
                allowed: settings.attach.changes,
                configured: !settings.browsers.is_empty(),
                attacher: Some(attacher.clone()),
            },
            folder: env.working_dir.clone(),
            suspended_calls: greenroom_gateway::SuspendedCalls::default(),
            metrics,
            audit,
            answering: tokio_util::task::TaskTracker::new(),
            commands: tokio::sync::watch::Sender::default(),
            recall: Recall {
                records,
                responses: settings.responses,
                pool_overrides: pool_settings::answers(settings).into(),
                inline_tokens: settings.inline_tokens,
                pictures: settings.pictures,
                picture_side_pixels: u32::try_from(settings.picture_side_pixels).unwrap_or(u32::MAX),
                redact: settings.records.redact.clone(),
                uploads: greenroom_gateway::Uploads::new(settings.blobs.upload_bytes_max, settings.blobs.ttl),
                ..Recall::none()
            },
        });
        let declared = DeclaredBrowsers::new(attacher);
        for browser in &settings.browsers {
            declared.attach(&gateway, browser)?;
        }
        let data_folder = data.clone();
        let control = None;
        let _sleep_watch = sleep_watch::watch(gateway.fleet.clone());
        Ok(Self {
            gateway,
            quotas,
            starts_browsers_eagerly,
            connects_browsers_eagerly: match settings.attach.eager {
                AutoOnOff::Auto => kind == ProcessKind::Server,
                AutoOnOff::On => true,
                AutoOnOff::Off => false,
            },
            launcher,
            proxies,
            engines,
            declared,
            ports,
            run,
            store,
            audit_log,
            data_folder,
            network: join::network_text(settings),
            _sleep_watch,
            control,
        })
    }

    /// Begins to start browsers and spares, if this process has them ready before the first call.
    pub fn warm_up(&self) {
        if self.starts_browsers_eagerly {
            self.gateway.fleet.start();
        }
        if self.connects_browsers_eagerly {
            self.gateway.fleet.connect_browsers();
        }
    }

    /// Closes a port of greenroom's own to its browsers.
    pub fn block_port(&self, port: u16) -> anyhow::Result<PortGuard> {
        self.ports.hold(port).context("cannot write the list of own ports")
    }

    /// This process's folder, and its name, which is unique over time.
    pub fn run_folder(&self) -> (&Path, &str) {
        (self.run.path(), self.run.tag())
    }

    /// Opens the control socket with these further routes. A process that serves agents does so before it serves the first
    /// agent. If that fails, greenroom serves agents all the same: some file systems have no sockets.
    pub fn open_control(
        &mut self,
        kind: ProcessKind,
        idle_exit: Option<Duration>,
        listen: Option<String>,
        recent_log: Arc<RecentLog>,
        routes: axum::Router,
    ) {
        let closing = CancellationToken::new();
        let control = Arc::new(Control {
            gateway: self.gateway.clone(),
            identity: ProcessIdentity {
                idle_exit,
                ..ProcessIdentity::new(env!("CARGO_PKG_VERSION"), kind, listen, self.data_folder.clone())
            },
            recent_log,
            closing: closing.clone(),
        });
        let routes = control::router(control).merge(routes).fallback(control::fallback);
        let network_file = self.run.path().join(NETWORK_FILE);
        if let Err(error) = run_folder::write_atomically(&network_file, self.network.as_bytes()) {
            tracing::warn!(%error, "cannot write the network policy: processes that require one do not use this one");
        }
        match ControlServer::open(self.run.path(), routes, closing) {
            Ok(listening) => self.control = Some(listening),
            Err(error) => {
                tracing::warn!(%error, "cannot open the control socket: `greenroom status` will not show this process");
            }
        }
    }

    /// Applies new settings, as far as they can change while greenroom runs. The caller reports the others.
    pub fn apply(&self, kind: ProcessKind, settings: &Settings) -> anyhow::Result<()> {
        let known = self.gateway.fleet.pool_names();
        for pool in pool_settings::settings(kind, settings, &self.engines) {
            // greenroom makes a new pool when it restarts.
            if known.contains(&pool.name) {
                self.gateway.fleet.apply(pool)?;
            }
        }
        Ok(())
    }

    /// Adds browsers that are now declared, and removes those that no longer are. Returns the addresses of those that could
    /// not be added.
    pub async fn apply_browser_changes(&self, changes: &BrowserChanges) -> Vec<String> {
        // Add new browsers first, so that there is always one. A new browser that conflicts with an old one waits until
        // that is removed.
        let mut waiting = changes.new.clone();
        waiting.retain(|browser| self.declared.attach(&self.gateway, browser).is_err());
        for browser in &changes.gone {
            self.declared.detach(&self.gateway, browser).await;
        }
        let mut refused = Vec::new();
        for browser in &waiting {
            if let Err(error) = self.declared.attach(&self.gateway, browser) {
                tracing::error!("browser `{}` cannot be attached: {error}", browser.shown_url());
                refused.push(browser.url.clone());
            }
        }
        if self.connects_browsers_eagerly && !changes.new.is_empty() {
            self.gateway.fleet.connect_browsers();
        }
        refused
    }

    /// Ends every session and every browser, waits for the fronts to end, then ends the rest. The control socket ends last,
    /// so that its clients can follow the shutdown.
    pub async fn shut_down(self, fronts: impl Future<Output = ()>) {
        let Self { gateway, launcher, proxies, run, store, audit_log, control, .. } = self;
        let orderly = async {
            // Together: a front may wait for a session to end, and the fleet ends the sessions.
            tokio::join!(gateway.fleet.shutdown(), fronts);
            if let Some(store) = &store {
                // Only now has the last call ended, and the last session: no more records come.
                store.close().await;
            }
            launcher.all_ended().await;
            proxies.shutdown().await;
            if let Some(audit_log) = &audit_log {
                // Only now has the last browser's last connection ended.
                audit_log.close().await;
            }
        };
        if timeout(SHUTDOWN_TIMEOUT, orderly).await.is_err() {
            tracing::warn!("the shutdown took too long; killing the processes that are left");
        }
        if let Some(control) = control {
            control.close().await;
        }
        drop((gateway, run));
    }
}

fn policy(settings: &Settings, catalog: &Catalog) -> anyhow::Result<Policy> {
    let tools = &settings.tools;
    Policy::new(&tools.allow, &tools.deny, catalog.unsafe_tools(), tools.r#unsafe)
        .context("`tools.allow` or `tools.deny` has a bad pattern")
}
