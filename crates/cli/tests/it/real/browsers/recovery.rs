//! Browsers that die and come back.

use greenroom_testkit::{Site, Theirs, process::wait_gone};
use serde_json::json;

use super::{super::house::answer, Attached, all_of};

/// Killed between calls and started again by hand, a browser is reconnected automatically; the next call carries a note
/// that its tab is another one. Other browsers are not disturbed.
#[tokio::test]
async fn browser_restarted_by_hand_is_reconnected() {
    let site = Site::start().await;
    let mut attached = Attached::start(2, &["--attach-cooldown", "1s"]).await;
    for index in [1, 2] {
        attached.navigate(index, &site.url(&format!("/title?t=before{index}"))).await.ok();
    }
    attached.theirs[0].kill().await;
    attached.until(1, "disconnected").await;
    let down = attached.call(1, "browser_snapshot", json!({})).await;
    assert_eq!(down.code(), "browser_down", "{}", down.text());
    assert!(attached.call(2, "browser_snapshot", json!({})).await.unbroken().contains("before2"));

    attached.theirs[0].start_again().await;
    attached.until(1, "connected").await;
    let after = attached.navigate(1, &site.url("/title?t=after")).await.ok();
    assert!(after.contains("after") && after.contains("reconnected"), "never a silent swap: {after}");
    let again = attached.call(1, "browser_snapshot", json!({})).await.ok();
    assert!(!again.contains("reconnected"), "said once: {again}");
    attached.house.end().await;
}

/// A call during which its browser is killed fails at once.
#[tokio::test]
async fn killed_browser_fails_the_running_call() {
    let site = Site::start().await;
    let mut attached = Attached::start(1, &[]).await;
    attached.house.navigate("", &site.url("/title?t=x")).await.ok();
    let hung = attached.house.hang("", &site, "/canary").await;
    attached.theirs[0].kill().await;
    answer(hung).await.lost("debugger");
    attached.house.end().await;
}

/// The start command runs when a reconnect is ordered and the browser is not there, and at no other time; without a shell;
/// and the browser it starts outlives greenroom.
#[tokio::test]
async fn reconnect_runs_the_start_command() {
    let site = Site::start().await;
    let mut theirs = all_of(1).await;
    let command = theirs[0].command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    // A shell would create this file.
    let marker = theirs[0].profile().join("shell");
    let url = format!("{}|{command} '--user-agent=$(touch {}) {{url}}'", theirs[0].url(), marker.display());
    theirs[0].kill().await;
    let attached = Attached::to(theirs, &[url], &["--attach-cooldown", "500ms"]).await;
    let down = attached.house.navigate("", &site.url("/")).await;
    assert_eq!(down.code(), "browser_down", "{}", down.text());
    attached.until(1, "disconnected").await;
    assert!(!attached.theirs[0].runs(), "not by itself");

    let said = attached.house.call("", "reconnect_browser", json!({})).await.ok();
    assert!(said.contains("connected"), "{said}");
    let pid = attached.theirs[0].pid().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let address = attached.theirs[0].url();
    assert!(line.contains("$(touch") && line.contains(&format!(") {address}")), "{line}");
    assert!(!marker.exists(), "no shell");
    attached.house.navigate("", &site.url("/title?t=works")).await.ok();

    // A browser that is there is not started twice.
    attached.house.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!(attached.theirs[0].pid(), Some(pid));

    let Attached { house, mut theirs, .. } = attached;
    house.end().await;
    assert_eq!(
        (theirs[0].pid(), theirs[0].runs()),
        (Some(pid), true),
        "it is the operator's, not greenroom's"
    );
    theirs[0].kill().await;
    wait_gone(pid).await;
}

/// The error for a start command that fails, or brings no browser, has its last output.
#[tokio::test]
async fn failing_start_command_error_has_its_output() {
    let mut theirs = Theirs::start().await;
    let address = theirs.url();
    theirs.kill().await;
    for (command, why) in [
        ("/nonexistent/browser {url}", "`/nonexistent/browser`"),
        ("/bin/false", "the start command ended (exit status: 1): `/bin/false`; "),
        (
            "/bin/sh -c 'echo cannot open display >&2; exit 3'",
            "the start command ended (exit status: 3): `/bin/sh`; its last output: cannot open display; ",
        ),
    ] {
        let attached = Attached::to(Vec::new(), &[format!("{address}|{command}")], &[]).await;
        let refused = attached.house.call("", "reconnect_browser", json!({})).await;
        assert!(refused.failed().contains(why), "{}", refused.text());
        attached.house.end().await;
    }
}

/// A browser whose debugger does not come up is not started a second time while it runs: the error names its process and
/// its output, and when it is ready, the next attempt finds it. Killed then, it is started again.
#[tokio::test]
async fn slow_browser_is_not_started_twice() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut theirs = all_of(1).await;
    theirs[0].kill().await;
    let (starts, gate) = (folder.path().join("starts"), folder.path().join("gate"));
    let script = folder.path().join("browser");
    let text = format!(
        "echo $$ >>{}\necho waiting for the display >&2\nwhile [ ! -e {} ]; do sleep 0.05; done\nexec \"$@\"",
        starts.display(),
        gate.display()
    );
    std::fs::write(&script, text).unwrap();
    let started = || -> Vec<u32> {
        std::fs::read_to_string(&starts).unwrap().lines().map(|pid| pid.parse().unwrap()).collect()
    };
    let command = theirs[0].command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let url = format!("{}|/bin/sh {} {command}", theirs[0].url(), script.display());
    let mut attached = Attached::to(theirs, &[url], &["--attach-cooldown", "1h"]).await;

    let refused = attached.house.call("", "reconnect_browser", json!({})).await;
    let [pid] = started()[..] else { panic!("{:?}", started()) };
    let text = refused.failed();
    for said in [
        &format!("process {pid}, which the start command started, still runs"),
        "did not answer within 30 s: `/bin/sh`; its last output: waiting for the display; ",
    ] {
        assert!(text.contains(said), "{text}");
    }

    std::fs::write(&gate, "").unwrap();
    attached.house.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!((started(), attached.theirs[0].pid()), (vec![pid], Some(pid)), "the one that was started");
    attached.house.navigate("", &site.url("/title?t=works")).await.ok();

    attached.theirs[0].kill().await;
    attached.house.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!(started().len(), 2);
    assert_eq!(attached.theirs[0].pid(), started().pop());
    let Attached { house, theirs, .. } = attached;
    house.end().await;
    assert!(theirs[0].runs());
}
