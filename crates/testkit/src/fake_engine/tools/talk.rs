//! Tools that talk to the client during the call: notifications and questions.

use std::{path::PathBuf, thread, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Call, Tool, ToolReply, quote};
use crate::fake_engine::Engine;

/// How often `withdraw` polls for its file. Only tests that take a question back pay for it.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The levels of `notifications/message`, least first.
pub(crate) const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "progress",
        description: "Sends progress 0.5, then 1 to steps, when the call carries a progress token; then answers.",
        properties: r#""steps":{"type":"integer","minimum":0}"#,
        required: &["steps"],
        run: progress,
        ..Tool::BARE
    },
    Tool {
        name: "log",
        description: "Sends a log message, unless the client wants less; then answers.",
        properties: r#""level":{"type":"string","enum":["debug","info","notice","warning","error","critical","alert","emergency"]},"data":{"description":"Any JSON value."}"#,
        required: &["level", "data"],
        run: log,
        ..Tool::BARE
    },
    Tool {
        name: "roots",
        description: "Asks the client for its roots and answers what it said.",
        waits: true,
        run: roots,
        ..Tool::BARE
    },
    Tool {
        name: "elicit",
        description: "Asks the client's user for an `answer` and answers what came back.",
        properties: r#""message":{"type":"string"}"#,
        required: &["message"],
        waits: true,
        run: elicit,
        ..Tool::BARE
    },
    Tool {
        name: "sample",
        description: "Asks the client's model for a message and answers what came back.",
        waits: true,
        run: sample,
        ..Tool::BARE
    },
    Tool {
        name: "withdraw",
        description: "Asks the client's user, takes the question back when the file exists, then answers.",
        properties: r#""file":{"type":"string"}"#,
        required: &["file"],
        waits: true,
        run: withdraw,
        ..Tool::BARE
    },
];

fn progress(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Progress {
        steps: u64,
    }
    let Progress { steps } = call.arguments()?;
    call.progress(engine, "0.5", steps);
    (1..=steps).for_each(|step| call.progress(engine, &step.to_string(), steps));
    Ok(ToolReply::text(&format!("{steps} steps")))
}

fn log(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Log<'a> {
        level: String,
        #[serde(borrow)]
        data: &'a RawValue,
    }
    let Log { level, data } = call.arguments()?;
    let Some(rank) = LEVELS.iter().position(|known| *known == level) else {
        return Ok(ToolReply::failure(&format!("no such level: `{level}`")));
    };
    if rank >= *engine.level.lock().unwrap() {
        let params = format!(r#"{{"level":"{level}","logger":"fake","data":{data},"x-unknown":1.50}}"#);
        engine.stdio.notify("notifications/message", Some(&params));
    }
    Ok(ToolReply::text("logged"))
}

fn roots(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    Ok(ToolReply::response(&engine.stdio.ask("roots/list", None)))
}

fn elicit(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Elicit {
        message: String,
    }
    let params = format!(
        r#"{{"message":{},"requestedSchema":{{"type":"object","properties":{{"answer":{{"type":"string"}}}},"required":["answer"]}},"x-unknown":1.50}}"#,
        quote(&call.arguments::<Elicit>()?.message)
    );
    Ok(ToolReply::response(&engine.stdio.ask("elicitation/create", Some(&params))))
}

fn sample(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    let params =
        r#"{"messages":[{"role":"user","content":{"type":"text","text":"say something"}}],"maxTokens":16}"#;
    Ok(ToolReply::response(&engine.stdio.ask("sampling/createMessage", Some(params))))
}

fn withdraw(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Withdraw {
        file: PathBuf,
    }
    let Withdraw { file } = call.arguments()?;
    let params = r#"{"message":"never mind","requestedSchema":{"type":"object","properties":{}}}"#;
    let (id, _) = engine.stdio.send_request("elicitation/create", Some(params));
    while !file.exists() {
        thread::sleep(POLL_INTERVAL);
    }
    engine.stdio.withdraw(&id);
    Ok(ToolReply::text("withdrawn"))
}
