//! Silent clients, on a paused clock and with an engine that only says yes. What a transport forgets must never cost
//! anybody a browser.

use std::{collections::BTreeSet, path::PathBuf};

use axum::http::HeaderMap;
use greenroom_core::{
    Agent, BoxFuture, Call, Engine, Instance, InstanceId, Lost, OpenError, Policy, Raw, Reply, Seat,
    StartError, Tool, Toolset, Unwell, View, lease::Limits, raw, settings::Scope,
};
use greenroom_fleet::{Fleet, FleetSettings, PoolSettings};
use greenroom_mcp::message;
use serde_json::{Value, json};
use tokio::{
    sync::watch,
    time::{Duration, advance},
};

use super::{session::Session, *};
use crate::{Catalog, Facts, Metrics, Source, outlet::Way};

const DAY: Duration = Duration::from_secs(24 * 3600);

struct Yes;

impl Engine for Yes {
    fn fingerprint(&self) -> String {
        "yes".to_owned()
    }

    fn unsafe_tools(&self) -> BTreeSet<&'static str> {
        BTreeSet::new()
    }

    fn tools(&self) -> BoxFuture<'_, Result<Toolset, StartError>> {
        let definition = raw::encode(&json!({"name": "t", "inputSchema": {"type": "object"}}));
        Box::pin(async { Ok(Toolset { tools: vec![Tool { name: "t".into(), definition }] }) })
    }

    fn start(&self, _: InstanceId) -> BoxFuture<'_, Result<Arc<dyn Instance>, StartError>> {
        Box::pin(async { Ok(Arc::new(Yes) as Arc<dyn Instance>) })
    }

    fn spare_suits(&self, _: &dyn Agent) -> bool {
        true
    }
}

impl Instance for Yes {
    fn open(&self, _: Arc<dyn Agent>) -> BoxFuture<'_, Result<Box<dyn Seat>, OpenError>> {
        Box::pin(async { Ok(Box::new(OneSeat(watch::Sender::new(None))) as Box<dyn Seat>) })
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        // Nobody will ever send; that is no loss.
        watch::Sender::new(None).subscribe()
    }

    fn ping(&self) -> BoxFuture<'_, Result<(), Unwell>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn process_ids(&self) -> Vec<u32> {
        Vec::new()
    }

    fn stop(&self, _: Duration) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

struct OneSeat(watch::Sender<Option<Lost>>);

impl Seat for OneSeat {
    fn call<'a>(&'a mut self, _: Call, _: Arc<dyn Agent>) -> BoxFuture<'a, Result<Reply, Lost>> {
        Box::pin(async {
            let body: Result<Raw, Raw> =
                Ok(raw::encode(&json!({"content": [{"type": "text", "text": "yes"}]})));
            Ok(Reply { body, artifacts: Vec::new() })
        })
    }

    fn own_wait(&self, _: &Call) -> Duration {
        Duration::ZERO
    }

    fn lost(&self) -> watch::Receiver<Option<Lost>> {
        self.0.subscribe()
    }

    fn view(&self) -> watch::Receiver<View> {
        watch::Sender::new(View::default()).subscribe()
    }

    fn close(self: Box<Self>) -> BoxFuture<'static, ()> {
        Box::pin(async {})
    }
}

/// A door before a fleet whose sessions end after this long without a call.
fn door(idle_timeout: Duration) -> (Door, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let engine: Arc<dyn Engine> = Arc::new(Yes);
    let pool = PoolSettings {
        name: "DEFAULT".to_owned(),
        limits: Limits { slots: 4, instances_max: 1 },
        lease_timeout: DAY,
        instance_idle: DAY,
        warm: 0,
        spare_pause: Duration::ZERO,
    };
    let settings = FleetSettings { pool, call_timeout: DAY, idle_timeout, max_lifetime: None };
    let facts = Facts { idle_timeout, max_lifetime: None, headless: true, declared: false };
    let source = Source { pool: "DEFAULT".into(), engine: engine.clone(), several: false };
    let gateway = Gateway {
        fleet: Fleet::new(settings, engine),
        catalog: Catalog::new(vec![source], Scope::Connection, folder.path().to_owned()),
        policy: Policy::new(&[], &[], BTreeSet::new(), false).unwrap(),
        scope: Scope::Connection,
        facts,
        folder: PathBuf::from("/"),
        parking: crate::Parking::default(),
        metrics: Arc::new(Metrics::new(false)),
    };
    let door = Door {
        gateway: Arc::new(gateway),
        sessions: Arc::default(),
        probes: Arc::new(Probes { server: "s".to_owned() }),
        reach: Reach::Network,
        owner: Owner::local(),
        rules: None,
        stop: CancellationToken::new(),
        tasks: TaskTracker::new(),
    };
    (door, folder)
}

/// Says something and returns the answer.
async fn ask(session: &Session, method: &str, params: Value) -> Value {
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string();
    let own = session.stream();
    let mut reader = own.read();
    let way = Way::stream(&own, Some(session.background.clone()));
    session.protocol.take(message::parse_one(request.as_bytes()), &way).await;
    drop(way);
    serde_json::from_slice(&reader.next().await.unwrap().message).unwrap()
}

/// A client that has introduced itself.
async fn client(door: &Door) -> Arc<Session> {
    let session = Session::new(door);
    ask(&session, "initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}})).await;
    assert!(door.sessions.add(door, &session));
    session
}

fn is_known(door: &Door, session: &Session) -> bool {
    let id = [("mcp-session-id".parse::<axum::http::HeaderName>().unwrap(), session.id.parse().unwrap())];
    door.sessions.of(door, &HeaderMap::from_iter(id)).is_ok()
}

/// A client that was silent for very long is forgotten, unless it has a browser of its own, which only its connection
/// leads to; when that has ended by its own clock, the client is forgotten too. Whoever is forgotten introduces itself
/// again and gets on; named browsers are not concerned.
#[tokio::test(start_paused = true)]
async fn no_silence_costs_a_browser() {
    let (door, _folder) = door(30 * DAY);
    let (with, without, named) = (client(&door).await, client(&door).await, client(&door).await);
    ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    let arguments = json!({"sessionId": "s"});
    ask(&named, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    advance(7 * DAY).await;
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 1);
    assert!(!is_known(&door, &without) && !is_known(&door, &named));
    assert!(is_known(&door, &with));
    let fleet = &door.gateway.fleet;
    assert_eq!(fleet.list_all().len(), 2, "both browsers are there");
    let answer = ask(&with, "tools/call", json!({"name": "t", "arguments": {}})).await;
    assert_eq!(
        answer["result"]["content"],
        json!([{"type": "text", "text": "yes"}]),
        "no note: the same browser"
    );
    let again = client(&door).await;
    let answer = ask(&again, "tools/call", json!({"name": "t", "arguments": arguments})).await;
    assert_eq!(answer["result"]["content"].as_array().unwrap().len(), 1, "found again, without a note");
    tokio::time::sleep(31 * DAY).await;
    assert_eq!(fleet.list_all().len(), 0, "their own clock has ended them");
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 0);
}

/// Whoever listens, waits for an answer or was heard of lately is not silent.
#[tokio::test(start_paused = true)]
async fn who_is_not_silent() {
    let (door, _folder) = door(DAY);
    let (listens, speaks, silent) = (client(&door).await, client(&door).await, client(&door).await);
    let (_, reader) = listens.listen();
    advance(DAY).await;
    assert!(is_known(&door, &speaks));
    door.sessions.forget_silent(&door);
    assert!(is_known(&door, &listens) && is_known(&door, &speaks) && !is_known(&door, &silent));
    drop(reader);
    advance(DAY).await;
    door.sessions.forget_silent(&door);
    assert_eq!(door.sessions.count(), 0);
}

/// A call that arrives just as its client is forgotten does not begin: nobody would end its browser.
#[tokio::test(start_paused = true)]
async fn nothing_begins_after_the_end() {
    let (door, _folder) = door(DAY);
    let session = client(&door).await;
    door.sessions.end(&door, &session);
    door.tasks.close();
    door.tasks.wait().await;
    let own = session.stream();
    let mut reader = own.read();
    let way = Way::stream(&own, None);
    let call = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
    session.protocol.take(message::parse_one(call), &way).await;
    drop(way);
    assert_eq!(reader.next().await, None);
    assert_eq!(door.gateway.fleet.list_all().len(), 0);
}
