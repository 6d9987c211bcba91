//! The disk space that one session takes is bounded, whatever its pages do.

use std::{fs, path::Path};

use greenroom_core::port::StoppedDownloads;
use greenroom_testkit::{TEST_TIMEOUT, eventually, within};
use serde_json::json;

use super::{BROWSERS, BrowserKind, SharedBrowser, SharedSeat, text};
use crate::real::{DOWNLOADS_IN_A_LOOP, UNANNOUNCED_DOWNLOAD, files};

/// How much disk space the files of a session may take here.
const QUOTA: u64 = 8 << 20;

/// A page that downloads in a loop is stopped and leaves no partial file, its session goes on and gets a notice, a
/// neighbour's downloads work, and a session below the quota notices nothing.
#[tokio::test]
async fn downloads_in_a_loop_are_stopped() {
    // These run concurrently, since half of their time is waiting.
    tokio::join!(stop_downloads_in_a_loop(BROWSERS[0]), stop_downloads_in_a_loop(BROWSERS[1]));
}

async fn stop_downloads_in_a_loop(kind: BrowserKind) {
    let browser =
        SharedBrowser::start_with(kind, |options| options.settings_mut().sessions.disk_bytes_max = QUOTA)
            .await;
    // The engine keeps the downloads of all seats in the folder of its first seat.
    let mut neighbour = browser.seat().await;
    let mut hostile = browser.seat().await;
    hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
    hostile.evaluate(DOWNLOADS_IN_A_LOOP).await;
    let mut stopped = 0;
    eventually(&format!("many stopped downloads in {kind:?}"), || {
        if let Some(StoppedDownloads { count, bytes_max }) = hostile.seat.take_stopped_downloads() {
            assert_eq!(bytes_max, QUOTA);
            stopped += count;
        }
        (stopped > 40).then_some(())
    })
    .await;

    download(&browser, &mut neighbour).await;
    assert_eq!(neighbour.seat.take_stopped_downloads(), None);
    neighbour.call("browser_take_screenshot", json!({})).await;

    // Each download that came through has a second copy, which the engine makes.
    let used = eventually(&format!("all half files gone in {kind:?}"), || {
        let files = all_files(browser.data.path());
        let is_whole = files.iter().all(|(name, _)| !name.ends_with(".crdownload"));
        is_whole.then(|| files.iter().map(|(_, bytes)| bytes).sum::<u64>())
    })
    .await;
    assert!(used < 3 * QUOTA, "{kind:?}: {used}");
    assert!(hostile.call("browser_snapshot", json!({})).await.contains("hostile"));
    end(browser, [neighbour, hostile]).await;
}

/// Files that tools write count as well: a session over its quota is refused more of them, by the name of the limit, and
/// goes on with everything else. Its neighbour is not refused.
#[tokio::test]
async fn tools_that_write_files_are_refused() {
    let browser = SharedBrowser::start_with(BROWSERS[0], |options| {
        options.settings_mut().sessions.disk_bytes_max = 1 << 20;
    })
    .await;
    let mut neighbour = browser.seat().await;
    let mut busy = browser.seat().await;
    for seat in [&mut neighbour, &mut busy] {
        seat.call("browser_navigate", json!({ "url": browser.site.url("/title?t=noise") })).await;
    }
    // A picture of noise cannot be compressed.
    let noise = "() => { const canvas = document.createElement('canvas');
        [canvas.width, canvas.height] = [1200, 600];
        canvas.style = 'position: fixed; inset: 0';
        document.body.append(canvas);
        const drawing = canvas.getContext('2d'), pixels = drawing.createImageData(1200, 600);
        pixels.data.forEach((_, at) => { pixels.data[at] = at % 4 == 3 ? 255 : Math.random() * 256; });
        drawing.putImageData(pixels, 0, 0);
    }";
    busy.evaluate(noise).await;
    busy.call("browser_take_screenshot", json!({})).await;
    for arguments in [json!({}), json!({ "filename": "mine.png" })] {
        let refused = busy.reply("browser_take_screenshot", arguments).await;
        let said = text(&refused);
        assert!(refused.is_failure() && said.contains("1048576 are allowed"), "{said}");
        assert!(said.contains("hint: ") && said.contains("sessions.disk_bytes_max"), "{said}");
    }
    assert!(busy.call("browser_snapshot", json!({})).await.contains("noise"));
    neighbour.call("browser_take_screenshot", json!({})).await;
    end(browser, [neighbour, busy]).await;
}

/// An endless download is stopped as well, even if the page that began it has closed itself.
#[tokio::test]
async fn a_download_without_end_is_stopped() {
    for kind in BROWSERS {
        let browser =
            SharedBrowser::start_with(kind, |options| options.settings_mut().sessions.disk_bytes_max = QUOTA)
                .await;
        let mut hostile = browser.seat().await;
        hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
        let opens = "() => { const opened = open('/title?t=opened');
            opened.onload = () => {
                const link = opened.document.createElement('a');
                link.href = '/download?name=x.bin&kind=application/octet-stream&endless=1';
                opened.document.body.append(link);
                link.click();
                setTimeout(() => opened.close(), 200);
            };
        }";
        hostile.evaluate(opens).await;
        let stopped = eventually("the stopped download", || hostile.seat.take_stopped_downloads()).await;
        assert_eq!(stopped, StoppedDownloads { count: 1, bytes_max: QUOTA });
        eventually("its file is gone", || {
            all_files(browser.data.path()).iter().all(|(_, bytes)| *bytes < 1 << 20).then_some(())
        })
        .await;
        end(browser, [hostile]).await;
    }
}

/// Downloads that the browser does not announce, since their frame is gone when they begin, are removed; a neighbour's stay.
/// The same holds if each seat has an engine process, and so a download folder, of its own.
#[tokio::test]
async fn unannounced_downloads_are_removed() {
    // These run concurrently, since they mostly wait.
    tokio::join!(
        remove_unannounced(BROWSERS[0], false),
        remove_unannounced(BROWSERS[1], false),
        remove_unannounced(BROWSERS[0], true)
    );
}

async fn remove_unannounced(kind: BrowserKind, own_node: bool) {
    let case = format!("{kind:?}, an engine process per seat: {own_node}");
    let browser =
        SharedBrowser::start_with(kind, |options| options.settings_mut().tools.r#unsafe = own_node).await;
    let mut hostile = browser.seat().await;
    let mut neighbour = browser.seat().await;
    download(&browser, &mut neighbour).await;
    hostile.call("browser_navigate", json!({ "url": browser.site.url("/title?t=hostile") })).await;
    hostile.evaluate(UNANNOUNCED_DOWNLOAD).await;
    let large = || all_files(browser.data.path()).iter().any(|(_, bytes)| *bytes >= 1 << 20);
    eventually(&format!("the download: {case}"), || large().then_some(())).await;
    eventually(&format!("its end: {case}"), || (!large()).then_some(())).await;
    assert_eq!(hostile.seat.take_stopped_downloads(), None, "{case}: no agent would have received it");
    let kept = all_files(browser.data.path());
    assert!(kept.iter().any(|(name, _)| name == "report.txt"), "{case}: {kept:?}");
    end(browser, [neighbour, hostile]).await;
}

/// Makes a seat download a small file completely.
async fn download(browser: &SharedBrowser, seat: &mut SharedSeat) {
    seat.call("browser_navigate", json!({ "url": browser.site.url("/") })).await;
    let downloaded = async {
        let mut reply = seat.reply("browser_click", json!({ "target": "a[href='/download']" })).await;
        while files(&reply).is_empty() {
            reply = seat.reply("browser_evaluate", json!({ "function": "() => 0" })).await;
        }
        assert_eq!(files(&reply), [("report.txt", "text/plain", &b"greenroom download\n"[..])]);
    };
    within(TEST_TIMEOUT, downloaded).await;
}

/// The files of all seats: names and sizes.
fn all_files(data: &Path) -> Vec<(String, u64)> {
    let mut folders: Vec<_> =
        fs::read_dir(data.join("run")).unwrap().flatten().map(|run| run.path().join("seats")).collect();
    let mut found = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => folders.push(entry.path()),
                Ok(metadata) => {
                    found.push((entry.file_name().to_string_lossy().into_owned(), metadata.len()));
                }
                Err(_) => {}
            }
        }
    }
    found
}

async fn end(browser: SharedBrowser, seats: impl IntoIterator<Item = SharedSeat>) {
    for seat in seats {
        seat.seat.close().await;
    }
    browser.end().await;
}
