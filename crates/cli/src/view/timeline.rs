//! A session's timeline, for people.

use greenroom_core::port::human;
use greenroom_gateway::rest::{CallStatus, TimelineEvent, TimelineEventKind};
use std::time::Duration;

use super::text::escape;

/// One event: when, which kind, and what.
pub fn line(event: &TimelineEvent) -> String {
    let (kind, text) = match &event.what {
        TimelineEventKind::Call { tool, status, took_ms } => {
            let ended = match status {
                CallStatus::Success => "",
                CallStatus::Error => " failed",
                CallStatus::Pending => " has not ended",
            };
            let took =
                took_ms.map(|ms| format!(" ({})", human(Duration::from_millis(ms)))).unwrap_or_default();
            ("call", format!("{}{ended}{took}", escape(tool)))
        }
        TimelineEventKind::Navigation { url, title } => {
            let title = title.as_ref().filter(|title| !title.is_empty());
            let title = title.map(|title| format!(" \"{}\"", escape(title))).unwrap_or_default();
            ("page", format!("{}{title}", escape(url)))
        }
        TimelineEventKind::Console { level, message } => {
            ("console", format!("{}: {}", escape(level), escape(message)))
        }
        TimelineEventKind::Error { message } => ("error", escape(message)),
    };
    format!("{}  {kind:7}  {text}\n", escape(&event.timestamp))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(what: TimelineEventKind) -> String {
        let timestamp = "2026-01-02T03:04:05.678Z".to_owned();
        let line = line(&TimelineEvent { timestamp, ref_id: String::new(), what });
        line.strip_prefix("2026-01-02T03:04:05.678Z  ").unwrap().trim_end().to_owned()
    }

    /// Every kind of event has its text, and texts of a page cannot control the terminal.
    #[test]
    fn every_kind_of_event_has_a_line() {
        let call =
            |status, took_ms| TimelineEventKind::Call { tool: "browser_click".to_owned(), status, took_ms };
        assert_eq!(rendered(call(CallStatus::Success, Some(250))), "call     browser_click (250 ms)");
        assert_eq!(rendered(call(CallStatus::Error, Some(1_500))), "call     browser_click failed (1.5 s)");
        assert_eq!(rendered(call(CallStatus::Pending, None)), "call     browser_click has not ended");
        let url = "http://a.example/".to_owned();
        let title = Some("A\x1b[2J".to_owned());
        assert_eq!(
            rendered(TimelineEventKind::Navigation { url, title }),
            r#"page     http://a.example/ "A\u{1b}[2J""#
        );
        let level = "warn".to_owned();
        let message = "a\nb".to_owned();
        assert_eq!(rendered(TimelineEventKind::Console { level, message }), r"console  warn: a\nb");
        assert_eq!(rendered(TimelineEventKind::Error { message: "no luck".to_owned() }), "error    no luck");
    }
}
