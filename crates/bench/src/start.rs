//! The time from the start of the program to its tool list, which every agent's client requests first.

use std::{process::Command, time::Instant};

use serde_json::json;

use crate::{
    agent::BenchAgent,
    programs::Programs,
    report::{Goal, Row, Section},
    stats::{least, median, milliseconds},
};

const GOAL: f64 = 1.0 / 10.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 2 } else { 15 };
    // The first start may have to ask the engine; all later ones have the list on disk.
    time(programs.greenroom_real());
    let mut through = Vec::new();
    let mut direct = Vec::new();
    for _ in 0..rounds {
        through.push(time(programs.greenroom_real()));
        direct.push(time(programs.real_alone(crate::programs::BROWSER)));
    }
    let ratio = median(&through) / median(&direct);
    let row = Row::new(
        "start to tool list",
        format!("{:.1} ms", median(&through)),
        format!("{:.0} ms", median(&direct)),
    );
    let how = format!(
        "From the start of the process to the answer of `tools/list`, `initialize` included: `greenroom mcp` with the \
         list kept from an earlier start, and the engine (`node cli.js`) itself. {rounds} starts each in turns, \
         medians; the fastest were {:.1} ms and {:.0} ms.",
        least(&through),
        least(&direct),
    );
    let row = row.ratio(ratio).goal(Goal::check("≤ 1/10", ratio <= GOAL));
    Section { title: "Start", rows: vec![row], how }
}

fn time(command: Command) -> f64 {
    let begun = Instant::now();
    let mut agent = BenchAgent::start(command);
    agent.request("tools/list", &json!({}));
    milliseconds(begun.elapsed())
}
