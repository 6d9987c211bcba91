//! How instances and seats begin and end, and how greenroom notices that a browser dies.

use greenroom_core::{Engine, InstanceId, Lost};
use greenroom_testkit::{
    Site, TEST_TIMEOUT, eventually,
    process::{Signal, alive, children, signal},
    within,
};
use serde_json::json;

use super::{DevtoolsFixture, DevtoolsSeat, data_folder, engine};

/// The processes of one seat: Node and the browser.
fn processes(fixture: &DevtoolsFixture) -> (u32, u32) {
    let [node, browser] = fixture.instance.process_ids()[..] else { panic!("two processes") };
    (node, browser)
}

async fn until_lost(seat: &DevtoolsSeat) -> Lost {
    let mut lost = seat.seat.lost();
    within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap()
}

/// With one slot Node and browser start with the instance, so that a missing browser fails the start; they serve the first
/// seat and end with it, and nothing stays behind.
#[tokio::test]
async fn one_slot_instance_starts_and_ends_with_its_seat() {
    let site = Site::start().await;
    let data = data_folder();
    let engine =
        engine(data.path(), site.port(), |options| options.pool.executable_path = Some("/nowhere".into()));
    let error = engine.start(InstanceId(0)).await.err().unwrap();
    assert!(error.message.contains("/nowhere"), "{error}");

    let fixture = DevtoolsFixture::with(|_| {}).await;
    let (node, browser) = processes(&fixture);
    let mut seat = fixture.open_seat().await;
    seat.call("list_pages", json!({})).await;
    assert_eq!(processes(&fixture), (node, browser));
    seat.seat.close().await;
    assert!(!alive(node) && !alive(browser) && fixture.instance.process_ids().is_empty());
    assert_eq!(*fixture.instance.lost().borrow(), None, "their end was asked for");

    let _next = fixture.open_seat().await;
    let (node, browser) = processes(&fixture);
    fixture.instance.stop(super::GRACE).await;
    assert!(!alive(node) && !alive(browser));
    for kind in ["profiles", "seats"] {
        let left = std::fs::read_dir(fixture.engine.run.path().join(kind)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{kind}");
    }
}

/// Seats of one instance share nothing: each has its own browser, cookies and pages, and the death of one affects no other.
#[tokio::test]
async fn seats_share_nothing() {
    let fixture = DevtoolsFixture::with(|options| options.pool.slots = 2).await;
    let mut one = fixture.open_seat().await;
    let mut other = fixture.open_seat().await;
    one.navigate(&fixture.site.url("/canary?name=one")).await;
    other.navigate(&fixture.site.url("/show")).await;
    let seen = other.snapshot().await;
    assert!(!seen.contains("canary=one"), "{seen}");

    let [_, _, first, second] = fixture.instance.process_ids()[..] else { panic!("four processes") };
    assert_ne!(first, second);
    signal(first, Signal::KILL);
    assert!(matches!(until_lost(&one).await, Lost::Browser { .. }));
    assert_eq!(*fixture.instance.lost().borrow(), None);
    other.snapshot().await;
    one.seat.close().await;
    fixture.end().await;
}

/// A killed browser is noticed during a call and between calls, by name, and ends its instance.
#[tokio::test]
async fn killed_browser_ends_its_instance() {
    let (fixture, mut seat) = DevtoolsFixture::open().await;
    let (node, browser) = processes(&fixture);
    seat.navigate(&fixture.site.url("/title?t=x")).await;
    let hang = json!({ "pageId": 1, "function": "() => fetch('/hang').then(() => new Promise(() => {}))" });
    let (lost, ()) = tokio::join!(seat.try_call("evaluate_script", hang), async {
        fixture.site.wait_for_hit("/hang").await;
        signal(browser, Signal::KILL);
    });
    assert!(matches!(lost, Err(Lost::Browser { .. })), "{lost:?}");
    let mut instance = fixture.instance.lost();
    let why = within(TEST_TIMEOUT, instance.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Browser { .. })), "{why:?}");
    seat.seat.close().await;
    assert!(!alive(node));
    fixture.end().await;

    let (fixture, seat) = DevtoolsFixture::open().await;
    signal(processes(&fixture).1, Signal::KILL);
    assert!(matches!(until_lost(&seat).await, Lost::Browser { .. }));
    fixture.end().await;
}

/// A page that crashes is replaced by an empty one in the same tab, which the engine would not do: the call that ran in it
/// fails, the crash is reported once, and cookies and other tabs stay.
#[tokio::test]
async fn crashed_page_is_replaced() {
    let (fixture, mut seat) = DevtoolsFixture::open().await;
    seat.navigate(&fixture.site.url("/canary?name=mine")).await;
    let is_page = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("--type=renderer"))
    };
    let pages = || children(processes(&fixture).1).into_iter().filter(is_page).collect::<Vec<_>>();
    let first = pages();
    let second = fixture.site.url("/title?t=second");
    seat.call("new_page", json!({ "url": second })).await;
    let kill_second = || {
        pages().into_iter().filter(|pid| !first.contains(pid)).for_each(|pid| signal(pid, Signal::KILL));
    };

    // During a call.
    let hang = json!({ "pageId": 2, "function": "() => { fetch('/hang'); return new Promise(() => {}); }" });
    let (called, ()) = tokio::join!(seat.try_call("evaluate_script", hang), async {
        fixture.site.wait_for_hit("/hang").await;
        kill_second();
    });
    assert!(called.unwrap().is_failure());
    let crash = eventually("the crash", || seat.seat.take_crashes().pop()).await;
    assert_eq!(*crash.url, second);

    // Between calls.
    let page = json!({ "pageId": 2, "url": fixture.site.url("/title?t=third"), "type": "url" });
    seat.call("navigate_page", page.clone()).await;
    kill_second();
    let crash = eventually("the crash", || seat.seat.take_crashes().pop()).await;
    // A busy browser reports a page's new address a moment late; until then the tab has its old one.
    assert!(crash.url.ends_with("t=third") || &*crash.url == "about:blank", "{crash:?}");
    let _ = seat.try_call("navigate_page", page.clone()).await;
    seat.call("navigate_page", page).await;
    assert_eq!(seat.evaluate("() => document.cookie").await, json!("canary=mine"));
    let listed = seat.call("list_pages", json!({})).await;
    let listed = super::super::text(&listed);
    assert!(listed.contains("name=mine") && listed.contains("t=third"), "{listed}");
    assert_eq!((seat.seat.lost().borrow().clone(), fixture.instance.lost().borrow().clone()), (None, None));
    seat.seat.close().await;
    fixture.end().await;
}

/// A killed Node is noticed, and its browser ends with it.
#[tokio::test]
async fn killed_engine_ends_its_browser() {
    let (fixture, seat) = DevtoolsFixture::open().await;
    let (node, browser) = processes(&fixture);
    signal(node, Signal::KILL);
    assert!(matches!(until_lost(&seat).await, Lost::Process { .. }));
    seat.seat.close().await;
    assert!(!alive(browser));
    fixture.end().await;
}

/// Engine and browser answer pings, also during a running call; the error names a stopped browser.
#[tokio::test]
async fn ping_names_a_stopped_browser() {
    let (fixture, mut seat) = DevtoolsFixture::open().await;
    fixture.instance.ping().await.unwrap();
    let (_, browser) = processes(&fixture);
    let wait = json!({ "pageId": 1, "text": ["never"], "timeout": 3_000 });
    let (waited, alive) = tokio::join!(seat.try_call("wait_for", wait), fixture.instance.ping());
    alive.unwrap();
    assert!(waited.unwrap().is_failure());

    signal(browser, Signal::STOP);
    let ping = tokio::time::timeout(std::time::Duration::from_millis(500), fixture.instance.ping()).await;
    assert!(ping.is_err(), "a stopped browser does not answer");
    let silent = fixture.instance.silent().unwrap();
    assert_eq!(&*silent, format!("the browser did not answer: process {browser}"));
    signal(browser, Signal::CONT);
    fixture.end().await;
}

/// A persistent profile has its cookies for the next seat.
#[tokio::test]
async fn persistent_profile_keeps_cookies() {
    let profile = tempfile::tempdir().unwrap();
    let fixture = DevtoolsFixture::with(|options| {
        options.pool.isolated = false;
        options.profile = Some(profile.path().join("0"));
    })
    .await;
    let mut seat = fixture.open_seat().await;
    seat.navigate(&fixture.site.url("/title?t=x")).await;
    seat.evaluate("() => { document.cookie = 'kept=yes; max-age=3600; path=/'; localStorage.kept = 'too'; }")
        .await;
    seat.seat.close().await;

    let mut next = fixture.open_seat().await;
    next.navigate(&fixture.site.url("/title?t=y")).await;
    assert_eq!(next.evaluate("() => [document.cookie, localStorage.kept]").await, json!(["kept=yes", "too"]));
    next.seat.close().await;
    fixture.end().await;
}
