//! What the command line adds to a tool call: a process starts, finds the server, sends the call, and prints the
//! answer.

use std::time::Instant;

use serde_json::json;

use crate::{
    agent::Caller,
    programs::Programs,
    report::{Goal, Row, Section},
    server::BenchServer,
    stats::{least, median, milliseconds},
};

const ADDED_MAX: f64 = 15.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let rounds = if quick { 20 } else { 200 };
    let server = BenchServer::start(programs.serve_fake(2));
    let mut client = server.client();
    let arguments = json!({ "sessionId": "measured", "text": "hello" });
    let command = || {
        let output = programs.command_fake(&["call", "echo", "text=hello", "-s", "measured"]).output();
        let output = output.expect("greenroom starts");
        assert!(output.status.success(), "a command failed: {}", String::from_utf8_lossy(&output.stderr));
    };
    client.call("echo", &arguments);
    command();
    let mut by_command = Vec::new();
    let mut by_call = Vec::new();
    let mut start = Vec::new();
    for _ in 0..rounds {
        by_command.push(timed(command));
        by_call.push(timed(|| drop(client.call("echo", &arguments))));
        start.push(timed(|| drop(programs.command_fake(&["--version"]).output().expect("greenroom starts"))));
    }
    let added = median(&by_command) - median(&by_call);
    let ms = |value: f64| format!("{value:.1} ms");
    let rows = vec![
        Row::new("added to a call by the command line, p50", ms(added), String::new())
            .goal(Goal::check("≤ 15 ms", added <= ADDED_MAX)),
    ];
    let how = format!(
        "`greenroom call echo` in a session of a running server with the fake engine, from the start of the process to its end, \
         compared with the same call over HTTP on an open connection: {} and {}, {rounds} of each in turns, medians; the \
         fastest command took {}. `greenroom --version`, which only starts and ends, takes {}. agent-browser's commands \
         are below, on real pages.",
        ms(median(&by_command)),
        ms(median(&by_call)),
        ms(least(&by_command)),
        ms(median(&start)),
    );
    Section { title: "A command", rows, how }
}

fn timed(what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    milliseconds(begun.elapsed())
}
