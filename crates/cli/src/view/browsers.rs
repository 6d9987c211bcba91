//! Attached browsers, as a table, and the results of commands to one.

use greenroom_gateway::Browser;

use super::{
    table::{Cell, table},
    terminal::{Terminal, TextStyle},
    text::{escape, span},
};

/// A table of browsers, with the process of each where several are shown, and a line for each that has a problem.
pub fn browsers(rows: &[(u32, &Browser)], indent: &str, terminal: Terminal) -> String {
    let several = rows.iter().any(|(pid, _)| Some(*pid) != rows.first().map(|(first, _)| *first));
    let mut heads = vec!["BROWSER", "STATE", "SESSIONS", "ENGINE", "TAGS", "URL"];
    if several {
        heads.insert(0, "PID");
    }
    let cells = |(pid, browser): &(u32, &Browser)| {
        let mut cells = row(browser);
        if several {
            cells.insert(0, Cell::plain(pid.to_string()));
        }
        cells
    };
    let problems: String =
        rows.iter().filter_map(|(_, browser)| connection_problem(browser, indent)).collect();
    let rows: Vec<_> = rows.iter().map(cells).collect();
    table(&heads, &rows, indent, terminal) + &problems
}

fn row(browser: &Browser) -> Vec<Cell> {
    let style = match browser.state.as_str() {
        "connected" => TextStyle::Green,
        "disconnected" => TextStyle::Red,
        _ => TextStyle::Dim,
    };
    let tags = match browser.tags.as_slice() {
        [] => "-".to_owned(),
        tags => escape(&tags.join(", ")),
    };
    vec![
        Cell::Text(TextStyle::Bold, name(browser)),
        Cell::Text(style, escape(&browser.state)),
        Cell::Number(browser.sessions.to_string()),
        Cell::plain(escape(&browser.engine)),
        Cell::plain(tags),
        Cell::plain(escape(&browser.url)),
    ]
}

/// The name of a browser: its index, and its label if it has one.
fn name(browser: &Browser) -> String {
    match &browser.label {
        Some(label) => format!("{} ({})", browser.index, escape(label)),
        None => browser.index.to_string(),
    }
}

/// The problem of the connection, and when the next attempt is; usually none.
fn connection_problem(browser: &Browser, indent: &str) -> Option<String> {
    let error = browser.last_error.as_ref().filter(|_| browser.state != "connected")?;
    let again =
        browser.retry_in_seconds.map(|seconds| format!("; again in {}", span(seconds))).unwrap_or_default();
    Some(format!("{indent}browser {} {}: {}{again}\n", name(browser), escape(&browser.state), escape(error)))
}

/// The state of a browser after a command.
pub fn browser(pid: u32, browser: &Browser) -> String {
    let url = escape(&browser.url);
    let state = escape(&browser.state);
    let problems = connection_problem(browser, "").unwrap_or_default();
    format!("browser {} (pid {pid}) is {state}: {url}\n{problems}", name(browser))
}

/// A browser that was removed.
pub fn detached(pid: u32, browser: &Browser) -> String {
    let url = escape(&browser.url);
    format!("browser {} (pid {pid}) is no longer attached: {url}\n", name(browser))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connected() -> Browser {
        Browser {
            index: 1,
            url: "http://127.0.0.1:9222".to_owned(),
            label: Some("work\x1b[2J".to_owned()),
            tags: vec!["mail".to_owned(), "daily".to_owned()],
            engine: "playwright".to_owned(),
            state: "connected".to_owned(),
            last_error: Some("it was lost once".to_owned()),
            sessions: 2,
            ..Browser::default()
        }
    }

    fn disconnected() -> Browser {
        Browser {
            index: 4,
            url: "ws://10.0.0.7:9222/devtools/browser/3f2a".to_owned(),
            label: None,
            tags: Vec::new(),
            engine: "devtools".to_owned(),
            state: "disconnected".to_owned(),
            last_error: Some("connection refused".to_owned()),
            retry_in_seconds: Some(42),
            sessions: 0,
            ..connected()
        }
    }

    const WIDE: Terminal = Terminal { colour: false, columns: Some(120), rows: None };

    /// Browsers are listed one per line, with their processes where there are several; labels and errors cannot control
    /// the terminal.
    #[test]
    fn browsers_of_several_processes_have_a_pid_column() {
        let one = connected();
        let other = disconnected();
        let same = browsers(&[(7, &one), (7, &other)], "", WIDE);
        let apart = browsers(&[(7, &one), (8, &other)], "  ", WIDE);
        insta::assert_snapshot!(format!("{same}\n{apart}"));
    }

    /// The text names what was done, and any problem.
    #[test]
    fn command_results_name_the_browser() {
        insta::assert_snapshot!(
            [browser(7, &connected()), browser(7, &disconnected()), detached(7, &disconnected())].concat()
        );
    }
}
