//! What greenroom adds to one tool call over HTTP, and through a front that has joined the server.

use std::time::Instant;

use serde_json::json;

use crate::{
    agent::BenchAgent,
    http_client::BenchHttpClient,
    latency::{self, CALLS, WARM_UP},
    programs::Programs,
    report::{Goal, Row, Section},
    server::BenchServer,
    stats::{greatest, least, median, microseconds, percentile},
};

/// In microseconds, as over stdio.
const ADDED_MAX: f64 = 500.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 4 } else { 40 };
    let server = BenchServer::start(programs.serve_fake(4));
    let mut web = server.client();
    let mut front = BenchAgent::start(programs.joined_fake());
    let mut alone = BenchAgent::start(programs.fake_alone());
    round(&mut web, WARM_UP);
    latency::round(&mut front, WARM_UP);
    latency::round(&mut alone, WARM_UP);
    let mut over_http = Vec::new();
    let mut joined = Vec::new();
    let mut direct = Vec::new();
    for _ in 0..rounds {
        over_http.push(round(&mut web, CALLS));
        joined.push(latency::round(&mut front, CALLS));
        direct.push(latency::round(&mut alone, CALLS));
    }
    let of = |rounds: &[Vec<f64>], percent| {
        rounds.iter().map(|calls| percentile(calls, percent)).collect::<Vec<f64>>()
    };
    let added = |through: &[Vec<f64>], percent| {
        let pairs = of(through, percent).into_iter().zip(of(&direct, percent));
        pairs.map(|(through, direct)| through - direct).collect::<Vec<f64>>()
    };
    let us = |value: f64| format!("{value:.0} µs");
    let row = |what: &str, through: &[Vec<f64>], percent: f64| {
        let one = median(&of(through, percent));
        let other = median(&of(&direct, percent));
        Row::new(format!("{what}, p{percent}"), us(one), us(other)).ratio(one / other)
    };
    let added50 = added(&over_http, 50.0);
    let typical = median(&added50);
    let rows = vec![
        row("one call over HTTP", &over_http, 50.0),
        row("one call over HTTP", &over_http, 99.0),
        Row::new("added to one call over HTTP, p50", us(typical), String::new())
            .goal(Goal::check("≤ 500 µs", typical <= ADDED_MAX)),
        Row::new("added to one call over HTTP, p99", us(median(&added(&over_http, 99.0))), String::new()),
        Row::new("added through a joined front, p50", us(median(&added(&joined, 50.0))), String::new()),
    ];
    let how = format!(
        "As above, through `greenroom serve`: a client of revision 2025-11-25 posts each call on one connection that it \
         keeps, with blocking reads and writes in one thread, and is answered with JSON. It is compared with a client over stdio \
         of `greenroom mcp` that has joined this server, so that there is one more process on the way; and with the fake \
         engine alone, over stdio. {rounds} rounds of {CALLS} calls each, in turns, medians over rounds. What HTTP added \
         at p50 went from {} to {}.",
        us(least(&added50)),
        us(greatest(&added50)),
    );
    Section { title: "One call over HTTP", rows, how }
}

/// Times `calls` calls, one after the other, in microseconds.
fn round(client: &mut BenchHttpClient, calls: usize) -> Vec<f64> {
    let call = json!({ "name": "echo", "arguments": { "text": "hello" } });
    (0..calls)
        .map(|_| {
            let request = client.encode("tools/call", &call);
            let begun = Instant::now();
            client.exchange(&request);
            microseconds(begun.elapsed())
        })
        .collect()
}
