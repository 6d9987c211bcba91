//! What recording costs: how many calls a second are recorded with 64 in flight, and what that adds to one call.

use std::time::Duration;

use crate::{
    agent::BenchAgent,
    latency::{CALLS, WARM_UP, round},
    machine::cpu_seconds,
    programs::{Programs, unrecorded},
    report::{Goal, Row, Section},
    stats::{greatest, least, median, percentile},
    throughput::{IN_FLIGHT, Load},
};

/// Records a second. A call of a browser takes 8 ms at the least and usually 30 ms and more, so 64 calls in flight make
/// some 2,000 a second. The store must record more than twice as many.
const RATE: f64 = 5_000.0;

/// In microseconds, for both commits of a call. The quickest call of a browser takes 8 ms; users do not notice a sixteenth
/// more.
const ADDED_MAX: f64 = 500.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let (rate, how_many) = throughput(programs, quick);
    let (rows, how_one) = latency(programs, quick);
    let rows = std::iter::once(rate).chain(rows).collect();
    Section { title: "Records", rows, how: format!("{how_many}\n\n{how_one}") }
}

/// Records a second.
fn throughput(programs: &Programs, quick: bool) -> (Row, String) {
    let (rounds, length) = if quick { (2, Duration::from_millis(300)) } else { (12, Duration::from_secs(1)) };
    let start = |command| {
        let greenroom = BenchAgent::start(command);
        (greenroom.pid(), Load::new(vec![greenroom], IN_FLIGHT))
    };
    let mut on = start(programs.greenroom_fake(IN_FLIGHT));
    let mut off = start(unrecorded(programs.greenroom_fake(IN_FLIGHT)));
    let mut rates: [Vec<f64>; 2] = Default::default();
    let mut cpu: [Vec<f64>; 2] = Default::default();
    for _ in 0..rounds {
        for (one, (pid, load)) in [&mut on, &mut off].into_iter().enumerate() {
            let before = cpu_seconds(*pid);
            let (calls, rate) = load.run(length);
            cpu[one].push((cpu_seconds(*pid) - before) / calls as f64 * 1e6);
            rates[one].push(rate);
        }
    }
    let [recorded, free] = rates.each_ref().map(|rates| median(rates));
    let ratios: Vec<f64> = rates[0].iter().zip(&rates[1]).map(|(on, off)| on / off).collect();
    let row = Row::new(
        format!("records a second, {IN_FLIGHT} calls in flight, compared with calls without records"),
        format!("{recorded:.0}"),
        format!("{free:.0}"),
    )
    .ratio(median(&ratios))
    .goal(Goal::check("≥ 5,000", recorded >= RATE));
    let how = format!(
        "{IN_FLIGHT} sessions of `greenroom mcp`, each with one call of `echo` in flight and a fake engine of its own: every call \
         is committed before it runs, and its answer is committed before it is sent. It is compared not with the engine alone but with another \
         greenroom with `records.enabled` off. Client, engines and greenroom share all cores. {rounds} rounds of {} ms each in \
         turns, medians; the best rounds had {:.0}/s and {:.0}/s. The ratio is the median over pairs. greenroom used {:.0} µs of \
         processor time per call, and {:.0} µs without records.",
        length.as_millis(),
        greatest(&rates[0]),
        greatest(&rates[1]),
        median(&cpu[0]),
        median(&cpu[1]),
    );
    (row, how)
}

/// What recording adds to one call.
fn latency(programs: &Programs, quick: bool) -> (Vec<Row>, String) {
    let rounds = if quick { 4 } else { 40 };
    let mut on = BenchAgent::start(programs.greenroom_fake(1));
    let mut off = BenchAgent::start(unrecorded(programs.greenroom_fake(1)));
    round(&mut on, WARM_UP);
    round(&mut off, WARM_UP);
    let pairs: Vec<_> = (0..rounds).map(|_| (round(&mut on, CALLS), round(&mut off, CALLS))).collect();
    let us = |value: f64| format!("{value:.0} µs");
    let row = |percent: f64| {
        let of = |calls: &Vec<f64>| percentile(calls, percent);
        let added: Vec<f64> = pairs.iter().map(|(on, off)| of(on) - of(off)).collect();
        (
            Row::new(
                format!("added to one call by its record, p{percent}"),
                us(median(&added)),
                String::new(),
            ),
            added,
        )
    };
    let (p50, added) = row(50.0);
    let (p99, _) = row(99.0);
    let rows = vec![p50.goal(Goal::check("≤ 500 µs", median(&added) <= ADDED_MAX)), p99];
    let how = format!(
        "One call at a time, as in the first measurement, through a greenroom that records and one that does not: {rounds} rounds \
         of {CALLS} calls each, in turns, medians over rounds. What is added is the difference of the two percentiles in a \
         round; at p50 it went from {} to {}.",
        us(least(&added)),
        us(greatest(&added)),
    );
    (rows, how)
}
