//! A new session under `greenroom serve` with a spare ready.

use std::{thread::sleep, time::Instant};

use serde_json::json;

use crate::{
    agent::{BenchAgent, Caller},
    programs::{BROWSER, FULL_BROWSER, Programs},
    report::{Goal, Row, Section},
    server::BenchServer,
    session::{PAUSE, navigate},
    stats::{greatest, least, median, milliseconds},
};

const LEASE_MS_MAX: f64 = 5.0;
const GOAL: f64 = 1.0 / 8.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 2 } else { 15 };
    let site = crate::programs::site();
    let server = BenchServer::start(programs.serve_real());
    let mut client = server.client();
    // The session of another agent keeps the first instance running.
    navigate(&mut client, &site, Some("resident"));
    let mut handed_out = Vec::new();
    let mut through = Vec::new();
    let mut direct = Vec::new();
    let mut whole = Vec::new();
    for round in 0..rounds {
        let name = json!({ "sessionId": format!("created{round}") });
        handed_out.push(timed(&server, || drop(client.call("create_new_session", &name))));
        client.call("session_close", &name);

        let name = format!("navigated{round}");
        through.push(timed(&server, || navigate(&mut client, &site, Some(&name))));
        client.call("session_close", &json!({ "sessionId": name }));

        for (browser, times) in [(BROWSER, &mut direct), (FULL_BROWSER, &mut whole)] {
            let mut alone = None;
            times.push(timed(&server, || {
                let mut engine = BenchAgent::start(programs.real_alone(browser));
                navigate(&mut engine, &site, None);
                alone = Some(engine);
            }));
        }
    }
    let ratios =
        |alone: &[f64]| through.iter().zip(alone).map(|(one, other)| one / other).collect::<Vec<f64>>();
    let row = |what: &str, alone: &[f64]| {
        let ratio = median(&ratios(alone));
        Row::new(what, format!("{:.0} ms", median(&through)), format!("{:.0} ms", median(alone)))
            .ratio(ratio)
            .goal(Goal::check("≤ 1/8", ratio <= GOAL))
    };
    let typical = median(&handed_out);
    let rows = vec![
        Row::new("a spare handed out as a new session", format!("{typical:.1} ms"), String::new())
            .goal(Goal::check("≤ 5 ms", typical <= LEASE_MS_MAX)),
        row("a new session from a spare to its first finished navigation", &direct),
        row("the same, the engine alone with the whole Chromium", &whole),
    ];
    let ratios = ratios(&direct);
    let how = format!(
        "`greenroom serve` as it is by itself, with one session open and a spare ready, which its metrics tell before the \
         clock runs. Over HTTP, handing out: from `create_new_session` to its answer; navigating: from the first call \
         with a new `sessionId`, a `browser_navigate` to a small local page, to its answer. Alone: from the start of a \
         fresh engine process, with a browser of its own, to the answer of the same call. {rounds} times each in turns, after \
         a moment of rest, medians. Handing out took {:.1} to {:.1} ms, the fastest navigations {:.0} ms and {:.0} ms. The \
         ratio is the median over pairs, which went from 1/{:.1} to 1/{:.1}.",
        least(&handed_out),
        greatest(&handed_out),
        least(&through),
        least(&direct),
        1.0 / greatest(&ratios),
        1.0 / least(&ratios),
    );
    Section { title: "A new session from a spare", rows, how }
}

/// The milliseconds that `what` takes when a spare is ready and nothing else runs. The engine alone is timed under the
/// same conditions: opening the next spare would take processor time from it.
fn timed(server: &BenchServer, what: impl FnOnce()) -> f64 {
    server.wait_for_spare();
    sleep(PAUSE);
    let begun = Instant::now();
    what();
    milliseconds(begun.elapsed())
}
