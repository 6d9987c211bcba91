//! How long actions take on pages that change a while after them, and whether their answers show the change.

use std::{fmt::Write, time::Instant};

use greenroom_testkit::Site;
use serde_json::{Value, json};

use crate::{
    agent::{BenchAgent, Caller},
    programs::{BROWSER, Programs},
    report::{Goal, Row, Section},
    stats::{mean, median, milliseconds},
};

const CLICK_GOAL: f64 = 1.0 / 3.0;
const EVALUATE_GOAL: f64 = 1.0 / 8.0;

/// How a page reaches its last state after a click: by a timer, by a fetch whose response it reads, or by a
/// navigation; and after how many milliseconds. If the page did not read the response, the engine alone would
/// wait another 5 s for its end.
const TRIGGERS: [&str; 3] = ["timer", "read", "navigation"];
const DELAYS: [u32; 4] = [0, 50, 150, 300];

/// The times of one measurement: through greenroom, and with the engine alone.
#[derive(Default)]
struct Times {
    greenroom: Vec<f64>,
    alone: Vec<f64>,
}

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 2 } else { 9 };
    let site = crate::programs::site();
    let mut greenroom = BenchAgent::start(programs.greenroom_real());
    let mut alone = BenchAgent::start(programs.real_alone(BROWSER));
    // The first call opens the browser and the page, so make it before any timing.
    for agent in [&mut greenroom, &mut alone] {
        click(agent, programs, &site, TRIGGERS[0], 0);
    }

    let mut pages = Vec::new();
    for trigger in TRIGGERS {
        for delay in DELAYS {
            let mut times = Times::default();
            for _ in 0..rounds {
                times.greenroom.push(click(&mut greenroom, programs, &site, trigger, delay));
                times.alone.push(click(&mut alone, programs, &site, trigger, delay));
            }
            pages.push((trigger, delay, median(&times.greenroom), median(&times.alone)));
        }
    }
    let mut queries = Times::default();
    for agent in [&mut greenroom, &mut alone] {
        agent.call("browser_navigate", &json!({ "url": site.url("/title?t=bench") }));
    }
    for _ in 0..rounds * 2 {
        queries.greenroom.push(evaluate(&mut greenroom));
        queries.alone.push(evaluate(&mut alone));
    }

    let row = |what: &str, greenroom: f64, alone: f64| {
        Row::new(what, format!("{greenroom:.0} ms"), format!("{alone:.0} ms")).ratio(greenroom / alone)
    };
    let of = |delays: &[u32]| {
        let chosen = || pages.iter().filter(|page| delays.contains(&page.1));
        let greenroom: Vec<f64> = chosen().map(|page| page.2).collect();
        (mean(&greenroom), mean(&chosen().map(|page| page.3).collect::<Vec<f64>>()))
    };
    let (all, all_alone) = of(&DELAYS);
    let (at_once, at_once_alone) = of(&DELAYS[..1]);
    let query = median(&queries.greenroom);
    let query_alone = median(&queries.alone);
    let rows = vec![
        row("a click, mean over pages that change 0 to 300 ms later", all, all_alone)
            .goal(Goal::check("≤ 1/3", all / all_alone <= CLICK_GOAL)),
        row("a click, mean over pages that change at once", at_once, at_once_alone),
        row("an evaluation that only asks", query, query_alone)
            .goal(Goal::check("≤ 1/8", query / query_alone <= EVALUATE_GOAL)),
    ];
    let how = format!(
        "A click on a page that comes to its last state by a timer, by a fetch that it reads or by a navigation, after 0, 50, 150 or \
         300 ms, through `greenroom mcp` and with the engine alone, both as they settle by themselves. Every answer was \
         looked at: it shows the last state, on both sides, or the measurement fails. {rounds} clicks on each page in \
         turns, medians, greenroom and alone: {}. The rows have the means of these. The evaluation is `() => \
         document.title`, {} times in turns, medians.",
        list(&pages),
        rounds * 2,
    );
    Section { title: "Settling", rows, how }
}

/// Opens the page, and times the click on its button, whose answer must show the last state.
fn click(agent: &mut BenchAgent, programs: &Programs, site: &Site, trigger: &str, delay: u32) -> f64 {
    agent.call("browser_navigate", &json!({ "url": site.url(&format!("/late?by={trigger}&ms={delay}")) }));
    let begun = Instant::now();
    let answer = agent.call("browser_click", &json!({ "target": "#change", "element": "the button" }));
    let taken = milliseconds(begun.elapsed());
    let shown = snapshot(&answer, programs);
    // Both the changed paragraph and the heading of the page that is navigated to have it.
    assert!(
        shown.contains(": changed") || shown.contains("\"changed\""),
        "{trigger}, {delay} ms: the answer does not show the last state: {answer}\n{shown}"
    );
    taken
}

/// The snapshot in an answer. greenroom includes it; the engine links to a file, below its working folder.
fn snapshot(answer: &Value, programs: &Programs) -> String {
    let text = answer["result"]["content"][0]["text"].as_str().unwrap_or_default();
    let link = text.split_once("[Snapshot](").and_then(|(_, rest)| Some(rest.split_once(')')?.0));
    link.map_or_else(
        || text.to_owned(),
        |link| {
            let file = programs.home().join(link);
            std::fs::read_to_string(&file)
                .unwrap_or_else(|error| panic!("cannot read `{}`: {error}", file.display()))
        },
    )
}

fn evaluate(agent: &mut BenchAgent) -> f64 {
    let begun = Instant::now();
    let answer = agent.call("browser_evaluate", &json!({ "function": "() => document.title" }));
    let taken = milliseconds(begun.elapsed());
    assert!(answer.to_string().contains("bench"), "{answer}");
    taken
}

fn list(pages: &[(&str, u32, f64, f64)]) -> String {
    let mut text = String::new();
    for (index, trigger) in TRIGGERS.iter().enumerate() {
        text.push_str(if index == 0 { "" } else { "; " });
        write!(text, "{trigger}").unwrap();
        for (_, delay, greenroom, alone) in pages.iter().filter(|page| page.0 == *trigger) {
            let comma = if *delay == DELAYS[0] { "" } else { "," };
            write!(text, "{comma} {greenroom:.0} and {alone:.0} ms after {delay} ms").unwrap();
        }
    }
    text
}
