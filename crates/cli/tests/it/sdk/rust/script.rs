//! The steps of `sdk/typescript/script.mjs` and `sdk/python/script.py`, in the same order and with the same words.

use std::sync::Arc;

use greenroom_testkit::{TEST_TIMEOUT, within};
use rmcp::{
    ServiceError,
    model::{
        CallToolRequestParams, ClientRequest, LoggingLevel, PingRequest, ReadResourceRequestParams,
        RequestMetaObject, ServerNotification, ServerResult, SetLevelRequestParams, SubscriptionFilter,
    },
};
use serde_json::{Value, json};
use tokio::{sync::mpsc, task::JoinHandle};

use super::agent::{ClientEvent, RmcpClient, connect};
use crate::sdk::script_run::ScriptRun;

struct ScriptPlayer<'a> {
    run: &'a ScriptRun,
    client: Arc<RmcpClient>,
    events: mpsc::UnboundedReceiver<ClientEvent>,
    lines: Vec<Value>,
}

/// Runs the whole script, and returns its lines.
pub async fn play(run: &ScriptRun) -> Vec<Value> {
    let (client, events) = connect(run).await;
    let mut player = ScriptPlayer { run, client: Arc::new(client), events, lines: Vec::new() };
    player.check_handshake().await;
    player.sessions().await;
    player.check_server_messages().await;
    player.answers().await;
    player.load().await;
    player.change().await;
    player.disconnect().await
}

impl ScriptPlayer<'_> {
    fn print_line(&mut self, line: Value) {
        self.lines.push(line);
    }

    fn skip(&mut self, step: &str, feature: &str) {
        self.print_line(json!({"step": step, "skipped": format!("{} has no {feature}", self.run.revision)}));
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> Value {
        call(&self.client, params(tool, arguments)).await.unwrap()
    }

    async fn text(&self, tool: &'static str, arguments: Value) -> String {
        text(&self.call(tool, arguments).await)
    }

    async fn json(&self, tool: &'static str, arguments: Value) -> Value {
        serde_json::from_str(&self.text(tool, arguments).await).unwrap()
    }

    async fn hear(&mut self) -> ClientEvent {
        within(TEST_TIMEOUT, self.events.recv()).await.unwrap()
    }

    async fn check_handshake(&mut self) {
        let server = self.client.peer_info().unwrap();
        let name = server.server_info.as_ref().map(|server| server.name.clone());
        self.print_line(json!({"step": "connect", "revision": server.protocol_version, "server": name}));

        let tools = within(TEST_TIMEOUT, self.client.list_all_tools()).await.unwrap();
        let parameters = |name: &str| -> Vec<String> {
            let tool = tools.iter().find(|tool| tool.name == name).unwrap();
            let properties = tool.input_schema.get("properties").and_then(Value::as_object);
            let mut names: Vec<_> = properties.into_iter().flat_map(|all| all.keys().cloned()).collect();
            names.sort();
            names
        };
        let names: Vec<&str> = tools.iter().map(|tool| &*tool.name).collect();
        let mut own: Vec<_> = names.iter().filter(|name| name.contains("session")).collect();
        own.sort();
        let without = |name: &&&str| !parameters(name).contains(&"sessionId".to_owned());
        let without: Vec<_> = names.iter().filter(without).collect();
        let line =
            json!({"step": "tools", "echo": parameters("echo"), "own": own, "without_session_id": without});
        self.print_line(line);
    }

    async fn sessions(&mut self) {
        for session in ["a", "b"] {
            let value = format!("of {session}");
            self.call("set", json!({"key": "k", "value": value, "sessionId": session})).await;
        }
        let a = self.text("get", json!({"key": "k", "sessionId": "a"})).await;
        let b = self.text("get", json!({"key": "k", "sessionId": "b"})).await;
        self.print_line(json!({"step": "two sessions", "a": a, "b": b}));

        let unnamed = self.call("get", json!({"key": "k"})).await;
        let advice = text(&unnamed).contains("create_new_session");
        let mut line = json!({"step": "no session id", "code": code(&unnamed), "advice": advice});
        if unnamed["isError"] != true {
            line["text"] = json!(text(&unnamed));
        }
        self.print_line(line);

        let chosen = self.json("create_new_session", json!({"sessionId": "c"})).await["sessionId"].clone();
        let given = self.json("create_new_session", json!({})).await["sessionId"].clone();
        let sessions = self.named(&given).await;
        let length = given.as_str().unwrap().len();
        self.print_line(json!({"step": "create", "chosen": chosen, "given": length, "sessions": sessions}));

        let mut closed = Vec::new();
        for session in [&chosen, &given] {
            closed.push(self.text("session_close", json!({"sessionId": session})).await);
        }
        let again = code(&self.call("session_close", json!({"sessionId": chosen})).await).clone();
        let sessions = self.named(&given).await;
        self.print_line(json!({"step": "close", "closed": closed, "again": again, "sessions": sessions}));
    }

    async fn named(&self, given: &Value) -> Vec<String> {
        let list = self.json("session_list", json!({})).await;
        let sessions = list["sessions"].as_array().unwrap().iter();
        let name = |session: &Value| {
            let id = &session["id"];
            let id = if id == given { "(given)" } else { id.as_str()? };
            Some(id.to_owned())
        };
        let mut names: Vec<_> = sessions.filter_map(name).collect();
        names.sort();
        names
    }

    async fn check_server_messages(&mut self) {
        // All of the progress is here before the engine may answer.
        let gate = self.run.setup.gate("progress");
        let going = self.held("wait", json!({"file": gate.path(), "steps": 3, "sessionId": "a"}));
        let mut steps = Vec::new();
        while steps.len() < 3 {
            if let ClientEvent::Progress(progress) = self.hear().await {
                steps.push(progress);
            }
        }
        gate.open();
        let answer = text(&within(TEST_TIMEOUT, going).await.unwrap());
        self.print_line(json!({"step": "progress", "steps": steps, "answer": answer}));

        let threshold = LoggingLevel::Warning;
        if !self.run.modern() {
            self.client.set_level(SetLevelRequestParams::new(threshold)).await.unwrap();
        }
        for (level, data) in [("info", json!("too low")), ("error", json!({"deep": [1, "two"]}))] {
            let mut log = params("log", json!({"level": level, "data": data, "sessionId": "a"}));
            if self.run.modern() {
                let mut meta = RequestMetaObject::new();
                meta.set_log_level(threshold);
                log.meta = Some(meta);
            }
            call(&self.client, log).await.unwrap();
        }
        let mut messages = Vec::new();
        while messages.is_empty() {
            if let ClientEvent::Log(message) = self.hear().await {
                messages.push(message);
            }
        }
        self.print_line(json!({"step": "logging", "messages": messages}));

        if !self.run.elicits() {
            return self.skip("elicitation", "elicitation");
        }
        let answer = self.json("elicit", json!({"message": "colour?", "sessionId": "a"})).await;
        let mut questions = Vec::new();
        while let Ok(events) = self.events.try_recv() {
            if let ClientEvent::Question(question) = events {
                questions.push(question);
            }
        }
        self.print_line(json!({"step": "elicitation", "answer": answer, "questions": questions}));
    }

    async fn answers(&mut self) {
        let structured = self.call("structured", json!({"n": 1.5, "sessionId": "a"})).await;
        if self.run.revision < "2025-06-18" {
            self.skip("structured content", "structured content");
        } else {
            let content = &structured["structuredContent"];
            self.print_line(
                json!({"step": "structured content", "content": content, "text": text(&structured)}),
            );
        }
        self.print_line(json!({"step": "_meta", "n": structured["_meta"]["fake/n"]}));

        let failed = self.call("fail", json!({"message": "no luck", "sessionId": "a"})).await;
        self.print_line(json!({"step": "failed tool", "isError": failed["isError"], "text": text(&failed)}));

        let line = match call(&self.client, params("ecoh", json!({"sessionId": "a"}))).await {
            Err(ServiceError::McpError(error)) => {
                let named = error.message.contains("unknown tool: \"ecoh\"; did you mean \"echo\"?");
                json!({"step": "unknown tool", "code": error.code, "named": named})
            }
            other => json!({"step": "unknown tool", "instead": format!("{other:?}")}),
        };
        self.print_line(line);

        let bad = self.call("echo", json!({"text": 7, "sessionId": "a"})).await;
        self.print_line(json!({"step": "bad arguments", "isError": bad["isError"], "code": code(&bad)}));

        self.resources().await;

        let big = self.text("big", json!({"bytes": 1_000_000, "sessionId": "a"})).await;
        self.print_line(json!({"step": "big answer", "characters": big.len()}));
    }

    /// Files of an answer are kept, and can be read again.
    async fn resources(&mut self) {
        self.call("picture", json!({"sessionId": "a"})).await;
        let listed = json!(within(TEST_TIMEOUT, self.client.list_all_resources()).await.unwrap());
        let templates = json!(within(TEST_TIMEOUT, self.client.list_all_resource_templates()).await.unwrap());
        let names = |list: &Value, name: &str| -> Vec<String> {
            let all = list.as_array().unwrap().iter();
            all.map(|one| one[name].as_str().unwrap().to_owned()).collect()
        };
        let picture = listed.as_array().unwrap().iter().find(|one| one["mimeType"] == "image/png").unwrap();
        let read = async |uri: &str| {
            within(TEST_TIMEOUT, self.client.read_resource(ReadResourceRequestParams::new(uri))).await
        };
        let found = json!(read(picture["uri"].as_str().unwrap()).await.unwrap());
        // The code differs between revisions, and some SDKs report the newer one for both.
        let absent = matches!(
            read("greenroom://blobs/none").await,
            Err(ServiceError::McpError(error)) if [-32002, -32602].contains(&error.code.0)
        );
        let mut types = names(&listed, "mimeType");
        types.sort();
        let line = json!({
            "step": "resources",
            "listed": types,
            "templates": names(&templates, "uriTemplate"),
            "read": found["contents"][0]["blob"].as_str().unwrap().split_at(11).0,
            "absent": absent,
        });
        self.print_line(line);
    }

    async fn load(&mut self) {
        let echoes = (0..20)
            .map(|n| self.text("echo", json!({"text": n.to_string(), "sessionId": format!("p{}", n % 4)})));
        let echoes = futures_util::future::join_all(echoes).await;
        let right = echoes.iter().enumerate().filter(|(n, echo)| n.to_string() == **echo).count();
        self.print_line(json!({"step": "side by side", "right": right}));

        // One call runs, one waits behind it, and both are cancelled: the one that waited must never run.
        let gate = self.run.setup.gate("cancel");
        let running = self.held("wait", json!({"file": gate.path(), "sessionId": "a"}));
        gate.arrived(1).await;
        let queued = self.held("set", json!({"key": "k", "value": "never", "sessionId": "a"}));
        self.until_two_in_flight().await;
        let mut calls = Vec::new();
        for held in [running, queued] {
            // rmcp cancels a call whose future is dropped.
            held.abort();
            calls.push(if held.await.is_ok() { "answered" } else { "gave up" });
        }
        // No message shows that greenroom has received the cancellations. Opening a few browsers takes long enough;
        // six, since a spare opens at once.
        for n in 0..6 {
            self.call("create_new_session", json!({"sessionId": format!("later{n}")})).await;
        }
        gate.open();
        let after = self.text("get", json!({"key": "k", "sessionId": "a"})).await;
        self.print_line(json!({"step": "cancel", "calls": calls, "after": after}));
    }

    fn held(&self, tool: &'static str, arguments: Value) -> JoinHandle<Value> {
        let client = self.client.clone();
        tokio::spawn(async move { call(&client, params(tool, arguments)).await.unwrap() })
    }

    async fn until_two_in_flight(&self) {
        let is_match = |session: &Value| session["id"] == "a" && session["callsInFlight"] == 2;
        let poll = async {
            while !self.json("session_list", json!({})).await["sessions"]
                .as_array()
                .unwrap()
                .iter()
                .any(is_match)
            {
                tokio::task::yield_now().await;
            }
        };
        within(TEST_TIMEOUT, poll).await;
    }

    /// The engine of one session has a new tool: a listening client is notified, and can use it.
    async fn change(&mut self) {
        while self.events.try_recv().is_ok() {}
        let filter = SubscriptionFilter::builder().tools_list_changed().build();
        let mut subscription = match self.run.modern() {
            true => Some(within(TEST_TIMEOUT, self.client.listen(filter)).await.unwrap()),
            false => None,
        };
        let added = self.text("change_tools", json!({"sessionId": "a"})).await;
        match &mut subscription {
            Some(subscription) => {
                let change = within(TEST_TIMEOUT, subscription.next()).await.unwrap();
                assert!(matches!(change, Some(ServerNotification::ToolListChangedNotification(_))));
            }
            None => while !matches!(self.hear().await, ClientEvent::ToolsChanged) {},
        }
        let tools = within(TEST_TIMEOUT, self.client.list_all_tools()).await.unwrap();
        let listed = tools.iter().any(|tool| tool.name == added);
        let mut extra = params("", json!({"sessionId": "a"}));
        extra.name = added.clone().into();
        let answer = text(&call(&self.client, extra).await.unwrap());
        self.print_line(json!({"step": "changed tools", "added": added, "listed": listed, "answer": answer}));
    }

    async fn disconnect(mut self) -> Vec<Value> {
        if self.run.modern() {
            self.skip("ping", "ping");
        } else {
            let ping = ClientRequest::PingRequest(PingRequest::default());
            let answer = within(TEST_TIMEOUT, self.client.send_request(ping)).await.unwrap();
            let ServerResult::EmptyResult(answer) = answer else { panic!("no pong: {answer:?}") };
            self.print_line(json!({"step": "ping", "answer": answer}));
        }
        let client = Arc::into_inner(self.client).expect("no call is left");
        within(TEST_TIMEOUT, client.cancel()).await.unwrap();
        self.lines.push(json!({"step": "end"}));
        self.lines
    }
}

fn params(tool: &'static str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("no object: {arguments}") };
    CallToolRequestParams::new(tool).with_arguments(arguments)
}

/// A tool's answer, as it was on the wire.
async fn call(client: &RmcpClient, params: CallToolRequestParams) -> Result<Value, ServiceError> {
    let answer = within(TEST_TIMEOUT, client.call_tool(params)).await?;
    Ok(serde_json::to_value(answer).unwrap())
}

fn text(answer: &Value) -> String {
    answer["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}")).to_owned()
}

fn code(answer: &Value) -> &Value {
    &answer["_meta"]["greenroom/error"]["code"]
}
