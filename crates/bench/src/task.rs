//! What an agent receives for one task of twenty calls: from the engine alone, and in every form of greenroom's answers.

use greenroom_gateway::estimated_tokens;
use greenroom_testkit::{Client, Launch, ShoppingAgent, Site, SnapshotDelivery};
use serde_json::json;

use crate::{
    fixed_cost::{FixedCost, tokens},
    programs::Programs,
    report::{Goal, Row, Section, comparison_table},
};

/// The allowed part of the engine's tokens with `auto`, where greenroom decides what to send; then with `diff` and
/// `refs`.
const AUTO_MAX: f64 = 0.12;
const DIFF_MAX: f64 = 0.25;
const REFS_MAX: f64 = 0.05;

/// What one agent received.
struct TokenCost {
    tokens: f64,
    estimate: usize,
    bytes: usize,
    /// How often it had to ask for more than its calls gave it.
    follow_ups: usize,
    /// Tokens of the tools' definitions and of the instructions, which come before the first call.
    before: f64,
}

pub fn measure(programs: &Programs, _: bool) -> Section {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let ways = runtime.block_on(async {
        let site = Site::start().await;
        let engine = programs.launch_engine().spawn();
        let files = SnapshotDelivery::Files(engine.home().to_owned());
        let mut ways = vec![("the engine alone", run(engine, files, &site).await)];
        for (what, delivery, responses, profile) in [
            ("`auto`, the default", SnapshotDelivery::Auto, "auto", "compact"),
            ("`auto`, with `tools.profile = core`", SnapshotDelivery::Auto, "auto", "core"),
            ("`inline`", SnapshotDelivery::Inline, "inline", "compact"),
            ("`inline`, with `mode: \"diff\"`", SnapshotDelivery::Diff, "inline", "compact"),
            ("`refs`", SnapshotDelivery::Refs, "refs", "compact"),
            ("`raw`, with `tools.profile = full`", SnapshotDelivery::Raw, "raw", "full"),
        ] {
            let flags = ["--responses", responses, "--tools-profile", profile];
            let greenroom: Launch = programs.launch_real().args(flags);
            ways.push((what, run(greenroom.spawn(), delivery, &site).await));
        }
        ways
    });
    let alone = ways[0].1.tokens;
    let row = |what: &str, at: usize| {
        let cost: &TokenCost = &ways[at].1;
        let one = format!("{:.0}", cost.tokens);
        let other = format!("{alone:.0}");
        Row::new(format!("tokens for a task of 20 calls, {what}"), one, other).ratio(cost.tokens / alone)
    };
    let met = |at: usize, most: f64| ways[at].1.tokens / alone <= most;
    let with_tools = |at: usize| ways[at].1.tokens + ways[at].1.before;
    let core = with_tools(2) / with_tools(0);
    let rows = vec![
        row("by default", 1).goal(Goal::check("≤ 12 %", met(1, AUTO_MAX))),
        Row::new(
            "the same with tools and instructions, `tools.profile = core`",
            format!("{:.0}", with_tools(2)),
            format!("{:.0}", with_tools(0)),
        )
        .ratio(core)
        .goal(Goal::check("≤ 12 %", core <= AUTO_MAX)),
        Row::new(
            "tokens of tools and instructions",
            format!("{:.0}", ways[1].1.before),
            format!("{:.0}", ways[0].1.before),
        )
        .ratio(ways[1].1.before / ways[0].1.before)
        .goal(Goal::check("≤ 1", ways[1].1.before <= ways[0].1.before)),
        row("with whole pages", 3),
        row("with changes asked for", 4).goal(Goal::check("≤ 1/4", met(4, DIFF_MAX))),
        row("with names only", 5).goal(Goal::check("≤ 1/20", met(5, REFS_MAX))),
    ];
    let table = comparison_table(
        &[
            "what",
            "tokens",
            "of the engine's",
            "as greenroom estimates",
            "bytes",
            "asked for more",
            "tools and instructions",
        ],
        ways.iter().map(|(what, cost)| {
            let figures = [
                format!("{:.0}", cost.tokens),
                format!("{:.1} %", cost.tokens / alone * 100.0),
                cost.estimate.to_string(),
                cost.bytes.to_string(),
                format!("{} times", cost.follow_ups),
                format!("{:.0} tokens", cost.before),
            ];
            (*what, figures)
        }),
    );
    let how = format!(
        "An agent orders three wares in a shop with a table of 500, a button or two in each row: it searches, filters, looks at \
         details, goes through tabs, fills a form that refuses it once, and places the order, in 20 calls of browser tools. It is a \
         script, but it has only what it was sent: it finds elements in these texts by role and name, and looks there whether a call \
         has had its effect. Where an answer does not show that, it asks for more: with the engine alone it reads the file that \
         the answer links to, with `raw` it recalls the whole snapshot, otherwise it searches in it with `get_content`. \
         With `core` it asks `more_tools` for the names of the tools that are not listed and for the parameters of the two that it \
         needs, and runs them through it. The shop \
         has the order in the end, each time the same. Counted is every text it received, by the tokenizer o200k; tools and \
         instructions, which every conversation begins with, stand apart.\n\n{table}"
    );
    Section { title: "Tokens of a task", rows, how }
}

/// Runs the task and counts what the agent receives.
async fn run(client: Client, delivery: SnapshotDelivery, site: &Site) -> TokenCost {
    let initialized = client.initialize("2025-11-25", json!({})).await;
    let listed = client.request("tools/list", json!({})).await;
    let cost = ShoppingAgent::new(&client, delivery).with_listed_tools(&listed).run(site).await;
    client.close_stdin().await;
    client.wait().await;
    TokenCost {
        tokens: cost.received.iter().map(|text| tokens(text)).sum::<usize>() as f64,
        estimate: cost.received.iter().map(|text| estimated_tokens(text)).sum(),
        bytes: cost.received.iter().map(String::len).sum(),
        follow_ups: cost.follow_ups,
        before: FixedCost::count(&initialized, &listed).total() as f64,
    }
}
