//! What greenroom adds to one tool call over stdio.

use std::time::Instant;

use serde_json::json;

use crate::{
    agent::BenchAgent,
    programs::Programs,
    report::{Goal, Row, Section},
    stats::{greatest, least, median, microseconds, percentile},
};

/// Calls per round. A round takes some 50 ms, so that a disturbance affects both programs alike.
pub const CALLS: usize = 500;

/// Calls before the first round, to fill caches and finish lazy initialization.
pub const WARM_UP: usize = 1_000;

/// In microseconds, with the call's record. The quickest call of a browser takes 8 ms; users do not notice a sixteenth more.
const ADDED_MAX: f64 = 500.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 4 } else { 40 };
    let mut greenroom = BenchAgent::start(programs.greenroom_fake(1));
    let mut alone = BenchAgent::start(programs.fake_alone());
    round(&mut greenroom, WARM_UP);
    round(&mut alone, WARM_UP);
    let mut pairs = Vec::new();
    for _ in 0..rounds {
        pairs.push((round(&mut greenroom, CALLS), round(&mut alone, CALLS)));
    }
    let us = |value: f64| format!("{value:.0} µs");
    let row = |percent: f64| {
        let of = |calls: &Vec<f64>| percentile(calls, percent);
        let through: Vec<f64> = pairs.iter().map(|(through, _)| of(through)).collect();
        let direct: Vec<f64> = pairs.iter().map(|(_, direct)| of(direct)).collect();
        let added: Vec<f64> = through.iter().zip(&direct).map(|(through, direct)| through - direct).collect();
        let one = median(&through);
        let other = median(&direct);
        (Row::new(format!("one call, p{percent}"), us(one), us(other)).ratio(one / other), added)
    };
    let (p50, added50) = row(50.0);
    let (p99, added99) = row(99.0);
    let added = median(&added50);
    let rows = vec![
        p50,
        p99,
        Row::new("added to one call, p50", us(added), String::new())
            .goal(Goal::check("≤ 500 µs", added <= ADDED_MAX)),
        Row::new("added to one call, p99", us(median(&added99)), String::new()),
    ];
    let how = format!(
        "A client calls `echo` of the fake engine, directly over stdio and through `greenroom mcp`, with blocking \
         reads and writes in one thread; {rounds} rounds of {CALLS} calls each, in turns, medians over rounds. What is \
         added is the difference of the two percentiles in a round; at p50 it went from {} to {}. Most of it is \
         threads and processes waking each other, which takes longer on an idle machine, whose cores sleep, than on \
         a busy one: compare two versions only in turns.",
        us(least(&added50)),
        us(greatest(&added50)),
    );
    Section { title: "One call", rows, how }
}

/// Times `calls` calls, one after the other, in microseconds.
pub fn round(agent: &mut BenchAgent, calls: usize) -> Vec<f64> {
    let call = json!({ "name": "echo", "arguments": { "text": "hello" } });
    (0..calls)
        .map(|_| {
            let (id, line) = agent.encode("tools/call", &call);
            let begun = Instant::now();
            agent.exchange(id, &line);
            microseconds(begun.elapsed())
        })
        .collect()
}
