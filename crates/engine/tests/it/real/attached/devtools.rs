//! What only the devtools engine does in an attached browser.

use greenroom_core::InstanceId;
use greenroom_testkit::{Site, UserBrowser};
use serde_json::{Value, json};

use super::{
    super::{data_folder, devtools::uid},
    AttachedFixture, at, with_devtools,
};

/// Pages in contexts that the agent asked for belong to the seat, and close with it. When its first tab closes, no tab
/// of the user takes its place.
pub async fn requested_contexts_end_with_the_seat(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    fixture.call("new_page", json!({ "url": site.url("/title?t=second") })).await;
    fixture.call("new_page", json!({ "url": site.url("/title?t=apart"), "isolatedContext": "x" })).await;
    assert_eq!(user_browser.contexts().await.len(), 1);
    fixture.call("close_page", json!({ "pageId": fixture.page })).await;
    let pages = fixture.call("list_pages", json!({})).await;
    let selected = pages.lines().find(|line| line.contains("[selected]")).unwrap_or_default();
    assert!(["second", "apart"].iter().any(|title| selected.contains(title)), "{pages}");
    fixture.close_seat().await;
    assert_eq!(
        (user_browser.urls().await, user_browser.contexts().await.len()),
        (vec![site.url("/title?t=home")], 0)
    );
}

/// The agent cannot close the browser's last tab.
pub async fn last_tab_cannot_be_closed(_: &Site, user_browser: &UserBrowser, fixture: &mut AttachedFixture) {
    let users = user_browser.tabs().await[0].id.clone();
    fixture.open_seat().await;
    user_browser.close(&users).await;
    let only = user_browser.until(|tabs| tabs.len() == 1).await;
    let message = fixture.call("close_page", json!({ "pageId": fixture.page })).await;
    assert!(message.contains("cannot be closed"), "{message}");
    assert_eq!(user_browser.tabs().await, only);
    fixture.close_seat().await;
}

/// The agent can upload files in a browser on this machine; files that it names are written into its workspace.
pub async fn files_go_to_the_workspace(site: &Site, _: &UserBrowser, fixture: &mut AttachedFixture) {
    fixture.open_seat().await;
    fixture.navigate(&site.url("/upload")).await;
    let snapshot = fixture.try_call("take_snapshot", json!({ "pageId": fixture.page })).await.unwrap();
    std::fs::write(fixture.workspace.path().join("cv.txt"), "my cv").unwrap();
    let uid = uid(snapshot.snapshot_text().unwrap(), "\"File");
    let upload = json!({ "pageId": fixture.page, "uid": uid, "filePaths": ["cv.txt"] });
    fixture.call("upload_file", upload).await;
    let script = "() => new Promise(done => { const look = () => { const text = document.getElementById('result').textContent; \
                  text === 'no file' ? setTimeout(look, 10) : done(text); }; look(); })";
    let read = json!({ "pageId": fixture.page, "function": script, "filePath": "read" });
    fixture.call("evaluate_script", read).await;
    let written = std::fs::read_to_string(fixture.workspace.path().join("read.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!("cv.txt: my cv"));
    fixture.close_seat().await;
}

/// The engine makes no contexts of its own, so it is not isolated in an attached browser, and has one slot there: other
/// settings are refused by name, before anything is started.
#[tokio::test]
async fn isolated_and_slots_settings_are_refused() {
    let data = data_folder();
    type ChangeOptions = fn(&mut greenroom_engine::EngineOptions);
    let changes: [(&str, ChangeOptions); 2] = [
        ("`isolated`", |options| options.pool.isolated = true),
        ("`slots`", |options| options.pool.slots = 2),
    ];
    for (key, change) in changes {
        let attached = with_devtools(data.path(), at("http://127.0.0.1:1"), change);
        let refused = attached.engine.start(InstanceId(0)).await.err().unwrap();
        assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains(key)), "{key}: {refused:?}");
        assert!(!refused.message.contains("127.0.0.1"), "it did not even connect: {refused}");
    }
}
