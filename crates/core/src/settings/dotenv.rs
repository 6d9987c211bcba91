//! Reads the text of a `.env` file: greenroom's lines, and no others. The file often belongs to another program, so
//! other lines may have any form.

use super::variables::is_ours;

/// greenroom's variables, each with its value, or `None` if the line has no valid value.
pub(super) fn variables(text: &str) -> Vec<(String, Option<String>)> {
    text.lines().filter_map(line).collect()
}

fn line(line: &str) -> Option<(String, Option<String>)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").map_or(line, str::trim_start);
    let (name, value) = match line.split_once('=') {
        Some((name, value)) => (name.trim_end(), Some(value.trim())),
        None => (line, None),
    };
    // Accept characters that no shell allows in a name too, so that a greenroom variable with `my-pool` in its name is
    // reported, not skipped.
    let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'));
    (is_name && is_ours(name)).then(|| (name.to_owned(), value.and_then(unquote)))
}

/// The value without its quotes or its comment; `None` when a quote stays open.
fn unquote(value: &str) -> Option<String> {
    for quote in ['"', '\''] {
        if let Some(rest) = value.strip_prefix(quote) {
            let (inner, after) = rest.split_at(closing(rest, quote)?);
            let after = after.get(1..)?.trim_start();
            if !after.is_empty() && !after.starts_with('#') {
                return Some(value.to_owned());
            }
            return Some(match quote {
                '"' => inner.replace("\\\"", "\"").replace("\\\\", "\\"),
                _ => inner.to_owned(),
            });
        }
    }
    let comment = value.match_indices('#').find(|(at, _)| *at == 0 || value[..*at].ends_with([' ', '\t']));
    Some(comment.map_or(value, |(at, _)| value[..at].trim_end()).to_owned())
}

/// Where the quote closes. A backslash escapes the next character in double quotes only.
fn closing(rest: &str, quote: char) -> Option<usize> {
    let mut hidden = false;
    rest.char_indices().find_map(|(at, c)| match c {
        _ if hidden => {
            hidden = false;
            None
        }
        '\\' if quote == '"' => {
            hidden = true;
            None
        }
        _ => (c == quote).then_some(at),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only greenroom's lines are read; quotes and comments are removed; an open quote or a missing `=` is noticed.
    #[test]
    fn dotenv_reads_only_greenroom_lines() {
        let text = r#"
# GREENROOM_LOG=comment
DATABASE_URL=postgres://x
SECRET="two
lines"
GREENROOM_LOG = info   # why
export GREENROOM_POOL_SLOTS="4" # four
GREENROOM_POOL_USER_AGENT='a # "b"'
GREENROOM_POOL_DEVICE="iPhone \"15\""
GREENROOM_POOL_COMMAND="node" 'x y'
GREENROOM_TOOLS_DENY=
HEADLESS=false
HEADLESS_MODE=x
GREENROOM_NODE
GREENROOM_DATA_DIR="open
PW_MCP_PROXY__my-pool_INSTANCES=1
"#;
        let read = variables(text);
        let read: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.as_deref())).collect();
        assert_eq!(
            read,
            [
                ("GREENROOM_LOG", Some("info")),
                ("GREENROOM_POOL_SLOTS", Some("4")),
                ("GREENROOM_POOL_USER_AGENT", Some("a # \"b\"")),
                ("GREENROOM_POOL_DEVICE", Some("iPhone \"15\"")),
                ("GREENROOM_POOL_COMMAND", Some("\"node\" 'x y'")),
                ("GREENROOM_TOOLS_DENY", Some("")),
                ("HEADLESS", Some("false")),
                ("GREENROOM_NODE", None),
                ("GREENROOM_DATA_DIR", None),
                ("PW_MCP_PROXY__my-pool_INSTANCES", Some("1")),
            ]
        );
    }
}
