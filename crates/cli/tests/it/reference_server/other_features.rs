//! The server's features other than tools: prompts, completions, resources, subscriptions, tasks.

use greenroom_testkit::{Client, Launch, case, text_of};
use serde_json::{Value, json};

use super::{ADDRESS_KINDS, ServerAddress, ServerPair, ask};
use crate::front::fixture::NEWEST;

/// Prompts, resources, sessions, subscriptions and tasks, one case after the other with the same processes.
#[tokio::test]
async fn prompts_resources_and_tasks_pass() {
    for address in ADDRESS_KINDS {
        let pair = &ServerPair::raw(address).await;
        case("prompts_and_completions", prompts_and_completions(address, pair)).await;
        case("resources", resources(address, pair)).await;
        match address {
            ServerAddress::Command => case("tasks", tasks(pair)).await,
            ServerAddress::Url => {
                case(
                    "named_session_has_its_own_upstream_session",
                    named_session_has_its_own_upstream_session(pair),
                )
                .await;
                // Last, since the server sends updates from then on.
                case("subscriptions", subscriptions(pair)).await;
            }
        }
    }
}

/// Prompts, their arguments and completions of these arrive unchanged, and so do the server's errors.
async fn prompts_and_completions(address: ServerAddress, pair: &ServerPair) {
    let reference = json!({ "type": "ref/prompt", "name": "completable-prompt" });
    for (method, params) in [
        ("prompts/list", json!({})),
        ("prompts/get", json!({ "name": "simple-prompt" })),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": { "city": "Ulm", "state": "BW" } })),
        ("prompts/get", json!({ "name": "no-such-prompt" })),
        ("prompts/get", json!({ "name": "args-prompt", "arguments": {} })),
        (
            "completion/complete",
            json!({ "ref": reference, "argument": { "name": "department", "value": "E" } }),
        ),
        (
            "completion/complete",
            json!({
                "ref": reference,
                "argument": { "name": "name", "value": "" },
                "context": { "arguments": { "department": "Sales" } },
            }),
        ),
    ] {
        let through = ask(&pair.through, method, &params).await;
        let direct = ask(&pair.direct, method, &params).await;
        assert_eq!(through, direct, "{address:?}: {method} {params}");
    }
}

/// Resources are listed after greenroom's own and read by their addresses: static ones, templates, and those that a call
/// of the same session has made.
async fn resources(address: ServerAddress, pair: &ServerPair) {
    let made = json!({ "name": "a.gz", "data": "data:text/plain,hello" });
    let link = pair.through.call("gzip-file-as-resource", made.clone()).await;
    assert_eq!(link["result"]["content"][0]["uri"], "demo://resource/session/a.gz");
    pair.direct.call("gzip-file-as-resource", made).await;

    for (method, list) in [("resources/list", "resources"), ("resources/templates/list", "resourceTemplates")]
    {
        let proxied = all(&pair.through, method, list).await;
        let original = all(&pair.direct, method, list).await;
        let own = proxied.iter().filter(|one| one.to_string().contains("greenroom://")).count();
        assert_eq!(&proxied[own..], &original[..], "{address:?}: {method}");
    }
    for uri in [
        "demo://resource/static/document/features.md",
        "demo://resource/session/a.gz",
        "demo://resource/dynamic/text/nothing",
        "nonsense://x",
    ] {
        let params = json!({ "uri": uri });
        let through = ask(&pair.through, "resources/read", &params).await;
        assert_eq!(through, ask(&pair.direct, "resources/read", &params).await, "{address:?}: {uri}");
    }
    let own = json!({ "uri": "greenroom://records/00000000-0000-7000-8000-000000000000" });
    let refused = ask(&pair.through, "resources/read", &own).await;
    assert!(refused.contains("no such resource"), "{refused}");
}

/// All pages of a list.
async fn all(client: &Client, method: &str, list: &str) -> Vec<Value> {
    let mut all = Vec::new();
    let mut params = json!({});
    loop {
        let page = client.request(method, params).await["result"].clone();
        all.extend(page[list].as_array().unwrap_or_else(|| panic!("{page}")).iter().cloned());
        match page.get("nextCursor") {
            Some(cursor) => params = json!({ "cursor": cursor }),
            None => return all,
        }
    }
}

/// Updates of a subscribed resource reach the client.
async fn subscriptions(pair: &ServerPair) {
    let uri = "demo://resource/dynamic/text/1";
    for client in [&pair.through, &pair.direct] {
        assert_eq!(client.request("resources/subscribe", json!({ "uri": uri })).await["result"], json!({}));
        client.call("toggle-subscriber-updates", json!({})).await;
        let update = client.next_notification("notifications/resources/updated").await;
        assert_eq!(update["params"]["uri"], uri);
        assert_eq!(client.request("resources/unsubscribe", json!({ "uri": uri })).await["result"], json!({}));
    }
}

/// A call that becomes a task is followed to its end, in the session in which it was made.
async fn tasks(pair: &ServerPair) {
    let mut results = Vec::new();
    for client in [&pair.through, &pair.direct] {
        let call = json!({
            "name": "simulate-research-query",
            "arguments": { "topic": "rust" },
            "task": { "ttl": 60_000 },
        });
        let made = client.request("tools/call", call).await;
        let task = made["result"]["task"]["taskId"].as_str().unwrap_or_else(|| panic!("{made}")).to_owned();
        let listed = client.request("tasks/list", json!({})).await;
        assert_eq!(listed["result"]["tasks"][0]["taskId"], *task);
        let status = client.request("tasks/get", json!({ "taskId": task })).await;
        assert_eq!(status["result"]["taskId"], *task);
        let result = client.request("tasks/result", json!({ "taskId": task })).await;
        results.push(text_of(&result).lines().next().unwrap().to_owned());
    }
    assert_eq!(results[0], results[1]);
    assert!(!results[0].is_empty());
}

/// A named session keeps its resources to itself; requests for them name it.
async fn named_session_has_its_own_upstream_session(pair: &ServerPair) {
    let client = &pair.through;
    let made = json!({ "name": "own.gz", "data": "data:text/plain,hello", "sessionId": "own" });
    client.call("gzip-file-as-resource", made).await;
    let uri = "demo://resource/session/own.gz";
    let elsewhere = client.request("resources/read", json!({ "uri": uri })).await;
    assert!(elsewhere.get("error").is_some(), "{elsewhere}");
    let meta = json!({ "greenroom/sessionId": "own" });
    let in_session = client.request("resources/read", json!({ "uri": uri, "_meta": meta })).await;
    assert_eq!(in_session["result"]["contents"][0]["uri"], uri, "{in_session}");
    let wrong = client.request("prompts/list", json!({ "_meta": { "greenroom/sessionId": "" } })).await;
    assert_eq!(wrong["error"]["code"], -32602, "{wrong}");
}

/// The handshake offers the server's capabilities once they are known: no more, in the server's own words, and with its
/// instructions. Listing holds no slot.
#[tokio::test]
async fn handshake_offers_the_servers_capabilities() {
    let (setup, _server) = super::setup_in_front(ServerAddress::Command).await;
    let first = setup.client_with(super::capabilities()).await;
    first.request("prompts/list", json!({})).await;
    let sessions: Value =
        serde_json::from_str(&text_of(&first.call("session_list", json!({})).await)).unwrap();
    assert_eq!(sessions["sessions"], json!([]), "{sessions}");

    let second = setup.spawn();
    let welcome = second.initialize(NEWEST, super::capabilities()).await;
    let direct = Launch::new("node").args([super::path()]).spawn();
    let original = direct.initialize(NEWEST, super::capabilities()).await["result"]["instructions"].take();
    let instructions = welcome["result"]["instructions"].as_str().unwrap();
    let whole = format!("\n\nThe server behind pool DEFAULT says:\n\n{}", original.as_str().unwrap());
    assert!(instructions.ends_with(&whole), "{instructions}");
    let promised = &welcome["result"]["capabilities"];
    assert_eq!(promised["prompts"], json!({ "listChanged": true }));
    assert_eq!(promised["resources"], json!({ "subscribe": true, "listChanged": true }));
    assert_eq!(promised["completions"], json!({}));
    assert_eq!(promised["tasks"]["requests"]["tools"]["call"], json!({}));
    assert_eq!(promised["tools"], json!({ "listChanged": true }), "greenroom's own");
}
