//! What a change costs: this greenroom and another one (`--against`) run in turns on the same machine.

use std::time::Instant;

use greenroom_testkit::{Site, process::pss_tree};
use serde_json::{Value, json};

use crate::{
    agent::{BenchAgent, Caller},
    programs::{self, Programs},
    report::{Goal, Row, Section},
    session::navigate,
    stats::{least, median, megabytes, milliseconds},
};

/// How much slower, or larger, a change may make any figure.
const GOAL: f64 = 1.03;

/// Sessions whose memory is measured, besides the first one: they fill an instance.
const SESSIONS: usize = 15;

/// An action: what it is called in the table, the tool, and its arguments.
type Action = (&'static str, &'static str, fn(&Site) -> Value);

const ACTIONS: [Action; 5] = [
    (
        "navigate to a page of 300 rows",
        "browser_navigate",
        |site| json!({ "url": site.url("/table?rows=300") }),
    ),
    ("snapshot of it", "browser_snapshot", |_| json!({})),
    ("screenshot of it", "browser_take_screenshot", |_| json!({ "type": "png" })),
    ("evaluate in it", "browser_evaluate", |_| json!({ "function": "() => document.title" })),
    ("click on it", "browser_click", |_| json!({ "target": "body", "element": "the page" })),
];

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 3 } else { 60 };
    let site = programs::site();
    let mut agents =
        [BenchAgent::start(programs.greenroom_real()), BenchAgent::start(programs.other_greenroom_real())];
    for agent in &mut agents {
        navigate(agent, &site, None);
    }
    let mut taken = vec![[Vec::new(), Vec::new()]; ACTIONS.len()];
    for round in 0..rounds {
        for (times, (_, tool, arguments)) in taken.iter_mut().zip(ACTIONS) {
            let arguments = arguments(&site);
            // The second greenroom of a round finds a warm machine, so the two take turns at being second.
            for side in [round % 2, 1 - round % 2] {
                let begun = Instant::now();
                agents[side].call(tool, &arguments);
                times[side].push(milliseconds(begun.elapsed()));
            }
        }
    }
    let mut rows: Vec<Row> = ACTIONS
        .iter()
        .zip(&taken)
        .flat_map(|((what, ..), [this, other])| {
            [
                row(&format!("{what}, median"), median(this), median(other), "ms"),
                row(&format!("{what}, fastest"), least(this), least(other), "ms"),
            ]
        })
        .collect();
    let [this, other] = &mut agents;
    let memory = [this, other].map(|agent| {
        let before = pss_tree(agent.pid());
        for session in 0..SESSIONS {
            navigate(agent, &site, Some(&format!("s{session}")));
        }
        megabytes(pss_tree(agent.pid()).saturating_sub(before)) / SESSIONS as f64
    });
    rows.push(row("memory of one more session", memory[0], memory[1], "MB"));
    let how = format!(
        "This greenroom and another one over stdio, both with the real engine and the same browser, {rounds} calls of each \
         kind in turns. Memory is PSS over all processes, of {SESSIONS} sessions more. Run by `scripts/bench --only versions \
         --against PATH_OF_THE_OTHER_GREENROOM`."
    );
    Section { title: "This greenroom compared with another", rows, how }
}

fn row(what: &str, this: f64, other: f64, unit: &str) -> Row {
    Row::new(what, format!("{this:.1} {unit}"), format!("{other:.1} {unit}"))
        .ratio(this / other)
        .goal(Goal::check("≤ 1.03", this / other <= GOAL))
}
