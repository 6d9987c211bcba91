//! What is driven in somebody else's browser, and what is left alone.

use std::{collections::BTreeSet, sync::Arc};

use greenroom_core::{Engine, InstanceId, Nobody};
use greenroom_engine::{Endpoint, PlaywrightOptions, StartCommand};
use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::{
    super::{Room, body},
    Guest,
    user::{Tab, UserBrowser},
};

fn urls(tabs: &[Tab]) -> BTreeSet<&str> {
    tabs.iter().map(|tab| tab.url.as_str()).collect()
}

/// A seat opens a tab of its own, drives that one alone, signed in as the browser's user is, and closes it at the end; the
/// user's tabs, windows and cookies are as they were, and the browser runs on.
#[tokio::test]
async fn a_guest_leaves_all_as_it_was() {
    let site = Site::start().await;
    let (home, other) = (site.url("/title?t=home"), site.url("/title?t=other"));
    let browser = UserBrowser::start(&home).await;
    browser.open_tab(&other).await;
    let before = browser.tabs().await;
    let mine = &before[0].id;
    browser.evaluate(mine, "document.cookie = 'user=ann'; window.marked = 1").await;
    let look = "JSON.stringify([window.marked, innerWidth, innerHeight, navigator.userAgent, document.cookie, history.length, String(setTimeout), String(requestAnimationFrame)])";
    let seen = browser.evaluate(mine, look).await;

    let mut front = before[0].id.clone();
    for tab in &before {
        if browser.evaluate(&tab.id, "document.visibilityState").await == "visible" {
            front.clone_from(&tab.id);
        }
    }

    let mut guest = Guest::attach(browser.endpoint()).await;
    assert_eq!(browser.tabs().await.len(), 3, "one more");
    assert_eq!(guest.seat.view().borrow().tabs, 1);
    let answer = guest.navigate(&site.url("/title?t=visited")).await;
    assert!(answer.contains("t=visited"), "{answer}");
    let cookies = guest.evaluate("() => document.cookie").await;
    assert!(cookies.contains("user=ann"), "{cookies}");
    let now = browser.tabs().await;
    assert_eq!(urls(&now).len(), 3, "{now:?}");
    assert!(before.iter().all(|tab| now.contains(tab)), "{now:?}");
    assert_eq!(guest.seat.view().borrow().url, site.url("/title?t=visited"));
    // The user still looks at the same tab; the guest's, behind it, is drawn all the same.
    assert_eq!(browser.evaluate(&front, "document.visibilityState").await, "visible");
    guest.call("browser_take_screenshot", json!({})).await;
    guest
        .evaluate("() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
        .await;
    assert_eq!(browser.evaluate(&front, "document.visibilityState").await, "visible");
    // Its window is as big as the user's.
    let size = guest.evaluate("() => [innerWidth, innerHeight, String(navigator.userAgent)].join()").await;
    let sizes: Value = serde_json::from_str(seen.as_str().unwrap()).unwrap();
    assert!(size.contains(&format!("{},{},{}", sizes[1], sizes[2], sizes[3].as_str().unwrap())), "{size}");

    guest.leave().await;
    let after = browser.tabs().await;
    assert_eq!(BTreeSet::from_iter(after), BTreeSet::from_iter(before.clone()));
    assert_eq!(browser.evaluate(mine, look).await, seen);
    browser.kill().await;
}

/// A page that closes itself does not put its agent into a tab of the user's: it gets another of its own.
#[tokio::test]
async fn a_closed_tab_has_a_successor() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=first")).await;
    for _ in 0..3 {
        // A page may close itself if another opened it.
        let popup = site.url("/title?t=popup");
        guest.evaluate(&format!("() => {{ window.open('{popup}'); }}")).await;
        let own = browser.tabs().await.into_iter().find(|tab| tab.url.ends_with("t=first")).unwrap();
        browser.call("Target.closeTarget", json!({ "targetId": own.id })).await;
        guest.until_tabs(2).await;
        assert!(guest.evaluate("() => document.title").await.contains("popup"));
        guest.evaluate("() => { setTimeout(() => window.close(), 0); }").await;
        browser.until(|tabs| tabs.len() == 1).await;
        let answer = guest.navigate(&site.url("/title?t=first")).await;
        assert!(answer.contains("t=first"), "{answer}");
        let now = browser.tabs().await;
        assert!(now.len() == 2 && now.contains(&before[0]), "{now:?}");
    }
    // So does one that the user closes, and one that the agent does.
    let own = browser.tabs().await.into_iter().find(|tab| *tab != before[0]).unwrap();
    browser.call("Target.closeTarget", json!({ "targetId": own.id })).await;
    guest.until_tabs(2).await;
    guest.navigate(&site.url("/title?t=third")).await;
    guest.call("browser_tabs", json!({ "action": "close" })).await;
    browser.until(|tabs| tabs.len() == 1).await;
    let list = guest.call("browser_tabs", json!({ "action": "list" })).await;
    assert!(list.contains("(current) [](about:blank)"), "{list}");
    guest.leave().await;
    assert_eq!(browser.tabs().await, before);
    browser.kill().await;
}

/// What its tabs open, and what the agent opens, is the seat's; what the user opens meanwhile is not.
#[tokio::test]
async fn what_is_opened_belongs_to_its_opener() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=first")).await;
    let popup = site.url("/title?t=popup");
    guest.evaluate(&format!("() => {{ window.open('{popup}'); }}")).await;
    let apart = site.url("/title?t=apart");
    guest.evaluate(&format!("() => {{ window.open('{apart}', '', 'noopener'); }}")).await;
    guest.call("browser_tabs", json!({ "action": "new", "url": site.url("/title?t=new") })).await;
    let users = browser.open_tab(&site.url("/title?t=users")).await;
    browser.evaluate(&users, &format!("window.open('{}') && 1", site.url("/title?t=userpopup"))).await;
    let tabs = browser.until(|tabs| tabs.len() == 7).await;
    assert_eq!(guest.seat.view().borrow().tabs, 4, "{tabs:?}");
    assert_eq!(guest.seat.view().borrow().url, site.url("/title?t=new"));

    guest.leave().await;
    let left = browser.tabs().await;
    let expected = ["home", "users", "userpopup"].map(|title| site.url(&format!("/title?t={title}")));
    assert_eq!(urls(&left), expected.iter().map(String::as_str).collect());
    browser.kill().await;
}

/// An agent may select a tab of the user's, which is its wish; nothing is closed for that, and when that tab closes the
/// agent is back in its own.
#[tokio::test]
async fn a_users_tab_is_used_when_it_is_selected() {
    let site = Site::start().await;
    let home = site.url("/title?t=home");
    let browser = UserBrowser::start(&home).await;
    let spare = browser.open_tab(&site.url("/title?t=spare")).await;
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    guest.select("spare").await;
    assert!(guest.evaluate("() => document.title").await.contains("spare"));
    browser.call("Target.closeTarget", json!({ "targetId": spare })).await;
    guest.until_tabs(2).await;
    assert!(guest.evaluate("() => document.title").await.contains("own"));
    guest.select("home").await;
    guest.evaluate("() => { document.title = 'touched'; }").await;
    guest.leave().await;
    assert_eq!(urls(&browser.tabs().await), BTreeSet::from([home.as_str()]));
    browser.kill().await;
}

/// `browser_close` closes the seat's own tabs, in the engine's own words, and the next call opens another.
#[tokio::test]
async fn closing_is_for_own_tabs() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;

    let mut room = Room::open(&[]).await;
    room.navigate("/title?t=x").await;
    let engines = room.call("browser_close", json!({})).await;
    let engines = body(&engines).to_owned();
    room.end().await;

    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    guest.call("browser_tabs", json!({ "action": "new" })).await;
    let reply = guest.try_call("browser_close", json!({})).await.unwrap();
    assert_eq!(body(&reply), engines);
    assert_eq!(browser.tabs().await, before);
    assert_eq!(guest.seat.view().borrow().tabs, 0);
    guest.navigate(&site.url("/title?t=again")).await;
    assert_eq!(browser.tabs().await.len(), 2);
    guest.leave().await;
    assert_eq!(browser.tabs().await, before);
    browser.kill().await;
}

/// Tabs of the user's work as ever while a guest is there: their file dialogs open, and no script of the engine's is in
/// their documents. In its own tab the guest has both.
#[tokio::test]
async fn the_users_tabs_work_as_ever() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/upload")).await;
    let users = browser.tabs().await[0].id.clone();
    // Without a window a dialog is cancelled at once; one that is intercepted says nothing.
    let dialog = "new Promise((resolve) => {
        const input = document.createElement('input');
        input.type = 'file';
        input.addEventListener('cancel', () => resolve('cancelled'));
        setTimeout(() => resolve('nothing'), 10000);
        input.click();
    })";
    assert_eq!(browser.evaluate(&users, dialog).await, "cancelled");
    let native = browser.evaluate(&users, "String(setTimeout)").await;

    let mut guest = Guest::attach(browser.endpoint()).await;
    assert_eq!(browser.evaluate(&users, dialog).await, "cancelled");
    for tab in [users.clone(), browser.open_tab(&site.url("/title?t=later")).await] {
        browser.navigate(&tab, &site.url("/upload?again")).await;
        assert_eq!(browser.evaluate(&tab, "String(setTimeout)").await, native);
        assert_eq!(browser.evaluate(&tab, dialog).await, "cancelled");
    }

    guest.navigate(&site.url("/upload")).await;
    assert!(!guest.evaluate("() => String(setTimeout)").await.contains(native.as_str().unwrap()));
    let answer = guest.call("browser_click", json!({ "target": "#file" })).await;
    assert!(answer.contains("[File chooser]: can be handled by browser_file_upload"), "{answer}");
    guest.leave().await;
    assert_eq!(browser.evaluate(&users, dialog).await, "cancelled");
    browser.kill().await;
}

/// Tabs that the user opens and closes while guests come and go are never taken for theirs; one guest after the other
/// finds the same browser, also where each has an engine of its own.
#[tokio::test]
async fn guests_come_and_go() {
    let site = Site::start().await;
    let home = site.url("/title?t=home");
    let browser = UserBrowser::start(&home).await;
    let data = super::data_folder();
    let engine = super::attached(&data, browser.endpoint(), |options| options.own_node = true);
    let instance = engine.start(InstanceId(0)).await.unwrap();
    for round in 0..3 {
        let url = site.url(&format!("/title?t=round{round}"));
        let (opened, _users) = tokio::join!(instance.open(Arc::new(Nobody)), browser.open_tab(&url));
        let seat = opened.unwrap();
        assert_eq!(seat.view().borrow().tabs, 1);
        seat.close().await;
        assert_eq!(browser.tabs().await.len(), 2 + round);
    }
    instance.stop(super::GRACE).await;
    browser.kill().await;
}

/// A guest that is left with the last tab leaves an empty one in its place: a browser with windows would end with it.
#[tokio::test]
async fn the_last_tab_is_left() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let users = browser.tabs().await[0].id.clone();
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let own = browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap();
    browser.call("Target.closeTarget", json!({ "targetId": users })).await;
    guest.until_tabs(1).await;
    guest.leave().await;
    let left = browser.tabs().await;
    assert!(left.len() == 1 && left[0].id != own.id && left[0].url == "about:blank", "{left:?}");
    browser.kill().await;
}

/// So does one that closes its last tab itself, which is the browser's last: the empty tab is not the guest's.
#[tokio::test]
async fn the_last_tab_is_closed_by_its_agent() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let users = browser.tabs().await[0].id.clone();
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let own = browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap();
    browser.call("Target.closeTarget", json!({ "targetId": users })).await;
    guest.until_tabs(1).await;
    guest.call("browser_tabs", json!({ "action": "close" })).await;
    let left = browser.until(|tabs| tabs.iter().all(|tab| tab.id != own.id)).await;
    assert!(left.len() == 1 && left[0].url == "about:blank", "{left:?}");
    guest.navigate(&site.url("/title?t=again")).await;
    guest.leave().await;
    assert_eq!(browser.tabs().await, left);
    browser.kill().await;
}

/// Isolated seats have contexts of their own, side by side, without the user's cookies; nothing of them stays, and the
/// user's own context is not touched.
#[tokio::test]
async fn isolated_guests_see_nothing() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;
    browser.evaluate(&before[0].id, "document.cookie = 'user=ann'").await;
    let mut guest = Guest::attach_with(browser.endpoint(), |options| {
        (options.isolated, options.slots) = (true, 2);
    })
    .await;
    let second = guest.instance.open(Arc::new(Nobody)).await.unwrap();
    guest.navigate(&site.url("/title?t=own")).await;
    let cookies = guest.evaluate("() => document.cookie").await;
    assert!(!cookies.contains("user=ann"), "{cookies}");
    assert_eq!(browser.tabs().await, before);
    assert_eq!(browser.contexts().await, 2);
    second.close().await;
    guest.call("browser_close", json!({})).await;
    assert_eq!(browser.contexts().await, 0);
    guest.navigate(&site.url("/title?t=again")).await;
    guest.leave().await;
    assert_eq!((browser.contexts().await, browser.tabs().await), (0, before));
    browser.kill().await;
}

/// What would change the browser for its user is refused by name, before anything is started.
#[tokio::test]
async fn what_would_change_the_browser_is_refused() {
    let nowhere = Arc::new(Endpoint {
        url: "http://127.0.0.1:1".to_owned(),
        headers: Vec::new(),
        start_command: StartCommand::default(),
    });
    let data = super::data_folder();
    type Change = fn(&mut PlaywrightOptions);
    let changes: [(&str, Change); 8] = [
        ("`user_agent`", |options| options.user_agent = Some("x".to_owned())),
        ("`ignore_https_errors`", |options| options.ignore_https_errors = true),
        ("`allowed_origins`", |options| options.allowed_origins.push("http://x".to_owned())),
        ("`blocked_origins`", |options| options.blocked_origins.push("http://x".to_owned())),
        ("`init_script`", |options| options.init_scripts.push("/dev/null".into())),
        ("`caps`", |options| options.caps.push("network".to_owned())),
        ("`caps`", |options| options.caps.push("devtools".to_owned())),
        ("`extension`", |options| options.extension = true),
    ];
    for (key, change) in changes {
        let engine = super::attached(&data, nowhere.clone(), change);
        let refused = engine.start(InstanceId(0)).await.err().unwrap();
        let all = format!("{} {}", refused.message, refused.hint.unwrap_or_default());
        assert!(all.contains(key), "{all}");
    }
    let engine = super::attached(&data, nowhere, |options| options.slots = 2);
    assert!(engine.start(InstanceId(0)).await.err().unwrap().message.contains("one slot"));
}
