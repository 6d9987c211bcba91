//! Large data of one client does not delay other clients. All tests run on one thread, as greenroom does. They block
//! the threads for large data, so the first request is answered last exactly if its data is processed on such a thread.

use std::{
    future::poll_fn,
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, SystemTime},
};

use axum::{
    Extension,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode, header::CONTENT_TYPE},
};
use greenroom_core::{
    Owner, Records, RefId,
    raw::encode,
    record::{Request, Response, Status},
};
use greenroom_mcp::{CLIENT_MESSAGE_BYTES_MAX, message};
use greenroom_testkit::{TEST_TIMEOUT, within};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{super::*, client, http_state, requester};
use crate::{
    client_sink::ReplyPath,
    front::http::session::HttpSession,
    offload::{block_all, one_runs},
    testing::{self, DAY, MemoryRecords},
};

/// The names of the requests in the order of their answers.
#[derive(Clone, Default)]
struct AnswerOrder(Arc<Mutex<Vec<&'static str>>>);

impl AnswerOrder {
    fn note(&self, name: &'static str) {
        self.0.lock().push(name);
    }

    #[track_caller]
    fn check(&self, expected: &[&str]) {
        assert_eq!(*self.0.lock(), expected);
    }
}

fn post(
    http_state: &Arc<HttpState>,
    headers: &HeaderMap,
    body: String,
) -> impl Future<Output = axum::response::Response> + use<> {
    post::handle(
        State(http_state.clone()),
        Extension(requester(http_state)),
        headers.clone(),
        Body::from(body),
    )
}

/// The largest allowed message, made of these parts.
fn filled(head: &str, part: &str, tail: &str) -> String {
    let room = CLIENT_MESSAGE_BYTES_MAX - head.len() - tail.len();
    format!("{head}{}{tail}", part.repeat(room / part.len()))
}

/// While the largest message is parsed and checked, other requests are answered; an error in the message is still
/// reported.
#[tokio::test]
async fn large_messages_are_parsed_off_the_runtime() {
    let (http_state, _folder) = http_state(DAY);
    let http_state = Arc::new(http_state);
    let headers = HeaderMap::from_iter([(CONTENT_TYPE, "application/json".parse().unwrap())]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"a":["#;
    for (large, says) in [
        (filled("", "[", ""), "not JSON"),
        (filled(call, "[],", "[]]}}"), "at most 100000 are taken"),
        (filled("", "x", ""), "not JSON"),
    ] {
        let answered = AnswerOrder::default();
        let first = answered.clone();
        let second = answered.clone();
        let blocked = block_all().await;
        let large = post(&http_state, &headers, large);
        let large = tokio::spawn(async move {
            let response = large.await;
            first.note("large");
            response
        });
        let small = post(&http_state, &headers, "{".to_owned());
        let small = tokio::spawn(async move {
            let response = small.await;
            second.note("small");
            response
        });
        assert_eq!(within(TEST_TIMEOUT, small).await.unwrap().status(), StatusCode::BAD_REQUEST);
        drop(blocked);
        let response = within(TEST_TIMEOUT, large).await.unwrap();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        let body = axum::body::to_bytes(response.into_body(), 10_000).await.unwrap();
        assert!(String::from_utf8_lossy(&body).contains(says), "{body:?}");
        answered.check(&["small", "large"]);
    }
}

/// Sends a request, and notes this name when the answer arrives.
async fn ask(
    session: &Arc<HttpSession>,
    answered: &AnswerOrder,
    name: &'static str,
    request: Value,
) -> tokio::task::JoinHandle<Value> {
    let own = session.stream();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, Some(session.background.clone()));
    session.protocol.take(message::parse_one(request.to_string().as_bytes()), &reply_path).await;
    let answered = answered.clone();
    tokio::spawn(async move {
        let answer = reader.next().await.unwrap().message;
        answered.note(name);
        serde_json::from_slice(&answer).unwrap()
    })
}

/// A call that is cancelled, or whose connection ends, while a blocking thread reads its arguments does not run. The
/// end of a connection waits for that thread: no code would end a call that it starts later.
#[tokio::test]
async fn aborted_call_reaches_no_session() {
    let meta = json!({"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}});
    let one = json!({"name": "t", "arguments": {"text": "x".repeat(1024 * 1024)}});
    let commands = json!([{"tool": "t", "args": one["arguments"]}]);
    let bulk = json!({"name": "browser_execute_bulk", "arguments": {"commands": commands}});
    let mut stateless = one.clone();
    stateless["_meta"] = meta;
    let cases = [(&one, true), (&one, false), (&bulk, true), (&stateless, true), (&stateless, false)];
    for (number, (params, ends)) in cases.into_iter().enumerate() {
        let (gateway, _folder) = testing::recalling(MemoryRecords::new());
        let http_state = HttpState { gateway, ..http_state(DAY).0 };
        let session = client(&http_state).await;
        super::ask(&session, "tools/list", json!({})).await;
        let blocked = http_state.gateway.recall.secrets.block();
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let own = session.stream();
        let reply_path = ReplyPath::stream(&own, Some(session.background.clone()));
        session.protocol.take(message::parse_one(call.to_string().as_bytes()), &reply_path).await;
        within(TEST_TIMEOUT, one_runs()).await;
        if ends {
            let mut end = pin!(session.protocol.end());
            for _ in 0..2 {
                let polled = poll_fn(|context| Poll::Ready(end.as_mut().poll(context))).await;
                assert!(polled.is_pending(), "{number}: the end waits for what runs");
                // The first poll aborts the call's task, and the runtime drops that task before it runs this one.
                tokio::spawn(async {}).await.unwrap();
            }
            drop(blocked);
            within(TEST_TIMEOUT, end).await;
        } else {
            let cancelled =
                json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}});
            let cancelled = message::parse_one(cancelled.to_string().as_bytes());
            // A cancellation waits for no thread: it returns while this one is blocked.
            within(TEST_TIMEOUT, session.protocol.take(cancelled, &reply_path)).await;
            drop(blocked);
        }
        drop(within(TEST_TIMEOUT, block_all()).await);
        assert_eq!(http_state.gateway.fleet.list_all().len(), 0, "{number}");
    }
}

/// Records a call that has ended with this page.
async fn record(records: &MemoryRecords, number: u128, page: &str) -> RefId {
    let at = SystemTime::UNIX_EPOCH;
    let ref_id = RefId::new(at, number.to_be_bytes());
    let owner = Owner::local();
    let params = encode(&json!({}));
    let request = Request { ref_id: ref_id.clone(), owner, session: None, tool: "t".into(), params, at };
    records.begin(request).await.unwrap();
    let response = Response {
        ref_id: ref_id.clone(),
        session: None,
        status: Status::Success,
        result: "{}".into(),
        snapshot: Some(page.into()),
        console: Vec::new(),
        error: None,
        blobs: Vec::new(),
        url: None,
        title: None,
        at,
        took: Duration::ZERO,
    };
    records.end(response).await.unwrap();
    ref_id
}

/// A large record is read and put into an answer without delaying other clients: whole, in parts and compared.
#[tokio::test]
async fn large_records_are_read_off_the_runtime() {
    const LINES: usize = 100_000;
    let records = MemoryRecords::new();
    let large = record(&records, 1, &"- text: line\n".repeat(LINES)).await;
    let small = record(&records, 2, "- text: small").await;
    let (gateway, _folder) = testing::recalling(records);
    let http_state = HttpState { gateway, ..http_state(DAY).0 };
    let session = client(&http_state).await;
    let call = |id: u64, arguments: Value| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "get_content", "arguments": arguments}});
    for (wish, lines) in [
        (json!({}), LINES),
        (json!({"search_for": "line"}), LINES),
        (json!({"since": large}), 0),
        (json!({"offset": LINES - 1}), 1),
    ] {
        let answered = AnswerOrder::default();
        let mut arguments = json!({"ref_id": large});
        arguments.as_object_mut().unwrap().extend(wish.as_object().unwrap().clone());
        let blocked = block_all().await;
        let first = ask(&session, &answered, "large", call(7, arguments)).await;
        let second = ask(&session, &answered, "small", call(8, json!({"ref_id": small, "offset": 0}))).await;
        let second = within(TEST_TIMEOUT, second).await.unwrap();
        assert_eq!(second["result"]["content"][0]["text"], "- text: small", "{second}");
        drop(blocked);
        let first = within(TEST_TIMEOUT, first).await.unwrap();
        let text = first["result"]["content"][0]["text"].as_str().unwrap();
        assert_eq!(text.matches("- text: line").count(), lines, "{wish}");
        answered.check(&["small", "large"]);
    }
}

/// Other requests are served between the messages of a batch.
#[tokio::test]
async fn batches_yield_to_other_requests() {
    let (http_state, _folder) = http_state(DAY);
    let session = client(&http_state).await;
    let answered = AnswerOrder::default();
    let pings: Vec<_> = (0..100).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).collect();
    let message::Parsed::Batch(parts) = message::parse(json!(pings).to_string().as_bytes()) else {
        panic!("a batch")
    };
    let own = session.stream();
    let mut reader = own.read();
    let reply_path = ReplyPath::stream(&own, Some(session.background.clone()));
    let first = answered.clone();
    let second = answered.clone();
    let batch = tokio::spawn(async move {
        session.protocol.take_batch(parts, reply_path).await;
        first.note("batch");
    });
    let other = tokio::spawn(async move { second.note("other") });
    within(TEST_TIMEOUT, batch).await.unwrap();
    within(TEST_TIMEOUT, other).await.unwrap();
    answered.check(&["other", "batch"]);
    let answers: Value =
        serde_json::from_slice(&within(TEST_TIMEOUT, reader.next()).await.unwrap().message).unwrap();
    let ids: Vec<_> =
        answers.as_array().unwrap().iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
    assert_eq!(ids, (0..100).collect::<Vec<_>>(), "in the order sent");
}
