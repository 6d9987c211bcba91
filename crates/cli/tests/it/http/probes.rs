//! Probes for a supervisor: whether the server is alive, whether it is ready, and its metrics.

use greenroom_testkit::{
    TEST_TIMEOUT,
    http::{Server, stateless},
    process::{Signal, children, signal},
    within,
};
use serde_json::{Value, json};

use super::http_client;
use crate::front::fixture::FakeEngineSetup;

async fn ready(server: &Server) -> (u16, Value) {
    let mut reply = server.get("/ready").await;
    (reply.status, reply.json().await)
}

/// Asks again until the server's readiness is this.
async fn until_ready(server: &Server, wanted: impl Fn(u16, &str) -> bool) {
    let poll = async {
        loop {
            let (status, response) = ready(server).await;
            if wanted(status, response["message"].as_str().unwrap_or_default()) {
                return;
            }
        }
    };
    within(TEST_TIMEOUT, poll).await;
}

/// A server is alive at once, and ready when its first browser is.
#[tokio::test]
async fn server_is_ready_when_its_first_browser_is() {
    let setup = FakeEngineSetup::new().script("while ! test -e \"$0/go\"; do sleep 0.01; done; exec \"$@\"");
    let server = setup.serve().await;
    let mut health = server.get("/health").await;
    assert_eq!((health.status, health.json().await["status"].as_str()), (200, Some("ok")));
    let (status, response) = ready(&server).await;
    assert_eq!((status, &response["status"]), (503, &json!("not ready")), "{response}");
    assert_eq!(response["message"], "the first browser is starting");
    setup.gate("go").open();
    until_ready(&server, |status, _| status == 200).await;
    assert_eq!(ready(&server).await.1, json!({"status": "ready", "records": "kept"}));
}

/// The server's address in a browser shows a page about what it is and how to connect: plain HTML that loads and runs
/// nothing, at the address that the server listens at.
#[tokio::test]
async fn root_page_shows_how_to_connect() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let mut page = server.get("/").await;
    assert_eq!(page.status, 200);
    let policy = "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
    for (name, value) in [("content-security-policy", policy), ("content-type", "text/html; charset=utf-8")] {
        assert_eq!(page.header(name).unwrap_or_default(), value);
    }
    let html = page.body().await;
    assert!(html.contains(&format!("<pre>{}/mcp</pre>", server.url())), "{html}");
    for part in ["href=\"/health\"", "href=\"/api/openapi.json\""] {
        assert!(html.contains(part), "{html}");
    }
    assert!(!html.contains("<script") && !html.contains("src="), "{html}");
    let mut foreign = server.connection().await;
    foreign.send("GET / HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n").await;
    assert_eq!(foreign.reply().await.status, 403);
}

/// A server whose engine cannot start says why, stays alive, and is ready when the engine works.
#[tokio::test]
async fn failing_engine_keeps_the_server_alive_and_unready() {
    let setup = FakeEngineSetup::new()
        .script("if test -e \"$0/mended\"; then exec \"$@\"; fi; echo 'no licence found' >&2; exit 3");
    let server = setup.serve().await;
    until_ready(&server, |status, why| status == 503 && why.contains("no licence found")).await;
    assert_eq!(server.get("/health").await.status, 200);
    setup.gate("mended").open();
    let client = http_client(&server).await;
    client.call("echo", json!({"text": "a"})).await;
    until_ready(&server, |status, _| status == 200).await;
}

/// A server whose only browser does not answer is not ready, and says so, before that browser is given up; it is ready when
/// the browser answers again.
#[tokio::test]
async fn unresponsive_browser_makes_the_server_unready() {
    // The built-in pool would start another browser instead.
    let setup = FakeEngineSetup::new().pools("MAIN_INSTANCES", "1").pools("MAIN_IS_DEFAULT", "true");
    let setup = setup.set("pool.health_interval", "2s").set("pool.health_timeout", "200ms");
    let server = setup.serve().await;
    let client = http_client(&server).await;
    client.call("echo", json!({"text": "a"})).await;
    until_ready(&server, |status, _| status == 200).await;
    let engines = children(server.pid());
    engines.iter().for_each(|pid| signal(*pid, Signal::STOP));
    until_ready(&server, |status, why| {
        status == 503 && why.starts_with("no browser answers: no answer within 200 ms")
    })
    .await;
    assert_eq!(server.get("/health").await.status, 200);
    engines.iter().for_each(|pid| signal(*pid, Signal::CONT));
    until_ready(&server, |status, _| status == 200).await;
}

/// Readers of OpenMetrics can parse the metrics, which count calls by tool and outcome.
#[tokio::test]
async fn metrics_count_calls_by_tool_and_outcome() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    for text in ["a", "b"] {
        client.call("echo", json!({"text": text})).await;
    }
    client.call("fail", json!({"message": "no"})).await;
    client.call("no_such_tool", json!({})).await;
    let request = stateless(1, "tools/call", json!({"name": "session_list", "arguments": {}}), json!({}));
    server.post_stateless(&request).await.answer().await;
    let mut reply = server.get("/metrics").await;
    assert_eq!(
        reply.header("content-type"),
        Some("application/openmetrics-text; version=1.0.0; charset=utf-8")
    );
    let text = reply.body().await;
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut families = Vec::new();
    for line in text.lines() {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["#", "TYPE", name, "counter" | "gauge" | "histogram" | "info"] => families.push(name.to_owned()),
            ["#", "HELP" | "UNIT", name, ..] => assert!(name.starts_with("greenroom_"), "{line}"),
            ["#", "EOF"] => {}
            [sample, value] => {
                assert!(families.iter().any(|family| sample.starts_with(family)), "{line}");
                assert!(value.parse::<f64>().is_ok(), "{line}");
            }
            _ => panic!("no line of OpenMetrics: {line}"),
        }
    }
    for sample in [
        r#"greenroom_calls_total{tool="echo",outcome="ok"} 2"#,
        r#"greenroom_calls_total{tool="fail",outcome="error"} 1"#,
        r#"greenroom_calls_total{tool="session_list",outcome="ok"} 1"#,
        "greenroom_call_duration_seconds_count 4",
        "greenroom_sessions 1",
        "greenroom_http_clients 1",
    ] {
        assert!(text.lines().any(|line| line == sample), "{sample} is missing: {text}");
    }
    assert!(!text.contains("no_such_tool"), "{text}");
}

/// A call whose browser dies during it is counted where it ran.
#[tokio::test]
async fn metrics_count_lost_calls() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let response = client.call("die", json!({"sessionId": "a"})).await;
    assert_eq!(response["result"]["_meta"]["greenroom/error"]["code"], "session_lost", "{response}");
    let figures = server.get("/metrics").await.body().await;
    let line = r#"greenroom_pool_calls_total{pool="DEFAULT",instance="0",outcome="lost"} 1"#;
    assert!(figures.contains(line), "{figures}");
}
