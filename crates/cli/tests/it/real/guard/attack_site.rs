//! The hostile site, and the servers that no page may reach.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use axum::{
    Json, Router,
    extract::Query,
    http::{StatusCode, header},
    response::{Html, IntoResponse},
    routing::{get, post},
};
use greenroom_testkit::within;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tokio_util::task::AbortOnDropHandle;

/// The longest request head that a victim reads: those of a browser are shorter.
const HEAD_BYTES_MAX: usize = 8 * 1024;

/// The hostile site: its page carries out a plan, a list of waves that say by way what to connect to. Dropping
/// it ends it.
pub struct AttackSite {
    address: SocketAddr,
    plan: Arc<Mutex<Value>>,
    /// How often a page has carried out the plan.
    done: watch::Receiver<usize>,
    _server: AbortOnDropHandle<()>,
}

impl AttackSite {
    pub async fn start() -> Self {
        let script = || async { ([(header::CONTENT_TYPE, "text/javascript")], include_str!("worker.js")) };
        let redirect = |Query(query): Query<HashMap<String, String>>| async move {
            (StatusCode::FOUND, [(header::LOCATION, query["to"].clone())]).into_response()
        };
        let plan = Arc::new(Mutex::new(json!([])));
        let (report, done) = watch::channel(0);
        let read_plan = {
            let plan = plan.clone();
            move || async move { Json(plan.lock().unwrap().clone()) }
        };
        let finish = move || async move { report.send_modify(|count| *count += 1) };
        let router = Router::new()
            .route("/", get(|| async { Html(include_str!("attack.html")) }))
            .route("/plan", get(read_plan))
            .route("/done", post(finish))
            .route("/worker.js", get(script))
            .route("/redirect", get(redirect));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self { address, plan, done, _server: AbortOnDropHandle::new(server) }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// From now on pages carry out this plan.
    pub fn set_plan(&self, plan: Value) {
        *self.plan.lock().unwrap() = plan;
    }

    /// Returns when a page has carried out its plan.
    pub async fn wait_until_done(&self, limit: Duration) {
        let mut done = self.done.clone();
        within(limit, done.wait_for(|count| *count > 0)).await.unwrap();
    }

    /// Browsers trust names below `localhost` as they trust https, so that the site may have a service worker.
    pub fn host(&self) -> String {
        format!("attack.localhost:{}", self.port())
    }
}

/// A server on loopback that counts what reaches it. Dropping it ends it.
pub struct Victim {
    port: u16,
    hits: Arc<Mutex<Vec<String>>>,
    _server: AbortOnDropHandle<()>,
}

impl Victim {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let hits = Arc::new(Mutex::new(Vec::new()));
        let log = hits.clone();
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(answer(stream, log.clone()));
            }
        });
        Self { port, hits, _server: AbortOnDropHandle::new(server) }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// The paths that were asked for; empty for a connection without a request.
    pub fn hits(&self) -> Vec<String> {
        self.hits.lock().unwrap().clone()
    }

    /// The numbers of the forms by which the victim was reached.
    pub fn forms(&self) -> BTreeSet<usize> {
        self.hits().iter().filter_map(|path| path.strip_prefix('/')?.parse().ok()).collect()
    }
}

/// Records one connection, and answers its request.
async fn answer(mut stream: TcpStream, hits: Arc<Mutex<Vec<String>>>) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") && head.len() < HEAD_BYTES_MAX {
        match stream.read_u8().await {
            Ok(byte) => head.push(byte),
            Err(_) => break,
        }
    }
    let head = String::from_utf8_lossy(&head);
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    hits.lock().unwrap().push(path);
    let _ = stream
        .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\nAccess-Control-Allow-Origin: *\r\n\r\n")
        .await;
}

/// One victim for each way of attack.
pub struct Victims(BTreeMap<&'static str, Victim>);

impl Victims {
    pub async fn start(ways: &[&'static str]) -> Self {
        let mut victims = BTreeMap::new();
        for way in ways {
            victims.insert(*way, Victim::start().await);
        }
        Self(victims)
    }

    pub fn of(&self, way: &str) -> &Victim {
        &self.0[way]
    }

    /// Everything that reached a victim.
    pub fn hits(&self) -> Vec<(&'static str, Vec<String>)> {
        self.0
            .iter()
            .map(|(way, victim)| (*way, victim.hits()))
            .filter(|(_, hits)| !hits.is_empty())
            .collect()
    }
}
