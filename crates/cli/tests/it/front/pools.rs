//! Declared pools for agents: which browsers there are, where calls run, and how a pool fails.

use std::collections::BTreeSet;

use greenroom_testkit::{Client, TEST_TIMEOUT, text_of, within};
use serde_json::{Value, json};

use super::fixture::{FakeEngineSetup, failure, pid_of, retryable, sessions, tools};

/// Two pools: the default one with three instances, the last of which has an alias, and one with a single instance.
pub fn two_pools(setup: FakeEngineSetup) -> FakeEngineSetup {
    setup
        .pools("MAIN_INSTANCES", "3")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("MAIN_DESCRIPTION", "General web scraping and navigation")
        .pools("MAIN__2_ALIAS", "main_browser")
        .pools("SIDE_JOBS_INSTANCES", "1")
}

async fn pid_of_call(client: &Client, arguments: Value) -> u32 {
    pid_of(&client.call("pid", arguments).await)
}

async fn status(client: &Client, arguments: Value) -> Value {
    serde_json::from_str(&text_of(&client.call("browser_pool_status", arguments).await)).unwrap()
}

/// Calls run in the pool and the instance that they name, by number or by alias, and otherwise in the default pool; each
/// instance is a process of its own.
#[tokio::test]
async fn calls_run_in_the_named_pool_and_instance() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let mut processes = Vec::new();
    for instance in ["0", "1", "2"] {
        processes.push(pid_of_call(&client, json!({"browser_instance": instance})).await);
    }
    let side = pid_of_call(&client, json!({"browser_pool": "SIDE_JOBS"})).await;
    assert_eq!(BTreeSet::from_iter(processes.iter().chain([&side])).len(), 4, "{processes:?} {side}");
    assert_eq!(pid_of_call(&client, json!({"browser_instance": "main_browser"})).await, processes[2]);
    assert_eq!(pid_of_call(&client, json!({"browser_instance": 2})).await, processes[2]);
    assert_eq!(
        pid_of_call(&client, json!({"browser_pool": "SIDE_JOBS", "browser_instance": "0"})).await,
        side
    );
    assert!(processes.contains(&pid_of_call(&client, json!({})).await));
    client.call("create_new_session", json!({"sessionId": "s", "browser_instance": "main_browser"})).await;
    assert_ne!(
        pid_of_call(&client, json!({"sessionId": "s"})).await,
        processes[2],
        "a session begins with a new browser"
    );
    let list = sessions(&client).await;
    assert_eq!((&list[0]["pool"], &list[0]["instance"]), (&json!("MAIN"), &json!("2")));
}

/// A call for an instance that is leased waits for exactly that one, even if others are free.
#[tokio::test]
async fn call_waits_for_the_named_instance() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let gate = setup.gate("gate");
    let file = json!(gate.path());
    let held = client.start_call("wait", json!({"file": file, "browser_instance": "2"})).await;
    gate.arrived(1).await;
    let mut waiting = client.start_call("pid", json!({"browser_instance": "main_browser"})).await;
    pid_of_call(&client, json!({"browser_instance": "1"})).await;
    assert!(waiting.response_now().is_none());
    gate.open();
    held.response().await;
    pid_of(&waiting.response().await);
}

/// Unknown names are refused with the known ones, and a session does not move.
#[tokio::test]
async fn unknown_pool_error_lists_the_known_ones() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let fails = async |arguments: Value| failure(&client.call("pid", arguments).await);
    let (code, text) = fails(json!({"browser_pool": "SIDE"})).await;
    assert_eq!(code, "no_such_pool");
    assert!(
        text.starts_with(
            r#"Invalid pool name in browser_pool: no such pool: "SIDE"; there are "MAIN", "SIDE_JOBS""#
        ),
        "{text}"
    );
    for wrong in ["3", "MAIN_BROWSER", ""] {
        let (code, text) = fails(json!({"browser_instance": wrong})).await;
        assert_eq!(code, "no_such_instance", "{text}");
        let words =
            format!("Instance not found in pool: no such instance in pool \"MAIN\": \"{wrong}\"; there are ");
        assert!(text.starts_with(&words) && text.contains("main_browser"), "{text}");
    }
    pid_of_call(&client, json!({"sessionId": "s", "browser_pool": "SIDE_JOBS"})).await;
    let (code, text) = fails(json!({"sessionId": "s", "browser_pool": "MAIN"})).await;
    assert_eq!(code, "session_elsewhere");
    assert!(text.contains(r#"lives in pool "SIDE_JOBS""#), "{text}");
}

/// Commands of a bulk call run in the one instance that it names.
#[tokio::test]
async fn bulk_runs_in_the_named_instance() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.client().await;
    let process = pid_of_call(&client, json!({"browser_instance": "2"})).await;
    let commands = json!([{"tool": "pid"}, {"tool": "pid"}, {"tool": "pid"}]);
    let arguments =
        json!({"commands": commands, "browser_instance": "main_browser", "return_all_results": true});
    let answer = client.call("browser_execute_bulk", arguments).await;
    for n in 0..3 {
        let text = &answer["result"]["structuredContent"]["results"][n]["content"][0]["text"];
        assert_eq!(*text, json!(process.to_string()), "{answer}");
    }
}

/// Every tool shows the parameters, the instructions name the pools, and agents can ask for their state.
#[tokio::test]
async fn tools_and_instructions_name_the_pools() {
    let setup = two_pools(FakeEngineSetup::new());
    let client = setup.spawn();
    let hello = client.initialize(super::fixture::NEWEST, json!({})).await;
    let instructions = hello["result"]["instructions"].as_str().unwrap();
    let expected = "Pools: MAIN (default): General web scraping and navigation; SIDE_JOBS.";
    assert!(instructions.ends_with(expected), "{instructions}");
    for tool in tools(&client).await.iter().filter(|tool| tool["name"] != "browser_pool_status") {
        let properties = tool["inputSchema"]["properties"].as_object().unwrap();
        let name = tool["name"].as_str().unwrap();
        let own = name.starts_with("session_") || name.starts_with("get_");
        assert_eq!(properties.contains_key("browser_pool"), !own, "{tool}");
        assert_eq!(properties.contains_key("browser_instance"), !own, "{tool}");
    }
    let gate = setup.gate("gate");
    let held = client.start_call("wait", json!({"file": gate.path(), "browser_instance": "2"})).await;
    gate.arrived(1).await;
    let all = status(&client, json!({})).await;
    assert_eq!(
        all["summary"],
        json!({
            "total_pools": 2, "total_instances": 4, "healthy_instances": all["summary"]["healthy_instances"],
            "failed_instances": 0, "leased_instances": 1, "available_instances": all["summary"]["available_instances"],
        })
    );
    let aliased = &all["pools"][0]["instances"][2];
    assert_eq!((&aliased["alias"], &aliased["leased"]), (&json!("main_browser"), &json!(true)));
    assert_eq!((&aliased["status"], &aliased["slots"]), (&json!("healthy"), &json!(1)));
    assert!(aliased["lease_duration_ms"].is_u64() && aliased["process_id"].is_u64(), "{aliased}");
    let side = status(&client, json!({"pool_name": "SIDE_JOBS"})).await;
    assert_eq!(
        (side["pools"].as_array().unwrap().len(), &side["summary"]["total_instances"]),
        (1, &json!(1))
    );
    gate.open();
    held.response().await;
}

/// The error for a full pool says who holds its only instance and which settings would help.
#[tokio::test]
async fn full_pool_error_names_the_lease_holder() {
    let setup = two_pools(FakeEngineSetup::new()).pools("SIDE_JOBS_LEASE_TIMEOUT", "200");
    let client = setup.client().await;
    pid_of_call(&client, json!({"sessionId": "a", "browser_pool": "SIDE_JOBS"})).await;
    let answer = client.call("pid", json!({"sessionId": "b", "browser_pool": "SIDE_JOBS"})).await;
    let (code, text) = failure(&answer);
    assert_eq!((code.as_str(), retryable(&answer)), ("lease_timeout", true));
    assert_eq!(
        text,
        "no browser free within 200 ms: pool \"SIDE_JOBS\"\n\nhint: 1 of 1 slot is leased by session \"a\"; close a session with session_close, or raise INSTANCES or SLOTS of pool \"SIDE_JOBS\""
    );
}

/// A pool of which no instance can start gives the documented error; another pool is not affected.
#[tokio::test]
async fn pool_without_a_healthy_instance_refuses_calls() {
    let setup = FakeEngineSetup::new()
        .pools("MAIN_INSTANCES", "1")
        .pools("MAIN_IS_DEFAULT", "true")
        .pools("MAIN_COMMAND", r#"["false"]"#)
        .pools("MAIN_RESTARTS", "0")
        .pools("SIDE_INSTANCES", "1");
    let client = setup.client().await;
    let refused = async {
        loop {
            let (code, text) = failure(&client.call("pid", json!({})).await);
            if code == "no_healthy_instance" {
                return text;
            }
        }
    };
    let text = within(TEST_TIMEOUT, refused).await;
    let words = "Default pool 'MAIN' has no healthy instances. Specify explicit pool or restart failed instances.\n\nhint: ";
    assert!(
        text.starts_with(words) && text.ends_with("`greenroom pool restart MAIN` starts it again"),
        "{text}"
    );
    pid_of_call(&client, json!({"browser_pool": "SIDE"})).await;
    let all = status(&client, json!({})).await;
    let failed = &all["pools"][0]["instances"][0];
    assert_eq!((&failed["status"], &failed["process_id"]), (&json!("failed"), &Value::Null), "{all}");
    assert!(failed["health_check"]["error"].is_string(), "{failed}");
}
