//! `greenroom-bench`: measures greenroom and the engine alone, in one run, and writes docs/BENCHMARKS.md.
//!
//! One file per measurement, named as for `--only`; each returns rows and a paragraph on how it was measured. They
//! share the rest: `agent` is the client over stdio, `http_client` the one over HTTP, `server` a running `greenroom
//! serve`, `programs` the programs under measurement, `stats` the arithmetic, `machine` the surroundings, `report` the
//! table.
//!
//! `scripts/bench` builds everything first and runs this program; nothing else depends on this crate.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark reports by panicking and printing, starts the programs it measures, and averages counts"
)]

mod agent;
mod agent_browser;
mod command;
mod content;
mod fixed_cost;
mod http;
mod http_client;
mod http_throughput;
mod instances;
mod latency;
mod lease;
mod lease_size;
mod machine;
mod many_records;
mod many_sessions;
mod memory;
mod options;
mod process_memory;
mod programs;
mod records;
mod report;
mod server;
mod session;
mod settle;
mod spare;
mod start;
mod stats;
mod task;
mod throughput;
mod verdict;
mod versions;

use std::process::ExitCode;

use options::BenchOptions;
use programs::Programs;
use report::Section;

/// A measurement: its name for `--only`, and its function.
type Measurement = (&'static str, fn(&Programs, quick: bool) -> Section);

const MEASUREMENTS: [Measurement; 22] = [
    ("latency", latency::measure),
    ("throughput", throughput::measure),
    ("http", http::measure),
    ("http-throughput", http_throughput::measure),
    ("records", records::measure),
    ("many-records", many_records::measure),
    ("content", content::measure),
    ("task", task::measure),
    ("fixed-cost", fixed_cost::measure),
    ("start", start::measure),
    ("instances", instances::measure),
    ("lease", lease::measure),
    ("verdict", verdict::measure),
    ("session", session::measure),
    ("spare", spare::measure),
    ("settle", settle::measure),
    ("memory", memory::measure),
    ("many-sessions", many_sessions::measure),
    ("process-memory", process_memory::measure),
    ("command", command::measure),
    ("agent-browser", agent_browser::measure),
    ("versions", versions::measure),
];

fn main() -> ExitCode {
    let names = MEASUREMENTS.map(|(name, _)| name);
    let options = match BenchOptions::parse(std::env::args().skip(1), &names) {
        Ok(options) => options,
        Err(complaint) => {
            eprintln!("error: {complaint}");
            return ExitCode::from(2);
        }
    };
    let programs = Programs::find(&options.data_dir, &options.peers, options.against.clone());
    let mut sections = Vec::new();
    for (name, measure) in MEASUREMENTS {
        if options.wants(name) {
            eprintln!("measuring: {name}");
            let section = measure(&programs, options.quick);
            if !section.rows.is_empty() {
                println!("{}", report::table(std::slice::from_ref(&section)));
            }
            println!("{}\n", section.how);
            sections.push(section);
        }
    }
    if let Some(file) = options.file() {
        let page = report::page(&machine::header(&programs), &sections);
        std::fs::write(&file, page)
            .unwrap_or_else(|error| panic!("cannot write `{}`: {error}", file.display()));
        eprintln!("written: `{}`", file.display());
    }
    ExitCode::SUCCESS
}
