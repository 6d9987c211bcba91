//! Sessions come and go without anything growing.

use std::path::Path;

use greenroom_testkit::{
    Site, eventually,
    process::{children, open_fds, rss},
};
use serde_json::json;

use super::{
    fixture::{DataFolder, GatewayFixture, all},
    inspect,
};

/// Sessions at once.
const AT_ONCE: usize = 4;

/// After this many sessions, greenroom has made everything that it makes once.
const WARM_UP: usize = 2 * AT_ONCE;

/// Handles may differ by this: connections to Node are kept for the next call, one per call at once, and either
/// side lets go of them at its own time.
const HANDLES: usize = 2 * AT_ONCE;

/// greenroom's memory may grow by this: what the allocator keeps for later differs by a few megabytes from run to run.
/// Over sixteen sessions a leak of 512 KiB each is noticed, over the hundred of the long test one of 80 KiB.
/// `front::growth` makes a thousand sessions with the fake engine, and notices 4 KiB each.
const MEMORY_BYTES: u64 = 8 << 20;

/// After sixteen sessions, processes, handles, folders and greenroom's memory are where they were.
#[tokio::test]
async fn sixteen_sessions_leave_nothing() {
    nothing_grows(16).await;
}

mod soak {
    /// After a hundred sessions, too.
    #[tokio::test]
    async fn a_hundred_sessions_leave_nothing() {
        greenroom_testkit::require_long_tests();
        super::nothing_grows(100).await;
    }
}

async fn nothing_grows(sessions: usize) {
    let data = DataFolder::new();
    let site = Site::start().await;
    let gateway = GatewayFixture::start(&data, &[]).await;
    let pid = gateway.client.pid();
    // One session stays, so that the browser does too.
    gateway.navigate("stays", &site.url("/")).await.ok();
    let run = inspect::run_of(data.path(), pid);
    let browsers = inspect::browsers(pid);
    let engines = inspect::engines(pid);

    open_and_close_sessions(&gateway, &site, WARM_UP).await;
    let processes = eventually("the end of the first pages", || {
        let processes = children(pid).len();
        (inspect::renderers(browsers[0]).len() <= 2).then_some(processes)
    })
    .await;
    let folders = count_folders(&run);
    let memory = rss(pid);
    let own_handles = open_fds(pid);
    let nodes_handles = open_fds(engines[0]);

    open_and_close_sessions(&gateway, &site, sessions).await;
    let fell = |what: &str, now: usize, then: usize| {
        println!("{what}: {then} before, {now} after");
        (now <= then).then_some(())
    };
    eventually("no more processes than before", || fell("processes", children(pid).len(), processes)).await;
    eventually("no more folders than before", || fell("folders", count_folders(&run), folders)).await;
    eventually("no more handles of greenroom", || fell("handles", open_fds(pid), own_handles + HANDLES))
        .await;
    eventually("no more handles of Node", || {
        fell("Node's handles", open_fds(engines[0]), nodes_handles + HANDLES)
    })
    .await;
    let grown = rss(pid).saturating_sub(memory);
    println!("greenroom's memory: {memory} bytes before, {grown} more after");
    assert!(grown <= MEMORY_BYTES, "greenroom's memory grew by {grown} bytes, from {memory}");
    assert_eq!(
        (inspect::browsers(pid), inspect::engines(pid)),
        (browsers, engines),
        "no process was replaced"
    );
    gateway.call("stays", "browser_snapshot", json!({})).await.ok_without_restart();
    gateway.end().await;
}

/// This many sessions, a few at once, each with a page.
async fn open_and_close_sessions(gateway: &GatewayFixture, site: &Site, sessions: usize) {
    let url = &site.url("/canary?name=gone");
    all((0..AT_ONCE).map(|lane| async move {
        for n in (lane..sessions).step_by(AT_ONCE) {
            let session = format!("{n}");
            gateway.navigate(&session, url).await.ok_without_restart();
            gateway.call(&session, "session_close", json!({})).await.ok();
        }
    }))
    .await;
}

fn count_folders(folder: &Path) -> usize {
    // A browser's profile has caches that come and go with its pages.
    let is_own = |path: &Path| path.is_dir() && !path.ends_with("profiles");
    let Ok(entries) = folder.read_dir() else { return 0 };
    entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| is_own(path))
        .map(|path| 1 + count_folders(&path))
        .sum()
}
