//! What only the playwright engine does in an attached browser.

use std::sync::Arc;

use greenroom_core::{Call, InstanceId, NoAgent, settings::Cap};
use greenroom_engine::EngineOptions;
use greenroom_testkit::{Site, TEST_TIMEOUT, UserBrowser, within};
use serde_json::json;

use super::{
    super::{GRACE, PlaywrightFixture, body, data_folder},
    Adapter, AttachedFixture, at, with_playwright,
};

/// When a page closes itself, its agent gets another tab of its own, and is not put into a tab of the user.
pub async fn closed_tab_is_replaced_by_an_own_tab(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let before = user_browser.tabs().await;
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=first")).await;
    for _ in 0..2 {
        // A page may close itself if another opened it.
        let popup = site.url("/title?t=popup");
        fixture.evaluate(&format!("() => {{ window.open('{popup}'); }}")).await;
        let own = user_browser.tabs().await.into_iter().find(|tab| tab.url.ends_with("t=first")).unwrap();
        user_browser.close(&own.id).await;
        fixture.until_tabs(2).await;
        assert!(fixture.evaluate("() => document.title").await.contains("popup"));
        fixture.evaluate("() => { setTimeout(() => window.close(), 0); }").await;
        user_browser.until(|tabs| tabs.len() == 1).await;
        let answer = fixture.navigate(&site.url("/title?t=first")).await;
        assert!(answer.contains("t=first"), "{answer}");
        let now = user_browser.tabs().await;
        assert!(now.len() == 2 && now.contains(&before[0]), "{now:?}");
    }
    // The same for a tab that the user closes, and for one that the agent closes.
    let own = user_browser.tabs().await.into_iter().find(|tab| *tab != before[0]).unwrap();
    user_browser.close(&own.id).await;
    fixture.until_tabs(2).await;
    fixture.navigate(&site.url("/title?t=third")).await;
    fixture.call("browser_tabs", json!({ "action": "close" })).await;
    user_browser.until(|tabs| tabs.len() == 1).await;
    let list = fixture.call("browser_tabs", json!({ "action": "list" })).await;
    assert!(list.contains("(current) [](about:blank)"), "{list}");
    fixture.close_seat().await;
    assert_eq!(user_browser.tabs().await, before);
}

/// When the agent has selected a tab of the user and that tab closes, the agent is back in its own tab.
pub async fn agent_returns_to_its_tab_when_a_selected_tab_closes(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let spare = user_browser.open(&site.url("/title?t=spare")).await;
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    fixture.select("spare").await;
    assert!(fixture.evaluate("() => document.title").await.contains("spare"));
    user_browser.close(&spare).await;
    fixture.until_tabs(2).await;
    assert!(fixture.evaluate("() => document.title").await.contains("own"));
    fixture.close_seat().await;
}

/// `browser_close` closes the seat's own tabs, in the engine's own words, and the next call opens another.
pub async fn browser_close_closes_own_tabs_only(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let before = user_browser.tabs().await;

    let mut unattached = PlaywrightFixture::open(&[]).await;
    unattached.navigate("/title?t=x").await;
    let engine_answer = unattached.call("browser_close", json!({})).await;
    let engine_answer = body(&engine_answer).to_owned();
    unattached.end().await;

    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    fixture.call("browser_tabs", json!({ "action": "new" })).await;
    let reply = fixture.try_call("browser_close", json!({})).await.unwrap();
    assert_eq!(body(&reply), engine_answer);
    assert_eq!(user_browser.tabs().await, before);
    assert_eq!(fixture.seat().view().borrow().tabs, 0);
    fixture.navigate(&site.url("/title?t=again")).await;
    assert_eq!(user_browser.tabs().await.len(), 2);
    fixture.close_seat().await;
    assert_eq!(user_browser.tabs().await, before);
}

/// The user's tabs work as before while a seat is open: their file dialogs open, and no script of the engine is in
/// their documents. In the seat's own tab the engine intercepts dialogs and has its scripts.
pub async fn users_tabs_keep_their_file_dialogs_and_scripts(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let users = user_browser.tabs().await[0].id.clone();
    user_browser.navigate(&users, &site.url("/upload")).await;
    // Without a window a dialog is cancelled at once; one that is intercepted says nothing.
    let dialog = "new Promise((resolve) => {
        const input = document.createElement('input');
        input.type = 'file';
        input.addEventListener('cancel', () => resolve('cancelled'));
        setTimeout(() => resolve('nothing'), 10000);
        input.click();
    })";
    assert_eq!(user_browser.evaluate(&users, dialog).await, "cancelled");
    let native = user_browser.evaluate(&users, "String(setTimeout)").await;

    fixture.open_seat().await;
    assert_eq!(user_browser.evaluate(&users, dialog).await, "cancelled");
    for tab in [users.clone(), user_browser.open(&site.url("/title?t=later")).await] {
        user_browser.navigate(&tab, &site.url("/upload?again")).await;
        assert_eq!(user_browser.evaluate(&tab, "String(setTimeout)").await, native);
        assert_eq!(user_browser.evaluate(&tab, dialog).await, "cancelled");
    }

    fixture.navigate(&site.url("/upload")).await;
    assert!(!fixture.evaluate("() => String(setTimeout)").await.contains(native.as_str().unwrap()));
    let answer = fixture.call("browser_click", json!({ "target": "#file" })).await;
    assert!(answer.contains("[File chooser]: can be handled by browser_file_upload"), "{answer}");
    fixture.close_seat().await;
    assert_eq!(user_browser.evaluate(&users, dialog).await, "cancelled");
}

/// No seat takes a tab that the user opens or closes while seats open and close. Every seat finds the same browser, also
/// where each seat has its own engine process.
pub async fn seats_and_users_tabs_open_at_once(site: &Site, user_browser: &UserBrowser) {
    let data = data_folder();
    let attached = with_playwright(data.path(), at(user_browser.url()), |options| {
        options.settings_mut().tools.r#unsafe = true;
    });
    let instance = attached.engine.start(InstanceId(0)).await.unwrap();
    for round in 0..2 {
        let url = site.url(&format!("/title?t=round{round}"));
        let (opened, _users) = tokio::join!(instance.open(Arc::new(NoAgent)), user_browser.open(&url));
        let seat = opened.unwrap();
        assert_eq!(seat.view().borrow().tabs, 1);
        seat.close().await;
        assert_eq!(user_browser.tabs().await.len(), 2 + round);
    }
    instance.stop(GRACE).await;
}

/// If the agent closes its last tab, and that is the browser's last, an empty tab stays, which does not belong to the
/// seat.
pub async fn agent_that_closes_the_last_tab_leaves_an_empty_one(
    site: &Site,
    user_browser: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    let users = user_browser.tabs().await[0].id.clone();
    fixture.open_seat().await;
    fixture.navigate(&site.url("/title?t=own")).await;
    let own = user_browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap();
    user_browser.close(&users).await;
    fixture.until_tabs(1).await;
    fixture.call("browser_tabs", json!({ "action": "close" })).await;
    let left = user_browser.until(|tabs| tabs.iter().all(|tab| tab.id != own.id)).await;
    assert!(left.len() == 1 && left[0].url == "about:blank", "{left:?}");
    fixture.navigate(&site.url("/title?t=again")).await;
    fixture.close_seat().await;
    assert_eq!(user_browser.tabs().await, left);
}

/// Isolated seats have contexts of their own at the same time, without the user's cookies; nothing of them stays, and the
/// user's own context is not touched.
pub async fn isolated_seats_do_not_see_the_users_cookies(site: &Site, user_browser: &UserBrowser) {
    let before = user_browser.tabs().await;
    user_browser.evaluate(&before[0].id, "document.cookie = 'user=ann'").await;
    let data = data_folder();
    let attached = with_playwright(data.path(), at(user_browser.url()), |options| {
        options.pool.isolated = true;
        options.pool.slots = 2;
    });
    let mut fixture = AttachedFixture::with_engine(Adapter::Playwright, attached, data).await;
    fixture.open_seat().await;
    let second = fixture.instance.open(Arc::new(NoAgent)).await.unwrap();
    fixture.navigate(&site.url("/title?t=own")).await;
    let cookies = fixture.evaluate("() => document.cookie").await;
    assert!(!cookies.contains("user=ann"), "{cookies}");
    assert_eq!(user_browser.tabs().await, before);
    assert_eq!(user_browser.contexts().await.len(), 2);
    second.close().await;
    fixture.call("browser_close", json!({})).await;
    assert_eq!(user_browser.contexts().await.len(), 0);
    fixture.navigate(&site.url("/title?t=again")).await;
    fixture.stop().await;
    assert_eq!((user_browser.contexts().await.len(), user_browser.tabs().await), (0, before));
}

/// Settings that would change the browser for its user are refused by name, before anything is started.
#[tokio::test]
async fn settings_that_change_the_users_browser_are_refused() {
    let data = data_folder();
    let nowhere = at("http://127.0.0.1:1");
    type ChangeOptions = fn(&mut EngineOptions);
    let changes: [(&str, ChangeOptions); 8] = [
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
        let attached = with_playwright(data.path(), nowhere.clone(), change);
        let refused = attached.engine.start(InstanceId(0)).await.err().unwrap();
        let all = format!("{} {}", refused.message, refused.hint.unwrap_or_default());
        assert!(all.contains(key), "{all}");
    }
    let attached = with_playwright(data.path(), nowhere, |options| options.pool.slots = 2);
    assert!(attached.engine.start(InstanceId(0)).await.err().unwrap().message.contains("one slot"));
}

/// A request with another method than `tools/call` does not reach the engine, even if its parameters look like a tool
/// call.
pub async fn other_methods_than_tool_calls_are_refused(
    site: &Site,
    _: &UserBrowser,
    fixture: &mut AttachedFixture,
) {
    fixture.open_seat().await;
    let arguments = json!({ "url": site.url("/title?t=sneaked") });
    let params = greenroom_core::raw::encode(&json!({ "name": "browser_navigate", "arguments": arguments }));
    let call = Call { method: "prompts/get", ..Call::new("prompts/get", params) };
    let worker = fixture.worker();
    let reply = within(TEST_TIMEOUT, fixture.seat.as_mut().unwrap().call(call, worker)).await.unwrap();
    assert!(reply.body.unwrap_err().get().contains("-32601"));
    assert!(site.requests().iter().all(|seen| seen.query.as_deref() != Some("t=sneaked")));
    fixture.close_seat().await;
}
