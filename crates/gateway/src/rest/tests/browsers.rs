//! Attached browsers over the routes.

use super::*;
use crate::testing::{PLAYWRIGHT, TestBrowser};

const PLAIN: TestBrowser = TestBrowser {
    url: "http://127.0.0.1:9222",
    label: None,
    tags: &[],
    tools: PLAYWRIGHT,
    down: false,
    meeting: None,
};
const WORK: TestBrowser =
    TestBrowser { url: "ws://10.0.0.7:9222/devtools", label: Some("my work"), tags: &["a"], ..PLAIN };

fn program(browsers: &[TestBrowser], may_attach: bool) -> RestClient {
    let (gateway, folder) = testing::attached(&[BUILT_IN], browsers, Scope::Call);
    let mut gateway = Arc::into_inner(gateway).unwrap();
    gateway.recall.records = Some(MemoryRecords::new());
    RestClient::before(Arc::new(gateway), folder, may_attach)
}

impl RestClient {
    async fn command(&self, method: &str, path: &str, body: &Value) -> (u16, Value) {
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let body = if body.is_null() { Body::empty() } else { Body::from(body.to_string()) };
        let reply = self.send(request.body(body).unwrap()).await;
        (reply.status, reply.json())
    }
}

/// Browsers are listed and shown, field for field, by index and by label.
#[tokio::test]
async fn browsers_are_shown() {
    let program = program(&[PLAIN, WORK], false);
    let list = program.json("/api/browsers").await;
    assert_eq!(
        list["browsers"][1].to_string(),
        r#"{"index":2,"url":"ws://10.0.0.7:9222/devtools","label":"my work","tags":["a"],"engine":"playwright","state":"pending","lastError":null,"lastAttempt":null,"retryInSeconds":null,"reconnects":0,"sessions":0,"slots":1,"leasedSlots":0,"waiting":0}"#
    );
    for name in ["2", "my%20work"] {
        assert_eq!(program.json(&format!("/api/browsers/{name}")).await, list["browsers"][1]);
    }
    let (status, word, message) = program.refused("/api/browsers/3").await;
    assert_eq!((status, &*word), (404, "no_such_browser"));
    assert!(message.contains("\"3\"; there are 1, 2 (\"my work\")"), "{message}");
    let none = self::program(&[], false);
    assert_eq!(none.json("/api/browsers").await, json!({"browsers": []}));
    assert_eq!(none.refused("/api/browsers/1").await.1, "no_such_browser");
}

/// Every program may reconnect a browser; only programs with that right may attach and detach one.
#[tokio::test(start_paused = true)]
async fn only_allowed_programs_attach_and_detach() {
    let stranger = program(&[PLAIN, WORK], false);
    let call = json!({"tool": "t", "params": {"browserIndex": 1}});
    let (status, reply_body) = stranger.command("POST", "/api/calls", &call).await;
    assert_eq!((status, &reply_body["status"]), (200, &json!("success")), "{reply_body}");
    let (status, reply_body) = stranger.command("POST", "/api/browsers/1/reconnect", &Value::Null).await;
    assert_eq!(
        (status, &reply_body["index"], &reply_body["state"]),
        (200, &json!(1), &json!("connected")),
        "{reply_body}"
    );
    let url = json!({"url": "http://127.0.0.1:9224"});
    for (method, path, body) in [("POST", "/api/browsers", &url), ("DELETE", "/api/browsers/1", &Value::Null)]
    {
        let (status, reply_body) = stranger.command(method, path, body).await;
        assert_eq!((status, &reply_body["error"]), (403, &json!("changes_refused")), "{method}");
    }
    let keeper = program(&[PLAIN], true);
    let (status, reply_body) =
        keeper.command("POST", "/api/browsers", &json!({"url": url["url"], "label": "x"})).await;
    assert_eq!(
        (status, &reply_body["index"], &reply_body["label"]),
        (200, &json!(2), &json!("x")),
        "{reply_body}"
    );
    for (body, status, word) in [
        (json!({"url": url["url"]}), 409, "browser_exists"),
        (json!({"url": "http://forbidden/"}), 400, "bad_browser"),
        (json!({"url": "http://127.0.0.1:1|chrome"}), 400, "bad_browser"),
        (json!({"url": "http://127.0.0.1:1", "label": "7"}), 400, "bad_browser"),
        (json!({"url": "http://down/"}), 503, "browser_down"),
        (json!({"url": "http://127.0.0.1:1", "headers": {"a": "b"}}), 400, "bad_request"),
        (json!({"url": "http://127.0.0.1:1", "engine": "custom"}), 400, "bad_request"),
        (json!({}), 400, "bad_request"),
        (Value::Null, 400, "bad_request"),
    ] {
        let (got, reply_body) = keeper.command("POST", "/api/browsers", &body).await;
        assert_eq!((got, &reply_body["error"]), (status, &json!(word)), "{body}: {reply_body}");
    }
    let (status, reply_body) = keeper.command("DELETE", "/api/browsers/x", &Value::Null).await;
    assert_eq!((status, &reply_body["index"]), (200, &json!(2)), "{reply_body}");
    let (status, reply_body) = keeper.command("DELETE", "/api/browsers/x", &Value::Null).await;
    assert_eq!((status, &reply_body["error"]), (404, &json!("no_such_browser")));
    assert_eq!(keeper.json("/api/browsers").await["browsers"].as_array().unwrap().len(), 1);
}
