//! Gateways for unit tests: their pools have engines that answer at once, and say where they ran.

mod memory_records;

use std::{collections::BTreeSet, path::PathBuf, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, BoxFuture, Call, Engine, HealthCheckFailed, Instance, InstanceId, Lost, OpenError, Policy, Raw,
    Reply, Seat, StartError, Tool, Toolset, View,
    lease::{Sharing, Strategy},
    network::NetworkPolicy,
    quota::SameQuotas,
    raw,
    settings::{AutoOnOff, Scope, ToolProfile},
};
use greenroom_fleet::{
    BrowserSettings, Fleet, FleetSettings, InstanceSettings, PoolSettings, PoolSize, Retry, pool_name,
};
use serde_json::json;
use tempfile::TempDir;
use tokio::sync::{Barrier, watch};

use crate::{
    Attach, AttachEngine, AttachError, AttachPolicy, AttachRequest, Attachment, AttachmentBuilder, Catalog,
    Gateway, InstructionFacts, Metrics, PoolAnswers, Recall, ToolSource, browser_json::index_of,
};

pub(crate) use memory_records::{MemoryRecords, store_blob};

pub(crate) const DAY: Duration = Duration::from_secs(24 * 3600);

/// A pool for a test.
#[derive(Clone, Copy)]
pub(crate) struct TestPool {
    pub(crate) name: &'static str,
    /// Tools without arguments. A tool named `fail` fails.
    pub(crate) tools: &'static [&'static str],
    pub(crate) size: PoolSize,
    pub(crate) slots: usize,
    pub(crate) lease_timeout: Duration,
    /// Whether its instances can be started.
    pub(crate) works: bool,
    /// Whether their start never ends.
    pub(crate) hangs: bool,
    /// Calls of the tool `meet` wait here until enough of them have arrived.
    pub(crate) meeting: Option<&'static Barrier>,
}

/// The built-in pool.
pub(crate) const BUILT_IN: TestPool = TestPool {
    name: "DEFAULT",
    tools: &["t"],
    size: PoolSize::Elastic { instances_max: 1, idle: DAY },
    slots: 4,
    lease_timeout: DAY,
    works: true,
    hangs: false,
    meeting: None,
};

/// An attached browser for a test.
#[derive(Clone, Copy, Default)]
pub(crate) struct TestBrowser {
    pub(crate) url: &'static str,
    pub(crate) label: Option<&'static str>,
    pub(crate) tags: &'static [&'static str],
    pub(crate) tools: &'static [&'static str],
    pub(crate) down: bool,
    pub(crate) meeting: Option<&'static Barrier>,
}

/// Tools of two engines, in tests of attached browsers.
pub(crate) const PLAYWRIGHT: &[&str] = &["t", "pdf", "fail"];
pub(crate) const DEVTOOLS: &[&str] = &["t", "find"];

/// A gateway to these pools, the first of which is the default one.
pub(crate) fn gateway(pools: &[TestPool], scope: Scope, idle_timeout: Duration) -> (Arc<Gateway>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engines: Vec<_> = pools.iter().map(|pool| Arc::new(EchoEngine(*pool))).collect();
    let source = |engine: &Arc<EchoEngine>| ToolSource {
        pool: engine.0.name.into(),
        engine: engine.clone(),
        has_instance_choice: matches!(engine.0.size, PoolSize::Fixed(2..)),
    };
    let metrics = Arc::new(Metrics::default());
    let settings = FleetSettings {
        pools: engines.iter().enumerate().map(|(n, engine)| settings(engine, n == 0)).collect(),
        starts_max: 64,
        idle_timeout,
        max_lifetime: None,
        quotas: Arc::new(SameQuotas::default()),
    };
    let declared = pools.iter().any(|pool| matches!(pool.size, PoolSize::Fixed(_)));
    let gateway = Gateway {
        fleet: Fleet::new(settings, metrics.clone()),
        catalog: Catalog::new(
            engines.iter().map(source).collect(),
            scope,
            ToolProfile::Full,
            false,
            folder.path().to_owned(),
        ),
        policy: Policy::new(&[], &[], BTreeSet::new(), false).unwrap(),
        scope,
        facts: InstructionFacts {
            idle_timeout,
            max_lifetime: None,
            headless: true,
            isolated: true,
            declared,
        },
        attaching: AttachPolicy {
            allowed: AutoOnOff::Auto,
            configured: false,
            attacher: Some(Arc::new(FakeAttach)),
        },
        folder: PathBuf::from("/"),
        suspended_calls: crate::SuspendedCalls::default(),
        metrics,
        audit: None,
        recall: Recall::none(),
        answering: tokio_util::task::TaskTracker::new(),
        commands: tokio::sync::watch::Sender::default(),
    };
    (Arc::new(gateway), folder)
}

/// The same, with attached browsers from the configuration.
pub(crate) fn attached(
    pools: &[TestPool],
    browsers: &[TestBrowser],
    scope: Scope,
) -> (Arc<Gateway>, TempDir) {
    let (gateway, folder) = gateway(pools, scope, DAY);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.attaching.configured = !browsers.is_empty();
    for browser in browsers {
        gateway.attach(|index| attachment(index, *browser)).unwrap();
    }
    (Arc::new(gateway), folder)
}

fn attachment(index: u32, browser: TestBrowser) -> Attachment {
    let TestBrowser { url, label, tags, tools, down, meeting } = browser;
    let pool = TestPool {
        name: pool_name(index).leak(),
        tools,
        size: PoolSize::Fixed(1),
        slots: 1,
        lease_timeout: DAY,
        works: !down,
        hangs: url.contains("hangs"),
        meeting,
    };
    let engine = Arc::new(EchoEngine(pool));
    let settings = BrowserSettings {
        address: url.to_owned(),
        url: url.to_owned(),
        label: label.map(ToOwned::to_owned),
        tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        engine: if tools == DEVTOOLS { "devtools" } else { "playwright" }.to_owned(),
        pool: settings(&engine, false),
    };
    Attachment { settings, engine, answers: PoolAnswers::default() }
}

/// Attaches any browser whose URL does not contain `forbidden`; a URL with `down` does not answer, and an attempt at
/// one with `hangs` never ends.
struct FakeAttach;

impl Attach for FakeAttach {
    fn prepare(&self, request: AttachRequest) -> BoxFuture<'_, Result<AttachmentBuilder, AttachError>> {
        if request.url.contains("forbidden") {
            let refused = AttachError::new("this address may not be attached").hint("name another one");
            return Box::pin(async { Err(refused) });
        }
        let browser = TestBrowser {
            down: request.url.contains("down"),
            url: request.url.leak(),
            label: request.label.map(|label| -> &str { label.leak() }),
            tags: request.tags.into_iter().map(|tag| -> &str { tag.leak() }).collect::<Vec<_>>().leak(),
            meeting: None,
            tools: if request.engine == Some(AttachEngine::Devtools) { DEVTOOLS } else { PLAYWRIGHT },
        };
        let prepared: AttachmentBuilder = Box::new(move |index| attachment(index, browser));
        Box::pin(async { Ok(prepared) })
    }
}

/// A gateway to the built-in pool, whose calls are recorded here.
pub(crate) fn recalling(records: Arc<MemoryRecords>) -> (Arc<Gateway>, TempDir) {
    let (gateway, folder) = gateway(&[BUILT_IN], Scope::Connection, DAY);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.recall.records = Some(records);
    (Arc::new(gateway), folder)
}

fn settings(engine: &Arc<EchoEngine>, is_default: bool) -> PoolSettings {
    let TestPool { name, size, slots, lease_timeout, works, .. } = engine.0;
    let engine = engine.clone();
    let attached = index_of(name).is_some();
    PoolSettings {
        name: name.to_owned(),
        description: format!("What {name} is for"),
        is_default,
        size,
        instance: Arc::new(move |id| InstanceSettings {
            alias: (id == InstanceId(1)).then(|| "second".to_owned()),
            engine: engine.clone(),
            slots,
            lazy: false,
            call_timeout: DAY,
            restarts: if works { 3 } else { 0 },
            retry: if attached { Retry::attached(DAY) } else { Retry::default() },
            health_interval: DAY,
            health_timeout: DAY,
            browser: "chromium".to_owned(),
            headless: true,
        }),
        strategy: Strategy::Fifo,
        lease_timeout,
        warm: 0,
        spare_pause: Duration::ZERO,
        unproxied: attached,
        network: (!attached).then(|| Arc::new(NetworkPolicy::GUARDED)),
        sharing: Sharing::All,
        local_only: false,
    }
}

/// An engine that answers `POOL/INSTANCE tool`, or `yes` in the built-in pool.
struct EchoEngine(TestPool);

struct EchoInstance(TestPool, InstanceId);

struct EchoSeat(TestPool, InstanceId, watch::Sender<Option<Lost>>);

impl Engine for EchoEngine {
    fn fingerprint(&self) -> String {
        format!("{:?}", self.0.tools)
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn missing_cap(&self, tool: &str) -> Option<&'static str> {
        (tool == "save").then_some("pdf")
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        let tool = |name: &&str| {
            let definition = raw::encode(&json!({"name": name, "inputSchema": {"type": "object"}}));
            Tool { name: (*name).into(), definition }
        };
        let tools = self.0.tools.iter().map(tool).collect();
        Box::pin(async { Ok(Toolset { tools, introduction: None }) })
    }

    fn start(&self, id: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        let instance: Arc<dyn Instance> = Arc::new(EchoInstance(self.0, id));
        let TestPool { works, hangs, .. } = self.0;
        Box::pin(async move {
            if hangs {
                std::future::pending::<()>().await;
            }
            if works { Ok(instance) } else { Err(StartError::new("no browser answers")) }
        })
    }

    fn spare_suits(&self, _: &dyn Agent) -> bool {
        true
    }
}

impl Instance for EchoInstance {
    fn open(&self, _: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        let seat: Box<dyn Seat> = Box::new(EchoSeat(self.0, self.1, watch::Sender::new(None)));
        Box::pin(async { Ok(seat) })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        // The sender is dropped and never sends: the instance is never lost.
        watch::Sender::new(None).subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), HealthCheckFailed>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn stop(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

impl Seat for EchoSeat {
    fn call<'a>(&'a mut self, call: Call, _: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        let text = match self.0.size {
            PoolSize::Elastic { .. } => "yes".to_owned(),
            PoolSize::Fixed(_) => format!("{}/{} {}", self.0.name, self.1, call.tool),
        };
        let mut result = json!({"content": [{"type": "text", "text": text}]});
        if &*call.tool == "fail" {
            result["isError"] = json!(true);
        }
        let body: Result<Raw, Raw> = Ok(raw::encode(&result));
        let meeting = self.0.meeting.filter(|_| &*call.tool == "meet");
        Box::pin(async move {
            if let Some(meeting) = meeting {
                meeting.wait().await;
            }
            Ok(Reply::from(body))
        })
    }

    fn own_wait(&self, _: &Call) -> Duration {
        Duration::ZERO
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.2.subscribe()
    }

    fn view(&self) -> watch::Receiver<View> {
        watch::Sender::new(View::default()).subscribe()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}
