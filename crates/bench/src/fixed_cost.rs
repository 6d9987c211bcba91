//! What an agent pays before its first call: the tools' definitions and the instructions of each program, in tokens.

use std::process::Command;

use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use crate::{
    agent::BenchAgent,
    programs::Programs,
    report::{Goal, Row, Section, comparison_table},
};

/// The most tokens that the tools of the profile `core` may cost.
const CORE_MAX: usize = 1_500;

/// The tokens that a program costs before the first call.
pub struct FixedCost {
    tools: usize,
    tool_tokens: usize,
    instruction_tokens: usize,
}

impl FixedCost {
    /// Counts an answer of `initialize` and one of `tools/list`.
    pub fn count(initialized: &Value, listed: &Value) -> Self {
        let tools = listed["result"]["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            tools: tools.len(),
            tool_tokens: tools.iter().map(|tool| tokens(&tool.to_string())).sum(),
            instruction_tokens: tokens(initialized["result"]["instructions"].as_str().unwrap_or_default()),
        }
    }

    pub fn total(&self) -> usize {
        self.tool_tokens + self.instruction_tokens
    }
}

pub fn measure(programs: &Programs, _: bool) -> Section {
    let profile = |name: &str| {
        let mut command = programs.greenroom_real();
        command.args(["--tools-profile", name]);
        command
    };
    let mut compared = vec![
        ("greenroom, `tools.profile = core`".to_owned(), profile("core")),
        ("greenroom, by default (`compact`)".to_owned(), profile("compact")),
        ("greenroom, `tools.profile = full`".to_owned(), profile("full")),
        ("@playwright/mcp".to_owned(), programs.real_alone(crate::programs::BROWSER)),
        ("chrome-devtools-mcp".to_owned(), programs.devtools_alone(&[])),
        ("chrome-devtools-mcp `--slim`".to_owned(), programs.devtools_alone(&["--slim"])),
    ];
    if let Some(program) = programs.agent_browser() {
        let mut command = programs.command(&program);
        command.arg("mcp");
        compared.push(("agent-browser, MCP".to_owned(), command));
    }
    let costs: Vec<(String, FixedCost)> =
        compared.into_iter().map(|(name, command)| (name, cost(command))).collect();
    let core = &costs[0].1;
    let engine = &costs[3].1;
    let row = Row::new(
        "tokens of the tools, `tools.profile = core`",
        core.tool_tokens.to_string(),
        engine.tool_tokens.to_string(),
    )
    .ratio(core.tool_tokens as f64 / engine.tool_tokens as f64)
    .goal(Goal::check("≤ 1,500", core.tool_tokens <= CORE_MAX));
    let table = comparison_table(
        &["program", "tools", "tokens of the tools", "tokens of the instructions", "together"],
        costs.iter().map(|(name, cost)| {
            let figures = [cost.tools, cost.tool_tokens, cost.instruction_tokens, cost.total()];
            (name.as_str(), figures.map(|figure| figure.to_string()))
        }),
    );
    let how = format!(
        "The answers of `initialize` and `tools/list`, each program as it is started without further settings, by the tokenizer \
         o200k: the JSON of every tool, and the text of the instructions. A program with few tools may need more calls for \
         the same task; with `core` greenroom has one tool that describes and runs all others.\n\n{table}"
    );
    Section { title: "Tokens before the first call", rows: vec![row], how }
}

fn cost(command: Command) -> FixedCost {
    let mut agent = BenchAgent::spawn(command);
    let initialized = agent.initialize();
    let listed = agent.request("tools/list", &json!({}));
    FixedCost::count(&initialized, &listed)
}

pub fn tokens(text: &str) -> usize {
    o200k_base_singleton().count_ordinary(text)
}
