//! Files in and out of a seat.

use greenroom_core::ArtifactKind;
use greenroom_engine::browser::version::RECORDS_SINCE;
use greenroom_testkit::{TEST_TIMEOUT, chromium_major};
use serde_json::json;
use tokio::time::Instant;

use super::{
    super::{files, text},
    DevtoolsFixture, DevtoolsSeat, uid,
};

/// Results go where the agent wants them, under its names, and are kept; without a name they are kept all the same.
pub async fn results_are_written_where_the_agent_wants(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/table?rows=5")).await;
    let reply = seat
        .call("take_screenshot", json!({ "pageId": 1, "format": "jpeg", "filePath": "shots/a.png" }))
        .await;
    let [(name, "image/jpeg", data)] = files(&reply)[..] else { panic!("{reply:?}") };
    assert_eq!(name, "a.jpeg");
    assert_eq!(std::fs::read(fixture.workspace.path().join("shots/a.jpeg")).unwrap(), data);
    let named = reply.artifacts.iter().find(|artifact| artifact.kind == ArtifactKind::Path).unwrap();
    assert_eq!(named.instead.as_deref(), Some("shots/a.jpeg"), "the agent's own name is shown");

    let script = json!({ "pageId": 1, "function": "() => 7", "filePath": "./seven" });
    assert_eq!(
        files(&seat.call("evaluate_script", script).await),
        [("seven.json", "application/json", &b"7"[..])]
    );
    let heap = seat.call("take_heapsnapshot", json!({ "pageId": 1, "filePath": "h" })).await;
    assert_eq!(files(&heap)[0].0, "h.heapsnapshot");
    assert!(fixture.workspace.path().join("h.heapsnapshot").is_file());

    // A picture too big for an answer: the engine writes it into a folder that it chooses itself.
    seat
        .evaluate(
            "() => {
                document.body.innerHTML = '<canvas width=1500 height=1500></canvas>';
                const canvas = document.querySelector('canvas').getContext('2d');
                const noise = canvas.createImageData(1500, 1500);
                for (let i = 0; i < noise.data.length; i++) noise.data[i] = i % 4 == 3 ? 255 : Math.random() * 256;
                canvas.putImageData(noise, 0, 0);
            }",
        )
        .await;
    let big = seat.call("take_screenshot", json!({ "pageId": 1, "fullPage": true })).await;
    let [("screenshot.png", "image/png", data)] = files(&big)[..] else { panic!("{}", text(&big)) };
    assert!(data.len() > 2_000_000);
}

/// The agent gets a recording when it has ended, and not before. For a browser that is too old for recordings the
/// answer says so, and nothing is written.
pub async fn recordings_arrive_when_they_end(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=film")).await;
    let start = json!({ "pageId": 1, "filePath": "film.mp4" });
    if chromium_major() < RECORDS_SINCE {
        let refused = seat.try_call("screencast_start", start).await.unwrap();
        assert!(refused.is_failure() && text(&refused).contains("Update Chrome"), "{}", text(&refused));
        assert!(!fixture.workspace.path().join("film.mp4").exists());
        return;
    }
    let begun = seat.call("screencast_start", start).await;
    assert!(files(&begun).is_empty());
    seat.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        .await;
    let ended = seat.call("screencast_stop", json!({ "pageId": 1 })).await;
    let [("film.mp4", "video/mp4", data)] = files(&ended)[..] else { panic!("{}", text(&ended)) };
    assert_eq!(std::fs::read(fixture.workspace.path().join("film.mp4")).unwrap(), data);
}

/// Several files of one call arrive in the folder that the agent named.
pub async fn audit_writes_several_files(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/title?t=audited")).await;
    let audit = json!({ "pageId": 1, "mode": "snapshot", "outputDirPath": "audit" });
    let reply = seat.call("lighthouse_audit", audit).await;
    let names: Vec<_> = files(&reply).iter().map(|(name, ..)| *name).collect();
    assert_eq!(names, ["report.json", "report.html"], "in the order in which the answer names them");
    assert!(fixture.workspace.path().join("audit/report.html").is_file());
}

/// The agent can upload files of its workspace, but no other file of this machine, and cannot open one as a page.
/// Nothing is written elsewhere.
pub async fn only_workspace_files_can_be_uploaded(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/upload")).await;
    let page = seat.snapshot().await;
    std::fs::write(fixture.workspace.path().join("cv.txt"), "my cv").unwrap();
    let upload = json!({ "pageId": 1, "uid": uid(&page, "\"File"), "filePaths": ["cv.txt"] });
    seat.call("upload_file", upload).await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while seat.evaluate("() => document.getElementById('result').textContent").await != "cv.txt: my cv" {
        assert!(Instant::now() < deadline, "never uploaded");
    }

    let file = "file_refused";
    for (tool, arguments, code) in [
        (
            "upload_file",
            json!({ "pageId": 1, "uid": uid(&page, "\"File"), "filePaths": ["/etc/hostname"] }),
            file,
        ),
        ("evaluate_script", json!({ "pageId": 1, "sourcePath": "/etc/hostname" }), file),
        ("take_screenshot", json!({ "pageId": 1, "filePath": "/tmp/greenroom-no.png" }), file),
        ("new_page", json!({ "url": "file:///etc/hostname" }), "url_refused"),
        ("new_page", json!({ "url": "view-source:https://example.com" }), "url_refused"),
        ("new_page", json!({ "url": 5 }), "invalid_arguments"),
    ] {
        let reply = seat.try_call(tool, arguments).await.unwrap();
        assert!(reply.is_failure() && reply.body.as_ref().unwrap().get().contains(code), "{}", text(&reply));
    }
}

/// A page's download comes once, with the next answer after it is complete.
pub async fn downloads_come_with_an_answer(fixture: &DevtoolsFixture, seat: &mut DevtoolsSeat) {
    seat.navigate(&fixture.site.url("/")).await;
    let page = seat.snapshot().await;
    let mut reply = seat.call("click", json!({ "pageId": 1, "uid": uid(&page, "link \"download") })).await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    while files(&reply).is_empty() {
        assert!(Instant::now() < deadline, "never downloaded");
        reply = seat.call("list_pages", json!({})).await;
    }
    assert_eq!(files(&reply), [("report.txt", "text/plain", &b"greenroom download\n"[..])]);
    assert!(files(&seat.call("list_pages", json!({})).await).is_empty());
}
