//! What one more isolated session costs in memory.

use std::{ffi::OsStr, path::Path, time::Duration};

use greenroom_testkit::{
    Site,
    process::{children, pss_tree},
};

use crate::{
    agent::BenchAgent,
    programs::{self, Programs},
    report::{Goal, Row, Section},
    session::navigate,
    stats::{least, megabytes},
};

const GOAL_MB: f64 = 20.0;
const GOAL: f64 = 1.0 / 10.0;

/// Numbers of sessions to measure at: one, a full instance, and one more than each full instance.
const SESSIONS: [usize; 4] = [1, 16, 17, 33];

/// How many times, a second apart, the benchmark checks whether other browsers run.
const CHECKS_MAX: usize = 120;

/// Engine processes to measure at.
const PROCESSES: [usize; 2] = [1, 3];

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let site = programs::site();
    let mut memory_reader = MemoryReader::default();
    let stops = if quick { &SESSIONS[..3] } else { &SESSIONS[..] };

    let mut greenroom = BenchAgent::start(programs.greenroom_real());
    let mut open = 0;
    let mut through = Vec::new();
    for stop in stops {
        for session in open..*stop {
            navigate(&mut greenroom, &site, Some(&format!("s{session}")));
        }
        open = *stop;
        through.push((*stop, memory_reader.settled(&[greenroom.pid()])));
    }
    let processes = children(greenroom.pid()).len();
    drop(greenroom);

    let direct = alone(programs, &site, programs::BROWSER, &mut memory_reader);
    let whole = alone(programs, &site, programs::FULL_BROWSER, &mut memory_reader);

    let within = slope(&through[..2]);
    let each = slope(&through);
    let rows = vec![
        row("memory of one more isolated session, in an instance with a free slot", within, slope(&direct)),
        row("the same, the engine alone with the whole Chromium", within, slope(&whole)),
        row("memory of one more isolated session, new instances included", each, slope(&direct)),
        row("the same, the engine alone with the whole Chromium", each, slope(&whole)),
    ];
    let how = format!(
        "PSS over the tree of processes (greenroom, Chromium and Node), each session on a small page: {}. Alone, with \
         one engine process and its own headless shell per session: {}; with its own whole Chromium: {}. The first figure is the slope up to a full \
         instance, the other one up to the last, which includes the instances that greenroom adds when all slots of \
         one are taken ({processes} processes in the end). Pages of the programs themselves are shared with every other \
         headless shell and Node on the machine; at every reading, {}.",
        list(&through),
        list(&direct),
        list(&whole),
        memory_reader.verdict(),
    );
    Section { title: "Memory of a session", rows, how }
}

/// A session's memory compared with that of an engine alone, and whether it meets the goal.
pub fn row(what: &str, mb: f64, alone: f64) -> Row {
    let met = mb <= GOAL_MB && mb / alone <= GOAL;
    Row::new(what, format!("{mb:.1} MB"), format!("{alone:.0} MB"))
        .ratio(mb / alone)
        .goal(Goal::check("≤ 20 MB and ≤ 1/10", met))
}

/// Memory of engine processes with browsers of their own, at each of [`PROCESSES`].
pub fn alone(
    programs: &Programs,
    site: &Site,
    browser: &str,
    memory_reader: &mut MemoryReader,
) -> Vec<(usize, f64)> {
    let mut engines: Vec<BenchAgent> = Vec::new();
    let mut points = Vec::new();
    for stop in PROCESSES {
        while engines.len() < stop {
            let mut engine = BenchAgent::start(programs.real_alone(browser));
            navigate(&mut engine, site, None);
            engines.push(engine);
        }
        let pids: Vec<u32> = engines.iter().map(BenchAgent::pid).collect();
        points.push((stop, memory_reader.settled(&pids)));
    }
    points
}

/// Reads memory when no other browser or Node shares pages with the measured ones: the kernel would
/// count a part of the shared pages as the other program's.
#[derive(Default)]
pub struct MemoryReader {
    disturbed: bool,
}

impl MemoryReader {
    /// Megabytes of these processes and their descendants: the least of some readings, since browsers give memory
    /// back a while after a page has loaded.
    pub fn settled(&mut self, roots: &[u32]) -> f64 {
        let mut readings = Vec::new();
        for _ in 0..CHECKS_MAX {
            std::thread::sleep(Duration::from_secs(1));
            let before = other_browsers_run(roots);
            let reading = roots.iter().map(|pid| pss_tree(*pid)).sum();
            if !before && !other_browsers_run(roots) {
                readings.push(megabytes(reading));
            }
            if readings.len() == 5 {
                break;
            }
        }
        if readings.is_empty() {
            self.disturbed = true;
            readings.push(megabytes(roots.iter().map(|pid| pss_tree(*pid)).sum()));
        }
        least(&readings)
    }

    pub fn verdict(&self) -> &'static str {
        if self.disturbed {
            "or at some, others were there, so doubt these figures"
        } else {
            "none was there"
        }
    }
}

/// Whether a browser or a Node runs that is not among these processes and their descendants.
fn other_browsers_run(roots: &[u32]) -> bool {
    let own_pids: Vec<u32> =
        roots.iter().copied().chain(roots.iter().flat_map(|pid| children(*pid))).collect();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let name = |path| Path::new(path).file_name();
    let names = [name(programs::BROWSER), name(programs::FULL_BROWSER), Some(OsStr::new("node"))];
    let shares = |pid: &u32| {
        std::fs::read_link(format!("/proc/{pid}/exe"))
            .is_ok_and(|program| names.contains(&program.file_name()))
    };
    pids.filter(shares).any(|pid| !own_pids.contains(&pid))
}

pub fn slope(points: &[(usize, f64)]) -> f64 {
    match (points.first(), points.last()) {
        (Some((few, little)), Some((many, much))) => (much - little) / (*many as f64 - *few as f64),
        _ => f64::NAN,
    }
}

fn list(points: &[(usize, f64)]) -> String {
    points.iter().map(|(count, mb)| format!("{mb:.0} MB with {count}")).collect::<Vec<_>>().join(", ")
}
