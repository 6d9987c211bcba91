//! Calls to several pools, as a client makes them: where they run, which messages they get, what is counted.

mod browsers;

use std::{path::PathBuf, sync::Arc, time::Duration};

use greenroom_core::{
    Agent, ApiScopes, BoxFuture, NoAnswer, Owner, Queued, Raw, raw::encode, settings::Scope,
};
use greenroom_fleet::PoolSize;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{
    Gateway, call,
    call_order::Turns,
    caller::{CallSource, Caller},
    front::list_tools,
    progress::{self, QueueProgress},
    testing::{self, BUILT_IN, DAY, TestPool},
};

const FIXED: TestPool = TestPool { size: PoolSize::Fixed(1), slots: 1, ..BUILT_IN };
const CHROMIUM: TestPool =
    TestPool { name: "CHROMIUM", tools: &["t", "pdf", "fail"], size: PoolSize::Fixed(2), ..FIXED };
const FIREFOX: TestPool = TestPool { name: "FIREFOX", tools: &["t", "find"], ..FIXED };

/// An agent that keeps the messages it gets.
#[derive(Default)]
struct RecordingAgent {
    waiting: QueueProgress,
    notices: Mutex<Vec<Value>>,
}

impl Agent for RecordingAgent {
    fn tell(&self, method: &str, params: Option<Raw>) {
        assert_eq!(method, progress::METHOD);
        self.notices.lock().push(serde_json::from_str(params.unwrap().get()).unwrap());
    }

    fn ask<'a>(
        &'a self,
        method: &'a str,
        _: Option<Raw>,
    ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
        Box::pin(async { Err(NoAnswer::Unsupported(method.to_owned())) })
    }

    fn capabilities(&self) -> Option<Raw> {
        None
    }

    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(Vec::new()))
    }

    fn log_level(&self) -> Option<String> {
        None
    }

    fn follows_queue(&self) -> bool {
        self.waiting.is_followed()
    }

    fn queued(&self, queued: Queued<'_>) {
        if let Some(notice) = self.waiting.notice(queued) {
            self.tell(progress::METHOD, Some(notice));
        }
    }
}

/// A client of a gateway with two pools.
struct TestClient {
    gateway: Arc<Gateway>,
    is_local: bool,
    _folder: TempDir,
}

fn client(pools: &[TestPool]) -> TestClient {
    let (gateway, folder) = testing::gateway(pools, Scope::Call, DAY);
    TestClient { gateway, is_local: true, _folder: folder }
}

impl TestClient {
    async fn call_as(&self, agent: Arc<RecordingAgent>, params: Value) -> Value {
        let is_local = self.is_local;
        let caller = Caller {
            owner: Owner::local(),
            scopes: ApiScopes::all(),
            source: CallSource::Request,
            agent,
            is_program: false,
            is_local,
            knows_resource_links: true,
        };
        let answer = call::run(&self.gateway, &caller, Some(&encode(&params)), Turns::default().take()).await;
        serde_json::from_str(answer.unwrap_or_else(|error| panic!("{error}")).get()).unwrap()
    }

    async fn call(&self, tool: &str, arguments: Value) -> Value {
        self.call_as(Arc::default(), json!({"name": tool, "arguments": arguments})).await
    }

    /// Where a call ran.
    async fn ran(&self, tool: &str, arguments: Value) -> String {
        let answer = self.call(tool, arguments).await;
        assert!(answer.get("_meta").is_none(), "{answer}");
        text(&answer)
    }

    /// A call that fails: its code and its text.
    async fn fails(&self, tool: &str, arguments: Value) -> (String, String) {
        let answer = self.call(tool, arguments).await;
        assert_eq!(answer["isError"], true, "{answer}");
        let code = answer["_meta"]["greenroom/error"]["code"].as_str().unwrap_or_default().to_owned();
        (code, text(&answer))
    }
}

fn text(answer: &Value) -> String {
    answer["content"][0]["text"].as_str().unwrap().to_owned()
}

/// A call runs in the pool and the instance that it names, by number or alias, or in the default pool; a session stays
/// where it was made.
#[tokio::test]
async fn calls_run_in_the_named_pool_and_instance() {
    let client = client(&[CHROMIUM, FIREFOX]);
    assert_eq!(client.ran("t", json!({"browser_instance": 1})).await, "CHROMIUM/1 t");
    assert_eq!(client.ran("t", json!({"browser_instance": "second"})).await, "CHROMIUM/1 t");
    assert_eq!(client.ran("t", json!({"browser_instance": "0"})).await, "CHROMIUM/0 t");
    assert!(client.ran("t", json!({})).await.starts_with("CHROMIUM/"));
    assert_eq!(client.ran("t", json!({"browser_pool": "FIREFOX"})).await, "FIREFOX/0 t");
    assert_eq!(client.ran("t", json!({"browser_pool": "FIREFOX", "sessionId": "s"})).await, "FIREFOX/0 t");
    assert_eq!(client.ran("find", json!({"sessionId": "s"})).await, "FIREFOX/0 find", "its session is there");
    let made = json!({"sessionId": "m", "browser_instance": "second"});
    let reply_text: Value = serde_json::from_str(&client.ran("create_new_session", made).await).unwrap();
    assert_eq!(reply_text["sessionId"], "m");
    assert_eq!(client.ran("t", json!({"sessionId": "m"})).await, "CHROMIUM/1 t");
}

/// The error for an unknown pool or instance, a session in another pool and a tool that the pool lacks names the
/// alternatives.
#[tokio::test]
async fn unavailable_targets_name_alternatives() {
    let client = client(&[CHROMIUM, FIREFOX]);
    let (code, reply_text) = client.fails("t", json!({"browser_pool": "WEBKIT"})).await;
    assert_eq!(code, "no_such_pool");
    assert!(
        reply_text.starts_with(
            r#"Invalid pool name in browser_pool: no such pool: "WEBKIT"; there are "CHROMIUM", "FIREFOX""#
        ),
        "{reply_text}"
    );
    let (code, reply_text) = client.fails("t", json!({"browser_instance": "9"})).await;
    assert_eq!(code, "no_such_instance");
    assert!(
        reply_text.starts_with(
            r#"Instance not found in pool: no such instance in pool "CHROMIUM": "9"; there are "0""#
        ) && reply_text.contains("\"second\""),
        "{reply_text}"
    );
    let (code, reply_text) = client.fails("pdf", json!({"browser_pool": "FIREFOX"})).await;
    assert_eq!(code, "tool_not_in_pool");
    assert!(
        reply_text.starts_with(r#"pool "FIREFOX" has no tool "pdf"; it is in "CHROMIUM""#),
        "{reply_text}"
    );
    assert_eq!(client.fails("find", json!({})).await.0, "tool_not_in_pool", "the default pool has none");
    client.ran("t", json!({"sessionId": "s", "browser_pool": "FIREFOX"})).await;
    assert_eq!(client.fails("pdf", json!({"sessionId": "s"})).await.0, "tool_not_in_pool");
    let (code, reply_text) = client.fails("t", json!({"sessionId": "s", "browser_pool": "CHROMIUM"})).await;
    assert_eq!(code, "session_elsewhere");
    assert!(reply_text.contains(r#"lives in pool "FIREFOX""#), "{reply_text}");
    assert_eq!(client.fails("pdf", json!({"browser_pool": "WEBKIT"})).await.0, "no_such_pool");
}

/// The steps of a bulk run in the pool that the bulk names, and the pool must have each tool.
#[tokio::test]
async fn bulk_runs_in_one_pool() {
    let client = client(&[CHROMIUM, FIREFOX]);
    let commands = json!([{"tool": "t"}, {"tool": "pdf"}]);
    let place = json!({"commands": commands, "browser_instance": 1, "return_all_results": true});
    let answer = client.call("browser_execute_bulk", place).await;
    let ran = |n: usize| text(&answer["structuredContent"]["results"][n]);
    assert_eq!((ran(0), ran(1)), ("CHROMIUM/1 t".to_owned(), "CHROMIUM/1 pdf".to_owned()));
    let elsewhere = json!({"commands": commands, "browser_pool": "FIREFOX"});
    let (code, reply_text) = client.fails("browser_execute_bulk", elsewhere).await;
    assert_eq!(code, "tool_not_in_pool");
    assert!(reply_text.starts_with(r#"commands[1]: pool "FIREFOX" has no tool "pdf""#), "{reply_text}");
    assert!(reply_text.contains("no command was run"), "{reply_text}");
}

/// If there are several pools every tool shows the choice, greenroom's own too, and `browser_pool_status` is listed;
/// with one pool nothing is shown.
#[tokio::test]
async fn selectors_are_shown_with_several_pools() {
    let shown = async |pools: &[TestPool]| {
        let client = client(pools);
        let list = list_tools(&client.gateway, &Owner::local(), true, client.gateway.scope).await.unwrap();
        serde_json::from_str::<Value>(list.to_raw().get()).unwrap()["tools"].as_array().unwrap().clone()
    };
    let properties = |tools: &[Value], name: &str| -> Vec<String> {
        let tool = tools.iter().find(|tool| tool["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        tool["inputSchema"]["properties"].as_object().unwrap().keys().cloned().collect()
    };
    let two = shown(&[CHROMIUM, FIREFOX]).await;
    let places = ["sessionId", "browser_pool", "browser_instance"];
    assert_eq!(properties(&two, "pdf"), places);
    assert_eq!(properties(&two, "create_new_session")[1..], places);
    assert!(properties(&two, "browser_execute_bulk").ends_with(&places.map(ToOwned::to_owned)));
    assert_eq!(properties(&two, "session_close"), ["sessionId"]);
    assert_eq!(properties(&two, "browser_pool_status"), ["pool_name"]);
    assert_eq!(properties(&shown(&[CHROMIUM]).await, "pdf"), ["sessionId", "browser_instance"]);
    assert_eq!(properties(&shown(&[FIREFOX]).await, "t"), ["sessionId"]);
    let built_in = shown(&[BUILT_IN]).await;
    assert_eq!(properties(&built_in, "t"), ["sessionId"]);
    assert!(built_in.iter().all(|tool| tool["name"] != "browser_pool_status"));
}

/// A client whose call waits for a browser is notified of its position in the queue, if it wants progress, and the
/// timeout names the holder.
#[tokio::test(start_paused = true)]
async fn waiting_calls_get_progress() {
    let client = client(&[TestPool { lease_timeout: Duration::from_secs(30), ..FIREFOX }]);
    client.ran("t", json!({"sessionId": "a"})).await;
    let params =
        |id: &str| json!({"name": "t", "arguments": {"sessionId": id}, "_meta": {"progressToken": id}});
    let agent = |id: &str| {
        Arc::new(RecordingAgent {
            waiting: QueueProgress::from_params(Some(&encode(&params(id)))),
            notices: Mutex::default(),
        })
    };
    let second = agent("b");
    let third = agent("c");
    let (answer, other) =
        tokio::join!(client.call_as(second.clone(), params("b")), client.call_as(third.clone(), params("c")));
    let notices = second.notices.lock().clone();
    let message = |place: &str| format!("waiting for a browser: {place} in pool \"FIREFOX\"");
    assert_eq!(
        notices[0],
        json!({"progressToken": "b", "progress": 0.001, "message": message("place 1 of 1")})
    );
    let notices = third.notices.lock().clone();
    assert_eq!(notices[0]["message"], message("place 2 of 2"));
    let grows = |notices: &[Value]| {
        notices.windows(2).all(|two| two[0]["progress"].as_f64() < two[1]["progress"].as_f64())
    };
    assert!(grows(&notices), "{notices:?}");
    for answer in [answer, other] {
        assert_eq!(answer["_meta"]["greenroom/error"], json!({"code": "lease_timeout", "retryable": true}));
        let reply_text = text(&answer);
        assert!(reply_text.starts_with("no browser free within 30 s: pool \"FIREFOX\""), "{reply_text}");
        assert!(reply_text.contains("1 of 1 slot is leased by session \"a\""), "{reply_text}");
        assert!(reply_text.ends_with("raise INSTANCES or SLOTS of pool \"FIREFOX\""), "{reply_text}");
    }
}

/// Leases, calls and slots are counted for every pool and instance, and nothing else becomes a label.
#[tokio::test]
async fn pools_are_counted() {
    let client = client(&[CHROMIUM, FIREFOX]);
    client.ran("t", json!({"browser_instance": 1})).await;
    client.call("fail", json!({"browser_instance": 1})).await;
    client.fails("t", json!({"browser_pool": "INVENTED"})).await;
    let commands = json!([{"tool": "t"}, {"tool": "t"}]);
    client.call("browser_execute_bulk", json!({"commands": commands, "browser_pool": "FIREFOX"})).await;
    let text = client.gateway.metrics.text(&client.gateway.fleet, 0, 0);
    for line in [
        r#"greenroom_pool_calls_total{pool="CHROMIUM",instance="1",outcome="ok"} 1"#,
        r#"greenroom_pool_calls_total{pool="CHROMIUM",instance="1",outcome="error"} 1"#,
        r#"greenroom_pool_calls_total{pool="FIREFOX",instance="0",outcome="ok"} 2"#,
        r#"greenroom_pool_leases_total{pool="FIREFOX",instance="0"} 1"#,
        r#"greenroom_pool_lease_wait_seconds_count{pool="FIREFOX"} 1"#,
        r#"greenroom_pool_slots{pool="CHROMIUM",instance="0"} 1"#,
        r#"greenroom_pool_slots_leased{pool="CHROMIUM",instance="1"} 0"#,
        r#"greenroom_pool_healthy{pool="FIREFOX",instance="0"} 1"#,
        r#"greenroom_pool_waiting{pool="FIREFOX"} 0"#,
        r#"greenroom_calls_total{tool="t",outcome="ok"} 3"#,
        "greenroom_slots 3",
    ] {
        assert!(text.lines().any(|shown| shown == line), "{line} is missing:\n{text}");
    }
    assert!(!text.contains("INVENTED"), "{text}");
}

/// The error for a tool that the engine has, but that is switched off, names the entry of `caps` that it needs.
#[tokio::test]
async fn disabled_tool_error_names_its_cap() {
    let client = client(&[CHROMIUM]);
    let caller = Caller {
        owner: Owner::local(),
        scopes: ApiScopes::all(),
        source: CallSource::Request,
        agent: Arc::<RecordingAgent>::default(),
        is_program: false,
        is_local: true,
        knows_resource_links: true,
    };
    let params = encode(&json!({ "name": "save", "arguments": {} }));
    let refused =
        call::run(&client.gateway, &caller, Some(&params), Turns::default().take()).await.unwrap_err();
    let refused: Value = serde_json::from_str(refused.get()).unwrap();
    assert_eq!(refused["message"], "unknown tool: \"save\"; the engine has it, with `pdf` in `pool.caps`");
}
