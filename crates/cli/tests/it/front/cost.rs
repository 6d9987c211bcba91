//! The cost of greenroom's own texts in every conversation, counted by the tokenizers of two model families.

use serde_json::{Value, json};
use tiktoken_rs::{cl100k_base_singleton, o200k_base_singleton};

use super::{
    fixture::{FakeEngineSetup, tools},
    pools::two_pools,
};

/// All tools of greenroom's own that there are.
const OWN: [&str; 8] = [
    "browser_execute_bulk",
    "browser_pool_status",
    "session_list",
    "create_new_session",
    "session_close",
    "session_renew",
    "get_content",
    "get_console_content",
];

/// The most tokens that either tokenizer makes of a text.
fn tokens(text: &str) -> usize {
    let one = cl100k_base_singleton();
    let other = o200k_base_singleton();
    one.count_ordinary(text).max(other.count_ordinary(text))
}

/// Every engine tool has `sessionId` as its first parameter, optional, for at most 20 tokens.
#[tokio::test]
async fn session_id_parameter_costs_few_tokens() {
    let setup = FakeEngineSetup::new();
    let listed = tools(&setup.client().await).await;
    let engine_tools = listed.iter().filter(|tool| !OWN.contains(&tool["name"].as_str().unwrap()));
    let mut count = 0;
    for tool in engine_tools {
        let schema = &tool["inputSchema"];
        let (name, parameter) = schema["properties"].as_object().unwrap().iter().next().unwrap();
        assert_eq!(name, "sessionId", "{tool}");
        assert_eq!(parameter["type"], "string");
        let required = schema["required"].as_array().cloned().unwrap_or_default();
        assert!(!required.contains(&json!("sessionId")), "{tool}");
        let cost = tokens(&format!("\"sessionId\":{parameter},"));
        assert!(cost <= 20, "{cost} tokens: {parameter}");
        count += 1;
    }
    assert!(count > 20, "{count} tools");
}

/// All own tools together cost at most 1,200 tokens, and each is shown only where it can be used.
#[tokio::test]
async fn own_tools_cost_few_tokens() {
    let own = async |setup: FakeEngineSetup| -> Vec<Value> {
        let listed = tools(&setup.client().await).await;
        listed.into_iter().filter(|tool| OWN.contains(&tool["name"].as_str().unwrap())).collect()
    };
    let usual = own(FakeEngineSetup::new()).await;
    let names: Vec<&Value> = usual.iter().map(|tool| &tool["name"]).collect();
    assert_eq!(
        names,
        [
            "session_list",
            "create_new_session",
            "session_close",
            "browser_execute_bulk",
            "get_content",
            "get_console_content"
        ]
    );
    let all = own(two_pools(FakeEngineSetup::new()).set("sessions.max_lifetime", "1h")).await;
    assert_eq!(all.len(), OWN.len());
    let cost: usize = all.iter().map(|tool| tokens(&tool.to_string())).sum();
    assert!(cost <= 1_200, "{cost} tokens");
}

/// The parameters for pool and instance cost every tool at most 20 tokens each, without the names of the pools.
#[tokio::test]
async fn pool_and_instance_parameters_cost_few_tokens() {
    let listed = tools(&two_pools(FakeEngineSetup::new()).client().await).await;
    let echo = listed.iter().find(|tool| tool["name"] == "echo").unwrap();
    let properties = &echo["inputSchema"]["properties"];
    let names = tokens("MAIN (default), SIDE_JOBS");
    for (name, most) in [("browser_pool", 20 + names), ("browser_instance", 20)] {
        let cost = tokens(&format!("\"{name}\":{},", properties[name]));
        assert!(cost <= most, "{name}: {cost} tokens");
    }
}
