//! What only the playwright engine does in an attached browser.

use std::sync::Arc;

use greenroom_core::{Call, InstanceId, NoAgent, settings::Cap};
use greenroom_engine::EngineOptions;
use greenroom_testkit::{PATIENCE, Site, Theirs, within};
use serde_json::json;

use super::{
    super::{GRACE, Room, body, data_folder},
    Adapter, Guest, at, with_playwright,
};

/// A page that closes itself does not put its agent into a tab of the user's: it gets another of its own.
pub async fn a_closed_tab_has_a_successor(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let before = theirs.tabs().await;
    guest.sit().await;
    guest.navigate(&site.url("/title?t=first")).await;
    for _ in 0..2 {
        // A page may close itself if another opened it.
        let popup = site.url("/title?t=popup");
        guest.evaluate(&format!("() => {{ window.open('{popup}'); }}")).await;
        let own = theirs.tabs().await.into_iter().find(|tab| tab.url.ends_with("t=first")).unwrap();
        theirs.close(&own.id).await;
        guest.until_tabs(2).await;
        assert!(guest.evaluate("() => document.title").await.contains("popup"));
        guest.evaluate("() => { setTimeout(() => window.close(), 0); }").await;
        theirs.until(|tabs| tabs.len() == 1).await;
        let answer = guest.navigate(&site.url("/title?t=first")).await;
        assert!(answer.contains("t=first"), "{answer}");
        let now = theirs.tabs().await;
        assert!(now.len() == 2 && now.contains(&before[0]), "{now:?}");
    }
    // The same for a tab that the user closes, and for one that the agent closes.
    let own = theirs.tabs().await.into_iter().find(|tab| *tab != before[0]).unwrap();
    theirs.close(&own.id).await;
    guest.until_tabs(2).await;
    guest.navigate(&site.url("/title?t=third")).await;
    guest.call("browser_tabs", json!({ "action": "close" })).await;
    theirs.until(|tabs| tabs.len() == 1).await;
    let list = guest.call("browser_tabs", json!({ "action": "list" })).await;
    assert!(list.contains("(current) [](about:blank)"), "{list}");
    guest.rise().await;
    assert_eq!(theirs.tabs().await, before);
}

/// When a tab of the user's closes that the agent has selected, the agent is back in its own.
pub async fn a_selected_tab_that_closes(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let spare = theirs.open(&site.url("/title?t=spare")).await;
    guest.sit().await;
    guest.navigate(&site.url("/title?t=own")).await;
    guest.select("spare").await;
    assert!(guest.evaluate("() => document.title").await.contains("spare"));
    theirs.close(&spare).await;
    guest.until_tabs(2).await;
    assert!(guest.evaluate("() => document.title").await.contains("own"));
    guest.rise().await;
}

/// `browser_close` closes the seat's own tabs, in the engine's own words, and the next call opens another.
pub async fn closing_is_for_own_tabs(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let before = theirs.tabs().await;

    let mut room = Room::open(&[]).await;
    room.navigate("/title?t=x").await;
    let engines = room.call("browser_close", json!({})).await;
    let engines = body(&engines).to_owned();
    room.end().await;

    guest.sit().await;
    guest.navigate(&site.url("/title?t=own")).await;
    guest.call("browser_tabs", json!({ "action": "new" })).await;
    let reply = guest.try_call("browser_close", json!({})).await.unwrap();
    assert_eq!(body(&reply), engines);
    assert_eq!(theirs.tabs().await, before);
    assert_eq!(guest.seat().view().borrow().tabs, 0);
    guest.navigate(&site.url("/title?t=again")).await;
    assert_eq!(theirs.tabs().await.len(), 2);
    guest.rise().await;
    assert_eq!(theirs.tabs().await, before);
}

/// Tabs of the user's work as ever while a guest is there: their file dialogs open, and no script of the engine's is in
/// their documents. In its own tab the guest has both.
pub async fn the_users_tabs_work_as_ever(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let users = theirs.tabs().await[0].id.clone();
    theirs.navigate(&users, &site.url("/upload")).await;
    // Without a window a dialog is cancelled at once; one that is intercepted says nothing.
    let dialog = "new Promise((resolve) => {
        const input = document.createElement('input');
        input.type = 'file';
        input.addEventListener('cancel', () => resolve('cancelled'));
        setTimeout(() => resolve('nothing'), 10000);
        input.click();
    })";
    assert_eq!(theirs.evaluate(&users, dialog).await, "cancelled");
    let native = theirs.evaluate(&users, "String(setTimeout)").await;

    guest.sit().await;
    assert_eq!(theirs.evaluate(&users, dialog).await, "cancelled");
    for tab in [users.clone(), theirs.open(&site.url("/title?t=later")).await] {
        theirs.navigate(&tab, &site.url("/upload?again")).await;
        assert_eq!(theirs.evaluate(&tab, "String(setTimeout)").await, native);
        assert_eq!(theirs.evaluate(&tab, dialog).await, "cancelled");
    }

    guest.navigate(&site.url("/upload")).await;
    assert!(!guest.evaluate("() => String(setTimeout)").await.contains(native.as_str().unwrap()));
    let answer = guest.call("browser_click", json!({ "target": "#file" })).await;
    assert!(answer.contains("[File chooser]: can be handled by browser_file_upload"), "{answer}");
    guest.rise().await;
    assert_eq!(theirs.evaluate(&users, dialog).await, "cancelled");
}

/// Tabs that the user opens and closes while guests come and go are never taken for theirs; one guest after the other
/// finds the same browser, also where each has an engine of its own.
pub async fn guests_come_and_go(site: &Site, theirs: &Theirs) {
    let data = data_folder();
    let house = with_playwright(data.path(), at(theirs.url()), |options| {
        options.settings_mut().tools.r#unsafe = true;
    });
    let instance = house.engine.start(InstanceId(0)).await.unwrap();
    for round in 0..2 {
        let url = site.url(&format!("/title?t=round{round}"));
        let (opened, _users) = tokio::join!(instance.open(Arc::new(NoAgent)), theirs.open(&url));
        let seat = opened.unwrap();
        assert_eq!(seat.view().borrow().tabs, 1);
        seat.close().await;
        assert_eq!(theirs.tabs().await.len(), 2 + round);
    }
    instance.stop(GRACE).await;
}

/// A guest that closes its last tab itself, which is the browser's last, leaves an empty one: that is not the guest's.
pub async fn the_last_tab_is_closed_by_its_agent(site: &Site, theirs: &Theirs, guest: &mut Guest) {
    let users = theirs.tabs().await[0].id.clone();
    guest.sit().await;
    guest.navigate(&site.url("/title?t=own")).await;
    let own = theirs.tabs().await.into_iter().find(|tab| tab.id != users).unwrap();
    theirs.close(&users).await;
    guest.until_tabs(1).await;
    guest.call("browser_tabs", json!({ "action": "close" })).await;
    let left = theirs.until(|tabs| tabs.iter().all(|tab| tab.id != own.id)).await;
    assert!(left.len() == 1 && left[0].url == "about:blank", "{left:?}");
    guest.navigate(&site.url("/title?t=again")).await;
    guest.rise().await;
    assert_eq!(theirs.tabs().await, left);
}

/// Isolated seats have contexts of their own at the same time, without the user's cookies; nothing of them stays, and the
/// user's own context is not touched.
pub async fn isolated_guests_see_nothing(site: &Site, theirs: &Theirs) {
    let before = theirs.tabs().await;
    theirs.evaluate(&before[0].id, "document.cookie = 'user=ann'").await;
    let data = data_folder();
    let house = with_playwright(data.path(), at(theirs.url()), |options| {
        (options.pool.isolated, options.pool.slots) = (true, 2);
    });
    let mut guest = Guest::of(Adapter::Playwright, house, data).await;
    guest.sit().await;
    let second = guest.instance.open(Arc::new(NoAgent)).await.unwrap();
    guest.navigate(&site.url("/title?t=own")).await;
    let cookies = guest.evaluate("() => document.cookie").await;
    assert!(!cookies.contains("user=ann"), "{cookies}");
    assert_eq!(theirs.tabs().await, before);
    assert_eq!(theirs.contexts().await.len(), 2);
    second.close().await;
    guest.call("browser_close", json!({})).await;
    assert_eq!(theirs.contexts().await.len(), 0);
    guest.navigate(&site.url("/title?t=again")).await;
    guest.leave().await;
    assert_eq!((theirs.contexts().await.len(), theirs.tabs().await), (0, before));
}

/// Settings that would change the browser for its user are refused by name, before anything is started.
#[tokio::test]
async fn what_would_change_the_browser_is_refused() {
    let data = data_folder();
    let nowhere = at("http://127.0.0.1:1");
    type Change = fn(&mut EngineOptions);
    let changes: [(&str, Change); 8] = [
        ("`user_agent`", |options| options.pool.user_agent = Some("x".to_owned())),
        ("`ignore_https_errors`", |options| options.pool.ignore_https_errors = true),
        ("`allowed_origins`", |options| options.pool.allowed_origins.push("http://x".to_owned())),
        ("`blocked_origins`", |options| options.pool.blocked_origins.push("http://x".to_owned())),
        ("`init_script`", |options| options.pool.init_script.push("/dev/null".into())),
        ("`caps`", |options| options.pool.caps.push(Cap::Network)),
        ("`caps`", |options| options.pool.caps.push(Cap::Devtools)),
        ("`extension`", |options| options.pool.extension = true),
    ];
    for (key, change) in changes {
        let house = with_playwright(data.path(), nowhere.clone(), change);
        let refused = house.engine.start(InstanceId(0)).await.err().unwrap();
        let all = format!("{} {}", refused.message, refused.hint.unwrap_or_default());
        assert!(all.contains(key), "{all}");
    }
    let house = with_playwright(data.path(), nowhere, |options| options.pool.slots = 2);
    assert!(house.engine.start(InstanceId(0)).await.err().unwrap().message.contains("one slot"));
}

/// What is no call of a tool is none here, even if it is written like one.
pub async fn only_tools_are_called(site: &Site, _: &Theirs, guest: &mut Guest) {
    guest.sit().await;
    let arguments = json!({ "url": site.url("/title?t=sneaked") });
    let params = greenroom_core::raw::encode(&json!({ "name": "browser_navigate", "arguments": arguments }));
    let call = Call { method: "prompts/get", ..Call::new("prompts/get", params) };
    let worker = guest.worker();
    let reply = within(PATIENCE, guest.seat.as_mut().unwrap().call(call, worker)).await.unwrap();
    assert!(reply.body.unwrap_err().get().contains("-32601"));
    assert!(site.requests().iter().all(|seen| seen.query.as_deref() != Some("t=sneaked")));
    guest.rise().await;
}
