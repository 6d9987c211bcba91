//! Tools that fail: late, never, with the process, or by breaking the protocol.

use std::{fs::File, io::Write, path::PathBuf, thread, time::Duration};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{Call, Tool, ToolReply, quote};
use crate::{
    fake_engine::{Engine, GARBAGE, stdio::write_stderr},
    gate,
};

/// How often `wait` polls for its file. Only tests that hold a gate pay for it.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

const DIE_PROPERTIES: &str = r#""code":{"type":"integer","default":1},"stderr":{"type":"string"}"#;

pub(super) const TOOLS: &[Tool] = &[
    Tool {
        name: "sleep",
        description: "Answers after so many milliseconds; other calls are answered meanwhile.",
        properties: r#""ms":{"type":"integer","minimum":0}"#,
        required: &["ms"],
        waits: true,
        run: sleep,
        ..Tool::BARE
    },
    Tool {
        name: "wait",
        description: "Sends progress 1 to steps, adds a line to `<file>.waiting`, then answers when the file exists.",
        properties: r#""file":{"type":"string"},"steps":{"type":"integer","minimum":0,"default":0}"#,
        required: &["file"],
        waits: true,
        run: wait,
        ..Tool::BARE
    },
    Tool { name: "hang", description: "Never answers.", run: hang, ..Tool::BARE },
    Tool {
        name: "die",
        description: "Ends this process during the call.",
        properties: DIE_PROPERTIES,
        run: die,
        ..Tool::BARE
    },
    Tool {
        name: "die_after",
        description: "Answers, then ends this process.",
        properties: DIE_PROPERTIES,
        run: die_after,
        ..Tool::BARE
    },
    Tool {
        name: "garbage",
        description: "Writes lines that are no messages, then answers.",
        run: garbage,
        ..Tool::BARE
    },
    Tool {
        name: "unknown_id",
        description: "Sends a response to no request, then answers.",
        run: unknown_id,
        ..Tool::BARE
    },
    Tool {
        name: "fail",
        description: "Answers a result with isError.",
        properties: r#""message":{"type":"string"}"#,
        required: &["message"],
        run: fail,
        ..Tool::BARE
    },
    Tool {
        name: "rpc_error",
        description: "Answers a JSON-RPC error.",
        properties: r#""code":{"type":"integer"},"message":{"type":"string"},"data":{"description":"Any JSON value."}"#,
        required: &["code", "message"],
        run: rpc_error,
        ..Tool::BARE
    },
];

fn sleep(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Sleep {
        ms: u64,
    }
    thread::sleep(Duration::from_millis(call.arguments::<Sleep>()?.ms));
    Ok(ToolReply::text("slept"))
}

fn wait(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Wait {
        file: PathBuf,
        #[serde(default)]
        steps: u64,
    }
    let Wait { file, steps } = call.arguments()?;
    for step in 1..=steps {
        call.progress(engine, &step.to_string(), steps);
    }
    let arrived = File::options()
        .create(true)
        .append(true)
        .open(gate::waiting_file(&file))
        .and_then(|mut waiting| waiting.write_all(b"here\n"));
    if let Err(error) = arrived {
        return Ok(ToolReply::failure(&format!("cannot wait for `{}`: {error}", file.display())));
    }
    while !file.exists() {
        thread::sleep(POLL_INTERVAL);
    }
    Ok(ToolReply::text("released"))
}

fn hang(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    Ok(ToolReply::Never)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DieArguments {
    code: Option<i32>,
    stderr: Option<String>,
}

impl DieArguments {
    fn exit(self) -> ! {
        if let Some(text) = self.stderr {
            write_stderr(&text);
        }
        std::process::exit(self.code.unwrap_or(1))
    }
}

fn die(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.arguments::<DieArguments>()?.exit()
}

fn die_after(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    let death: DieArguments = call.arguments()?;
    engine.answer(&call.id, ToolReply::text("dying"));
    death.exit()
}

fn garbage(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    engine.stdio.raw(GARBAGE);
    Ok(ToolReply::text("after garbage"))
}

fn unknown_id(engine: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    call.no_arguments()?;
    engine.stdio.answer("\"nobody-asked\"", "result", r#"{"content":[{"type":"text","text":"wrong"}]}"#);
    Ok(ToolReply::text("right"))
}

fn fail(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Fail {
        message: String,
    }
    Ok(ToolReply::failure(&call.arguments::<Fail>()?.message))
}

fn rpc_error(_: &Engine, call: &Call) -> Result<ToolReply, serde_json::Error> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct RpcError<'a> {
        code: i64,
        message: String,
        #[serde(borrow)]
        data: Option<&'a RawValue>,
    }
    let RpcError { code, message, data } = call.arguments()?;
    let data = data.map(|data| format!(r#","data":{data}"#)).unwrap_or_default();
    Ok(ToolReply::Error(format!(r#"{{"code":{code},"message":{}{data}}}"#, quote(&message))))
}
