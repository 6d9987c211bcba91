//! The output of the demo: a line for every event, and a table at the end; with `--json`, a JSON object a line.

use std::{
    io::{self, Write},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use super::{
    agent::{DemoAgent, ShopPage, StepError},
    catalog::Role,
};
use crate::view::{
    table::{Cell, table},
    terminal::{Terminal, TextStyle},
    text::{count, escape, shorten, width},
};

/// The width of the column for an agent's action: the longest action's, and one.
const ACTION_COLUMNS: usize = 21;

/// Where the demo prints, and when it began.
pub struct DemoPrinter {
    pub terminal: Terminal,
    pub json: bool,
    /// The width of the longest name.
    pub names: usize,
    pub start: Instant,
}

/// The figures of the whole demo.
pub struct DemoTotals {
    pub chromiums: usize,
    /// The time until every agent had a browser.
    pub start: Duration,
    pub took: Duration,
}

impl DemoPrinter {
    pub fn new(roles: &[Role], json: bool, terminal: Terminal) -> Self {
        let names = roles.iter().map(|role| width(role.name)).max().unwrap_or(0);
        Self { terminal, json, names, start: Instant::now() }
    }

    pub fn opening(&self, agents: usize, shop: &str, front: &str) -> io::Result<()> {
        if self.json {
            return object(&json!({ "event": "start", "agents": agents, "shop": shop, "front": front }));
        }
        write(&self.opening_text(agents, shop, front))
    }

    fn opening_text(&self, agents: usize, shop: &str, front: &str) -> String {
        let head = format!("A tea shop, and {} with a browser each", count(agents, "agent"));
        let place =
            |what: &str, url: &str| format!("{what:<11}{}\n", self.terminal.styled(TextStyle::Dim, url));
        let head = self.terminal.styled(TextStyle::Bold, &head);
        format!("{head}\n{}{}", place("shop", shop), place("greenroom", front))
    }

    pub fn step_title(&self, title: &str) -> io::Result<()> {
        if self.json {
            return object(&json!({ "event": "act", "title": title, "at_ms": ms(self.start.elapsed()) }));
        }
        write(&self.step_title_text(title))
    }

    fn step_title_text(&self, title: &str) -> String {
        format!("\n{}\n", self.terminal.styled(TextStyle::Bold, title))
    }

    /// An agent's step, and what it sees.
    pub fn step(&self, role: &Role, tool: &str, does: &str, sees: &str) -> io::Result<()> {
        let at = self.start.elapsed();
        if self.json {
            return object(&json!({
                "event": "step", "agent": role.name, "session": role.session(), "at_ms": ms(at),
                "tool": tool, "does": does, "sees": sees,
            }));
        }
        write(&self.line(role, at, does, sees, TextStyle::Plain))
    }

    pub fn failed(&self, role: &Role, error: &StepError) -> io::Result<()> {
        let at = self.start.elapsed();
        if self.json {
            return object(&json!({
                "event": "failed", "agent": role.name, "session": role.session(), "at_ms": ms(at),
                "error": error.message, "hint": error.hint,
            }));
        }
        write(&self.line(role, at, "FAILED", &error.message, TextStyle::Red))
    }

    fn line(&self, role: &Role, at: Duration, does: &str, sees: &str, style: TextStyle) -> String {
        let name = self.terminal.styled(role.style, &format!("{:<1$}", role.name, self.names));
        let at = format!("{:>8}", seconds(at));
        let before = self.names + at.len() + ACTION_COLUMNS + 4;
        let room = self.terminal.columns.map_or(usize::MAX, |columns| columns.saturating_sub(before));
        let sees = shorten(&escape(sees), room);
        let at = self.terminal.styled(TextStyle::Dim, &at);
        let does = self.terminal.styled(style, &format!("{does:<ACTION_COLUMNS$}"));
        format!("{name}{at}  {does}  {sees}\n")
    }

    /// What a page says of an agent, in one sentence.
    pub fn page_text(&self, page: &ShopPage) -> String {
        let ShopPage { customer, basket } = page;
        match basket.as_str() {
            "" => format!("signed in as {customer}, basket empty"),
            _ => format!("signed in as {customer}, basket: {basket}"),
        }
    }

    pub fn ending(&self, agents: &[DemoAgent], totals: &DemoTotals) -> io::Result<()> {
        if !self.json {
            return write(&self.ending_text(agents, totals));
        }
        for agent in agents {
            object(&json!({
                "event": "agent", "agent": agent.role.name, "session": agent.role.session(),
                "pages": agent.pages, "calls": agent.calls, "ms": ms(agent.busy),
                "signed_in_as": agent.last_page.customer, "basket": agent.last_page.basket, "ok": agent.error.is_none(),
            }))?;
        }
        object(&json!({
            "event": "end", "browsers": agents.len(), "chromiums": totals.chromiums,
            "start_ms": ms(totals.start),
            "calls": agents.iter().map(|agent| agent.calls).sum::<usize>(), "ms": ms(totals.took),
            "ok": agents.iter().all(|agent| agent.error.is_none()),
        }))
    }

    fn ending_text(&self, agents: &[DemoAgent], totals: &DemoTotals) -> String {
        if agents.iter().all(|agent| agent.pages == 0) {
            // No agent reached a page; the error says why.
            return "\n".to_owned();
        }
        let heads = ["AGENT", "SESSION", "PAGES", "CALLS", "BUSY", "SIGNED IN AS", "BASKET"];
        let row = |agent: &DemoAgent| {
            vec![
                Cell::Text(agent.role.style, agent.role.name.to_owned()),
                Cell::plain(agent.role.session()),
                Cell::Number(agent.pages.to_string()),
                Cell::Number(agent.calls.to_string()),
                Cell::Number(seconds(agent.busy)),
                Cell::plain(escape(&agent.last_page.customer)),
                Cell::plain(escape(&agent.last_page.basket)),
            ]
        };
        let rows: Vec<_> = agents.iter().map(row).collect();
        let calls = agents.iter().map(|agent| agent.calls).sum();
        let figures = format!(
            "{} in {}, up in {}; then {} in {}",
            count(agents.len(), "browser"),
            count(totals.chromiums, "Chromium"),
            seconds(totals.start),
            count(calls, "call"),
            seconds(totals.took)
        );
        let mut text = format!("\n{}\n", table(&heads, &rows, "", self.terminal));
        text += &format!("{}\n", self.terminal.styled(TextStyle::Bold, &figures));
        if agents.iter().all(|agent| agent.error.is_none()) {
            text += "One shop, one moment, and every agent saw its own name and basket only.\n\n";
            text += "next: `greenroom setup claude` connects your agent (or cursor, vscode, codex)\n";
        }
        text
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn object(value: &Value) -> io::Result<()> {
    write(&format!("{value}\n"))
}

/// Flushes at once: a line must show when it is written.
fn write(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

#[cfg(test)]
mod tests;
