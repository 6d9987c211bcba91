//! greenroom with a client of another maker: rmcp, which parses strictly.

use std::{process::Stdio, sync::Arc};

use greenroom_testkit::{TEST_TIMEOUT, within};
use rmcp::{
    ClientHandler, ErrorData, RoleClient, ServiceExt,
    model::{
        CallToolRequest, CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig,
        ClientRequest, ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability,
        Implementation, ProgressNotificationParam,
    },
    service::{NotificationContext, PeerRequestOptions, RequestContext, RunningService},
    transport::TokioChildProcess,
};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::fixture::FakeEngineSetup;

/// A client that reports progress to its test, and answers every question with `blue`.
struct RmcpAgent {
    progress: mpsc::UnboundedSender<f64>,
}

impl ClientHandler for RmcpAgent {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        capabilities.elicitation = Some(ElicitationCapability::new());
        ClientConfig::new(capabilities, Implementation::new("rmcp", "3.8"))
    }

    async fn on_progress(&self, params: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.progress.send(params.progress).unwrap();
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        assert!(
            matches!(request, ElicitRequestParams::FormElicitationParams { message, .. } if message == "colour?")
        );
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({"answer": "blue"})))
    }
}

type RmcpClient = RunningService<RoleClient, RmcpAgent>;

async fn connect(setup: &FakeEngineSetup) -> (RmcpClient, mpsc::UnboundedReceiver<f64>) {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_greenroom"));
    command
        .arg("mcp")
        .env_clear()
        .envs(setup.environment())
        .current_dir(setup.path("home"))
        .stderr(Stdio::null());
    let (progress, told) = mpsc::unbounded_channel();
    let transport = TokioChildProcess::new(command).unwrap();
    (within(TEST_TIMEOUT, RmcpAgent { progress }.serve(transport)).await.unwrap(), told)
}

fn call(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

async fn text(client: &RmcpClient, tool: &'static str, arguments: Value) -> String {
    let answer = within(TEST_TIMEOUT, client.call_tool(call(tool, arguments))).await.unwrap();
    text_of(&answer)
}

fn text_of(answer: &CallToolResult) -> String {
    answer.content[0].as_text().unwrap().text.clone()
}

/// A whole conversation of rmcp's: tools, calls with and without `sessionId`, progress, a question, a cancellation.
#[tokio::test]
async fn rmcp_client_completes_a_whole_conversation() {
    let setup = FakeEngineSetup::new();
    let (client, mut told) = connect(&setup).await;

    let tools = within(TEST_TIMEOUT, client.list_all_tools()).await.unwrap();
    let echo = tools.iter().find(|tool| tool.name == "echo").unwrap();
    assert!(echo.input_schema["properties"].get("sessionId").is_some());
    assert!(tools.iter().any(|tool| tool.name == "session_list"));

    assert_eq!(text(&client, "echo", json!({"text": "hello"})).await, "hello");
    let named = text(&client, "pid", json!({"sessionId": "a"})).await;
    assert_eq!(text(&client, "pid", json!({"sessionId": "a"})).await, named);
    assert_ne!(text(&client, "pid", json!({})).await, named);
    let failed =
        within(TEST_TIMEOUT, client.call_tool(call("fail", json!({"message": "no"})))).await.unwrap();
    assert_eq!((failed.is_error, text_of(&failed).as_str()), (Some(true), "no"));

    // rmcp gives every request a progress token of its own.
    assert_eq!(text(&client, "progress", json!({"steps": 3})).await, "3 steps");
    for expected in [0.5, 1.0, 2.0, 3.0] {
        assert_eq!(within(TEST_TIMEOUT, told.recv()).await, Some(expected));
    }

    let answer: Value =
        serde_json::from_str(&text(&client, "elicit", json!({"message": "colour?"})).await).unwrap();
    assert_eq!(answer, json!({"action": "accept", "content": {"answer": "blue"}}));

    let gate = setup.gate("gate");
    let request = CallToolRequest::new(call("wait", json!({"file": gate.path(), "sessionId": "a"})));
    let request = ClientRequest::CallToolRequest(request);
    let held = client.send_cancellable_request(request, PeerRequestOptions::no_options()).await.unwrap();
    gate.arrived(1).await;
    held.cancel(Some("changed my mind".to_owned())).await.unwrap();
    let next = client.peer().clone();
    let next = tokio::spawn(async move { next.call_tool(call("pid", json!({"sessionId": "a"}))).await });
    assert_eq!(text(&client, "echo", json!({"text": "meanwhile"})).await, "meanwhile");
    assert!(!next.is_finished(), "the seat is busy until the engine has answered");
    gate.open();
    assert_eq!(
        text_of(&within(TEST_TIMEOUT, next).await.unwrap().unwrap()),
        named,
        "the same browser goes on"
    );

    within(TEST_TIMEOUT, client.cancel()).await.unwrap();
}

/// Many calls of rmcp's at once, over several sessions, each return to their caller.
#[tokio::test]
async fn rmcp_concurrent_calls_return_to_their_callers() {
    let setup = FakeEngineSetup::new();
    let (client, _) = connect(&setup).await;
    let client = Arc::new(client);
    let mut calls = tokio::task::JoinSet::new();
    for n in 0..60 {
        let client = Arc::clone(&client);
        calls.spawn(async move {
            let arguments = json!({"text": n.to_string(), "sessionId": format!("s{}", n % 3)});
            assert_eq!(text(&client, "echo", arguments).await, n.to_string());
        });
    }
    within(TEST_TIMEOUT, calls.join_all()).await;
    assert_eq!(setup.log().count("initialize"), 4, "three sessions, and one look at the tools");
    within(TEST_TIMEOUT, Arc::into_inner(client).unwrap().cancel()).await.unwrap();
}
