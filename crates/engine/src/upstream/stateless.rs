//! Engines that support revision 2026-07-28 only: there is no handshake, and the engine sends questions as answers to
//! requests. greenroom passes the questions to the agent, and repeats the request with the agent's answers.

use std::sync::Arc;

use greenroom_core::{Agent, Fields, Introduction, Raw, raw::encode};
use greenroom_mcp::{
    Peer, PeerError, RpcError, error::INTERNAL, peer::InitializeParams, revision::STATELESS,
    stateless::ROUNDS_MAX,
};
use serde::Deserialize;
use serde_json::json;

use super::within_deadline;

/// An engine's first message to a client that has subscribed to its changes.
pub(super) const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// Asks an engine that refused a handshake for its description. `None` if it does not support this revision either.
pub(super) async fn discover(peer: &Peer, hello: InitializeParams) -> Option<Introduction> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct DiscoverResult {
        supported_versions: Vec<String>,
        #[serde(default)]
        capabilities: Fields,
        #[serde(default)]
        instructions: serde_json::Value,
    }
    let hello = InitializeParams { protocol_version: STATELESS, ..hello };
    let answer = within_deadline("server/discover", peer.discover(&hello)).await.ok()?.ok()?;
    let about: DiscoverResult = serde_json::from_str(answer.get()).ok()?;
    let is_spoken = about.supported_versions.iter().any(|revision| revision == STATELESS);
    let instructions = about.instructions.as_str().filter(|text| !text.trim().is_empty());
    is_spoken.then(|| Introduction {
        capabilities: about.capabilities.to_raw(),
        instructions: instructions.map(Arc::from),
    })
}

/// Subscribes to changes of the engine's tools, as long as it runs. If the engine refuses, greenroom asks it for its
/// tools when the next seat opens.
pub(super) async fn follow_tools(peer: Arc<Peer>) {
    let wanted = encode(&json!({ "notifications": { "toolsListChanged": true } }));
    let ended = peer.request("subscriptions/listen", Some(&wanted)).await;
    tracing::debug!(?ended, "the engine no longer announces changed tools");
}

/// Passes a request on and returns the engine's answer, once the engine has nothing more to ask.
pub(super) async fn ask(
    peer: &Peer,
    method: &str,
    params: &Raw,
    log_level: Option<String>,
    agent: &dyn Agent,
    roots: &Raw,
) -> Result<Result<Raw, Raw>, PeerError> {
    let mut request = Fields::open(params).unwrap_or_default();
    let mut meta = request.read::<Fields>("_meta").ok().flatten().unwrap_or_default();
    meta.remove(LOG_LEVEL);
    if let Some(level) = log_level {
        meta.set(LOG_LEVEL, encode(&level));
    }
    request.set("_meta", meta.to_raw());
    // These fields are the client's answers to greenroom's questions, not to the engine's.
    request.remove("requestState");
    request.remove("inputResponses");
    for _ in 0..ROUNDS_MAX {
        let result = match peer.request(method, Some(&request.to_raw())).await? {
            Ok(result) => result,
            Err(error) => return Ok(Err(error)),
        };
        let Ok(mut fields) = Fields::open(&result) else { return Ok(Ok(result)) };
        if fields.read::<String>("resultType").ok().flatten().as_deref() != Some("input_required") {
            // Clients of other revisions know no result types; for this revision the front adds it again.
            fields.remove("resultType");
            return Ok(Ok(fields.to_raw()));
        }
        let responses = match answers(&fields, agent, roots).await {
            Ok(responses) => responses,
            Err(why) => return Ok(Err(RpcError::new(INTERNAL, why).to_raw())),
        };
        request.set("inputResponses", responses.to_raw());
        match fields.get("requestState") {
            Some(state) => request.set("requestState", state.to_owned()),
            None => drop(request.remove("requestState")),
        }
    }
    let why = format!("the engine has asked {ROUNDS_MAX} times; greenroom does not call it again");
    Ok(Err(RpcError::new(INTERNAL, why).to_raw()))
}

/// The agent's answers to the engine's questions, by the engine's names for these.
async fn answers(result: &Fields, agent: &dyn Agent, roots: &Raw) -> Result<Fields, String> {
    #[derive(Deserialize)]
    struct InputRequest {
        method: String,
        params: Option<Raw>,
    }
    // Unreadable questions are an error: with empty answers the engine would be called again and again.
    let questions = result
        .read::<Fields>("inputRequests")
        .map_err(|error| format!("the engine's question cannot be read: {error}: `inputRequests`"))?
        .unwrap_or_default();
    let mut responses = Fields::default();
    for (name, question) in questions.iter() {
        let InputRequest { method, params } = serde_json::from_str(question.get())
            .map_err(|error| format!("the engine's question cannot be read: {error}: `{name}`"))?;
        let response = match method.as_str() {
            "roots/list" => roots.clone(),
            _ => match agent.ask(&method, params).await {
                Ok(Ok(response)) => response,
                Ok(Err(error)) => return Err(format!("the engine asked `{method}`, which failed: {error}")),
                Err(error) => return Err(format!("the engine asked `{method}`: {error}")),
            },
        };
        responses.set(name, response);
    }
    Ok(responses)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use greenroom_core::{BoxFuture, NoAnswer};
    use greenroom_mcp::link::child;
    use serde_json::Value;
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream};

    use super::*;
    use crate::upstream::{Upstream, initialize};

    /// An agent whose client answers every question with the question.
    struct EchoAgent;

    impl Agent for EchoAgent {
        fn tell(&self, _: &str, _: Option<Raw>) {}

        fn ask<'a>(
            &'a self,
            method: &'a str,
            _: Option<Raw>,
        ) -> BoxFuture<'a, Result<Result<Raw, Raw>, NoAnswer>> {
            Box::pin(async move { Ok(Ok(encode(method))) })
        }

        fn capabilities(&self) -> Option<Raw> {
            Some(encode(&json!({ "elicitation": {} })))
        }

        fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
            Box::pin(std::future::ready(Vec::new()))
        }

        fn log_level(&self) -> Option<String> {
            Some("info".to_owned())
        }
    }

    /// An engine: `answers` makes its answer to a method with these parameters.
    async fn engine(
        stdin: DuplexStream,
        mut stdout: DuplexStream,
        answers: impl Fn(&str, &Value) -> Result<Value, i64>,
    ) {
        let mut lines = BufReader::new(stdin).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            let message: Value = serde_json::from_str(&line).unwrap();
            let mut answer = match answers(message["method"].as_str().unwrap(), &message["params"]) {
                Ok(result) => json!({ "result": result }),
                Err(code) => json!({ "error": { "code": code, "message": "no" } }),
            };
            answer["jsonrpc"] = json!("2.0");
            answer["id"] = message["id"].clone();
            stdout.write_all(format!("{answer}\n").as_bytes()).await.unwrap();
        }
    }

    fn connect(
        answers: impl Fn(&str, &Value) -> Result<Value, i64> + Send + 'static,
    ) -> (Peer, tokio::sync::mpsc::Receiver<greenroom_mcp::Inbound>) {
        let (to_engine, stdin) = tokio::io::duplex(64 * 1024);
        let (stdout, from_engine) = tokio::io::duplex(64 * 1024);
        tokio::spawn(engine(stdin, stdout, answers));
        child::connect(to_engine, from_engine)
    }

    /// An engine that refuses a handshake is used without one. Every request names the client; the agent answers the
    /// engine's questions, except for roots, and the answer comes without fields that only this revision has.
    #[tokio::test]
    async fn agent_answers_questions_of_a_stateless_engine() {
        let (peer, inbound) = connect(|method, params| {
            let meta = |name: &str| params["_meta"][format!("io.modelcontextprotocol/{name}")].clone();
            if method == "initialize" {
                return Err(-32601);
            }
            assert_eq!(meta("protocolVersion"), STATELESS);
            assert_eq!(meta("clientCapabilities"), json!({ "roots": {}, "elicitation": {} }));
            match method {
                "server/discover" => Ok(json!({ "supportedVersions": [STATELESS], "capabilities": {} })),
                "tools/call" if params.get("inputResponses").is_none() => {
                    assert_eq!((meta("logLevel"), &params["name"]), (json!("info"), &json!("t")));
                    let question = json!({ "method": "elicitation/create", "params": {} });
                    let requests = json!({ "one": question, "two": { "method": "roots/list" } });
                    Ok(
                        json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "s" }),
                    )
                }
                "tools/call" => {
                    assert_eq!((&params["requestState"], &params["name"]), (&json!("s"), &json!("t")));
                    Ok(json!({ "resultType": "complete", "said": params["inputResponses"] }))
                }
                _ => Err(-32601),
            }
        });
        let upstream =
            Upstream::open(peer, inbound, Path::new("/seat"), Arc::new(EchoAgent), None).await.unwrap();
        let params =
            encode(&json!({ "name": "t", "requestState": "of another", "_meta": { "progressToken": 1 } }));
        let answer = upstream.call(&params, Arc::new(EchoAgent)).await.unwrap().unwrap();
        let roots = json!({ "roots": [{ "uri": "file:///seat", "name": "session" }] });
        let expected = json!({ "said": { "one": "elicitation/create", "two": roots } });
        assert_eq!(serde_json::from_str::<Value>(answer.get()).unwrap(), expected);
        upstream.ping().await.unwrap();
    }

    /// An engine whose questions cannot be read is not called a second time.
    #[tokio::test]
    async fn unreadable_questions_end_the_call() {
        let fields = |value: Value| Fields::open(&encode(&value)).unwrap();
        let roots = encode(&json!({ "roots": [] }));
        let unreadable = fields(json!({ "inputRequests": ["one"] }));
        let why = answers(&unreadable, &EchoAgent, &roots).await.unwrap_err();
        assert!(why.contains("cannot be read") && why.contains("`inputRequests`"), "{why}");
        let none = answers(&fields(json!({ "requestState": "s" })), &EchoAgent, &roots).await.unwrap();
        assert_eq!(none.names().count(), 0);
    }

    /// An engine that asks for ever is not answered for ever.
    #[tokio::test]
    async fn question_rounds_are_bounded() {
        let (peer, _inbound) = connect(|method, _| match method {
            "server/discover" => Ok(json!({ "supportedVersions": [STATELESS] })),
            "tools/call" => Ok(json!({ "resultType": "input_required", "requestState": "s" })),
            _ => Err(-32601),
        });
        initialize(&peer, encode(&json!({})))
            .await
            .map(|_| ())
            .map_err(greenroom_core::StartError::from)
            .unwrap();
        let params = encode(&json!({ "name": "t" }));
        let answer = ask(&peer, "tools/call", &params, None, &EchoAgent, &encode(&json!({}))).await.unwrap();
        assert!(answer.unwrap_err().get().contains("has asked 32 times"));
    }

    /// An engine that supports neither revision is refused with its answer to the handshake.
    #[tokio::test]
    async fn engine_without_a_known_revision_is_refused() {
        for versions in [None, Some(json!(["2099-01-01"]))] {
            let (peer, _inbound) = connect(move |method, _| match (method, &versions) {
                ("server/discover", Some(versions)) => Ok(json!({ "supportedVersions": versions })),
                _ => Err(-32600),
            });
            let refused = initialize(&peer, encode(&json!({}))).await.map(|_| ());
            let refused = greenroom_core::StartError::from(refused.unwrap_err());
            assert!(refused.message.contains("refused `initialize`"), "{}", refused.message);
            assert!(refused.message.contains("-32600"), "{}", refused.message);
        }
    }
}
