//! The client's task: it reads stdout line by line and sorts the messages, keeps stderr, and awaits the process.
//! It ends with the program, or is dropped with the client.

use std::{borrow::Cow, pin::pin, sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, BufReader},
    process::{Child, ChildStderr, ChildStdout},
};

use super::{Question, ServerConnection};

/// How long after a program's end its pipes may stay open before the end is reported all the same. Reading what
/// is left takes less than a millisecond; only a child that inherited the pipes keeps them open longer.
const PIPE_CLOSE_TIMEOUT: Duration = Duration::from_secs(2);

/// As much of a message as sorting needs; its receiver parses the body.
#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
}

/// Serves the program until it has ended and its pipes are read to their ends.
pub(super) async fn serve_process(mut child: Child, connection: Arc<ServerConnection>) {
    let out = stdout(child.stdout.take().expect("stdout is piped"), Arc::clone(&connection));
    let err = stderr(child.stderr.take().expect("stderr is piped"), Arc::clone(&connection));
    let mut reading = pin!(async { tokio::join!(out, err) });
    let mut all_read = false;
    let status = loop {
        tokio::select! {
            _ = &mut reading, if !all_read => all_read = true,
            status = child.wait() => break status.expect("a child of this process can be awaited"),
        }
    };
    // Report the end after the rest of the output, so that a test that awaited the end sees all of stderr.
    all_read = all_read || tokio::time::timeout(PIPE_CLOSE_TIMEOUT, &mut reading).await.is_ok();
    connection.inbox.change(|contents| contents.status = Some(status));
    if !all_read {
        reading.await;
    }
}

async fn stdout(pipe: ChildStdout, connection: Arc<ServerConnection>) {
    let mut pipe = BufReader::with_capacity(64 * 1_024, pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match pipe.read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => break,
            Ok(_) => receive(String::from_utf8_lossy(line.trim_ascii_end()).into_owned(), &connection),
        }
    }
    connection.inbox.change(|contents| {
        contents.stdout_closed = true;
        contents.waiting.clear();
    });
}

fn receive(line: String, connection: &Arc<ServerConnection>) {
    connection.inbox.with(|contents| contents.transcript.push(format!("<-- {line}")));
    // A line that is not a message stays in the transcript, where a test can find it.
    let Ok(envelope) = serde_json::from_str::<Envelope<'_>>(&line) else {
        return;
    };
    let id = envelope.id.map(RawValue::get);
    match (envelope.method.as_deref(), id) {
        (Some(method), Some(id)) => ask(method, id, &line, connection),
        (Some(_), None) => {
            let message = value(&line);
            connection.inbox.change(|contents| contents.notifications.push_back(message));
        }
        (None, id) => {
            let id = id.and_then(|id| id.parse::<u64>().ok());
            let waiting = connection.inbox.with(|contents| contents.waiting.remove(&id?));
            match waiting {
                // A test that has dropped its `Pending` does not want the answer.
                Some(waiting) => drop(waiting.send(line)),
                None => {
                    let message = value(&line);
                    connection.inbox.change(|contents| contents.unmatched.push_back(message));
                }
            }
        }
    }
}

fn ask(method: &str, id: &str, line: &str, connection: &Arc<ServerConnection>) {
    let id = value(id);
    let params = value(line)["params"].take();
    let handler = connection.inbox.with(|contents| contents.handlers.get(method).cloned());
    if handler.is_none() && method != "ping" {
        let question = Question { id, method: method.to_owned(), params };
        connection.inbox.change(|contents| contents.questions.push_back(question));
        return;
    }
    let connection = Arc::clone(connection);
    // In a task of its own, so that a full stdin pipe cannot stop the reading of stdout.
    tokio::spawn(async move {
        let result = handler.map_or_else(|| json!({}), |handler| handler(params));
        connection.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
    });
}

async fn stderr(mut pipe: ChildStderr, connection: Arc<ServerConnection>) {
    let mut chunk = [0; 4_096];
    while let Ok(length @ 1..) = pipe.read(&mut chunk).await {
        let text = String::from_utf8_lossy(&chunk[..length]);
        connection.inbox.change(|contents| contents.stderr.push_str(&text));
    }
}

fn value(text: &str) -> Value {
    serde_json::from_str(text).expect("a parsed envelope is JSON")
}
