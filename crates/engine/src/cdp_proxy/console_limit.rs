//! Bounds how many console messages of a page an engine hears of. One Node serves all sessions of a browser, and a page that
//! writes without end would keep it from all others.
//!
//! The first message beyond the limit in a second becomes a notice that there are more; the rest of that second is dropped.

use std::{collections::HashMap, time::Duration};

use greenroom_cdp::link::Text;
use serde_json::{Value, json};
use tokio::time::Instant;

/// The event of a console message.
pub(super) const CONSOLE: &str = "Runtime.consoleAPICalled";

/// How many messages of a page pass in each [`SECOND`]. The engine takes about 0.1 ms for one; a page that means them to be
/// read writes a few.
const MESSAGES_MAX: u32 = 500;
const SECOND: Duration = Duration::from_secs(1);

/// The messages of each page, by its session: since when they are counted, and how many there were.
#[derive(Default)]
pub(super) struct ConsoleLimit(HashMap<String, (Instant, u32)>);

impl ConsoleLimit {
    /// What becomes of a console message: it passes, becomes a notice, or is dropped.
    pub(super) fn judge(&mut self, text: Text, now: Instant) -> Option<Text> {
        // A browser writes the session last. Of one that does not, all messages count together.
        let session = text.rsplit_once(r#""sessionId":""#).and_then(|(_, rest)| rest.split_once('"'));
        let session = session.map(|(session, _)| session).unwrap_or_default();
        if !self.0.contains_key(session) {
            self.0.insert(session.to_owned(), (now, 0));
        }
        let (since, count) = self.0.get_mut(session)?;
        if now.duration_since(*since) >= SECOND {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        match *count {
            0..=MESSAGES_MAX => Some(text),
            count if count == MESSAGES_MAX + 1 => notice(&text),
            _ => None,
        }
    }

    pub(super) fn detached(&mut self, session: &str) {
        self.0.remove(session);
    }
}

/// The message with other words. One that cannot be read is dropped.
fn notice(text: &str) -> Option<Text> {
    let mut event: Value = serde_json::from_str(text).ok()?;
    let words = format!(
        "greenroom: this page writes more than {MESSAGES_MAX} console messages a second; the others of this second are left out"
    );
    event["params"]["type"] = json!("warning");
    event["params"]["args"] = json!([{ "type": "string", "value": words }]);
    Some(event.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(session: &str) -> Text {
        let params =
            json!({ "type": "log", "args": [{ "type": "number", "value": 7 }], "executionContextId": 3 });
        json!({ "method": CONSOLE, "params": params, "sessionId": session }).to_string().into()
    }

    /// A page that writes without end is heard up to the limit, then once more of that, and again in the next second; its
    /// neighbour is heard as ever.
    #[test]
    fn a_storm() {
        let (mut limit, now) = (ConsoleLimit::default(), Instant::now());
        let heard = |limit: &mut ConsoleLimit, now| {
            (0..10_000).filter_map(|_| limit.judge(message("A"), now)).collect::<Vec<_>>()
        };
        let first = heard(&mut limit, now);
        assert_eq!(first.len(), 501);
        assert!(first[499] == message("A") && first[500].contains("left out"), "{}", first[500]);
        assert!(first[500].contains(r#""executionContextId":3"#));
        assert_eq!(limit.judge(message("B"), now), Some(message("B")));
        assert_eq!(heard(&mut limit, now + SECOND / 2).len(), 0);
        assert_eq!(heard(&mut limit, now + SECOND).len(), 501);
        limit.detached("A");
        assert_eq!(limit.0.len(), 1);
    }
}
