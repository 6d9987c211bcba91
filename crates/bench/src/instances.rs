//! A server's start with a declared pool: until all its instances are healthy, compared with starting them one by one.

use std::{
    process::Command,
    thread::sleep,
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{
    machine::cores,
    programs::{BROWSER, Programs},
    report::{Goal, Row, Section},
    server::BenchServer,
    stats::{greatest, least, median, milliseconds},
};

const INSTANCES: usize = 8;

/// Two starts at a time on two cores take 1/2 of the time at best. A browser's start already uses several processes, so
/// greenroom gains less.
const GOAL: f64 = 0.75;

/// The pause between two polls of the pool; little compared with a start of some hundred milliseconds.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// How long the instances may take to be healthy: far more than on a busy machine.
const HEALTHY_TIMEOUT: Duration = Duration::from_secs(120);

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 1 } else { 7 };
    let mut all = Vec::new();
    let mut single = Vec::new();
    let mut ratios = Vec::new();
    for _ in 0..rounds {
        single.push(healthy_after(programs, 1));
        all.push(healthy_after(programs, INSTANCES));
        let one_by_one = single[single.len() - 1] * INSTANCES as f64;
        ratios.push(all[all.len() - 1] / one_by_one);
    }
    let ratio = median(&ratios);
    let row = Row::new(
        format!("a server's start until {INSTANCES} instances are healthy, compared with one after another"),
        format!("{:.0} ms", median(&all)),
        String::new(),
    );
    let how = format!(
        "`greenroom serve` with a declared pool, from the start of the process until `/api/pools` shows every instance as \
         healthy: {INSTANCES} instances, each with a Node and a Chromium of its own, started in parallel as far as the \
         {} cores allow. That is compared with {INSTANCES} times what the same takes with one instance, {:.0} ms. {rounds} times each in \
         turns, medians; the fastest were {:.0} ms and {:.0} ms. The ratio is the median over pairs, which went from {:.2} \
         to {:.2}.",
        cores().len(),
        median(&single),
        least(&all),
        least(&single),
        least(&ratios),
        greatest(&ratios),
    );
    let row = row.ratio(ratio).goal(Goal::check("≤ 3/4", ratio <= GOAL));
    Section { title: "Instances of a pool", rows: vec![row], how }
}

/// Milliseconds from the server's start until so many instances are healthy.
fn healthy_after(programs: &Programs, instances: usize) -> f64 {
    let begun = Instant::now();
    let server = BenchServer::start(with_pool(programs, instances));
    let mut client = server.client();
    loop {
        let pool: Value = serde_json::from_str(&client.get("/api/pools/BENCH")).expect("a pool is JSON");
        if pool["healthy_instances"] == instances {
            return milliseconds(begun.elapsed());
        }
        assert!(
            begun.elapsed() < HEALTHY_TIMEOUT,
            "not all healthy within {} s: {pool}",
            HEALTHY_TIMEOUT.as_secs()
        );
        sleep(POLL_INTERVAL);
    }
}

fn with_pool(programs: &Programs, instances: usize) -> Command {
    let mut command = programs.serve_declared();
    command
        .env("PW_MCP_PROXY__BENCH_INSTANCES", instances.to_string())
        .env("PW_MCP_PROXY__BENCH_IS_DEFAULT", "true")
        // New profiles every time, so that all starts have the same conditions.
        .env("PW_MCP_PROXY__BENCH_ISOLATED", "true")
        .env("PW_MCP_PROXY__BENCH_EXECUTABLE_PATH", BROWSER);
    command
}
