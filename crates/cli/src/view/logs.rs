//! Lines of a log as people read them.

use greenroom_gateway::control::LogLine;

use serde_json::Value;

use super::words::{clean, count};

/// One line, with the process it came from where there are several.
pub fn line(pid: Option<u32>, line: &LogLine) -> String {
    let pid = pid.map(|pid| format!("pid {pid}  ")).unwrap_or_default();
    match line {
        LogLine::Entry { time, level, target, message, fields } => {
            let fields: String =
                fields.iter().map(|(name, value)| format!(" {}={}", clean(name), value_of(value))).collect();
            format!(
                "{pid}{}  {:5}  {}: {}{fields}\n",
                clean(time),
                clean(level),
                clean(target),
                clean(message)
            )
        }
        LogLine::Lost { lost } => {
            let lines = count(usize::try_from(*lost).unwrap_or(usize::MAX), "line");
            format!("{pid}… {lines} lost: they were written faster than they were read\n")
        }
    }
}

/// A value shows where it ends.
fn value_of(value: &Value) -> String {
    let value = clean(value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).as_str());
    if value.is_empty() || value.contains(' ') { format!("\"{value}\"") } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line holds time, level, origin, message and fields, and what a page said cannot drive the terminal.
    #[test]
    fn lines() {
        let entry = LogLine::Entry {
            time: "2026-01-02T03:04:05.678Z".to_owned(),
            level: "INFO".to_owned(),
            target: "greenroom_fleet".to_owned(),
            message: "session ended".to_owned(),
            fields: [("why", "the browser ended"), ("session", "local/a\x1b[2J")]
                .map(|(name, value)| (name.to_owned(), value.into()))
                .into_iter()
                .collect(),
        };
        assert_eq!(
            line(None, &entry),
            "2026-01-02T03:04:05.678Z  INFO   greenroom_fleet: session ended why=\"the browser ended\" \
             session=local/a\\u{1b}[2J\n"
        );
        assert_eq!(
            line(Some(7), &LogLine::Lost { lost: 3 }),
            "pid 7  … 3 lines lost: they were written faster than they were read\n"
        );
    }
}
