//! What greenroom adds to one tool call over stdio.

use std::time::Instant;

use serde_json::json;

use crate::{
    agent::Agent,
    report::{Goal, Row, Section},
    stats::{greatest, least, median, microseconds, percentile},
    subject::Subjects,
};

/// Calls per round. A round takes some 50 ms, so that a disturbance meets both sides alike.
const CALLS: usize = 500;

/// Calls before the first round, to have caches and lazily made things in place.
const WARM_UP: usize = 1_000;

const ADDED_MAX: f64 = 100.0;

pub fn measure(subjects: &Subjects, quick: bool) -> Section {
    let rounds = if quick { 4 } else { 40 };
    let mut greenroom = Agent::start(subjects.greenroom_fake(1));
    let mut alone = Agent::start(subjects.fake_alone());
    round(&mut greenroom, WARM_UP);
    round(&mut alone, WARM_UP);
    let (mut through, mut direct) = (Vec::new(), Vec::new());
    let (mut added50, mut added99) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let (one, other) = (round(&mut greenroom, CALLS), round(&mut alone, CALLS));
        added50.push(median(&one) - median(&other));
        added99.push(percentile(&one, 99.0) - percentile(&other, 99.0));
        through.extend(one);
        direct.extend(other);
    }
    let added = median(&added50);
    let us = |value: f64| format!("{value:.0} µs");
    let row = |what: &str, percent: f64| {
        let (through, direct) = (percentile(&through, percent), percentile(&direct, percent));
        Row::new(what, us(through), us(direct)).ratio(through / direct)
    };
    let rows = vec![
        row("one call, p50", 50.0),
        row("one call, p99", 99.0),
        Row::new("added to one call, p50", us(added), String::new())
            .goal(Goal::check("≤ 100 µs", added <= ADDED_MAX)),
        Row::new("added to one call, p99", us(median(&added99)), String::new()),
    ];
    let how = format!(
        "A client calls `echo` of the fake engine, directly over stdio and through `greenroom mcp`, with blocking \
         reads and writes in one thread; {rounds} rounds of {CALLS} calls each, in turns. What is added is the \
         difference of the two percentiles in a round, the median over rounds; at p50 it went from {} to {}. On a \
         machine with few cores most of it is threads waking each other.",
        us(least(&added50)),
        us(greatest(&added50)),
    );
    Section { title: "One call", rows, how }
}

/// Times `calls` calls, one after the other, in microseconds.
fn round(agent: &mut Agent, calls: usize) -> Vec<f64> {
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
