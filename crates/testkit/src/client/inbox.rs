//! What a server has sent so far, and who waits for which message. The client's task fills the inbox, the client's
//! methods empty it. A plain mutex guards it for a few lines at a time; `changed` wakes the waiters.

use std::{
    collections::{HashMap, VecDeque},
    process::ExitStatus,
    sync::{Arc, Mutex},
};

use serde_json::Value;
use tokio::sync::{Notify, oneshot};

use super::Question;
use crate::deadline::TEST_TIMEOUT;

/// How many lines of a transcript a failure shows. Enough for the handshake and the last few calls.
const TAIL_LINES: usize = 40;

/// The longest line that a failure shows whole, in bytes; a tool list is longer and says little.
const TAIL_LINE_BYTES_MAX: usize = 600;

/// Answers a server's request of one method: takes its params, returns the result.
pub(super) type Handler = Arc<dyn Fn(Value) -> Value + Send + Sync>;

#[derive(Default)]
pub(super) struct Inbox {
    contents: Mutex<Contents>,
    changed: Notify,
}

#[derive(Default)]
pub(super) struct Contents {
    /// Every line in both directions, `-->` sent and `<--` received.
    pub transcript: Vec<String>,
    pub stderr: String,
    /// Requests that wait for their answer, by id. A dropped sender means that no answer will come.
    pub waiting: HashMap<u64, oneshot::Sender<String>>,
    /// Responses to ids without a waiter.
    pub unmatched: VecDeque<Value>,
    pub notifications: VecDeque<Value>,
    pub questions: VecDeque<Question>,
    pub handlers: HashMap<String, Handler>,
    /// Stdout has ended: nothing more will come.
    pub stdout_closed: bool,
    pub status: Option<ExitStatus>,
}

impl Inbox {
    /// Changes the inbox and wakes all waiters.
    pub fn change<T>(&self, change: impl FnOnce(&mut Contents) -> T) -> T {
        let output = change(&mut self.contents.lock().unwrap());
        self.changed.notify_waiters();
        output
    }

    pub fn with<T>(&self, access: impl FnOnce(&mut Contents) -> T) -> T {
        access(&mut self.contents.lock().unwrap())
    }

    /// Waits for a message: until `take` finds it. Panics with the transcript when the deadline passes, or at
    /// once when the server has closed its stdout, since no message can come any more.
    pub async fn message<T>(&self, what: &str, mut take: impl FnMut(&mut Contents) -> Option<T>) -> T {
        let search = self.event(what, |contents| match take(contents) {
            Some(found) => Some(Some(found)),
            None => contents.stdout_closed.then_some(None),
        });
        match search.await {
            Some(found) => found,
            None => self.fail(&format!("the server closed its stdout: waited for {what}")),
        }
    }

    /// Waits for any other event: until `take` finds it, or the deadline passes.
    pub async fn event<T>(&self, what: &str, mut take: impl FnMut(&mut Contents) -> Option<T>) -> T {
        let search = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                match self.with(&mut take) {
                    Some(found) => return found,
                    None => changed.await,
                }
            }
        };
        match tokio::time::timeout(TEST_TIMEOUT, search).await {
            Ok(found) => found,
            Err(_) => self.fail(&format!("nothing came within {TEST_TIMEOUT:?}: waited for {what}")),
        }
    }

    /// Panics with the transcript, the status and stderr.
    pub fn fail(&self, complaint: &str) -> ! {
        let (lines, stderr, status) =
            self.with(|contents| (contents.transcript.clone(), contents.stderr.clone(), contents.status));
        let hidden = lines.len().saturating_sub(TAIL_LINES);
        let tail: Vec<String> = lines[hidden..].iter().map(|line| shortened(line)).collect();
        let status = status.map_or_else(|| "still running".to_owned(), |status| status.to_string());
        panic!(
            "{complaint}\n\nprocess: {status}\ntranscript ({hidden} earlier lines hidden):\n{}\nstderr:\n{stderr}",
            tail.join("\n")
        )
    }
}

fn shortened(line: &str) -> String {
    match line.char_indices().find(|(at, _)| *at >= TAIL_LINE_BYTES_MAX) {
        Some((cut, _)) => format!("{}… ({} bytes)", &line[..cut], line.len()),
        None => line.to_owned(),
    }
}
