//! The demo: a shop on loopback, and agents that use it at the same time, each through its own connection and session,
//! over the same HTTP front that `greenroom serve` has.
//!
//! It needs no running server, and leaves nothing behind. It joins no server, and no front finds it: other greenrooms
//! must not change what it shows. Browsers can reach the shop's port, as any site's, but not the front's port.

mod agent;
pub mod catalog;
mod script;
mod site;
mod view;

use std::{
    net::Ipv4Addr,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use axum::serve::Listener;
use futures_util::future::try_join_all;
use greenroom_core::{
    StartError,
    settings::{EngineKind, Scope, Settings},
};
use greenroom_engine::{browser, install};
use greenroom_gateway::{
    ClientLocation,
    control::ProcessKind,
    front::http::{self, ConnectionLimits, HostRules, HttpClients, HttpState, KeyRing, Probes},
};
use greenroom_mcp::link::http::HttpEndpoint;
use tokio::net::TcpListener;
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{app::App, config::ProcessEnv, report::CliError, tcp::OwnUserListener, view::terminal::Terminal};
use agent::DemoAgent;
use catalog::{Role, roles};
use script::{DemoStep, STEPS, run_step};
use view::{DemoPrinter, DemoTotals};

/// How a demo that ran to its end came out.
pub enum DemoOutcome {
    Fine,
    /// The first problem, and how many agents had one.
    Failed {
        agents: usize,
        message: String,
        hint: Option<String>,
    },
}

/// Reports what is missing before anything starts.
pub fn check(settings: &Settings, env: &ProcessEnv) -> anyhow::Result<()> {
    let pool = &settings.pool;
    if pool.engine != EngineKind::Playwright {
        return Err(CliError::usage(format!(
            "the demo knows the playwright engine's tools, and `pool.engine` is `{}`",
            pool.engine
        ))
        .hint("give --pool-engine playwright")
        .into());
    }
    install::PLAYWRIGHT.locate(&settings.data_dir).map_err(StartError::from)?;
    browser::find(&env.install_paths(), pool.headless, pool.browser.into(), pool.executable_path.as_deref())
        .map_err(|error| CliError::failure(error.to_string()).hint(error.hint()))?;
    Ok(())
}

/// Runs the demo from beginning to end, then shuts everything down. `None` when it was stopped before its end.
pub async fn run(
    settings: &Settings,
    env: &ProcessEnv,
    agents: u8,
    json: bool,
    stop: CancellationToken,
) -> anyhow::Result<Option<DemoOutcome>> {
    let mut settings = settings.clone();
    // No session comes after those of the agents, so none would use a spare.
    settings.pool.warm = Some(0);
    // The demo shows the built-in pool, whatever else is declared; it uses no attached browser.
    settings.pools = Vec::new();
    settings.browsers = Vec::new();
    settings.sessions.scope = Scope::Connection;
    // The user's records hold the calls of the user's agents, not those of the demo.
    settings.records.enabled = false;
    let (shop, shop_url) = listen().await?;
    let (front, front_url) = listen().await?;
    let address = front.local_addr().context("cannot tell where the front listens")?;
    let app = App::build(ProcessKind::Server, &settings, env).await?;
    // Close the port to browsers before any page can know it.
    let port = app.block_port(address.port())?;
    let closing = CancellationToken::new();
    let http_state = Arc::new(HttpState {
        gateway: app.gateway.clone(),
        clients: Arc::new(HttpClients::default()),
        probes: Arc::new(Probes { server: app.run_folder().1.to_owned() }),
        location: ClientLocation::Network,
        keys: None,
        public_probes: false,
        rules: Some(HostRules { address: Some(address.ip()), ..HostRules::default() }),
        stop: closing.clone(),
        tasks: TaskTracker::new(),
    });
    app.warm_up();
    let demo = DemoRun {
        roles: roles(agents),
        app: &app,
        shop: shop_url,
        front: format!("{front_url}/mcp"),
        printer: DemoPrinter::new(&roles(agents), json, Terminal::stdout(env)),
    };
    let playing = async {
        let done = tokio::select! {
            done = demo.run_steps() => Some(done),
            () = stop.cancelled() => None,
        };
        closing.cancel();
        done.transpose()
    };
    let (outcome, (), (), ()) = tokio::join!(
        playing,
        http::serve(shop, site::router(), ConnectionLimits::default(), closing.clone()),
        http::serve(
            front,
            http::port_router(http_state.clone()),
            ConnectionLimits::default(),
            closing.clone()
        ),
        http::maintain_clients(http_state.clone()),
    );
    drop(demo);
    app.shut_down(http_state.end()).await;
    drop(port);
    outcome
}

/// A listener on a free port of loopback for programs of this user, and its URL.
async fn listen() -> anyhow::Result<(impl Listener<Addr = std::net::SocketAddr>, String)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on 127.0.0.1")?;
    let url = format!("http://{}", listener.local_addr().context("cannot tell where the demo listens")?);
    let no_keys = Arc::new(KeyRing::new(CancellationToken::new()));
    let listener = OwnUserListener::new(listener, false, no_keys);
    Ok((crate::tcp::with_options(listener), url))
}

/// The parts that run while the agents work.
struct DemoRun<'a> {
    roles: Vec<Role>,
    app: &'a App,
    shop: String,
    front: String,
    printer: DemoPrinter,
}

impl DemoRun<'_> {
    async fn run_steps(&self) -> anyhow::Result<DemoOutcome> {
        let front = HttpEndpoint::new(self.front.parse().context("the front's own URL cannot be read")?)?;
        let mut agents: Vec<_> = self.roles.iter().map(|role| DemoAgent::new(*role, &front)).collect();
        self.printer.opening(agents.len(), &self.shop, &self.front)?;
        let mut start = Duration::ZERO;
        let mut began = Instant::now();
        for step in STEPS {
            self.printer.step_title(step.title())?;
            let parts = agents.iter_mut().map(|agent| run_step(step, agent, &self.shop, &self.printer));
            try_join_all(parts).await?;
            if agents.iter().all(|agent| agent.error.is_some()) {
                break;
            }
            if step == DemoStep::Open {
                // A running server has its browser ready, so measure the browser's start separately.
                start = began.elapsed();
                began = Instant::now();
                agents.iter_mut().for_each(DemoAgent::reset_counters);
            }
        }
        let took = began.elapsed();
        let chromiums = self.chromiums();
        self.printer.ending(&agents, &DemoTotals { chromiums, start, took })?;
        let mut failed = agents.iter().filter_map(|agent| Some((agent, agent.error.as_ref()?)));
        Ok(match failed.next() {
            None => DemoOutcome::Fine,
            Some((agent, error)) => DemoOutcome::Failed {
                agents: 1 + failed.count(),
                message: format!("{}: {}", agent.role.name, error.message),
                hint: error.hint.clone(),
            },
        })
    }

    /// How many browsers the agents shared.
    fn chromiums(&self) -> usize {
        self.app.gateway.fleet.pools().iter().map(|pool| pool.instances.len()).sum()
    }
}
