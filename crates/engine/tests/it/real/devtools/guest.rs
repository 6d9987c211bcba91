//! The devtools engine in browsers that somebody else runs.

use std::{collections::BTreeSet, sync::Arc};

use greenroom_core::{Engine, Instance, InstanceId, Lost, Nobody};
use greenroom_engine::{DevtoolsEngine, Endpoint, StartCommand};
use greenroom_testkit::{
    PATIENCE, Site,
    process::{Signal, alive, signal},
    within,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    super::{
        attached::{
            life::Door,
            user::{Tab, UserBrowser},
        },
        text,
    },
    GRACE, Sitter, Worker, data_folder, engine,
};

/// greenroom, attached to somebody's browser.
struct Guest {
    engine: DevtoolsEngine,
    instance: Arc<dyn Instance>,
    workspace: TempDir,
    /// Last, so that it goes when nobody uses it any more.
    _data: TempDir,
}

impl Guest {
    async fn attach(endpoint: Arc<Endpoint>) -> Self {
        let data = data_folder();
        // The proxy is nobody's: what is attached to has its own way.
        let engine = engine(data.path(), 9, |options| options.attach = Some(endpoint));
        let instance = engine.start(InstanceId(0)).await.unwrap();
        Self { engine, instance, workspace: tempfile::tempdir().unwrap(), _data: data }
    }

    /// A seat in it, and the number of its first page.
    async fn sit(&self) -> (Sitter, u64) {
        let worker = Arc::new(Worker(self.workspace.path().to_owned()));
        let seat = within(PATIENCE, self.instance.open(worker.clone())).await.unwrap();
        let mut sitter = Sitter { seat, worker };
        let pages = text(&sitter.call("list_pages", json!({})).await);
        let own = pages.lines().find(|line| line.ends_with("[selected]"));
        let own = own.unwrap_or_else(|| panic!("{pages}"));
        let page = own.split(':').next().unwrap().parse().unwrap();
        (sitter, page)
    }

    async fn leave(self) {
        self.instance.stop(GRACE).await;
        within(PATIENCE, self.engine.launcher.all_ended()).await;
    }
}

async fn navigate(sitter: &mut Sitter, page: u64, url: &str) {
    let reply = sitter.call("navigate_page", json!({ "pageId": page, "url": url })).await;
    assert!(text(&reply).starts_with("Successfully navigated"), "{}", text(&reply));
}

/// The number of the page with this title.
async fn page(sitter: &mut Sitter, title: &str) -> u64 {
    let pages = text(&sitter.call("list_pages", json!({})).await);
    let line = pages.lines().find(|line| line.contains(&format!("t={title}")));
    line.unwrap_or_else(|| panic!("{pages}")).split(':').next().unwrap().parse().unwrap()
}

fn set(tabs: Vec<Tab>) -> BTreeSet<Tab> {
    tabs.into_iter().collect()
}

/// An attached browser is left alone until somebody sits down: no tab, no engine. A seat then has a tab of its own, signed
/// in as the user is, drives that one alone, and closes it at the end. The user's tabs do not even notice: what was behind
/// stays behind.
#[tokio::test]
async fn a_guest_leaves_all_as_it_was() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    for title in ["one", "two", "three"] {
        browser.open_tab(&site.url(&format!("/title?t={title}"))).await;
    }
    let before = browser.tabs().await;
    browser.evaluate(&before[0].id, "document.cookie = 'user=ann'").await;
    let look = "[document.visibilityState, document.hasFocus(), innerWidth, history.length].join()";
    let guest = Guest::attach(browser.endpoint()).await;
    guest.instance.ping().await.unwrap();
    assert_eq!((set(browser.tabs().await), guest.instance.process_ids().len()), (set(before.clone()), 0));

    let (mut sitter, own) = guest.sit().await;
    assert_eq!(browser.tabs().await.len(), before.len() + 1);
    // The newest tab is in front now; all of the user's are behind it.
    for tab in &before {
        let seen = browser.evaluate(&tab.id, look).await;
        assert!(seen.as_str().unwrap().starts_with("hidden,false,"), "{} believes: {seen}", tab.url);
    }
    navigate(&mut sitter, own, &site.url("/title?t=visited")).await;
    let script = json!({ "pageId": own, "function": "() => document.cookie" });
    assert!(text(&sitter.call("evaluate_script", script).await).contains("user=ann"));
    let view = sitter.seat.view().borrow().clone();
    assert_eq!((view.url, view.tabs), (site.url("/title?t=visited"), 1), "own tabs only");
    sitter.call("take_screenshot", json!({ "pageId": own })).await;

    sitter.seat.close().await;
    assert_eq!(set(browser.tabs().await), set(before.clone()));
    let (sitter, _) = guest.sit().await;
    drop(sitter);
    guest.leave().await;
    assert_eq!(set(browser.tabs().await), set(before));
    browser.kill().await;
}

/// What its tabs open, and what the agent opens, is the seat's, also in contexts that it asked for; what the user opens
/// meanwhile is not. A tab of the user's can be used when it is named, and stays.
#[tokio::test]
async fn what_is_opened_belongs_to_its_opener() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let guest = Guest::attach(browser.endpoint()).await;
    let (mut sitter, own) = guest.sit().await;
    navigate(&mut sitter, own, &site.url("/title?t=own")).await;
    sitter.call("new_page", json!({ "url": site.url("/title?t=second") })).await;
    sitter.call("new_page", json!({ "url": site.url("/title?t=apart"), "isolatedContext": "x" })).await;
    let popup = format!("() => {{ window.open('{}'); }}", site.url("/title?t=popup"));
    sitter.call("evaluate_script", json!({ "pageId": own, "function": popup })).await;
    browser.open_tab(&site.url("/title?t=users")).await;
    browser.until(|tabs| tabs.len() == 5).await;
    assert_eq!(browser.contexts().await, 1);
    sitter.call("list_pages", json!({})).await;
    assert_eq!(sitter.seat.view().borrow().tabs, 4);

    let home = page(&mut sitter, "home").await;
    navigate(&mut sitter, home, &site.url("/title?t=sent")).await;
    // Its own first tab goes; nothing of the user's takes its place.
    sitter.call("close_page", json!({ "pageId": own })).await;
    let pages = text(&sitter.call("list_pages", json!({})).await);
    let selected = pages.lines().find(|line| line.contains("[selected]")).unwrap_or_default();
    assert!(["second", "apart", "popup"].iter().any(|title| selected.contains(title)), "{pages}");
    sitter.seat.close().await;
    let left: BTreeSet<_> = browser.tabs().await.into_iter().map(|tab| tab.url).collect();
    assert_eq!(left, BTreeSet::from([site.url("/title?t=sent"), site.url("/title?t=users")]));
    assert_eq!(browser.contexts().await, 0);
    guest.leave().await;
    browser.kill().await;
}

/// A seat that nobody waits for any more leaves nothing behind, though its tab was open already.
#[tokio::test]
async fn an_unwanted_seat_leaves_nothing() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;
    let guest = Guest::attach(browser.endpoint()).await;
    tokio::select! {
        biased;
        _ = browser.until(|tabs| tabs.len() == 2) => {}
        _ = guest.instance.open(Arc::new(Nobody)) => panic!("the tab comes first"),
    }
    browser.until(|tabs| tabs == before).await;
    guest.leave().await;
    browser.kill().await;
}

/// The browser's last tab is not closed by its agent, and leaves an empty one behind when the seat closes it: a browser with
/// windows would end with it.
#[tokio::test]
async fn the_last_tab_is_left() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let users = browser.tabs().await[0].id.clone();
    let guest = Guest::attach(browser.endpoint()).await;
    let (mut sitter, own) = guest.sit().await;
    browser.call("Target.closeTarget", json!({ "targetId": users })).await;
    let only = browser.until(|tabs| tabs.len() == 1).await;
    let reply = sitter.call("close_page", json!({ "pageId": own })).await;
    assert!(text(&reply).contains("cannot be closed"), "{}", text(&reply));
    assert_eq!(browser.tabs().await, only);
    sitter.seat.close().await;
    let left = browser.tabs().await;
    assert!(left.len() == 1 && left[0].id != only[0].id && left[0].url == "about:blank", "{left:?}");
    guest.leave().await;
    browser.kill().await;
}

/// A tab of the user's that crashes is no loss; the seat's own is, and its browser goes on. A browser that dies is lost at
/// once, with the instance.
#[tokio::test]
async fn losses() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let users = browser.tabs().await[0].id.clone();
    let guest = Guest::attach(browser.endpoint()).await;
    let (mut sitter, own) = guest.sit().await;
    navigate(&mut sitter, own, &site.url("/title?t=own")).await;
    browser.crash(&users).await;
    sitter.call("take_snapshot", json!({ "pageId": own })).await;
    assert_eq!(*sitter.seat.lost().borrow(), None);

    let crashing = browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap().id;
    browser.crash(&crashing).await;
    let mut lost = sitter.seat.lost();
    let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Page(_))), "{why:?}");
    sitter.seat.close().await;
    assert_eq!((*guest.instance.lost().borrow()).clone(), None);
    assert_eq!(browser.tabs().await.len(), 1);
    browser.navigate(&users, &site.url("/title?t=again")).await;

    let (sitter, _) = guest.sit().await;
    let url = browser.endpoint().url.clone();
    browser.kill().await;
    for mut lost in [sitter.seat.lost(), guest.instance.lost()] {
        let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
        assert_eq!(why.to_string(), format!("the browser ended (its debugger at {url} is gone)"));
    }
    assert!(guest.instance.open(Arc::new(Nobody)).await.is_err());
    sitter.seat.close().await;
    guest.leave().await;
}

/// An engine that dies costs its seat, not the browser: its tabs are closed, and the next seat has another engine.
#[tokio::test]
async fn a_killed_engine() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;
    let guest = Guest::attach(browser.endpoint()).await;
    let (sitter, _) = guest.sit().await;
    let [node] = guest.instance.process_ids()[..] else { panic!("one process: the browser's is not ours") };
    signal(node, Signal::KILL);
    let mut lost = sitter.seat.lost();
    let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Process { .. })), "{why:?}");
    assert_eq!((*guest.instance.lost().borrow()).clone(), None);
    sitter.seat.close().await;
    assert!(!alive(node));
    assert_eq!(set(browser.tabs().await), set(before));
    let (mut sitter, own) = guest.sit().await;
    navigate(&mut sitter, own, &site.url("/title?t=again")).await;
    guest.leave().await;
    browser.kill().await;
}

/// What is sent along reaches the browser from greenroom and from the engine, and stands on no command line and in no
/// answer.
#[tokio::test]
async fn headers_are_sent_and_stay_secret() {
    const SECRET: &str = "sesame-52c0de";
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let door = Door::open(
        browser.port,
        &["x-token: sesame-52c0de", "authorization: Basic YW5uOnNlc2FtZS01MmMwZGU="],
    )
    .await;
    let endpoint = Arc::new(Endpoint {
        url: format!("http://ann:{SECRET}@127.0.0.1:{}", door.port),
        headers: vec![("X-Token".to_owned(), SECRET.to_owned())],
        start_command: StartCommand::default(),
    });
    let guest = Guest::attach(endpoint).await;
    let (mut sitter, own) = guest.sit().await;
    navigate(&mut sitter, own, &site.url("/title?t=own")).await;
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(SECRET), "{}", entry.path().display());
    }
    sitter.seat.close().await;
    guest.leave().await;
    assert!(door.passed() >= 3, "the address, the observer and the engine");
    browser.kill().await;
}

/// Files can be handed over in a browser on this machine; what the agent names is written into its workspace.
#[tokio::test]
async fn files() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let guest = Guest::attach(browser.endpoint()).await;
    let (mut sitter, own) = guest.sit().await;
    navigate(&mut sitter, own, &site.url("/upload")).await;
    let snapshot = sitter.call("take_snapshot", json!({ "pageId": own })).await;
    std::fs::write(guest.workspace.path().join("cv.txt"), "my cv").unwrap();
    let uid = super::uid(snapshot.snapshot_text().unwrap(), "\"File");
    sitter.call("upload_file", json!({ "pageId": own, "uid": uid, "filePaths": ["cv.txt"] })).await;
    let script = "() => new Promise(done => { const look = () => { const text = document.getElementById('result').textContent; \
                  text === 'no file' ? setTimeout(look, 10) : done(text); }; look(); })";
    let reply = sitter
        .call("evaluate_script", json!({ "pageId": own, "function": script, "filePath": "read" }))
        .await;
    assert!(!reply.is_failure());
    let written = std::fs::read_to_string(guest.workspace.path().join("read.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), json!("cv.txt: my cv"));
    guest.leave().await;
    browser.kill().await;
}
