//! The memory of greenroom's own process, without browsers and engines.

use greenroom_testkit::process::rss;
use serde_json::json;

use crate::{
    agent::BenchAgent,
    programs::{self, Programs},
    report::{Goal, Row, Section},
    session::navigate,
    stats::megabytes,
};

const SESSIONS: usize = 100;
const IDLE_MB: f64 = 15.0;
const BUSY_MB: f64 = 30.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let sessions = if quick { 10 } else { SESSIONS };
    let site = programs::site();
    let mut greenroom = BenchAgent::start(programs.greenroom_real());
    greenroom.request("tools/list", &json!({}));
    let idle = megabytes(rss(greenroom.pid()));
    for session in 0..sessions {
        navigate(&mut greenroom, &site, Some(&format!("s{session}")));
    }
    let busy = megabytes(rss(greenroom.pid()));
    let mb = |value: f64| format!("{value:.1} MB");
    let rows = vec![
        Row::new("greenroom itself, idle", mb(idle), String::new())
            .goal(Goal::check("≤ 15 MB", idle <= IDLE_MB)),
        Row::new(format!("greenroom itself, {sessions} sessions"), mb(busy), String::new())
            .goal(Goal::check("≤ 30 MB", busy <= BUSY_MB)),
    ];
    let how = format!(
        "RSS of the greenroom process: after `initialize` and `tools/list`, and with {sessions} sessions of the real \
         engine, each a context in a real browser on a small page."
    );
    Section { title: "greenroom itself", rows, how }
}
