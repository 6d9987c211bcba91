//! The settings of the fleet's pools: the declared ones, or the built-in one.

use std::{collections::HashMap, sync::Arc, time::Duration};

use greenroom_core::{
    InstanceId,
    lease::{Sharing, Strategy},
    network::NetworkPolicy,
    settings::{Browser, DeclaredInstance, DeclaredPool, Pool, Settings},
};
use greenroom_fleet::{InstanceSettings, PoolSettings, PoolSize, Retry};
use greenroom_gateway::{InstructionFacts, PoolAnswers, ToolSource, control::ProcessKind};

use super::engines::Engines;

/// The only pool until others are declared.
pub const BUILT_IN: &str = "DEFAULT";

/// How many spares a server keeps in the built-in pool by default. One is enough for sessions that come one by one; more
/// would cost memory on every machine for bursts that few have.
const SERVER_WARM: usize = 1;

/// How long a pool waits before it replaces a spare that a session took. Opening a spare keeps a core as busy as the
/// session's first page does, and an agent waits for that page: 165 ms with both at once, 107 ms otherwise, on two
/// cores.
const SPARE_PAUSE: Duration = Duration::from_millis(250);

pub fn settings(kind: ProcessKind, settings: &Settings, engines: &Engines) -> Vec<PoolSettings> {
    // Instances that are made later use these settings.
    let all = Arc::new(settings.clone());
    if settings.built_in().is_some() {
        return vec![built_in(kind, &all, engines)];
    }
    settings.pools.iter().map(|pool| declared(pool, &all, engines)).collect()
}

/// The pools as sources of tools, the default one first.
pub fn sources(settings: &Settings, engines: &Engines) -> Vec<ToolSource> {
    let all = Arc::new(settings.clone());
    let source = |name: &str, pool: &Pool, has_instance_choice| {
        let name: Arc<str> = name.into();
        let engine = engines.make(&all, &name, pool, InstanceId(0));
        ToolSource { pool: name, engine, has_instance_choice }
    };
    if let Some(pool) = settings.built_in() {
        return vec![source(BUILT_IN, pool, false)];
    }
    let mut pools: Vec<_> = settings.pools.iter().collect();
    pools.sort_by_key(|pool| !pool.is_default);
    pools.into_iter().map(|pool| source(&pool.name, &pool.common, pool.instances.len() > 1)).collect()
}

/// How much of an answer agents receive, for pools that set it.
pub fn answers(settings: &Settings) -> HashMap<String, PoolAnswers> {
    let built_in = settings.built_in().map(|pool| (BUILT_IN, pool));
    let declared = settings.pools.iter().map(|pool| (pool.name.as_str(), &pool.common));
    let all = built_in.into_iter().chain(declared);
    all.map(|(name, pool)| (name.to_owned(), pool_answers(pool))).collect()
}

/// How much of an answer agents receive from one pool.
pub fn pool_answers(pool: &Pool) -> PoolAnswers {
    PoolAnswers { responses: pool.responses, pictures: pool.pictures }
}

pub fn instruction_facts(settings: &Settings) -> InstructionFacts {
    InstructionFacts {
        idle_timeout: settings.sessions.idle_timeout,
        max_lifetime: settings.sessions.max_lifetime,
        headless: settings.instances().iter().all(|(_, pool)| pool.headless),
        isolated: settings.instances().iter().all(|(_, pool)| pool.isolated),
        declared: !settings.pools.is_empty(),
    }
}

fn built_in(kind: ProcessKind, all: &Arc<Settings>, engines: &Engines) -> PoolSettings {
    let pool = &all.pool;
    // A single agent may never need a browser, so none starts before its first call. A server keeps browsers ready for
    // many agents over a long time.
    let warm = pool.warm.unwrap_or(match kind {
        ProcessKind::Stdio => 0,
        ProcessKind::Server => SERVER_WARM,
    });
    let settings = all.clone();
    let engines = engines.clone();
    let name = Arc::from(BUILT_IN);
    PoolSettings {
        name: BUILT_IN.to_owned(),
        description: String::new(),
        is_default: true,
        size: PoolSize::Elastic { instances_max: pool.instances_max, idle: pool.instance_idle },
        instance: Arc::new(move |id| instance(&settings, &engines, &name, &settings.pool, None, id)),
        strategy: pool.lease_strategy.unwrap_or(Strategy::Fill),
        sharing: sharing(pool),
        lease_timeout: pool.lease_timeout,
        warm,
        spare_pause: SPARE_PAUSE,
        local_only: !pool.isolated,
        network: network(all, pool, &[]),
        unproxied: !pool.is_proxied(),
    }
}

fn declared(pool: &DeclaredPool, all: &Arc<Settings>, engines: &Engines) -> PoolSettings {
    let settings = all.clone();
    let engines = engines.clone();
    let name: Arc<str> = pool.name.as_str().into();
    let instances = pool.instances.clone();
    let common = pool.common.clone();
    let isolated = pool.common.isolated && pool.instances.iter().all(|instance| instance.pool.isolated);
    PoolSettings {
        name: pool.name.clone(),
        description: pool.description.clone(),
        is_default: pool.is_default,
        size: PoolSize::Fixed(pool.instances.len()),
        instance: Arc::new(move |id| match instances.get(id.0 as usize) {
            Some(own) => instance(&settings, &engines, &name, &own.pool, own.alias.clone(), id),
            None => instance(&settings, &engines, &name, &common, None, id),
        }),
        strategy: pool.common.lease_strategy.unwrap_or(Strategy::Fifo),
        sharing: sharing(&pool.common),
        lease_timeout: pool.common.lease_timeout,
        warm: pool.common.warm.unwrap_or(0),
        spare_pause: SPARE_PAUSE,
        local_only: !isolated,
        network: network(all, &pool.common, &pool.instances),
        unproxied: pool.instances.iter().any(|instance| !instance.pool.is_proxied()),
    }
}

/// What the browsers of a pool may reach; `None` if greenroom does not start each of them, because then the proxy does not
/// know sessions.
fn network(all: &Settings, pool: &Pool, instances: &[DeclaredInstance]) -> Option<Arc<NetworkPolicy>> {
    let mut pools = instances.iter().map(|instance| &instance.pool).chain([pool]);
    pools.all(Pool::has_chromium).then(|| Arc::new(all.network_policy(pool)))
}

/// Whether owners share the instances of this pool. Without API keys every call is of the owner `local`, and there are
/// no two owners to keep apart. So the default is the same with and without keys, which may come while the server runs.
pub(super) fn sharing(pool: &Pool) -> Sharing {
    pool.share.unwrap_or(Sharing::OneOwner)
}

fn instance(
    settings: &Arc<Settings>,
    engines: &Engines,
    name: &Arc<str>,
    pool: &Pool,
    alias: Option<String>,
    id: InstanceId,
) -> InstanceSettings {
    InstanceSettings {
        alias,
        engine: engines.make(settings, name, pool, id),
        slots: pool.slots,
        lazy: pool.lazy,
        call_timeout: pool.timeout,
        restarts: pool.restarts,
        retry: Retry::default(),
        health_interval: pool.health_interval,
        health_timeout: pool.health_timeout,
        browser: browser(pool).to_owned(),
        headless: pool.headless,
    }
}

/// The name of an instance's browser, as lists show it.
pub(super) fn browser(pool: &Pool) -> &'static str {
    if pool.engine.facts().is_user_supplied {
        return pool.engine.as_str();
    }
    match pool.browser {
        Browser::Auto | Browser::HeadlessShell => Browser::Chromium.as_str(),
        other => other.as_str(),
    }
}
