//! The memory of 200 sessions of one server, each for a client of its own.

use greenroom_testkit::process::{children, rss};

use crate::{
    http_client::BenchHttpClient,
    memory::{self, MemoryReader},
    programs::{self, Programs},
    report::{Goal, Row, Section},
    server::BenchServer,
    session::navigate,
    stats::megabytes,
};

const SESSIONS: usize = 200;

/// The most memory that greenroom's own process may use, in MB: the goal of `process_memory.rs`, here with twice as many
/// sessions.
const OWN_MB: f64 = 30.0;

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let sessions = if quick { 20 } else { SESSIONS };
    let site = programs::site();
    let mut memory_reader = MemoryReader::default();

    let mut command = programs.serve_real();
    // The pool has room for all sessions, and its idle timeout is longer than the measurement, so greenroom
    // closes none of them.
    let instances = sessions.div_ceil(16) + 1;
    command.args(["--pool-instances-max", &instances.to_string(), "--sessions-idle-timeout", "1h"]);
    let server = BenchServer::start(command);
    let mut clients: Vec<BenchHttpClient> = Vec::new();
    for _ in 0..sessions {
        let mut client = server.client();
        navigate(&mut client, &site, None);
        clients.push(client);
    }
    server.wait_for_spare();
    let all = memory_reader.settled(&[server.pid()]);
    let own = megabytes(rss(server.pid()));
    let processes = children(server.pid()).len();
    drop(clients);
    drop(server);

    let direct = memory::slope(&memory::alone(programs, &site, programs::BROWSER, &mut memory_reader));
    let whole = memory::slope(&memory::alone(programs, &site, programs::FULL_BROWSER, &mut memory_reader));

    let each = all / sessions as f64;
    let rows = vec![
        memory::row(&format!("memory of a session, {sessions} of them in one server"), each, direct),
        memory::row("the same, the engine alone with the whole Chromium", each, whole),
        Row::new(
            format!("greenroom itself, a server with {sessions} sessions"),
            format!("{own:.1} MB"),
            String::new(),
        )
        .goal(Goal::check("≤ 30 MB", own <= OWN_MB)),
    ];
    let how = format!(
        "{sessions} clients of one `greenroom serve`, each on a connection of its own, each with a session on a small page. \
         PSS over the tree of its processes ({processes} of them, a spare included): {all:.0} MB, divided by the number of \
         sessions; nothing is left out, as greenroom itself and the browsers' first processes are in it. RSS of the greenroom process by itself. \
         Alone: one more engine process with its own browser, as in the measurement before. At every reading, {}.",
        memory_reader.verdict(),
    );
    Section { title: "Memory of many sessions", rows, how }
}
