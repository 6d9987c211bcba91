//! `POST /control/call`: makes one call for the command line, in a named session of the owner `local`. The
//! call takes the same steps as one over MCP: permit, record, order. A command is a call whose tool the
//! engine's adapter chooses.

use std::{path::PathBuf, sync::Arc};

use axum::{
    Json,
    body::Body,
    extract::State,
    http::{HeaderMap, StatusCode},
    response::{IntoResponse, Response},
};
use greenroom_core::{
    Agent, BoxFuture, Owner, Raw, SessionId,
    excerpt::echoed,
    likeness::nearest_texts,
    port::BrowserCommand,
    raw,
    settings::{Pictures, Responses},
};
use greenroom_fleet::{CallTarget, SessionKey};
use serde::{Deserialize, Serialize};

use super::{Control, ControlProblem};
use crate::{
    Gateway, call,
    call_order::Turns,
    caller::Caller,
    error_response::ErrorResponse,
    offload::{offload_if_large_json, offloadable},
    recall::{
        ResponseMode,
        response_options::{InvalidOption, MODE},
    },
    render::REF_ID,
    rest::body,
    route::CallRequest,
    session_key::{check_name, named},
};

/// How many elements are named when a search finds nothing, and among how many of the page they are looked for.
const NEAREST_SHOWN: usize = 3;
const NEAREST_OF: usize = 2_000;

/// A call of the command line: a command, or a tool with its arguments.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandCall {
    /// The name of the session, as an MCP client's `sessionId`. greenroom opens a session for a new name.
    pub session: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<BrowserCommand>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The tool's arguments: an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments: Option<Raw>,
    /// How much of the answer is sent: a word of the tools' parameter `mode`; as the setting `responses` says by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// The folder in which the command was run: the call may use files there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<PathBuf>,
}

/// The answer to a call of the command line. A field that another version does not send is empty here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CommandAnswer {
    pub session: String,
    /// The tool that ran.
    pub tool: String,
    /// Whether the tool succeeded.
    pub ok: bool,
    /// A search succeeded and found nothing.
    pub found_nothing: bool,
    pub text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ref_id: Option<String>,
    /// greenroom's code for the failure, if greenroom answered instead of the engine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<AnswerImage>,
    /// The version of the server.
    pub version: String,
}

/// An image in an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct AnswerImage {
    pub mime: String,
    /// Its bytes, in Base64.
    pub data: String,
}

pub(super) async fn make(
    State(control): State<Arc<Control>>,
    headers: HeaderMap,
    request: Body,
) -> Result<Json<CommandAnswer>, Response> {
    // Arguments and answers may be large.
    offloadable(async move {
        let read = body::read::<CommandCall>(&headers, request, body::CALL).await;
        let given = read.map_err(IntoResponse::into_response)?.ok_or_else(|| {
            bad_call("the body must have `session`, and a `command` or a `tool`").into_response()
        })?;
        let version = control.identity.version.to_owned();
        let made = run(&control.gateway, given).await.map_err(IntoResponse::into_response)?;
        Ok(Json(CommandAnswer { version, ..made }))
    })
    .await
}

async fn run(gateway: &Arc<Gateway>, given: CommandCall) -> Result<CommandAnswer, ControlProblem> {
    let _unanswered = gateway.answering.token();
    gateway.commands.send_modify(|commands| *commands += 1);
    let caller = Caller::command_line(Arc::new(CommandLineAgent(given.folder)));
    let session = SessionId::new(&given.session)
        .map_err(|invalid| bad_call(invalid.to_string().replace("sessionId", "session")))?;
    let searched = match &given.command {
        Some(BrowserCommand::Find { text }) => Some(text.clone()),
        _ => None,
    };
    // The result of a search is what the command is for, and its exit code says whether there is one.
    let fallback = searched.as_ref().map(|_| "auto");
    let mode = given.mode.as_deref().or(fallback).map(|word| {
        ResponseMode::from_word(word).ok_or_else(|| bad_call(InvalidOption::Mode(MODE).to_string()))
    });
    let mode = mode.transpose()?;
    let (tool, arguments) = match (given.command, given.tool) {
        (Some(command), None) if given.arguments.is_none() => {
            let (tool, arguments) = tool_of(gateway, &caller, &session, &command).await?;
            (tool.to_owned(), Some(raw::encode(&arguments)))
        }
        (None, Some(tool)) => (tool, given.arguments),
        _ => return Err(bad_call("the body must have either a `command`, or a `tool` and its `arguments`")),
    };
    let _guard = offload_if_large_json(arguments.as_deref()).await;
    let request =
        CallRequest::from_parts(&tool, arguments, None).map_err(|error| bad_call(error.to_string()))?;
    let mut turn = Turns::default().take();
    turn.wait().await;
    // The command line writes pictures to files, which cost no tokens.
    let request = request.in_session(session.clone(), mode).with_pictures(Pictures::Inline);
    let body = call::run_request(gateway, &caller, request, turn).await;
    let mut answer = CommandAnswer { session: given.session, tool, ..read_body(body) };
    answer.found_nothing = answer.ok && is_empty_search(gateway, &session, &answer);
    if let (true, Some(wanted)) = (answer.found_nothing, searched) {
        answer.text.push_str(&nearest_elements(gateway, &caller, session, &wanted).await);
    }
    Ok(answer)
}

/// The lines that name the elements whose texts are most like the one that was not found. They are empty if no text is like
/// it, or if the page cannot be read.
async fn nearest_elements(
    gateway: &Arc<Gateway>,
    caller: &Caller,
    session: SessionId,
    wanted: &str,
) -> String {
    #[derive(Deserialize)]
    struct Page {
        items: Vec<Element>,
    }
    #[derive(Default, Deserialize)]
    #[serde(default)]
    struct Element {
        role: String,
        name: String,
        text: String,
        r#ref: String,
    }
    impl Element {
        fn shown(&self) -> &str {
            if self.name.is_empty() { &self.text } else { &self.name }
        }
    }
    let Ok((tool, mut arguments)) = tool_of(gateway, caller, &session, &BrowserCommand::Snapshot {}).await
    else {
        return String::new();
    };
    // As a list, the page does not count as seen: the answer to the next command shows what has changed since the page before.
    arguments["flatten"] = true.into();
    arguments["output_format"] = "json".into();
    arguments["limit"] = NEAREST_OF.into();
    let Ok(request) = CallRequest::from_parts(tool, Some(raw::encode(&arguments)), None) else {
        return String::new();
    };
    let mut turn = Turns::default().take();
    turn.wait().await;
    let request = request.in_session(session, Some(ResponseMode::As(Responses::Inline)));
    let answer = read_body(call::run_request(gateway, caller, request, turn).await);
    let Ok(Page { items }) = serde_json::from_str(&answer.text) else {
        tracing::debug!(text = answer.text, "the page cannot be read for the nearest texts");
        return String::new();
    };
    let nearest = nearest_texts(wanted, items.iter().map(Element::shown), NEAREST_SHOWN);
    let lines = nearest.iter().filter_map(|index| items.get(*index)).map(|element| {
        let target =
            if element.r#ref.is_empty() { String::new() } else { format!(" [ref={}]", element.r#ref) };
        format!("\n- {} \"{}\"{target}", element.role, echoed(element.shown()))
    });
    let lines: String = lines.collect();
    if lines.is_empty() { lines } else { format!("\nNearest on the page:{lines}") }
}

/// The tool that carries out a command in this session, or the error that no tool does.
async fn tool_of(
    gateway: &Gateway,
    caller: &Caller,
    session: &SessionId,
    command: &BrowserCommand,
) -> Result<(&'static str, serde_json::Value), ControlProblem> {
    let failed =
        |failure: ErrorResponse| ControlProblem::new(StatusCode::BAD_REQUEST, "not_run", failure.text());
    check_name(session).map_err(failed)?;
    let session_key = named(gateway, caller, session.clone()).await.map_err(failed)?;
    let pool = gateway
        .fleet
        .pool_of_call(&caller.owner, &session_key, &CallTarget::default())
        .map_err(|error| failed(ErrorResponse::from_fleet_error(gateway, &error)))?;
    let engine = gateway.catalog.engine(&pool);
    engine.and_then(|engine| engine.format().command(command)).ok_or_else(|| {
        let verb = command.verb();
        ControlProblem::new(
            StatusCode::BAD_REQUEST,
            "no_command",
            format!("the engine of pool \"{pool}\" has no tool for this command: `{verb}`"),
        )
        .hint("`greenroom call TOOL key=value…` runs any tool that the engine has")
    })
}

/// Whether the answer is that of a search without a result.
fn is_empty_search(gateway: &Gateway, session: &SessionId, answer: &CommandAnswer) -> bool {
    let session_key = SessionKey::Named(session.clone());
    let pool = gateway.fleet.pool_of_call(&Owner::local(), &session_key, &CallTarget::default());
    let engine = pool.ok().and_then(|pool| gateway.catalog.engine(&pool));
    engine.is_some_and(|engine| engine.format().found_nothing(&answer.tool, &answer.text))
}

fn bad_call(why: impl Into<String>) -> ControlProblem {
    ControlProblem::new(StatusCode::BAD_REQUEST, "bad_call", why)
}

/// The parts of an MCP result, or of a JSON-RPC error, that the command line prints.
fn read_body(body: Result<Raw, Raw>) -> CommandAnswer {
    #[derive(Default, Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct ResultBody {
        content: Vec<Part>,
        is_error: bool,
        #[serde(rename = "_meta")]
        meta: serde_json::Map<String, serde_json::Value>,
    }
    #[derive(Deserialize)]
    #[serde(tag = "type", rename_all = "snake_case")]
    enum Part {
        Text {
            text: String,
        },
        Image {
            data: String,
            #[serde(default, rename = "mimeType")]
            mime: String,
        },
        ResourceLink {
            uri: String,
        },
        #[serde(other)]
        Other,
    }
    #[derive(Deserialize)]
    struct ErrorBody {
        message: String,
    }
    let unreadable = |error: serde_json::Error| CommandAnswer {
        text: format!("the engine's answer cannot be read: {error}"),
        ..CommandAnswer::default()
    };
    let result = match body {
        Ok(result) => match serde_json::from_str::<ResultBody>(result.get()) {
            Ok(result) => result,
            Err(error) => return unreadable(error),
        },
        Err(error) => {
            return match serde_json::from_str(error.get()) {
                Ok(ErrorBody { message }) => CommandAnswer { text: message, ..CommandAnswer::default() },
                Err(error) => unreadable(error),
            };
        }
    };
    let mut answer = CommandAnswer {
        ok: !result.is_error,
        ref_id: result.meta.get(REF_ID).and_then(|id| id.as_str()).map(ToOwned::to_owned),
        error: result.meta.get("greenroom/error").and_then(|error| Some(error["code"].as_str()?.to_owned())),
        ..CommandAnswer::default()
    };
    let mut texts: Vec<String> = Vec::new();
    for part in result.content {
        match part {
            Part::Text { text } => texts.push(text.trim_end().to_owned()),
            Part::Image { data, mime } => answer.images.push(AnswerImage { mime, data }),
            Part::ResourceLink { uri } => texts.push(uri),
            Part::Other => texts.push("(a part that is neither text nor an image)".to_owned()),
        }
    }
    answer.text = texts.join("\n");
    answer
}

/// The agent of a call of the command line: it may use files of the folder in which the command was run, and can be asked
/// nothing.
struct CommandLineAgent(Option<PathBuf>);

impl Agent for CommandLineAgent {
    fn roots(&self) -> BoxFuture<'_, Vec<PathBuf>> {
        Box::pin(std::future::ready(self.0.iter().cloned().collect()))
    }
}
