//! What an agent receives for one errand of twenty calls: from the engine alone, and in every form of greenroom's answers.

use greenroom_gateway::estimated_tokens;
use greenroom_testkit::{Client, Launch, Sees, Shopper, Site};
use serde_json::{Value, json};
use tiktoken_rs::o200k_base_singleton;

use crate::{
    report::{Goal, Row, Section, beside},
    subject::Subjects,
};

const DIFF_MAX: f64 = 0.25;
const REFS_MAX: f64 = 0.05;

/// What one agent received.
struct Sent {
    tokens: f64,
    estimate: usize,
    bytes: usize,
    /// How often it had to ask for more than its calls gave it.
    asked: usize,
    /// Tokens of the tools' definitions and of the instructions, which come before the first call.
    before: f64,
}

pub fn measure(subjects: &Subjects, _: bool) -> Section {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime starts");
    let ways = runtime.block_on(async {
        let site = Site::start().await;
        let engine = subjects.launch_engine().spawn();
        let files = Sees::Files(engine.home().to_owned());
        let mut ways = vec![("the engine alone", run(engine, files, &site).await)];
        for (what, sees, responses) in [
            ("`inline`, the default", Sees::Inline, "inline"),
            ("`inline`, with `mode: \"diff\"`", Sees::Diff, "inline"),
            ("`refs`", Sees::Refs, "refs"),
            ("`raw`", Sees::Raw, "raw"),
        ] {
            let greenroom: Launch = subjects.launch_real().args(["--responses", responses]);
            ways.push((what, run(greenroom.spawn(), sees, &site).await));
        }
        ways
    });
    let alone = ways[0].1.tokens;
    let row = |what: &str, at: usize| {
        let sent: &Sent = &ways[at].1;
        let (one, other) = (format!("{:.0}", sent.tokens), format!("{alone:.0}"));
        Row::new(format!("tokens for an errand of 20 calls, {what}"), one, other).ratio(sent.tokens / alone)
    };
    let met = |at: usize, most: f64| ways[at].1.tokens / alone <= most;
    let rows = vec![
        row("as it comes", 1),
        row("with changes asked for", 2).goal(Goal::check("≤ 1/4", met(2, DIFF_MAX))),
        row("with names only", 3).goal(Goal::check("≤ 1/20", met(3, REFS_MAX))),
    ];
    let table = beside(
        &[
            "what",
            "tokens",
            "of the engine's",
            "as greenroom estimates",
            "bytes",
            "asked for more",
            "tools and instructions",
        ],
        ways.iter().map(|(what, sent)| {
            let figures = [
                format!("{:.0}", sent.tokens),
                format!("{:.1} %", sent.tokens / alone * 100.0),
                sent.estimate.to_string(),
                sent.bytes.to_string(),
                format!("{} times", sent.asked),
                format!("{:.0} tokens", sent.before),
            ];
            (*what, figures)
        }),
    );
    let how = format!(
        "An agent orders three wares in a shop with a table of 500, a button or two in each row: it searches, filters, looks at \
         details, goes through tabs, fills a form that refuses it once, and places the order, in 20 calls of browser tools. It is a \
         script, but it has only what it was sent: it finds elements in these texts by role and name, and looks there whether a call \
         has had its effect. Where an answer does not show that, it asks for more: with the engine alone it reads the file that \
         the answer links to, with `raw` it recalls the whole snapshot, otherwise it searches in it with `get_content`. The shop \
         has the order in the end, each time the same. Counted is every text it received, by the tokenizer o200k; tools and \
         instructions, which every conversation begins with, stand apart.\n\n{table}"
    );
    Section { title: "Tokens of an errand", rows, how }
}

/// Runs the errand, and counts.
async fn run(client: Client, sees: Sees, site: &Site) -> Sent {
    let hello = client.initialize("2025-11-25", json!({})).await;
    let listed = client.request("tools/list", json!({})).await;
    let instructions = hello["result"]["instructions"].as_str().unwrap_or_default();
    let tools = listed["result"]["tools"].as_array().into_iter().flatten().map(Value::to_string);
    let before = tools.map(|tool| tokens(&tool)).sum::<usize>() + tokens(instructions);
    let errand = Shopper::new(&client, sees).run(site).await;
    client.close_stdin().await;
    client.wait().await;
    Sent {
        tokens: errand.received.iter().map(|text| tokens(text)).sum::<usize>() as f64,
        estimate: errand.received.iter().map(|text| estimated_tokens(text)).sum(),
        bytes: errand.received.iter().map(String::len).sum(),
        asked: errand.asked,
        before: before as f64,
    }
}

fn tokens(text: &str) -> usize {
    o200k_base_singleton().count_ordinary(text)
}
