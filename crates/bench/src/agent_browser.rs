//! The same tasks with greenroom and with `agent-browser`, another program that gives agents browsers: by both
//! programs' command lines, where every command is a process that asks another one, and by both programs' MCP servers.
//!
//! `agent-browser` runs as npm installs it, with the browser that greenroom has. The benchmark ends its processes.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Instant,
};

use greenroom_testkit::process::{Signal, processes_with_env, signal};
use serde_json::json;

use crate::{
    agent::{BenchAgent, Caller},
    http_client::BenchHttpClient,
    programs::{BROWSER, Programs},
    report::{Section, comparison_table},
    server::BenchServer,
    session::PAUSE,
    stats::{median, milliseconds},
};

const TITLE: &str = "Compared with agent-browser";

/// The page for snapshots and clicks.
const PAGE: &str = "/late?by=timer&ms=0";
/// A page whose change takes a while, as on pages that ask a server.
const LATE: &str = "/late?by=read&ms=150";

/// The variable that all processes of `agent-browser` have in their environment.
const TAG: &str = "GREENROOM_BENCH_PEER";

/// One of the compared programs.
trait BrowserDriver {
    /// Opens a page, in a new session if there is none of this name.
    fn open(&mut self, session: &str, url: &str);
    /// The page's snapshot.
    fn snapshot(&mut self, session: &str) -> String;
    /// Clicks the page's button; returns the page's snapshot after that.
    fn click(&mut self, session: &str) -> String;
    fn close(&mut self, session: &str);
}

pub fn measure(programs: &Programs, quick: bool) -> Section {
    let Some(program) = programs.agent_browser() else {
        let how = "It could not be installed when this was measured, so there are no figures.".to_owned();
        return Section { title: TITLE, rows: Vec::new(), how };
    };
    let rounds = if quick { 2 } else { 9 };
    let site = crate::programs::site();
    let server = BenchServer::start(programs.serve_real());
    let cli = AgentBrowserCli { programs, program };
    let mcp = BenchAgent::start(cli.command(&["mcp"]));
    let version = cli.run(&["--version"]);
    let mut all: [Box<dyn BrowserDriver + '_>; 4] =
        [Box::new(server.client()), Box::new(GreenroomCli { programs }), Box::new(&cli), Box::new(mcp)];
    let mut taken: [[Vec<f64>; 4]; 3] = Default::default();
    let mut seen = [[0; 4]; 2];
    for (one, driver) in all.iter_mut().enumerate() {
        driver.open(&format!("warm{one}"), &site.url(PAGE));
    }
    for round in 0..rounds {
        for (one, driver) in all.iter_mut().enumerate() {
            let driver = driver.as_mut();
            // Wait until greenroom has a spare; the other programs have none.
            server.wait_for_spare();
            std::thread::sleep(PAUSE);
            let name = format!("s{one}-{round}");
            let warm = format!("warm{one}");
            taken[0][one].push(timed(|| driver.open(&name, &site.url(PAGE))));
            driver.close(&name);
            driver.open(&warm, &site.url(PAGE));
            taken[1][one].push(timed(|| drop(driver.snapshot(&warm))));
            let mut shown = String::new();
            taken[2][one].push(timed(|| shown = driver.click(&warm)));
            seen[0][one] += usize::from(changed(&shown));
            driver.open(&warm, &site.url(LATE));
            seen[1][one] += usize::from(changed(&driver.click(&warm)));
        }
    }
    for (one, driver) in all.iter_mut().enumerate() {
        driver.close(&format!("warm{one}"));
    }
    // The MCP server ends with its client; only then look for the processes that it has left.
    drop(all);
    drop(cli);
    let whats =
        ["a new session to its first page", "a look at a page", "a click, and a look at the page then"];
    let times =
        whats.into_iter().zip(taken.map(|parties| parties.map(|times| format!("{:.0} ms", median(&times)))));
    let whats =
        ["the change is seen then, made by a timer of 0 ms", "the same, by a fetch that takes 150 ms"];
    let counts =
        whats.into_iter().zip(seen.map(|parties| parties.map(|count| format!("{count} of {rounds}"))));
    let columns = [
        "what",
        "greenroom, MCP",
        "greenroom, command line",
        "agent-browser, command line",
        "agent-browser, MCP",
    ];
    let how = format!(
        "`greenroom serve` over HTTP, with a spare ready, compared with {version} as npm installs it: its native program with \
         its daemon, which it starts for every session. By a command line an agent pays for the start of a process with \
         every command, which is in the figures; the servers run already when the clock starts. All have the same headless \
         shell and the same local pages. A click of greenroom is one call, whose answer shows the page once it has settled; of \
         agent-browser it is two, `click` and `snapshot`, and for the page to settle it has further commands, which are not \
         in the figures. {rounds} times each in turns, medians.\n\n{}",
        comparison_table(&columns, times.chain(counts)),
    );
    Section { title: TITLE, rows: Vec::new(), how }
}

fn timed(what: impl FnOnce()) -> f64 {
    let begun = Instant::now();
    what();
    milliseconds(begun.elapsed())
}

/// Whether the page shows its last state, which is never called `unchanged`.
fn changed(text: &str) -> bool {
    text.contains("changed") && !text.contains("unchanged")
}

impl BrowserDriver for BenchHttpClient {
    fn open(&mut self, session: &str, url: &str) {
        self.call("browser_navigate", &json!({ "sessionId": session, "url": url }));
    }
    fn snapshot(&mut self, session: &str) -> String {
        self.call("browser_snapshot", &json!({ "sessionId": session })).to_string()
    }
    fn click(&mut self, session: &str) -> String {
        let button = json!({ "sessionId": session, "target": "#change", "element": "the button" });
        self.call("browser_click", &button).to_string()
    }
    fn close(&mut self, session: &str) {
        self.call("session_close", &json!({ "sessionId": session }));
    }
}

/// greenroom's command line, on the same server.
struct GreenroomCli<'a> {
    programs: &'a Programs,
}

impl GreenroomCli<'_> {
    fn run(&self, session: &str, args: &[&str]) -> String {
        let mut command = self.programs.command_real(args);
        output_of(command.args(["--session", session]))
    }
}

impl BrowserDriver for GreenroomCli<'_> {
    fn open(&mut self, session: &str, url: &str) {
        self.run(session, &["open", url]);
    }
    fn snapshot(&mut self, session: &str) -> String {
        self.run(session, &["snapshot"])
    }
    fn click(&mut self, session: &str) -> String {
        self.run(session, &["click", "#change"])
    }
    fn close(&mut self, session: &str) {
        self.run(session, &["close"]);
    }
}

/// agent-browser's MCP server.
impl BrowserDriver for BenchAgent {
    fn open(&mut self, session: &str, url: &str) {
        self.call("agent_browser_open", &json!({ "session": session, "url": url }));
    }
    fn snapshot(&mut self, session: &str) -> String {
        self.call("agent_browser_snapshot", &json!({ "session": session })).to_string()
    }
    fn click(&mut self, session: &str) -> String {
        self.call("agent_browser_click", &json!({ "session": session, "selector": "#change" }));
        self.snapshot(session)
    }
    fn close(&mut self, session: &str) {
        self.call("agent_browser_close", &json!({ "session": session }));
    }
}

/// agent-browser's command line.
impl BrowserDriver for &AgentBrowserCli<'_> {
    fn open(&mut self, session: &str, url: &str) {
        self.run(&["--session", session, "open", url]);
    }
    fn snapshot(&mut self, session: &str) -> String {
        self.run(&["--session", session, "snapshot"])
    }
    fn click(&mut self, session: &str) -> String {
        self.run(&["--session", session, "click", "#change"]);
        self.snapshot(session)
    }
    fn close(&mut self, session: &str) {
        self.run(&["--session", session, "close"]);
    }
}

/// Starts `agent-browser`. Dropping this ends all its processes.
struct AgentBrowserCli<'a> {
    programs: &'a Programs,
    program: PathBuf,
}

impl AgentBrowserCli<'_> {
    fn command(&self, args: &[&str]) -> Command {
        let mut command = self.programs.command(&self.program);
        // Its daemons leave their parents; the benchmark finds them by this variable.
        command.env(TAG, self.programs.home()).env("AGENT_BROWSER_EXECUTABLE_PATH", BROWSER).args(args);
        if rustix::process::geteuid().is_root() {
            command.env("AGENT_BROWSER_ARGS", "--no-sandbox");
        }
        command
    }

    fn run(&self, args: &[&str]) -> String {
        output_of(&mut self.command(args))
    }
}

/// What a command prints. It must succeed.
fn output_of(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().expect("the program runs");
    let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{command:?} failed: {printed}");
    printed
}

impl Drop for AgentBrowserCli<'_> {
    fn drop(&mut self) {
        for pid in processes_with_env(TAG, &self.programs.home().to_string_lossy()) {
            signal(pid, Signal::KILL);
        }
    }
}
