//! How many calls a second greenroom carries over HTTP on one core, with 64 clients.

use std::time::{Duration, Instant};

use greenroom_testkit::process::children;
use rustix::event::{PollFd, PollFlags, poll};
use serde_json::json;

use crate::{
    agent::{BenchAgent, Caller},
    http_client::BenchHttpClient,
    machine::{cores, cpu_seconds, pin},
    programs::Programs,
    report::{Goal, Row, Section},
    server::BenchServer,
    stats::{greatest, median},
    throughput::{GOAL, IN_FLIGHT, Load},
};

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let (rounds, length) = if quick { (2, Duration::from_millis(300)) } else { (12, Duration::from_secs(1)) };
    let all = cores();
    let greenroom_cores = &all[..1];
    let other_cores = if all.len() > 1 { &all[1..2] } else { &all[..1] };

    // A started program inherits its core, so greenroom has its own from its first thread on.
    pin(None, greenroom_cores);
    let server = BenchServer::start(programs.serve_fake(IN_FLIGHT));
    pin(None, other_cores);
    let mut clients: Vec<BenchHttpClient> = (0..IN_FLIGHT).map(|_| server.client()).collect();
    let hello = json!({ "text": "hello" });
    clients.iter_mut().for_each(|client| drop(client.call("echo", &hello)));
    children(server.pid()).into_iter().for_each(|engine| pin(Some(engine), other_cores));
    let mut direct = Load::new((0..IN_FLIGHT).map(|_| BenchAgent::start(programs.fake_alone())).collect(), 1);

    let mut through_rates = Vec::new();
    let mut direct_rates = Vec::new();
    let mut cpu = Vec::new();
    for _ in 0..rounds {
        let before = cpu_seconds(server.pid());
        let (calls, rate) = run(&mut clients, length);
        cpu.push((cpu_seconds(server.pid()) - before) / calls as f64 * 1e6);
        through_rates.push(rate);
        direct_rates.push(direct.run(length).1);
    }
    drop((clients, server, direct));
    pin(None, &all);

    let rate = median(&through_rates);
    let row = Row::new(
        format!("calls a second over HTTP, {IN_FLIGHT} in flight, greenroom on one core"),
        format!("{rate:.0}"),
        format!("{:.0}", median(&direct_rates)),
    );
    let how = format!(
        "{IN_FLIGHT} clients of `greenroom serve` in one thread, each with a connection that it keeps, a session and a fake \
         engine of its own, and one call of `echo` in flight; compared with the client of the measurement over stdio with \
         {IN_FLIGHT} fake engines and nothing between. greenroom is pinned to one core; clients and engines share another, \
         in both cases. {rounds} rounds of {} ms each in turns, medians; the best round of greenroom had {:.0}/s. \
         greenroom used {:.0} µs of processor time per call.",
        length.as_millis(),
        greatest(&through_rates),
        median(&cpu),
    );
    let row = row.ratio(rate / median(&direct_rates)).goal(Goal::check("≥ 10,000", rate >= GOAL));
    Section { title: "Many calls over HTTP", rows: vec![row], how }
}

/// Keeps a call in flight on every connection for this long, and lets the calls in flight end. Returns the number of
/// calls, and calls per second.
fn run(clients: &mut [BenchHttpClient], length: Duration) -> (usize, f64) {
    let call = json!({ "name": "echo", "arguments": { "text": "hello" } });
    // A client has one call in flight at a time, so the same id may be used again.
    let requests: Vec<Vec<u8>> =
        clients.iter_mut().map(|client| client.encode("tools/call", &call)).collect();
    let begun = Instant::now();
    clients.iter_mut().zip(&requests).for_each(|(client, request)| client.send(request));
    let mut waiting = clients.len();
    let mut done = 0;
    while waiting > 0 {
        let mut fds: Vec<PollFd<'_>> =
            clients.iter().map(|client| PollFd::from_borrowed_fd(client.readable(), PollFlags::IN)).collect();
        poll(&mut fds, None).expect("connections can be polled");
        let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        let go_on = begun.elapsed() < length;
        for ((client, request), _) in clients.iter_mut().zip(&requests).zip(ready).filter(|(_, ready)| *ready)
        {
            if client.take() {
                done += 1;
                if go_on {
                    client.send(request);
                } else {
                    waiting -= 1;
                }
            }
        }
    }
    (done, done as f64 / begun.elapsed().as_secs_f64())
}
