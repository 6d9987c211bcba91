//! What one more isolated session costs in memory.

use greenroom_testkit::process::{children, pss_tree};

use crate::{
    agent::Agent,
    report::{Goal, Row, Section},
    session::navigate,
    stats::megabytes,
    subject::{self, Subjects},
};

const GOAL_MB: f64 = 20.0;
const GOAL: f64 = 1.0 / 10.0;

/// Numbers of sessions to measure at: one, and one more than each full instance.
const SESSIONS: [usize; 3] = [1, 17, 33];

/// Engine processes to measure at.
const PROCESSES: [usize; 2] = [1, 3];

pub fn measure(subjects: &Subjects, quick: bool) -> Section {
    let site = subject::site();
    let stops = if quick { &SESSIONS[..2] } else { &SESSIONS[..] };

    let mut greenroom = Agent::start(subjects.greenroom_real());
    let mut open = 0;
    let mut through = Vec::new();
    for stop in stops {
        for session in open..*stop {
            navigate(&mut greenroom, &site, Some(&format!("s{session}")));
        }
        open = *stop;
        through.push((*stop, megabytes(settled(&[greenroom.pid()]))));
    }
    let processes = children(greenroom.pid()).len();
    drop(greenroom);

    let mut engines = Vec::new();
    let mut direct = Vec::new();
    for stop in PROCESSES {
        while engines.len() < stop {
            let mut engine = Agent::start(subjects.real_alone());
            navigate(&mut engine, &site, None);
            engines.push(engine);
        }
        let pids: Vec<u32> = engines.iter().map(Agent::pid).collect();
        direct.push((stop, megabytes(settled(&pids))));
    }

    let (each, alone) = (slope(&through), slope(&direct));
    let ratio = each / alone;
    let met = each <= GOAL_MB && ratio <= GOAL;
    let row =
        Row::new("memory of one more isolated session", format!("{each:.1} MB"), format!("{alone:.0} MB"))
            .ratio(ratio)
            .goal(Goal::check("≤ 20 MB and ≤ 1/10", met));
    let how = format!(
        "PSS over the tree of processes (greenroom, Chromium and Node), each session on a small page: {}. Alone, with \
         one engine process and its own headless shell per session: {}. The figure is the slope between the first \
         and the last, so that it includes the instances which greenroom adds when all slots of one are taken \
         ({processes} processes in the end).",
        list(&through),
        list(&direct),
    );
    Section { title: "Memory of a session", rows: vec![row], how }
}

/// The least of some readings, since browsers give memory back a while after a page has loaded.
fn settled(pids: &[u32]) -> u64 {
    let read = |_| {
        std::thread::sleep(std::time::Duration::from_secs(1));
        pids.iter().map(|pid| pss_tree(*pid)).sum()
    };
    (0..5).map(read).min().unwrap_or_default()
}

fn slope(points: &[(usize, f64)]) -> f64 {
    match (points.first(), points.last()) {
        (Some((few, little)), Some((many, much))) => (much - little) / (*many as f64 - *few as f64),
        _ => f64::NAN,
    }
}

fn list(points: &[(usize, f64)]) -> String {
    points.iter().map(|(count, mb)| format!("{mb:.0} MB with {count}")).collect::<Vec<_>>().join(", ")
}
