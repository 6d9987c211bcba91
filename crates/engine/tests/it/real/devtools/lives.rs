//! How instances and seats begin and end, and how greenroom notices that a browser dies.

use greenroom_core::{Engine, InstanceId, Lost};
use greenroom_testkit::{
    PATIENCE, Site, eventually,
    process::{Signal, alive, children, signal},
    within,
};
use serde_json::json;

use super::{Room, Sitter, data_folder, engine};

/// The processes of one seat: Node and the browser.
fn processes(room: &Room) -> (u32, u32) {
    let [node, browser] = room.instance.process_ids()[..] else { panic!("two processes") };
    (node, browser)
}

async fn until_lost(sitter: &Sitter) -> Lost {
    let mut lost = sitter.seat.lost();
    within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap()
}

/// With one slot Node and browser start with the instance, so that a missing browser fails the start; they serve the first
/// seat and end with it, and nothing stays behind.
#[tokio::test]
async fn with_one_slot() {
    let site = Site::start().await;
    let data = data_folder();
    let engine =
        engine(data.path(), site.port(), |options| options.pool.executable_path = Some("/nowhere".into()));
    let error = engine.start(InstanceId(0)).await.err().unwrap();
    assert!(error.message.contains("/nowhere"), "{error}");

    let room = Room::with(|_| {}).await;
    let (node, browser) = processes(&room);
    let mut sitter = room.sit().await;
    sitter.call("list_pages", json!({})).await;
    assert_eq!(processes(&room), (node, browser));
    sitter.seat.close().await;
    assert!(!alive(node) && !alive(browser) && room.instance.process_ids().is_empty());
    assert_eq!(*room.instance.lost().borrow(), None, "their end was asked for");

    let _next = room.sit().await;
    let (node, browser) = processes(&room);
    room.instance.stop(super::GRACE).await;
    assert!(!alive(node) && !alive(browser));
    for kind in ["profiles", "seats"] {
        let left = std::fs::read_dir(room.engine.run.path().join(kind)).map_or(0, Iterator::count);
        assert_eq!(left, 0, "{kind}");
    }
}

/// Seats of one instance share nothing: each has its own browser, cookies and pages, and the death of one affects no other.
#[tokio::test]
async fn seats_are_apart() {
    let room = Room::with(|options| options.pool.slots = 2).await;
    let (mut one, mut other) = (room.sit().await, room.sit().await);
    one.navigate(&room.site.url("/canary?name=one")).await;
    other.navigate(&room.site.url("/show")).await;
    let seen = other.snapshot().await;
    assert!(!seen.contains("canary=one"), "{seen}");

    let [_, _, first, second] = room.instance.process_ids()[..] else { panic!("four processes") };
    assert_ne!(first, second);
    signal(first, Signal::KILL);
    assert!(matches!(until_lost(&one).await, Lost::Browser { .. }));
    assert_eq!(*room.instance.lost().borrow(), None);
    other.snapshot().await;
    one.seat.close().await;
    room.end().await;
}

/// A killed browser is noticed during a call and between calls, by name, and ends its instance.
#[tokio::test]
async fn a_killed_browser() {
    let (room, mut sitter) = Room::open().await;
    let (node, browser) = processes(&room);
    sitter.navigate(&room.site.url("/title?t=x")).await;
    let hang = json!({ "pageId": 1, "function": "() => fetch('/hang').then(() => new Promise(() => {}))" });
    let (lost, ()) = tokio::join!(sitter.try_call("evaluate_script", hang), async {
        room.site.wait_for_hit("/hang").await;
        signal(browser, Signal::KILL);
    });
    assert!(matches!(lost, Err(Lost::Browser { .. })), "{lost:?}");
    let mut instance = room.instance.lost();
    let why = within(PATIENCE, instance.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Browser { .. })), "{why:?}");
    sitter.seat.close().await;
    assert!(!alive(node));
    room.end().await;

    let (room, sitter) = Room::open().await;
    signal(processes(&room).1, Signal::KILL);
    assert!(matches!(until_lost(&sitter).await, Lost::Browser { .. }));
    room.end().await;
}

/// A page that crashes is replaced by an empty one in the same tab, which the engine would not do: the call that ran in it
/// fails, the crash is reported once, and cookies and other tabs stay.
#[tokio::test]
async fn a_crashed_page() {
    let (room, mut sitter) = Room::open().await;
    sitter.navigate(&room.site.url("/canary?name=mine")).await;
    let is_page = |pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/cmdline"))
            .is_ok_and(|line| line.contains("--type=renderer"))
    };
    let pages = || children(processes(&room).1).into_iter().filter(is_page).collect::<Vec<_>>();
    let first = pages();
    let second = room.site.url("/title?t=second");
    sitter.call("new_page", json!({ "url": second })).await;
    let kill_second = || {
        pages().into_iter().filter(|pid| !first.contains(pid)).for_each(|pid| signal(pid, Signal::KILL));
    };

    // During a call.
    let hang = json!({ "pageId": 2, "function": "() => { fetch('/hang'); return new Promise(() => {}); }" });
    let (called, ()) = tokio::join!(sitter.try_call("evaluate_script", hang), async {
        room.site.wait_for_hit("/hang").await;
        kill_second();
    });
    assert!(called.unwrap().is_failure());
    let told = eventually("the crash", || sitter.seat.take_crashes().pop()).await;
    assert_eq!(*told.url, second);

    // Between calls.
    let page = json!({ "pageId": 2, "url": room.site.url("/title?t=third"), "type": "url" });
    sitter.call("navigate_page", page.clone()).await;
    kill_second();
    let told = eventually("the crash", || sitter.seat.take_crashes().pop()).await;
    // A busy browser reports a page's new address a moment late; until then the tab has its old one.
    assert!(told.url.ends_with("t=third") || &*told.url == "about:blank", "{told:?}");
    let _ = sitter.try_call("navigate_page", page.clone()).await;
    sitter.call("navigate_page", page).await;
    assert_eq!(sitter.evaluate("() => document.cookie").await, json!("canary=mine"));
    let listed = sitter.call("list_pages", json!({})).await;
    let listed = super::super::text(&listed);
    assert!(listed.contains("name=mine") && listed.contains("t=third"), "{listed}");
    assert_eq!((sitter.seat.lost().borrow().clone(), room.instance.lost().borrow().clone()), (None, None));
    sitter.seat.close().await;
    room.end().await;
}

/// A killed Node is noticed, and its browser ends with it.
#[tokio::test]
async fn a_killed_engine() {
    let (room, sitter) = Room::open().await;
    let (node, browser) = processes(&room);
    signal(node, Signal::KILL);
    assert!(matches!(until_lost(&sitter).await, Lost::Process { .. }));
    sitter.seat.close().await;
    assert!(!alive(browser));
    room.end().await;
}

/// Both give signs of life, also during a running call; the error names a stopped browser.
#[tokio::test]
async fn signs_of_life() {
    let (room, mut sitter) = Room::open().await;
    room.instance.ping().await.unwrap();
    let (_, browser) = processes(&room);
    let wait = json!({ "pageId": 1, "text": ["never"], "timeout": 3_000 });
    let (waited, alive) = tokio::join!(sitter.try_call("wait_for", wait), room.instance.ping());
    alive.unwrap();
    assert!(waited.unwrap().is_failure());

    signal(browser, Signal::STOP);
    let asked = tokio::time::timeout(std::time::Duration::from_millis(500), room.instance.ping()).await;
    assert!(asked.is_err(), "a stopped browser does not answer");
    let silent = room.instance.silent().unwrap();
    assert_eq!(&*silent, format!("the browser did not answer: process {browser}"));
    signal(browser, Signal::CONT);
    room.end().await;
}

/// A persistent profile has its cookies for the next seat.
#[tokio::test]
async fn a_kept_profile() {
    let profile = tempfile::tempdir().unwrap();
    let room = Room::with(|options| {
        options.pool.isolated = false;
        options.profile = Some(profile.path().join("0"));
    })
    .await;
    let mut sitter = room.sit().await;
    sitter.navigate(&room.site.url("/title?t=x")).await;
    sitter
        .evaluate("() => { document.cookie = 'kept=yes; max-age=3600; path=/'; localStorage.kept = 'too'; }")
        .await;
    sitter.seat.close().await;

    let mut next = room.sit().await;
    next.navigate(&room.site.url("/title?t=y")).await;
    assert_eq!(next.evaluate("() => [document.cookie, localStorage.kept]").await, json!(["kept=yes", "too"]));
    next.seat.close().await;
    room.end().await;
}
