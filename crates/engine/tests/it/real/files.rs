//! Files that come with an answer.

use greenroom_testkit::TEST_TIMEOUT;
use serde_json::json;
use tokio::time::Instant;

use super::{PlaywrightFixture, files, text};

/// A download's bytes come with the answer that reports it as complete, under the name that it has in the session.
pub async fn downloads_come_with_an_answer(fixture: &mut PlaywrightFixture) {
    fixture.navigate("/").await;
    let deadline = Instant::now() + TEST_TIMEOUT;
    let mut reply = fixture.call("browser_click", json!({ "target": "a[href='/download']" })).await;
    while !text(&reply).contains("Downloaded file") {
        assert!(files(&reply).is_empty(), "{reply:?}");
        assert!(Instant::now() < deadline, "never downloaded");
        reply = fixture.evaluate("() => 0").await;
    }
    assert_eq!(files(&reply), [("report.txt", "text/plain", &b"greenroom download\n"[..])]);
}

/// A response body that is not text comes as a file with a readable path, as a download does.
pub async fn response_bodies_come_as_files(fixture: &mut PlaywrightFixture) {
    fixture.navigate("/").await;
    fixture.evaluate("() => fetch('/download?kind=application/zip').then(answer => answer.text())").await;
    let listed = text(&fixture.call("browser_network_requests", json!({ "filter": "zip" })).await);
    let index: u32 = listed.lines().find_map(|line| line.split_once(". ")?.0.parse().ok()).unwrap();
    let arguments = json!({ "index": index, "part": "response-body" });
    let reply = fixture.call("browser_network_request", arguments).await;
    let [(name, "application/zip", b"greenroom download\n")] = files(&reply)[..] else { panic!("{reply:?}") };
    let path = reply.artifacts.iter().find_map(|artifact| artifact.instead.as_deref()).unwrap();
    assert!(path.ends_with(name) && std::fs::exists(path).unwrap(), "{path}");
}

/// Screenshots and PDFs are kept, with and without a name of the agent's; those with one arrive in its workspace as well.
pub async fn pictures_and_documents_are_kept(fixture: &mut PlaywrightFixture) {
    fixture.navigate("/title?t=picture").await;
    for (tool, mime, begins) in [
        ("browser_take_screenshot", "image/png", &b"\x89PNG"[..]),
        ("browser_pdf_save", "application/pdf", b"%PDF-"),
    ] {
        let extension = mime.split_once('/').unwrap().1;
        for name in [None, Some(format!("a.{extension}")), Some(format!("./b.{extension}"))] {
            let arguments = name.as_ref().map_or_else(|| json!({}), |name| json!({ "filename": name }));
            let reply = fixture.call(tool, arguments).await;
            let [(kept, kind, data)] = files(&reply)[..] else { panic!("{reply:?}") };
            assert!(kind == mime && data.starts_with(begins), "{tool} {name:?}: {kind}");
            assert!(kept.ends_with(extension) && !kept.contains('/'), "{kept}");
            if let Some(name) = name {
                assert_eq!(std::fs::read(fixture.workspace.path().join(&name)).unwrap(), data);
                assert!(name.ends_with(kept));
            }
        }
    }
    let reply =
        fixture.call("browser_evaluate", json!({ "function": "() => 7", "filename": "seven.json" })).await;
    assert_eq!(files(&reply), [("seven.json", "application/json", &b"7"[..])]);
}
