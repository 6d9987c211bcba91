//! Log lines for people.

use greenroom_gateway::control::LogLine;

use serde_json::{Map, Value};

use super::text::{count, escape};

type LogFields = Map<String, Value>;

/// One line: when, and what happened. With its process where there are several.
pub fn line(pid: Option<u32>, line: &LogLine) -> String {
    let LogLine::Entry { time, level, message, fields, .. } = line else { return verbose(pid, line) };
    let level = match level.as_str() {
        "WARN" => "warning: ",
        "ERROR" => "error: ",
        _ => "",
    };
    format!("{}{}  {level}{}\n", process(pid), moment(time), escape(&sentence(message, fields)))
}

/// One line as it was logged: with the module it came from and all fields by name.
pub fn verbose(pid: Option<u32>, line: &LogLine) -> String {
    let pid = process(pid);
    match line {
        LogLine::Entry { time, level, target, message, fields } => {
            let fields: String =
                fields.iter().map(|(name, value)| format!(" {}={}", escape(name), value_of(value))).collect();
            format!(
                "{pid}{}  {:5}  {}: {}{fields}\n",
                escape(time),
                escape(level),
                escape(target),
                escape(message)
            )
        }
        LogLine::Lost { lost } => {
            let lines = count(usize::try_from(*lost).unwrap_or(usize::MAX), "line");
            format!("{pid}… {lines} lost: they were written faster than they were read\n")
        }
    }
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!("pid {pid}  ")).unwrap_or_default()
}

/// `2026-01-02T03:04:05.678Z` in a form for people.
pub(super) fn moment(time: &str) -> String {
    let time = time.split_once('.').map_or(time, |(seconds, _)| seconds).trim_end_matches('Z');
    format!("{}Z", escape(&time.replacen('T', " ", 1)))
}

/// What happened to whom, and why. The subject comes first, the cause after a colon, and other fields in brackets.
fn sentence(message: &str, fields: &LogFields) -> String {
    let text = |name: &str| fields.get(name).map(plain);
    let mut used: Vec<&str> = vec!["why", "error", "hint"];
    let mut sentence = if let Some(session) = text("session") {
        used.push("session");
        let name = format!("\"{}\"", session.strip_prefix("local/").unwrap_or(&session));
        match message.strip_prefix("session ") {
            Some(what) => format!("session {name} {what}"),
            None => format!("session {name}: {message}"),
        }
    } else if let Some(pool) = text("pool") {
        used.extend(["pool", "instance"]);
        let instance = text("instance").map(|id| format!(", instance {id}")).unwrap_or_default();
        format!("pool {pool}{instance}: {message}")
    } else if let Some(client) = text("client") {
        used.push("client");
        format!("{client}: {message}")
    } else {
        message.to_owned()
    };
    for cause in ["why", "error"].into_iter().filter_map(text) {
        sentence = format!("{sentence}: {cause}");
    }
    let others = fields.iter().filter(|(name, _)| !used.contains(&name.as_str()));
    let others: Vec<_> =
        others.map(|(name, value)| format!("{} {}", name.replace('_', " "), plain(value))).collect();
    if !others.is_empty() {
        sentence = format!("{sentence} ({})", others.join(", "));
    }
    match text("hint") {
        Some(hint) => format!("{sentence}; hint: {hint}"),
        None => sentence,
    }
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned)
}

/// A value, quoted where its end would not be clear.
fn value_of(value: &Value) -> String {
    let value = escape(value.as_str().map_or_else(|| value.to_string(), ToOwned::to_owned).as_str());
    if value.is_empty() || value.contains(' ') { format!("\"{value}\"") } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(level: &str, message: &str, fields: &[(&str, &str)]) -> String {
        let fields = fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        let entry = LogLine::Entry {
            time: "2026-01-02T03:04:05.678Z".to_owned(),
            level: level.to_owned(),
            target: "greenroom_fleet::pool::supervisor".to_owned(),
            message: message.to_owned(),
            fields,
        };
        line(None, &entry)
    }

    /// By default a line says who did what and why; modules and field names are for `--verbose`.
    #[test]
    fn short_log_line_has_no_field_names() {
        let at = "2026-01-02 03:04:05Z  ";
        for (line, sentence) in [
            (
                rendered("INFO", "session opened", &[("session", "local/a"), ("instance", "0")]),
                "session \"a\" opened (instance 0)",
            ),
            (
                rendered("INFO", "ready", &[("pool", "DEFAULT"), ("instance", "0")]),
                "pool DEFAULT, instance 0: ready",
            ),
            (
                rendered(
                    "WARN",
                    "cannot start",
                    &[("pool", "A"), ("instance", "1"), ("error", "no browser"), ("hint", "install one")],
                ),
                "warning: pool A, instance 1: cannot start: no browser; hint: install one",
            ),
            (rendered("INFO", "connected", &[("client", "Claude Code 1")]), "Claude Code 1: connected"),
            (
                rendered("ERROR", "the process ended unexpectedly", &[("last_output", "oh")]),
                "error: the process ended unexpectedly (last output oh)",
            ),
        ] {
            assert_eq!(line, format!("{at}{sentence}\n"));
        }
    }

    /// A verbose line holds time, level, origin, message and fields; texts of a page cannot control the terminal.
    #[test]
    fn verbose_log_line_has_all_fields() {
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
            "2026-01-02 03:04:05Z  session \"a\\u{1b}[2J\" ended: the browser ended\n"
        );
        assert_eq!(
            verbose(None, &entry),
            "2026-01-02T03:04:05.678Z  INFO   greenroom_fleet: session ended why=\"the browser ended\" \
             session=local/a\\u{1b}[2J\n"
        );
        assert_eq!(
            line(Some(7), &LogLine::Lost { lost: 3 }),
            "pid 7  … 3 lines lost: they were written faster than they were read\n"
        );
    }
}
