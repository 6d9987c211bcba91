//! A running `greenroom serve`, and whether it has a spare ready.

use std::{
    io::{BufRead, BufReader},
    process::{Child, ChildStdout, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use greenroom_testkit::process::{Signal, signal};

use crate::http_client::BenchHttpClient;

/// How long a browser may take to be opened as a spare, on a machine that is busy with others.
const SPARE_TIMEOUT: Duration = Duration::from_secs(60);

/// The pause between two polls of the server's metrics. Nothing is timed meanwhile.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A running server. Dropping it stops the server and waits for its end.
pub struct BenchServer {
    child: Child,
    /// `127.0.0.1:PORT`.
    address: String,
    /// Held open, so that the server can always write.
    _stdout: BufReader<ChildStdout>,
}

impl BenchServer {
    /// Starts it; returns when it accepts connections.
    pub fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let mut stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("stdout can be read");
        let address = line
            .trim()
            .strip_prefix("ready: http://")
            .map(|address| address.trim_end_matches("/mcp").to_owned());
        let address = address.unwrap_or_else(|| panic!("{command:?} said `{line}` instead of being ready"));
        Self { child, address, _stdout: stdout }
    }

    /// A client that has done its handshake.
    pub fn client(&self) -> BenchHttpClient {
        let mut client = BenchHttpClient::connect(&self.address);
        client.initialize();
        client
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns when a spare is ready.
    pub fn wait_for_spare(&self) {
        let begun = Instant::now();
        let mut client = BenchHttpClient::connect(&self.address);
        while self.metric(&mut client, "greenroom_spares") < 1.0 {
            assert!(begun.elapsed() < SPARE_TIMEOUT, "no spare within {} s", SPARE_TIMEOUT.as_secs());
            sleep(POLL_INTERVAL);
        }
    }

    fn metric(&self, client: &mut BenchHttpClient, name: &str) -> f64 {
        let text = client.get("/metrics");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|value| value.trim().parse().ok())
            .unwrap_or_else(|| panic!("no figure `{name}` in the metrics of {}: {text}", self.address))
    }
}

impl Drop for BenchServer {
    fn drop(&mut self) {
        signal(self.child.id(), Signal::TERM);
        let _ = self.child.wait();
    }
}
