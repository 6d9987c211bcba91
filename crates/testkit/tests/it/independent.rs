//! The fake engine seen by a client that is not ours: the kit's own client and engine could be wrong about the
//! protocol in the same way.

use greenroom_testkit::{TEST_TIMEOUT, fake_engine_path, within};
use rmcp::{ServiceExt, model::CallToolRequestParams, transport::TokioChildProcess};
use serde_json::json;

/// rmcp shakes hands with the fake engine, lists its tools and gets an echo.
#[tokio::test]
async fn rmcp_lists_tools_and_gets_an_echo() {
    let transport = TokioChildProcess::new(tokio::process::Command::new(fake_engine_path())).unwrap();
    let client = within(TEST_TIMEOUT, ().serve(transport)).await.unwrap();
    let tools = within(TEST_TIMEOUT, client.list_all_tools()).await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "echo"));
    let arguments = json!({"text": "hello"}).as_object().cloned().unwrap();
    let call = CallToolRequestParams::new("echo").with_arguments(arguments);
    let answer = within(TEST_TIMEOUT, client.call_tool(call)).await.unwrap();
    assert_eq!(answer.content[0].as_text().unwrap().text, "hello");
    client.cancel().await.unwrap();
}
