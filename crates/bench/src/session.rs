//! The time from a new session's first call to the end of its navigation. The engine alone has to start its process and
//! its browser first.

use std::{
    thread::sleep,
    time::{Duration, Instant},
};

use greenroom_testkit::Site;
use serde_json::json;

use crate::{
    agent::{BenchAgent, Caller},
    programs::{BROWSER, FULL_BROWSER, Programs},
    report::{Goal, Row, Section},
    stats::{greatest, least, median, milliseconds},
};

const GOAL: f64 = 1.0 / 4.0;

/// The pause between timings: a browser that was just closed still takes processor time to end.
pub const PAUSE: Duration = Duration::from_millis(300);

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 2 } else { 15 };
    let site = crate::programs::site();
    let mut greenroom = BenchAgent::start(programs.greenroom_real());
    // The session of another agent keeps the first instance running.
    navigate(&mut greenroom, &site, Some("resident"));
    let mut through = Vec::new();
    let mut direct = Vec::new();
    let mut whole = Vec::new();
    for round in 0..rounds {
        let name = format!("s{round}");
        sleep(PAUSE);
        let begun = Instant::now();
        navigate(&mut greenroom, &site, Some(&name));
        through.push(milliseconds(begun.elapsed()));
        greenroom.call("session_close", &json!({ "sessionId": name }));

        for (browser, times) in [(BROWSER, &mut direct), (FULL_BROWSER, &mut whole)] {
            sleep(PAUSE);
            let begun = Instant::now();
            let mut alone = BenchAgent::start(programs.real_alone(browser));
            navigate(&mut alone, &site, None);
            times.push(milliseconds(begun.elapsed()));
        }
    }
    let ratios =
        |alone: &[f64]| through.iter().zip(alone).map(|(one, other)| one / other).collect::<Vec<f64>>();
    let row = |what: &str, alone: &[f64]| {
        let ratio = median(&ratios(alone));
        Row::new(what, format!("{:.0} ms", median(&through)), format!("{:.0} ms", median(alone)))
            .ratio(ratio)
            .goal(Goal::check("≤ 1/4", ratio <= GOAL))
    };
    let rows = vec![
        row("a new isolated session to its first finished navigation", &direct),
        row("the same, the engine alone with the whole Chromium", &whole),
    ];
    let ratios = ratios(&direct);
    let how = format!(
        "greenroom runs, with one session open: from the first call with a new `sessionId`, a `browser_navigate` to a \
         small local page, to its answer. Alone: from the start of a fresh engine process, with a headless shell of \
         its own, to the answer of the same call; and once more with the whole Chromium, which is what the engine \
         gets where no headless shell is installed for it. {rounds} times each in turns, after a moment of rest, medians; the \
         fastest were {:.0} ms and {:.0} ms. The ratio is the median over pairs, which went from 1/{:.1} to 1/{:.1}: \
         nearly all of greenroom's time is the engine making a context and a page, so the ratio moves with how fast \
         Node starts at that moment.",
        least(&through),
        least(&direct),
        1.0 / greatest(&ratios),
        1.0 / least(&ratios),
    );
    Section { title: "A new session", rows, how }
}

/// Opens the small page, in this session.
pub fn navigate(agent: &mut impl Caller, site: &Site, session: Option<&str>) {
    let mut arguments = json!({ "url": site.url("/title?t=bench") });
    if let Some(session) = session {
        arguments["sessionId"] = session.into();
    }
    agent.call("browser_navigate", &arguments);
}
