//! The order in which a seat and an instance end: the browser is closed, then the process is asked to exit, then killed.

use std::time::{Duration, Instant};

use greenroom_testkit::process::{Signal, alive, signal, zombie};

use super::fixture::{FakeEngineFixture, open, pid};

const CLOSE: [&str; 2] = ["--extra-tool", "browser_close"];

/// The log's entries about the end, after the last `from`.
fn entries_after(fixture: &FakeEngineFixture, from: &str) -> Vec<String> {
    let lines = fixture.log().lines();
    let at = lines.iter().rposition(|line| line == from).unwrap();
    lines.into_iter().skip(at + 1).collect()
}

/// A seat closes its browser, then its process gets SIGTERM, and a process that ignores it is killed and reaped.
#[tokio::test]
async fn seat_closes_browser_then_process() {
    for (flag, killed) in [("--log-sigterm", false), ("--ignore-sigterm", true)] {
        let fixture = FakeEngineFixture::new();
        let instance = fixture.start(1, &[&CLOSE[..], &[flag]].concat()).await;
        let mut seat = open(&instance).await;
        let pid = pid(&mut seat).await;
        let began = Instant::now();
        seat.close().await;
        assert_eq!(entries_after(&fixture, "tools/call pid"), ["tools/call browser_close", "SIGTERM"]);
        assert!(!alive(pid) && !zombie(pid));
        assert_eq!(
            began.elapsed() >= Duration::from_secs(2),
            killed,
            "killed only when it did not exit by itself"
        );
        instance.stop(Duration::from_secs(2)).await;
    }
}

/// A server without such a tool does not get the call.
#[tokio::test]
async fn missing_close_tool_is_not_called() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(2, &["--log-sigterm"]).await;
    let mut seat = open(&instance).await;
    pid(&mut seat).await;
    seat.close().await;
    assert_eq!(entries_after(&fixture, "tools/call pid"), ["SIGTERM"]);
}

/// A process that no longer reads its input delays the close by at most the five seconds that a seat has.
#[tokio::test]
async fn hung_process_is_ended() {
    let fixture = FakeEngineFixture::new();
    let instance = fixture.start(1, &CLOSE).await;
    let mut seat = open(&instance).await;
    let pid = pid(&mut seat).await;
    signal(pid, Signal::STOP);
    tokio::time::timeout(Duration::from_secs(5), seat.close()).await.unwrap();
    assert!(!alive(pid));
}

/// A stopped instance sends SIGTERM, waits for the given grace, and kills what is left.
#[tokio::test]
async fn instance_stops_with_sigterm_then_kill() {
    for (flag, grace, killed) in [("--log-sigterm", 60_000, false), ("--ignore-sigterm", 300, true)] {
        let fixture = FakeEngineFixture::new();
        let instance = fixture.start(1, &[flag]).await;
        let [pid] = instance.process_ids()[..] else { panic!("one process") };
        let grace = Duration::from_millis(grace);
        let began = Instant::now();
        instance.stop(grace).await;
        assert_eq!(entries_after(&fixture, "tools/list"), ["SIGTERM"]);
        assert!(!alive(pid) && !zombie(pid));
        assert_eq!(began.elapsed() >= grace, killed);
    }
}
