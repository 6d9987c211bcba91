//! Limits the console messages and uncaught errors of a page that reach an engine. One Node process serves all sessions of a
//! browser, and keeps a page's messages until an agent looks at that page or navigates it: a page that writes without end
//! would occupy Node until Node runs out of memory. Navigations by the page itself do not reset the count, and its workers
//! count for it.
//!
//! The first message beyond a limit becomes a notice that there are more; later ones are dropped until the second ends,
//! or until an agent navigates the page.

use std::{collections::HashMap, time::Duration};

use greenroom_cdp::message_stream::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::message::session_of;

/// The event of a console message.
const CONSOLE: &str = "Runtime.consoleAPICalled";
/// The counted events: console messages, uncaught errors, and the browser's own reports about a page.
const COUNTED: [&str; 3] = [CONSOLE, "Runtime.exceptionThrown", "Log.entryAdded"];

/// How many messages of a page pass in each [`SECOND`]. The engine takes about 0.1 ms for one; a page whose messages are
/// meant to be read writes a few.
const MESSAGES_MAX: u32 = 500;
const SECOND: Duration = Duration::from_secs(1);

/// The longest message. An agent is sent far less of it.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

/// How many bytes of one page pass until an agent navigates it: Node keeps them, and with 16 pages of a browser they are
/// half of Node's memory limit.
const PAGE_BYTES_MAX: usize = 64 << 20;

/// What a page has written.
struct PageConsole {
    /// Since when `count` counts.
    since: Instant,
    count: u32,
    /// Bytes passed since an agent last navigated the page.
    bytes: usize,
}

/// The messages of each page, by its session.
#[derive(Default)]
pub(super) struct ConsoleLimit(HashMap<String, PageConsole>);

impl ConsoleLimit {
    /// Decides on an event of a page, or of one of its frames or workers: it passes, becomes a notice, or is dropped.
    pub(super) fn judge(&mut self, page: &str, name: &str, text: Text, now: Instant) -> Option<Text> {
        if !COUNTED.contains(&name) {
            return Some(text);
        }
        let fresh = || PageConsole { since: now, count: 0, bytes: 0 };
        let console = match self.0.get_mut(page) {
            Some(console) => console,
            None => self.0.entry(page.to_owned()).or_insert_with(fresh),
        };
        if now.duration_since(console.since) >= SECOND {
            console.since = now;
            console.count = 0;
        }
        console.count = console.count.saturating_add(1);
        match console.count {
            0..=MESSAGES_MAX => {}
            count if count == MESSAGES_MAX + 1 => {
                return notice(
                    &text,
                    &format!(
                        "this page writes more than {MESSAGES_MAX} console messages a second; greenroom leaves out the others of this second"
                    ),
                );
            }
            _ => return None,
        }
        if text.len() > MESSAGE_BYTES_MAX {
            return notice(&text, &format!("a console message of {} bytes is left out", text.len()));
        }
        let before = console.bytes;
        console.bytes += text.len();
        match console.bytes {
            0..=PAGE_BYTES_MAX => Some(text),
            _ if before <= PAGE_BYTES_MAX => notice(
                &text,
                &format!(
                    "this page has written {} MiB to its console; greenroom leaves out the rest until the agent navigates",
                    PAGE_BYTES_MAX >> 20
                ),
            ),
            _ => None,
        }
    }

    /// The engine navigates a page, and has forgotten its messages.
    pub(super) fn navigates(&mut self, page: &str) {
        if let Some(console) = self.0.get_mut(page) {
            console.bytes = 0;
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.0.remove(session);
    }
}

/// A console message by greenroom that replaces an event. `None`, so that the event is dropped, if it names no document.
fn notice(text: &str, message: &str) -> Option<Text> {
    // Within a string the quotes would be escaped.
    let (_, context) = text.rsplit_once(r#""executionContextId":"#)?;
    let context: u64 = context.split([',', '}']).next()?.trim().parse().ok()?;
    let value = format!("greenroom: {message}");
    let params = json!({
        "type": "warning",
        "args": [{ "type": "string", "value": value }],
        "executionContextId": context,
        "timestamp": 0,
    });
    let mut event = json!({ "method": CONSOLE, "params": params });
    if let Some(session) = session_of(text) {
        event["sessionId"] = Value::from(session);
    }
    Some(event.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(session: &str, message: &str) -> Text {
        let params = json!({ "type": "log", "args": [{ "type": "string", "value": message }], "executionContextId": 3 });
        json!({ "method": CONSOLE, "params": params, "sessionId": session }).to_string().into()
    }

    fn judge(limit: &mut ConsoleLimit, text: Text, now: Instant) -> Option<Text> {
        let page = session_of(&text).unwrap_or_default().to_owned();
        limit.judge(&page, CONSOLE, text, now)
    }

    /// A page that writes without end passes up to the limit, then one notice passes, and in the next second messages pass
    /// again; another page's messages all pass.
    #[test]
    fn messages_beyond_the_limit_of_a_second_become_one_notice() {
        let mut limit = ConsoleLimit::default();
        let now = Instant::now();
        let passed = |limit: &mut ConsoleLimit, now| {
            (0..10_000).filter_map(|_| judge(limit, message("A", "7"), now)).collect::<Vec<_>>()
        };
        let first = passed(&mut limit, now);
        assert_eq!(first.len(), 501);
        assert!(
            first[499] == message("A", "7") && first[500].contains("leaves out the others"),
            "{}",
            first[500]
        );
        assert!(first[500].contains(r#""executionContextId":3"#) && session_of(&first[500]) == Some("A"));
        assert_eq!(judge(&mut limit, message("B", "7"), now), Some(message("B", "7")));
        assert_eq!(passed(&mut limit, now + SECOND / 2).len(), 0);
        assert_eq!(passed(&mut limit, now + SECOND).len(), 501);
        limit.detached("A");
        assert_eq!(limit.0.len(), 1);
    }

    /// A notice replaces a message, or an uncaught error, that is too long. A page's messages pass up to its limit however
    /// slowly it writes and whatever it loads, and again after an agent navigates it.
    #[test]
    fn long_messages_become_notices() {
        let mut limit = ConsoleLimit::default();
        let mut now = Instant::now();
        let long = format!("\"executionContextId\":7,{}", "x".repeat(MESSAGE_BYTES_MAX));
        let notice_text = judge(&mut limit, message("A", &long), now).unwrap();
        assert!(notice_text.len() < 1_000 && notice_text.contains("bytes is left out"), "{notice_text}");
        assert!(notice_text.contains(r#""executionContextId":3"#), "{notice_text}");
        let error = json!({ "method": COUNTED[1], "params": { "exceptionDetails": {
            "text": "x".repeat(MESSAGE_BYTES_MAX), "executionContextId": 4 } }, "sessionId": "A" });
        let notice_text = limit.judge("A", COUNTED[1], error.to_string().into(), now).unwrap();
        assert!(
            notice_text.contains(r#""executionContextId":4"#) && method_of(&notice_text) == CONSOLE,
            "{notice_text}"
        );

        let half = message("A", &"x".repeat(MESSAGE_BYTES_MAX / 2));
        let mut passed = Vec::new();
        for _ in 0..200 {
            now += SECOND;
            passed.extend(judge(&mut limit, half.clone(), now));
        }
        assert!(passed.iter().map(|text| text.len()).sum::<usize>() < PAGE_BYTES_MAX + 1_000);
        assert!(passed.len() > 100 && passed.last().unwrap().contains("until the agent navigates"));
        let cleared = json!({ "method": "Runtime.executionContextsCleared", "params": {}, "sessionId": "A" });
        let cleared: Text = cleared.to_string().into();
        assert!(limit.judge("A", "Runtime.executionContextsCleared", cleared, now).is_some());
        assert_eq!(judge(&mut limit, half.clone(), now), None, "the page has only loaded itself again");
        assert_eq!(limit.judge("A", CONSOLE, message("worker", "7"), now), None);
        limit.navigates("A");
        assert_eq!(judge(&mut limit, half.clone(), now), Some(half));
    }

    fn method_of(text: &str) -> String {
        serde_json::from_str::<Value>(text).unwrap()["method"].as_str().unwrap().to_owned()
    }
}
