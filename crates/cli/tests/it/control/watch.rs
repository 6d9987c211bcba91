//! `greenroom status --watch`: live on a terminal, a line a second for programs.

use std::{
    fs::File,
    io::{ErrorKind, Read},
    os::fd::OwnedFd,
    process::Stdio,
};

use greenroom_testkit::{TEST_TIMEOUT, process, within};
use rustix::{
    fs::{Mode, OFlags, open},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    sync::mpsc,
};

use super::run_verb::{greenroom, run_verb};
use crate::front::fixture::FakeEngineSetup;

/// A terminal of this size: the test's side and the program's.
fn terminal(columns: u16, rows: u16) -> (File, OwnedFd) {
    let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&controller).unwrap();
    unlockpt(&controller).unwrap();
    let name = ptsname(&controller, Vec::new()).unwrap();
    let terminal_end = open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    tcsetwinsize(&terminal_end, Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 })
        .unwrap();
    (File::from(controller), terminal_end)
}

/// The output to a terminal, piece by piece, read on a thread that ends with the program.
fn read(mut controller: File) -> mpsc::UnboundedReceiver<String> {
    let (pieces, received) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        let mut piece = [0; 4096];
        loop {
            match controller.read(&mut piece) {
                Ok(0) => return,
                Ok(bytes) => drop(pieces.send(String::from_utf8_lossy(&piece[..bytes]).into_owned())),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                // The program's side is closed.
                Err(_) => return,
            }
        }
    });
    received
}

async fn until(pieces: &mut mpsc::UnboundedReceiver<String>, seen: &mut String, wanted: &str) {
    while !seen.contains(wanted) {
        let piece = within(TEST_TIMEOUT, pieces.recv()).await;
        *seen += &piece.unwrap_or_else(|| panic!("never saw `{wanted}`: {seen:?}"));
    }
}

/// `greenroom mcp` in a terminal prints what it is and what to do instead; for a client, whose stdin is no terminal, it does
/// not.
#[tokio::test]
async fn mcp_on_a_terminal_prints_help() {
    let setup = FakeEngineSetup::new();
    let (_controller, terminal_end) = terminal(80, 20);
    let mut child =
        greenroom(&setup, &["mcp"]).stdin(Stdio::from(terminal_end)).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = within(TEST_TIMEOUT, lines.next_line()).await.unwrap().unwrap();
    assert!(first.starts_with("greenroom mcp speaks MCP with a client"), "{first}");
    let second = within(TEST_TIMEOUT, lines.next_line()).await.unwrap().unwrap();
    assert!(second.contains("greenroom setup claude") && second.contains("greenroom serve"), "{second}");
    within(TEST_TIMEOUT, child.kill()).await.unwrap();
    assert_eq!(setup.client().await.stderr(), "");
}

/// The view follows the sessions, has colours, fits the terminal, and Ctrl-C restores the terminal.
#[tokio::test]
async fn watch_draws_sessions_and_restores_the_terminal() {
    let setup = FakeEngineSetup::new();
    let client = setup.client().await;
    let (controller, terminal_end) = terminal(60, 20);
    let stdout = Stdio::from(terminal_end);
    let mut child =
        greenroom(&setup, &["status", "--watch"]).env("TERM", "xterm").stdout(stdout).spawn().unwrap();
    let mut pieces = read(controller);
    let mut seen = String::new();
    until(&mut pieces, &mut seen, "no sessions").await;
    let long = "prices-".repeat(20);
    client.call("echo", json!({"sessionId": long, "text": "a"})).await;
    until(&mut pieces, &mut seen, "\x1b[1mprices-prices-").await;
    until(&mut pieces, &mut seen, "1 of 128 slots leased").await;
    assert!(seen.starts_with("\x1b[?1049h\x1b[?25l\x1b[H"), "{seen:?}");
    assert!(!seen.contains(&long), "it is shortened");
    process::signal(child.id().unwrap(), process::Signal::INT);
    assert!(within(TEST_TIMEOUT, child.wait()).await.unwrap().success());
    until(&mut pieces, &mut seen, "\x1b[?25h\x1b[?1049l").await;
    assert!(seen.ends_with("\x1b[?25h\x1b[?1049l"), "{seen:?}");
}

/// NO_COLOR is respected, also on a terminal.
#[tokio::test]
async fn watch_respects_no_color() {
    let setup = FakeEngineSetup::new();
    let _client = setup.client().await;
    for (variable, value, coloured) in
        [("NO_COLOR", "1", false), ("NO_COLOR", "", true), ("TERM", "dumb", false)]
    {
        let (controller, terminal_end) = terminal(80, 24);
        let mut child = greenroom(&setup, &["status"])
            .env(variable, value)
            .stdout(Stdio::from(terminal_end))
            .spawn()
            .unwrap();
        let mut pieces = read(controller);
        let mut seen = String::new();
        until(&mut pieces, &mut seen, "waiting").await;
        assert_eq!(seen.contains('\x1b'), coloured, "{variable}={value}: {seen:?}");
        assert!(within(TEST_TIMEOUT, child.wait()).await.unwrap().success());
    }
}

/// `greenroom doctor` respects NO_COLOR too: every colour only repeats a word.
#[tokio::test]
async fn doctor_respects_no_color() {
    let setup = FakeEngineSetup::new();
    for (value, coloured) in [("1", false), ("", true)] {
        let (controller, terminal_end) = terminal(80, 24);
        let mut doctor = greenroom(&setup, &["doctor", "--no-browse"]);
        let mut child = doctor
            .env("TERM", "xterm")
            .env("NO_COLOR", value)
            .stdout(Stdio::from(terminal_end))
            .spawn()
            .unwrap();
        let mut pieces = read(controller);
        let mut seen = String::new();
        // The last line counts the findings.
        until(&mut pieces, &mut seen, " skipped\r\n").await;
        assert_eq!(seen.contains('\x1b'), coloured, "NO_COLOR={value}: {seen:?}");
        within(TEST_TIMEOUT, child.wait()).await.unwrap();
    }
}

/// Without a terminal there is nothing to draw on; programs get a line a second instead.
#[tokio::test]
async fn watch_without_a_terminal_prints_lines() {
    let setup = FakeEngineSetup::new();
    run_verb(&setup, &["status", "--watch"]).await.check("watch_without_terminal", &setup);
    let client = setup.client().await;
    let mut child =
        greenroom(&setup, &["status", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    for _ in 0..2 {
        let line = within(TEST_TIMEOUT, lines.next_line()).await.unwrap().unwrap();
        let all: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(all[0]["pid"], client.pid());
    }
    process::signal(child.id().unwrap(), process::Signal::TERM);
    assert!(within(TEST_TIMEOUT, child.wait()).await.unwrap().success());
}
