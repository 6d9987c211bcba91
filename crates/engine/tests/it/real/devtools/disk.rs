//! The disk space that a seat takes is bounded, whatever its pages do.

use std::fs;

use greenroom_core::{Call, Lost, raw::encode};
use greenroom_engine::browser::BrowserKind;
use greenroom_testkit::{TEST_TIMEOUT, case, eventually, within};
use serde_json::json;

use super::{DevtoolsFixture, DevtoolsSeat};
use crate::real::{DOWNLOADS_IN_A_LOOP, UNANNOUNCED_DOWNLOAD, browser, text};

const QUOTA: u64 = 8 << 20;

const BROWSERS: [BrowserKind; 2] = [BrowserKind::HeadlessShell, BrowserKind::Chromium];

async fn fixture(kind: BrowserKind) -> DevtoolsFixture {
    DevtoolsFixture::with(|options| {
        options.settings_mut().sessions.disk_bytes_max = QUOTA;
        options.pool.browser = browser(kind);
    })
    .await
}

/// What a seat stores and downloads is bounded, in both browsers.
#[tokio::test]
async fn storage_and_downloads_are_bounded() {
    for kind in BROWSERS {
        let fixture = fixture(kind).await;
        let mut seat = fixture.open_seat().await;
        case("storage_is_bounded", storage_is_bounded(kind, &fixture, &mut seat)).await;
        case("downloads_in_a_loop_are_stopped", downloads_in_a_loop_are_stopped(kind, &fixture, &mut seat))
            .await;
        fixture.end().await;
    }
}

/// A page that downloads in a loop is stopped, its seat goes on and reports it, and no partial file stays.
async fn downloads_in_a_loop_are_stopped(
    kind: BrowserKind,
    fixture: &DevtoolsFixture,
    seat: &mut DevtoolsSeat,
) {
    seat.navigate(&fixture.site.url("/title?t=hostile")).await;
    seat.evaluate(DOWNLOADS_IN_A_LOOP).await;
    let mut stopped = 0;
    eventually("many stopped downloads", || {
        stopped += seat.seat.take_stopped_downloads().map_or(0, |stopped| stopped.count);
        (stopped > 20).then_some(())
    })
    .await;
    let folder = downloads(fixture);
    let used = eventually("all half files gone", || {
        let files: Vec<_> = fs::read_dir(&folder).unwrap().flatten().collect();
        let is_whole = files.iter().all(|file| !file.file_name().to_string_lossy().ends_with("crdownload"));
        is_whole.then(|| files.iter().map(|file| file.metadata().map_or(0, |file| file.len())).sum::<u64>())
    })
    .await;
    assert!(used < 2 * QUOTA, "{kind:?}: {used}");
    let shown = seat.call("list_pages", json!({})).await;
    assert!(text(&shown).contains("hostile"), "{}", text(&shown));
}

/// A download that the browser does not announce ends with its seat.
#[tokio::test]
async fn an_unannounced_download_ends_the_seat() {
    let fixture = fixture(BrowserKind::HeadlessShell).await;
    let mut seat = fixture.open_seat().await;
    seat.navigate(&fixture.site.url("/title?t=hostile")).await;
    seat.evaluate(UNANNOUNCED_DOWNLOAD).await;
    let mut lost = seat.seat.lost();
    let lost = within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert!(
        matches!(&lost, Lost::HealthCheckFailed(why) if why.contains("sessions.disk_bytes_max")),
        "{lost}"
    );
    seat.seat.close().await;
    fixture.end().await;
}

/// A browser whose profile takes more than it may is lost, and the reason names the setting.
#[tokio::test]
async fn large_profile_ends_the_seat() {
    let fixture = DevtoolsFixture::with(|options| {
        options.pool.profile_bytes_max = Some(24 << 20);
        options.pool.browser = browser(BrowserKind::HeadlessShell);
    })
    .await;
    let mut seat = fixture.open_seat().await;
    seat.navigate(&fixture.site.url("/title?t=storage")).await;
    let mut lost = seat.seat.lost();
    let fill = "async () => {
        const cache = await caches.open('x');
        const part = new Uint8Array(1 << 20);
        for (let stored = 0; stored < 32; stored++) {
            for (let at = 0; at < part.length; at += 65536) crypto.getRandomValues(part.subarray(at, at + 65536));
            await cache.put('/' + stored, new Response(part));
        }
    }";
    // The browser may be lost before the page has stored all.
    let params = encode(&json!({ "name": "evaluate_script", "arguments": { "function": fill } }));
    let worker = seat.worker.clone();
    let _ = within(TEST_TIMEOUT, seat.seat.call(Call::new("evaluate_script", params), worker)).await;
    let lost = within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert!(
        matches!(&lost, Lost::HealthCheckFailed(why) if why.contains("24 MiB are allowed (pool.profile_bytes_max)")),
        "{lost}"
    );
    seat.seat.close().await;
    fixture.end().await;
}

/// What pages store in a profile on disk is bounded by the quota, in both browsers, and small things are stored.
async fn storage_is_bounded(kind: BrowserKind, fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=storage")).await;
    let store = "async () => {
        const cache = await caches.open('x');
        const part = new Uint8Array(1 << 20);
        let stored = 0;
        try {
            for (; stored < 64; stored++) {
                crypto.getRandomValues(part.subarray(0, 65536));
                await cache.put('/' + stored, new Response(part));
            }
            return [stored, ''];
        } catch (error) {
            return [stored, error.name];
        }
    }";
    let outcome = seat.evaluate(store).await;
    let stored = outcome[0].as_u64().unwrap();
    assert!((1..=QUOTA >> 20).contains(&stored) && outcome[1] == "QuotaExceededError", "{kind:?}: {outcome}");
}

/// The download folder of the fixture's only seat.
fn downloads(fixture: &DevtoolsFixture) -> std::path::PathBuf {
    let runs = fs::read_dir(fixture.data.path().join("run")).unwrap().flatten();
    let seats = runs.filter_map(|run| fs::read_dir(run.path().join("seats")).ok()).flatten().flatten();
    seats.map(|seat| seat.path().join("downloads")).find(|folder| folder.is_dir()).unwrap()
}
