//! How long it takes to recall a big page: all of it, and the results of a search in it.

use std::time::Instant;

use serde_json::{Value, json};

use crate::{
    agent::{BenchAgent, Caller},
    programs::Programs,
    report::{Goal, Row, Section},
    stats::{least, median, milliseconds},
};

/// Rows of a table whose snapshot is a megabyte.
const ROWS: usize = 6_300;
const BYTES: usize = 1_000_000;

const WHOLE_MAX: f64 = 5.0;
const SEARCH_MAX: f64 = 10.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 10 } else { 200 };
    let site = crate::programs::site();
    let mut greenroom = BenchAgent::start(programs.greenroom_real());
    let page = site.url(&format!("/table?rows={ROWS}"));
    let shown = greenroom.call("browser_navigate", &json!({ "url": page }));
    let ref_id = shown["result"]["_meta"]["greenroom/ref_id"].clone();
    let whole = json!({ "ref_id": ref_id, "reset_cursor": true });
    let search = json!({ "ref_id": ref_id, "search_for": "open 6000", "before_lines": 2, "after_lines": 2 });
    let bytes = text_bytes(&greenroom.call("get_content", &whole));
    assert!(bytes >= BYTES, "the snapshot has {bytes} bytes only");
    let mut wholes = Vec::new();
    let mut searches = Vec::new();
    for _ in 0..rounds {
        wholes.push(timed(&mut greenroom, &whole));
        searches.push(timed(&mut greenroom, &search));
    }
    let row = |what: String, times: &[f64], most: f64, goal| {
        let time = median(times);
        Row::new(what, format!("{time:.1} ms"), String::new()).goal(Goal::check(goal, time <= most))
    };
    let megabytes = bytes as f64 / 1e6;
    let rows = vec![
        row(format!("a snapshot of {megabytes:.1} MB recalled whole, p50"), &wholes, WHOLE_MAX, "≤ 5 ms"),
        row("lines searched in it, p50".to_owned(), &searches, SEARCH_MAX, "≤ 10 ms"),
    ];
    let how = format!(
        "A table of {ROWS} rows is opened in a real browser through `greenroom mcp`; then its snapshot is recalled with \
         `get_content`, whole with its cursor reset, and with `search_for` and two lines around what is found, \
         {rounds} times each in turns, medians. The clock runs from the request to the last byte of the answer, over \
         stdio; the fastest were {:.1} ms and {:.1} ms.",
        least(&wholes),
        least(&searches),
    );
    Section { title: "Recall", rows, how }
}

fn text_bytes(answer: &Value) -> usize {
    answer["result"]["content"][0]["text"].as_str().map_or(0, str::len)
}

/// One call, in milliseconds.
fn timed(greenroom: &mut BenchAgent, arguments: &Value) -> f64 {
    let (id, line) =
        greenroom.encode("tools/call", &json!({ "name": "get_content", "arguments": arguments }));
    let begun = Instant::now();
    greenroom.exchange(id, &line);
    milliseconds(begun.elapsed())
}
