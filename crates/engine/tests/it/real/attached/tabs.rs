//! What greenroom drives in an attached browser, and what it leaves alone.

use std::sync::Arc;

use greenroom_core::NoAgent;
use greenroom_testkit::{Site, TEST_TIMEOUT, Tab, UserBrowser, within};
use serde_json::Value;

use super::{ADAPTERS, Adapter, AttachedFixture, at};

/// greenroom leaves an attached browser alone until a seat opens. A seat then has a tab of its own, signed in as the
/// user is and as big as the user's window, drives only that tab, and closes it at the end. The user's tabs stay
/// unchanged: with playwright the tab in front stays in front; with devtools the seat's tab is in front, and the user's
/// tabs are hidden.
pub async fn seat_leaves_the_users_tabs_unchanged(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let adapter = fixture.adapter;
    // Another tab than the first: that one is smaller, because Chromium shows a warning about its flags there.
    let mine = &user_browser.open(&site.url("/title?t=one")).await;
    user_browser.open(&site.url("/title?t=two")).await;
    let before = user_browser.tabs().await;
    user_browser.evaluate(mine, "document.cookie = 'user=ann'; window.marked = 1").await;
    let look = "JSON.stringify([window.marked, innerWidth, innerHeight, navigator.userAgent, document.cookie, history.length, String(setTimeout), String(requestAnimationFrame)])";
    let seen = user_browser.evaluate(mine, look).await;
    let front = in_front(user_browser, &before).await;
    assert_eq!(front.len(), 1, "{front:?}");

    fixture.instance.ping().await.unwrap();
    assert_eq!(user_browser.tabs().await, before, "no seat is open yet");
    fixture.open_seat().await;
    assert_eq!(user_browser.tabs().await.len(), 4, "one more");
    assert_eq!(fixture.seat().view().borrow().tabs, 1, "its own only");
    fixture.navigate(&site.url("/title?t=visited")).await;
    assert!(fixture.evaluate("() => document.cookie").await.contains("user=ann"));
    let now = user_browser.tabs().await;
    assert!(now.len() == 4 && before.iter().all(|tab| now.contains(tab)), "{now:?}");
    assert_eq!(fixture.seat().view().borrow().url, site.url("/title?t=visited"));
    // A tab in the background is drawn, too. The screenshot comes last: on a busy machine playwright has exceeded its 5
    // s for one that was the first call to such a tab.
    let drawn = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))";
    fixture.evaluate(drawn).await;
    fixture.take_picture().await;
    let expected = if adapter == Adapter::Playwright { front } else { Vec::new() };
    assert_eq!(in_front(user_browser, &before).await, expected, "{adapter:?}");
    let size = fixture.evaluate("() => [innerWidth, innerHeight, String(navigator.userAgent)].join()").await;
    let users: Value = serde_json::from_str(seen.as_str().unwrap()).unwrap();
    assert!(size.contains(&format!("{},{},{}", users[1], users[2], users[3].as_str().unwrap())), "{size}");

    fixture.close_seat().await;
    assert_eq!(user_browser.tabs().await, before);
    fixture.open_seat().await;
    fixture.close_seat().await;
    assert_eq!(user_browser.tabs().await, before);
    assert_eq!(user_browser.evaluate(mine, look).await, seen);
}

/// The tabs among these that report to be in front.
async fn in_front(user_browser: &UserBrowser, tabs: &[Tab]) -> Vec<Tab> {
    let mut found = Vec::new();
    for tab in tabs {
        if user_browser.evaluate(&tab.id, "document.visibilityState").await == "visible" {
            found.push(tab.clone());
        }
    }
    found
}

/// Tabs that the seat's tabs or the agent open belong to the seat; tabs that the user opens meanwhile do not.
pub async fn opened_tabs_belong_to_their_opener(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=first")).await;
    let popup = site.url("/title?t=popup");
    let apart = site.url("/title?t=apart");
    fixture.evaluate(&format!("() => {{ window.open('{popup}'); }}")).await;
    fixture.evaluate(&format!("() => {{ window.open('{apart}', '', 'noopener'); }}")).await;
    fixture.open(&site.url("/title?t=new")).await;
    let users = user_browser.open(&site.url("/title?t=users")).await;
    user_browser.evaluate(&users, &format!("window.open('{}') && 1", site.url("/title?t=userpopup"))).await;
    user_browser.until(|tabs| tabs.len() == 7).await;
    let mut view = fixture.seat().view();
    within(TEST_TIMEOUT, view.wait_for(|view| view.tabs == 4)).await.unwrap();

    fixture.close_seat().await;
    let left = ["home", "users", "userpopup"].map(|title| site.url(&format!("/title?t={title}")));
    user_browser.wait_for_urls(&left.each_ref().map(String::as_str)).await;
}

/// An agent may use a tab of the user if it selects that tab; greenroom closes nothing for that.
pub async fn users_tab_is_used_when_selected(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    fixture.select("home").await;
    assert!(fixture.evaluate("() => document.title").await.contains("home"));
    fixture.navigate(&site.url("/title?t=sent")).await;
    fixture.close_seat().await;
    assert_eq!(user_browser.urls().await, [site.url("/title?t=sent")]);
}

/// If a seat with the browser's last tab closes, an empty tab replaces it: a browser with windows exits with its last
/// tab.
pub async fn empty_tab_replaces_the_last_tab(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let users = user_browser.tabs().await[0].id.clone();
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    user_browser.close(&users).await;
    fixture.until_tabs(1).await;
    let only = user_browser.until(|tabs| tabs.len() == 1).await;
    fixture.close_seat().await;
    let left = user_browser.tabs().await;
    assert!(left.len() == 1 && left[0].id != only[0].id && left[0].url == "about:blank", "{left:?}");
}

/// A seat whose caller has given up leaves nothing behind, though its tab was already open.
#[tokio::test]
async fn seat_without_a_caller_leaves_no_tab() {
    for adapter in ADAPTERS {
        let user_browser = UserBrowser::start().await;
        let before = user_browser.tabs().await;
        let fixture = AttachedFixture::at(adapter, at(user_browser.url())).await;
        tokio::select! {
            biased;
            _ = user_browser.until(|tabs| tabs.len() == 2) => {}
            _ = fixture.instance.open(Arc::new(NoAgent)) => panic!("the tab comes first"),
        }
        user_browser.until(|tabs| tabs == before).await;
        fixture.stop().await;
    }
}
