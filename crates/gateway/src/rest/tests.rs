//! The routes of records, with a store in memory.

mod browsers;

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use axum::{Extension, body::Body, http::Request};
use futures_util::future::join_all;
use greenroom_core::{
    BlobId, Owner, Records, RefId, SessionUid,
    raw::encode,
    record::{self, BlobRef, ConsoleLine, Level, Location, Response, SessionRef, SessionState, Status},
    settings::Scope,
};
use greenroom_testkit::{TEST_TIMEOUT, within};
use http_body_util::BodyExt;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::{
    Gateway,
    front::http::{RequestEnd, Requester},
    offload::block_all,
    testing::{self, BUILT_IN, DAY, MemoryRecords},
};

/// 2026-01-02T10:15:30.000Z plus `ms` milliseconds.
fn at(ms: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_767_348_930_000 + ms)
}

fn ref_id(n: u8) -> RefId {
    RefId::new(at(0), [n; 16])
}

fn session(n: u8, name: &str) -> SessionRef {
    SessionRef { uid: SessionUid::new(at(0), [n; 16]), name: name.into(), pool: "DEFAULT".into() }
}

/// Records a call of `t` in a session, which succeeded on a page, by its number.
async fn keep(records: &MemoryRecords, owner: &str, n: u8, of: &SessionRef) -> Response {
    let request = record::Request {
        ref_id: ref_id(n),
        owner: Owner::new(owner),
        session: Some(of.clone()),
        tool: if n.is_multiple_of(2) { "even" } else { "odd" }.into(),
        params: encode(&json!({"n": n})),
        at: at(u64::from(n) * 1_000),
    };
    records.begin(request).await.unwrap();
    Response {
        ref_id: ref_id(n),
        session: None,
        status: Status::Success,
        result: json!({"content": [{"type": "text", "text": "1.50"}]}).to_string().into(),
        snapshot: Some(format!("- page {n}").into()),
        console: Vec::new(),
        error: None,
        blobs: Vec::new(),
        url: Some("http://a.example/".to_owned()),
        title: Some("A".to_owned()),
        at: at(u64::from(n) * 1_000 + 250),
        took: Duration::from_millis(250),
    }
}

async fn ended(records: &MemoryRecords, response: Response) {
    records.end(response).await.unwrap();
}

struct HttpReply {
    status: u16,
    headers: axum::http::HeaderMap,
    body: Vec<u8>,
}

impl HttpReply {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().unwrap())
    }
}

struct RestClient {
    routes: TowerToHyperService<axum::Router>,
    _folder: tempfile::TempDir,
}

impl RestClient {
    fn new(records: &Arc<MemoryRecords>) -> Self {
        let (gateway, _folder) = testing::recalling(records.clone());
        Self::before(gateway, _folder, false)
    }

    /// A program that may attach and detach browsers, or may not.
    fn before(gateway: Arc<Gateway>, _folder: tempfile::TempDir, may_attach: bool) -> Self {
        let requester = Requester::local(RequestEnd::with_server(&CancellationToken::new()));
        Self {
            routes: TowerToHyperService::new(super::router(gateway, may_attach).layer(Extension(requester))),
            _folder,
        }
    }

    async fn send(&self, request: Request<Body>) -> HttpReply {
        let response = self.routes.call(request).await.unwrap();
        let status = response.status().as_u16();
        let headers = response.headers().clone();
        let body = response.into_body().collect().await.unwrap().to_bytes().to_vec();
        HttpReply { status, headers, body }
    }

    async fn get(&self, path: &str) -> HttpReply {
        self.send(Request::get(path).body(Body::empty()).unwrap()).await
    }

    async fn json(&self, path: &str) -> Value {
        let reply = self.get(path).await;
        assert_eq!(reply.status, 200, "{path}: {}", String::from_utf8_lossy(&reply.body));
        reply.json()
    }

    /// Status, code and message of an error.
    async fn refused(&self, path: &str) -> (u16, String, String) {
        let reply = self.get(path).await;
        let reply_body = reply.json();
        assert!(reply_body["details"].is_object(), "{reply_body}");
        let text = |name: &str| reply_body[name].as_str().unwrap().to_owned();
        (reply.status, text("error"), text("message"))
    }
}

/// A list has every field of the contract, newest first, and continues where it ended.
#[tokio::test]
async fn calls_are_listed() {
    let records = MemoryRecords::new();
    for n in 1..=5 {
        let response = keep(&records, "local", n, &session(9, "prices")).await;
        ended(&records, response).await;
    }
    let program = RestClient::new(&records);
    let first = program.json("/api/calls?limit=2").await;
    assert_eq!(
        first["calls"][0].to_string(),
        json!({
            "ref_id": ref_id(5), "session_id": session(9, "").uid, "status": "success",
            "timestamp": "2026-01-02T10:15:35.250Z",
            "metadata": {
                "tool": "odd", "has_snapshot": true, "has_console_logs": false, "console_error_count": 0,
                "session": "prices",
            },
            "error": null,
        })
        .to_string()
    );
    let second = program.json(&format!("/api/calls?limit=3&before={}", first["next"])).await;
    let ids: Vec<_> = second["calls"].as_array().unwrap().iter().map(|call| call["ref_id"].clone()).collect();
    assert_eq!(ids, [3, 2, 1].map(|n| json!(ref_id(n))));
    assert_eq!(second["next"], Value::Null);
}

/// A list shows only what was asked for: by a session's name or UUID, a tool, a status; and only the owner's own calls.
#[tokio::test]
async fn lists_are_filtered() {
    let records = MemoryRecords::new();
    for (n, of) in [(1, session(8, "a")), (2, session(8, "a")), (3, session(9, "b"))] {
        let mut response = keep(&records, "local", n, &of).await;
        if n == 2 {
            response.status = Status::Error;
            response.error = Some("no luck".to_owned());
        }
        ended(&records, response).await;
    }
    keep(&records, "local", 4, &session(9, "b")).await;
    let other = keep(&records, "other", 5, &session(7, "c")).await;
    ended(&records, other).await;
    let program = RestClient::new(&records);
    let uid = session(9, "").uid;
    for (query, expected) in [
        ("", vec![4, 3, 2, 1]),
        ("?session_id=a", vec![2, 1]),
        (&*format!("?session_id={}", uid.as_str().to_uppercase()), vec![4, 3]),
        ("?tool=even", vec![4, 2]),
        ("?status=error", vec![2]),
        ("?status=success&tool=odd&session_id=b", vec![3]),
    ] {
        let list = program.json(&format!("/api/calls{query}")).await;
        let ids: Vec<_> =
            list["calls"].as_array().unwrap().iter().map(|call| call["ref_id"].clone()).collect();
        assert_eq!(ids, expected.iter().map(|n| json!(ref_id(*n))).collect::<Vec<_>>(), "{query}");
    }
    let list = program.json("/api/calls?limit=1").await;
    assert_eq!(list["calls"][0]["status"], "pending");
    assert_eq!(program.json("/api/calls?status=error").await["calls"][0]["error"], "no luck");
    assert_eq!(program.refused("/api/calls?session_id=c").await.1, "no_such_session");
    assert_eq!(program.refused(&format!("/api/calls/{}", ref_id(5))).await.1, "no_such_call");
}

/// One call is shown whole, its numbers spelled as by the engine; a running call has no result yet.
#[tokio::test]
async fn single_call_has_all_fields() {
    let records = MemoryRecords::new();
    let mut response = keep(&records, "local", 1, &session(9, "a")).await;
    response.result = r#"{"n": 1.50}"#.into();
    let id = records.keep("DEFAULT", b"bytes".to_vec()).await.unwrap();
    response.blobs = vec![BlobRef { id: id.clone(), mime: "image/png".to_owned(), name: None, bytes: 5 }];
    ended(&records, response).await;
    keep(&records, "local", 2, &session(9, "a")).await;
    let program = RestClient::new(&records);
    let reply = program.get(&format!("/api/calls/{}", ref_id(1))).await;
    let reply_body = String::from_utf8(reply.body.clone()).unwrap();
    assert!(
        reply_body.contains(
            r#""params":{"n":1},"result":{"n": 1.50},"url":"http://a.example/","title":"A","took_ms":250"#
        ),
        "{reply_body}"
    );
    let url = format!("/api/blobs/{id}");
    assert_eq!(
        reply.json()["blobs"],
        json!([{"sha256": id, "mime_type": "image/png", "name": null, "bytes": 5, "url": url}])
    );
    let runs = program.json(&format!("/api/calls/{}", ref_id(2))).await;
    assert_eq!(
        (&runs["status"], &runs["result"], &runs["took_ms"]),
        (&json!("pending"), &Value::Null, &Value::Null)
    );
}

/// Console lines come by level, with their locations.
#[tokio::test]
async fn console_is_filtered_by_level() {
    let records = MemoryRecords::new();
    let mut response = keep(&records, "local", 1, &session(9, "a")).await;
    let line =
        |level, message: &str| ConsoleLine { level, message: message.to_owned(), at: None, location: None };
    let location =
        Location { url: "http://a.example/x.js".to_owned(), line_number: Some(3), column_number: None };
    response.console = vec![
        line(Level::Info, "hello"),
        ConsoleLine { location: Some(location), at: Some(at(7)), ..line(Level::Error, "oh no") },
        line(Level::Warn, "hm"),
    ];
    ended(&records, response).await;
    let program = RestClient::new(&records);
    let path = format!("/api/calls/{}/console", ref_id(1));
    assert_eq!(
        program.json(&format!("{path}?level=error")).await["console"],
        json!([{
            "level": "error", "message": "oh no", "timestamp": "2026-01-02T10:15:30.007Z",
            "location": {"url": "http://a.example/x.js", "lineNumber": 3, "columnNumber": null},
        }])
    );
    for (query, count) in [("?level=warn", 1), ("?level=", 3), ("", 3), ("?level=debug", 0)] {
        let console = program.json(&format!("{path}{query}")).await;
        assert_eq!(console["console"].as_array().unwrap().len(), count, "{query}");
    }
    let listed = program.json("/api/calls").await;
    assert_eq!(listed["calls"][0]["metadata"]["console_error_count"], 1);
}

/// A timeline has all events in one order and continues where it ended; a session is found by name and by UUID.
#[tokio::test]
async fn timeline_is_ordered_and_resumable() {
    let records = MemoryRecords::new();
    let of = session(9, "a");
    let mut first = keep(&records, "local", 1, &of).await;
    first.console =
        vec![ConsoleLine { level: Level::Warn, message: "hm".to_owned(), at: None, location: None }];
    ended(&records, first).await;
    let mut second = keep(&records, "local", 2, &of).await;
    second.status = Status::Error;
    second.error = Some("no luck".to_owned());
    ended(&records, second).await;
    records.session_ended(&of.uid, SessionState::Closed);
    let program = RestClient::new(&records);
    let part = program.json("/api/sessions/a/timeline?limit=1").await;
    assert_eq!((&part["session"]["name"], &part["session"]["state"]), (&json!("a"), &json!("closed")));
    assert_eq!(
        part["events"],
        json!([
            {"timestamp": "2026-01-02T10:15:31.000Z", "ref_id": ref_id(1), "kind": "call", "tool": "odd", "status": "success", "took_ms": 250},
            {"timestamp": "2026-01-02T10:15:31.250Z", "ref_id": ref_id(1), "kind": "navigation", "url": "http://a.example/", "title": "A"},
            {"timestamp": "2026-01-02T10:15:31.250Z", "ref_id": ref_id(1), "kind": "console", "level": "warn", "message": "hm"},
        ])
    );
    let rest = program.json(&format!("/api/sessions/{}/timeline?from={}", of.uid, part["next"])).await;
    let kinds: Vec<_> = rest["events"].as_array().unwrap().iter().map(|event| &event["kind"]).collect();
    assert_eq!(kinds, ["call", "error"]);
    assert_eq!(rest["events"][1]["message"], "no luck");
    let end = program.json(&format!("/api/sessions/a/timeline?from={}", rest["next"])).await;
    assert_eq!((&end["events"], &end["next"]), (&json!([]), &rest["next"]));
}

/// Blobs have the headers with which a browser handles untrusted files safely, and a client that has one does not get
/// it again.
#[tokio::test]
async fn blob_headers_are_safe() {
    let records = MemoryRecords::new();
    let mut response = keep(&records, "local", 1, &session(9, "a")).await;
    let id = records.keep("DEFAULT", b"<script>".to_vec()).await.unwrap();
    let name = Some("a b.html".to_owned());
    response.blobs = vec![BlobRef { id: id.clone(), mime: "text/html".to_owned(), name, bytes: 8 }];
    ended(&records, response).await;
    let program = RestClient::new(&records);
    let path = format!("/api/blobs/{id}");
    let reply = program.get(&path).await;
    assert_eq!((reply.status, &*reply.body), (200, &b"<script>"[..]));
    for (name, value) in [
        ("content-type", "text/html"),
        ("content-length", "8"),
        ("content-disposition", "attachment; filename*=UTF-8''a%20b.html"),
        ("x-content-type-options", "nosniff"),
        ("content-security-policy", "sandbox; default-src 'none'; frame-ancestors 'none'"),
        ("etag", &format!("\"{id}\"")),
    ] {
        assert_eq!(reply.header(name), value, "{name}");
    }
    let head = program.send(Request::head(&path).body(Body::empty()).unwrap()).await;
    assert_eq!((head.status, head.header("content-length"), head.body.len()), (200, "8", 0));
    let request = Request::get(&path).header("if-none-match", format!("\"{id}\"")).body(Body::empty());
    let again = program.send(request.unwrap()).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let absent = BlobId::parse(&"0".repeat(64)).unwrap();
    assert_eq!(program.refused(&format!("/api/blobs/{absent}")).await.1, "no_such_blob");
    assert_eq!(program.refused("/api/blobs/ABC").await.0, 400);
}

/// A request that cannot be parsed is refused with the name of the parameter, never ignored.
#[tokio::test]
async fn invalid_parameters_are_named() {
    let program = RestClient::new(&MemoryRecords::new());
    let id = ref_id(1);
    for (path, status, says) in [
        ("/api/calls?sesion_id=a".to_owned(), 400, "unknown parameter `sesion_id`"),
        ("/api/calls?limit=x".to_owned(), 400, "invalid digit"),
        ("/api/calls?limit=0".to_owned(), 400, "`limit` must be 1 to 1000"),
        ("/api/calls?limit=1001".to_owned(), 400, "`limit` must be 1 to 1000"),
        ("/api/calls?limit=1&limit=2".to_owned(), 400, "duplicate"),
        ("/api/calls?status=fine".to_owned(), 400, "`fine`"),
        ("/api/calls?session_id=".to_owned(), 400, "session_id is empty"),
        ("/api/calls?session_id=nobody".to_owned(), 404, "no such session: `nobody`"),
        ("/api/calls/7".to_owned(), 400, "a ref_id is a UUID"),
        ("/api/calls/%ff".to_owned(), 400, "UTF-8"),
        (format!("/api/calls/{id}"), 404, "no such call"),
        (format!("/api/calls/{id}/console"), 404, "no such call"),
        (format!("/api/calls/{id}/console?level=loud"), 400, "`loud`"),
        (format!("/api/calls/{id}/nothing"), 404, "nothing is served at"),
        ("/api/sessions/nobody/timeline".to_owned(), 404, "no such session"),
        ("/api/sessions/a/timeline?limit=0".to_owned(), 400, "`limit` must be"),
        ("/api/sessions/a/timeline?from=-1".to_owned(), 400, "invalid digit"),
    ] {
        let (got, _, message) = program.refused(&path).await;
        assert_eq!(got, status, "{path}: {message}");
        assert!(message.contains(says), "{path}: {message}");
    }
}

/// If records are off or cannot be read, the error says so, with a status that means "not now".
#[tokio::test]
async fn missing_records_give_503() {
    let records = MemoryRecords::new();
    let program = RestClient::new(&records);
    records.broken(true);
    let (status, word, message) = program.refused("/api/calls").await;
    assert_eq!((status, &*word), (503, "records_unreadable"));
    assert!(message.contains("the disk is gone"), "{message}");
    let (gateway, _folder) = testing::gateway(&[BUILT_IN], Scope::Connection, DAY);
    let program = RestClient::before(gateway, _folder, false);
    let id = ref_id(1);
    let blob = "0".repeat(64);
    for path in [
        "/api/calls".to_owned(),
        format!("/api/calls/{id}"),
        format!("/api/calls/{id}/console"),
        format!("/api/blobs/{blob}"),
        "/api/sessions/a/timeline".to_owned(),
    ] {
        let (status, word, message) = program.refused(&path).await;
        assert_eq!((status, &*word), (503, "records_off"), "{path}");
        assert!(message.contains("records.enabled"), "{message}");
    }
}

/// A request to `/api/calls` that makes a call with a `ref_id` of the client's choice: a named call.
fn call_named(n: u8) -> Request<Body> {
    let body = json!({"tool": "t", "session_id": "a", "request_id": ref_id(n)}).to_string();
    Request::post("/api/calls").header("content-type", "application/json").body(Body::from(body)).unwrap()
}

/// A named call goes on when its client disconnects: a repeated request waits for its end and gets its outcome.
#[tokio::test]
async fn call_with_a_request_id_outlives_its_client() {
    let records = MemoryRecords::new();
    let program = RestClient::new(&records);
    // Poll the request once, then drop it: its client is gone.
    tokio::select! {
        biased;
        _ = program.send(call_named(1)) => panic!("it cannot be answered at once"),
        () = std::future::ready(()) => {}
    }
    let begun = async {
        while program.json("/api/calls").await["calls"] == json!([]) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), begun).await.expect("it runs without its client");
    let again = program.send(call_named(1)).await;
    assert_eq!((again.status, &again.json()["status"]), (200, &json!("success")));
    assert_eq!(program.json("/api/calls").await["calls"].as_array().unwrap().len(), 1);
}

/// Large named calls at once all run, even if there are more of them than blocking threads: none holds a resource that
/// another one waits for.
#[tokio::test]
async fn many_large_calls_with_request_ids_all_run() {
    const CALLS: u8 = 4;
    let program = RestClient::new(&MemoryRecords::new());
    let blocked = block_all().await;
    let calls = (1..=CALLS).map(|n| {
        let params = json!({ "text": "a".repeat(1 << 20) });
        let body =
            json!({"tool": "t", "session_id": n.to_string(), "request_id": ref_id(n), "params": params});
        let mut request = call_named(n);
        *request.body_mut() = Body::from(body.to_string());
        program.send(request)
    });
    let unblock = async move {
        // Every call has reached the point where it waits for a blocking thread.
        tokio::task::yield_now().await;
        drop(blocked);
    };
    let made = async { tokio::join!(join_all(calls), unblock) };
    let (replies, ()) = within(TEST_TIMEOUT, made).await;
    for reply in replies {
        assert_eq!((reply.status, &reply.json()["status"]), (200, &json!("success")));
    }
}

/// If the store cannot say whether a named call was made before, the call is not made, and may be sent again.
#[tokio::test]
async fn unclaimed_request_id_runs_no_call() {
    let records = MemoryRecords::new();
    let program = RestClient::new(&records);
    records.broken(true);
    let mut request = call_named(1);
    *request.body_mut() = Body::from(json!({"tool": "t", "request_id": ref_id(1)}).to_string());
    let reply = program.send(request).await;
    assert_eq!((reply.status, &reply.json()["error"]), (503, &json!("records_unavailable")));
    records.broken(false);
    assert_eq!(program.send(call_named(1)).await.json()["status"], "success");
}

/// A named call during which greenroom ended is not made again, and its error does not say that it still runs.
#[tokio::test]
async fn interrupted_call_is_not_repeated() {
    let records = MemoryRecords::new();
    let request = record::Request {
        ref_id: ref_id(1),
        owner: Owner::local(),
        session: Some(session(9, "a")),
        tool: "t".into(),
        params: encode(&json!({})),
        at: at(1_000),
    };
    records.begin(request).await.unwrap();
    let reply = RestClient::new(&records).send(call_named(1)).await;
    assert_eq!((reply.status, &reply.json()["error"]), (409, &json!("call_interrupted")));
    assert!(reply.json()["message"].as_str().unwrap().contains("whether it took effect is not known"));
}

/// The OpenAPI document has every served path.
#[tokio::test]
async fn openapi_has_every_path() {
    let program = RestClient::new(&MemoryRecords::new());
    let document = program.json("/api/openapi.json").await;
    assert_eq!(document["openapi"], "3.1.0");
    let paths = document["paths"].as_object().unwrap();
    for path in [
        "/api/pools/{name}/scale",
        "/api/browsers/{index}/reconnect",
        "/api/calls/{ref_id}",
        "/api/blobs/{sha256}",
        "/api/sessions/{id}/timeline",
    ] {
        assert!(paths.contains_key(path), "{path}: {:?}", paths.keys());
    }
}
