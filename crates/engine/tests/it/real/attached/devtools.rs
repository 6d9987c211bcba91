//! What only the devtools engine does in an attached browser.

use greenroom_core::InstanceId;
use greenroom_testkit::{Site, Theirs};
use serde_json::{Value, json};

use super::{
    super::{data_folder, devtools::uid},
    Guest, at, with_devtools,
};

/// Pages in contexts that the agent asked for are the seat's, and go with it. When its first tab goes, nothing of the user's
/// takes its place.
pub async fn contexts_that_were_asked_for(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    guest.sit().await;
    guest.navigate(&site.url("/title?t=own")).await;
    guest.call("new_page", json!({ "url": site.url("/title?t=second") })).await;
    guest.call("new_page", json!({ "url": site.url("/title?t=apart"), "isolatedContext": "x" })).await;
    assert_eq!(theirs.contexts().await.len(), 1);
    guest.call("close_page", json!({ "pageId": guest.page })).await;
    let pages = guest.call("list_pages", json!({})).await;
    let selected = pages.lines().find(|line| line.contains("[selected]")).unwrap_or_default();
    assert!(["second", "apart"].iter().any(|title| selected.contains(title)), "{pages}");
    guest.rise().await;
    assert_eq!((theirs.urls().await, theirs.contexts().await.len()), (vec![site.url("/title?t=home")], 0));
}

/// The browser's last tab is not closed by its agent.
pub async fn the_last_tab_cannot_be_closed(_: &Site, theirs: &Theirs, guest: &mut Guest) {
    let users = theirs.tabs().await[0].id.clone();
    guest.sit().await;
    theirs.close(&users).await;
    let only = theirs.until(|tabs| tabs.len() == 1).await;
    let said = guest.call("close_page", json!({ "pageId": guest.page })).await;
    assert!(said.contains("cannot be closed"), "{said}");
    assert_eq!(theirs.tabs().await, only);
    guest.rise().await;
}

/// Files can be handed over in a browser on this machine; what the agent names is written into its workspace.
pub async fn files(site: &Site, _: &Theirs, guest: &mut Guest) {
    guest.sit().await;
    guest.navigate(&site.url("/upload")).await;
    let snapshot = guest.try_call("take_snapshot", json!({ "pageId": guest.page })).await.unwrap();
    std::fs::write(guest.workspace.path().join("cv.txt"), "my cv").unwrap();
    let uid = uid(snapshot.snapshot_text().unwrap(), "\"File");
    let upload = json!({ "pageId": guest.page, "uid": uid, "filePaths": ["cv.txt"] });
    guest.call("upload_file", upload).await;
    let script = "() => new Promise(done => { const look = () => { const text = document.getElementById('result').textContent; \
                  text === 'no file' ? setTimeout(look, 10) : done(text); }; look(); })";
    let read = json!({ "pageId": guest.page, "function": script, "filePath": "read" });
    guest.call("evaluate_script", read).await;
    let written = std::fs::read_to_string(guest.workspace.path().join("read.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!("cv.txt: my cv"));
    guest.rise().await;
}

/// It makes no contexts of its own, so it is not isolated in an attached browser, and has one slot there: other settings are
/// refused by name, before anything is started.
#[tokio::test]
async fn what_it_cannot_keep_apart_is_refused() {
    let data = data_folder();
    type Change = fn(&mut greenroom_engine::EngineOptions);
    let changes: [(&str, Change); 2] = [
        ("`isolated`", |options| options.pool.isolated = true),
        ("`slots`", |options| options.pool.slots = 2),
    ];
    for (key, change) in changes {
        let house = with_devtools(data.path(), at("http://127.0.0.1:1"), change);
        let refused = house.engine.start(InstanceId(0)).await.err().unwrap();
        assert!(refused.hint.as_ref().is_some_and(|hint| hint.contains(key)), "{key}: {refused:?}");
        assert!(!refused.message.contains("127.0.0.1"), "it did not even connect: {refused}");
    }
}
