//! Browsers that die and come back.

use greenroom_testkit::{Site, UserBrowser, process::wait_gone};
use serde_json::json;

use super::{super::fixture::answer, AttachedFixture, all_of};

/// Killed between calls and started again by hand, a browser is reconnected automatically; the next call carries a note
/// that its tab is another one. Other browsers are not disturbed.
#[tokio::test]
async fn browser_restarted_by_hand_is_reconnected() {
    let site = Site::start().await;
    let mut attached = AttachedFixture::start(2, &["--attach-cooldown", "1s"]).await;
    for index in [1, 2] {
        attached.navigate(index, &site.url(&format!("/title?t=before{index}"))).await.ok();
    }
    attached.user_browsers[0].kill().await;
    attached.until(1, "disconnected").await;
    let down = attached.call(1, "browser_snapshot", json!({})).await;
    assert_eq!(down.code(), "browser_down", "{}", down.text());
    assert!(attached.call(2, "browser_snapshot", json!({})).await.ok_without_restart().contains("before2"));

    attached.user_browsers[0].start_again().await;
    attached.until(1, "connected").await;
    let after = attached.navigate(1, &site.url("/title?t=after")).await.ok();
    assert!(after.contains("after") && after.contains("reconnected"), "never a silent swap: {after}");
    let again = attached.call(1, "browser_snapshot", json!({})).await.ok();
    assert!(!again.contains("reconnected"), "said once: {again}");
    attached.gateway.end().await;
}

/// A call during which its browser is killed fails at once.
#[tokio::test]
async fn killed_browser_fails_the_running_call() {
    let site = Site::start().await;
    let mut attached = AttachedFixture::start(1, &[]).await;
    attached.gateway.navigate("", &site.url("/title?t=x")).await.ok();
    let hung = attached.gateway.hang("", &site, "/canary").await;
    attached.user_browsers[0].kill().await;
    answer(hung).await.lost("debugger");
    attached.gateway.end().await;
}

/// greenroom runs the start command only for a reconnect of a browser that does not answer, and without a shell; the
/// browser that the command starts outlives greenroom.
#[tokio::test]
async fn reconnect_runs_the_start_command() {
    let site = Site::start().await;
    let mut user_browsers = all_of(1).await;
    let command =
        user_browsers[0].command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    // A shell would create this file.
    let marker = user_browsers[0].profile().join("shell");
    let url =
        format!("{}|{command} '--user-agent=$(touch {}) {{url}}'", user_browsers[0].url(), marker.display());
    user_browsers[0].kill().await;
    let attached = AttachedFixture::to(user_browsers, &[url], &["--attach-cooldown", "500ms"]).await;
    let down = attached.gateway.navigate("", &site.url("/")).await;
    assert_eq!(down.code(), "browser_down", "{}", down.text());
    attached.until(1, "disconnected").await;
    assert!(!attached.user_browsers[0].runs(), "not by itself");

    let message = attached.gateway.call("", "reconnect_browser", json!({})).await.ok();
    assert!(message.contains("connected"), "{message}");
    let pid = attached.user_browsers[0].pid().unwrap();
    let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
    let address = attached.user_browsers[0].url();
    assert!(line.contains("$(touch") && line.contains(&format!(") {address}")), "{line}");
    assert!(!marker.exists(), "no shell");
    attached.gateway.navigate("", &site.url("/title?t=works")).await.ok();

    // A browser that is there is not started twice.
    attached.gateway.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!(attached.user_browsers[0].pid(), Some(pid));

    let AttachedFixture { gateway, mut user_browsers, .. } = attached;
    gateway.end().await;
    assert_eq!(
        (user_browsers[0].pid(), user_browsers[0].runs()),
        (Some(pid), true),
        "it is the operator's, not greenroom's"
    );
    user_browsers[0].kill().await;
    wait_gone(pid).await;
}

/// The error for a start command that fails, or brings no browser, has its last output.
#[tokio::test]
async fn failing_start_command_error_has_its_output() {
    let mut user_browser = UserBrowser::start().await;
    let address = user_browser.url();
    user_browser.kill().await;
    for (command, why) in [
        ("/nonexistent/browser {url}", "`/nonexistent/browser`"),
        ("/bin/false", "the start command ended (exit status: 1): `/bin/false`; "),
        (
            "/bin/sh -c 'echo cannot open display >&2; exit 3'",
            "the start command ended (exit status: 3): `/bin/sh`; its last output: cannot open display; ",
        ),
    ] {
        let attached = AttachedFixture::to(Vec::new(), &[format!("{address}|{command}")], &[]).await;
        let refused = attached.gateway.call("", "reconnect_browser", json!({})).await;
        assert!(refused.failed().contains(why), "{}", refused.text());
        attached.gateway.end().await;
    }
}

/// A browser whose debugger does not come up is not started a second time while it runs: the error names its process and
/// its output, and when it is ready, the next attempt finds it. Killed then, it is started again.
#[tokio::test]
async fn slow_browser_is_not_started_twice() {
    let site = Site::start().await;
    let folder = tempfile::tempdir().unwrap();
    let mut user_browsers = all_of(1).await;
    user_browsers[0].kill().await;
    let starts = folder.path().join("starts");
    let gate = folder.path().join("gate");
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
    let command =
        user_browsers[0].command().iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
    let url = format!("{}|/bin/sh {} {command}", user_browsers[0].url(), script.display());
    let mut attached = AttachedFixture::to(user_browsers, &[url], &["--attach-cooldown", "1h"]).await;

    let refused = attached.gateway.call("", "reconnect_browser", json!({})).await;
    let [pid] = started()[..] else { panic!("{:?}", started()) };
    let text = refused.failed();
    for message in [
        &format!("process {pid}, which the start command started, still runs"),
        "did not answer within 30 s: `/bin/sh`; its last output: waiting for the display; ",
    ] {
        assert!(text.contains(message), "{text}");
    }

    std::fs::write(&gate, "").unwrap();
    attached.gateway.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!(
        (started(), attached.user_browsers[0].pid()),
        (vec![pid], Some(pid)),
        "the one that was started"
    );
    attached.gateway.navigate("", &site.url("/title?t=works")).await.ok();

    attached.user_browsers[0].kill().await;
    attached.gateway.call("", "reconnect_browser", json!({})).await.ok();
    assert_eq!(started().len(), 2);
    assert_eq!(attached.user_browsers[0].pid(), started().pop());
    let AttachedFixture { gateway, user_browsers, .. } = attached;
    gateway.end().await;
    assert!(user_browsers[0].runs());
}
