//! What happens to seats when a page is busy or crashes, or the browser loses its network service.

use std::{fs, sync::Arc};

use greenroom_core::{Call, Crash, Engine, Instance, InstanceId, Lost, NoAgent, OpenError, Reply, Seat};
use greenroom_engine::{EngineOptions, PlaywrightEngine, browser::BrowserKind};
use greenroom_testkit::{
    Site, TEST_TIMEOUT, eventually,
    process::{Signal, children, signal},
    within,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{GRACE, browser, data_folder, engine, text};

/// One instance with as many seats as a test opens.
struct InstanceFixture {
    site: Site,
    instance: Arc<dyn Instance>,
    _engine: PlaywrightEngine,
    _data: TempDir,
}

impl InstanceFixture {
    async fn start() -> Self {
        Self::with(|_| {}).await
    }

    async fn with(change: impl FnOnce(&mut EngineOptions)) -> Self {
        let site = Site::start().await;
        let data = data_folder();
        let mut engine = engine(data.path(), site.port(), &[]);
        change(Arc::get_mut(&mut engine.0.options).unwrap());
        let instance = engine.start(InstanceId(0)).await.unwrap();
        Self { site, instance, _engine: engine, _data: data }
    }

    async fn open_seat(&self) -> OpenSeat {
        OpenSeat(within(TEST_TIMEOUT, self.instance.open(Arc::new(NoAgent))).await.unwrap())
    }

    /// The browser's main process.
    fn browser(&self) -> u32 {
        *self.instance.process_ids().last().unwrap()
    }

    fn helpers(&self, kind: &str) -> Vec<u32> {
        let is_of_kind = |pid: &u32| command(*pid).contains(kind);
        children(self.browser()).into_iter().filter(is_of_kind).collect()
    }

    fn renderers(&self) -> Vec<u32> {
        self.helpers("--type=renderer")
    }

    fn lost(&self) -> Option<Lost> {
        self.instance.lost().borrow().clone()
    }

    async fn wait_until_lost(&self) -> Lost {
        let mut lost = self.instance.lost();
        within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap()
    }
}

struct OpenSeat(Box<dyn Seat>);

impl OpenSeat {
    async fn try_call(&mut self, tool: &str, arguments: Value) -> Result<Reply, Lost> {
        let params = greenroom_core::raw::encode(&json!({ "name": tool, "arguments": arguments }));
        within(TEST_TIMEOUT, self.0.call(Call::new(tool, params), Arc::new(NoAgent))).await
    }

    async fn call(&mut self, tool: &str, arguments: Value) -> String {
        let reply = self.try_call(tool, arguments).await.unwrap();
        assert!(!reply.is_failure(), "{tool}: {}", text(&reply));
        text(&reply)
    }

    async fn navigate(&mut self, url: &str) -> String {
        self.call("browser_navigate", json!({ "url": url })).await
    }

    async fn evaluate(&mut self, function: &str) -> String {
        self.call("browser_evaluate", json!({ "function": function })).await
    }

    /// Waits until the observer has seen a crash, and returns the crashes.
    async fn crashes(&mut self) -> Vec<Crash> {
        let seat = &mut self.0;
        eventually("a crash", || Some(seat.take_crashes()).filter(|seen| !seen.is_empty())).await
    }
}

fn command(pid: u32) -> String {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default().replace('\0', " ")
}

/// The `nice` values of all threads of a process.
fn nice(pid: u32) -> Vec<i32> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let value =
        |stat: &str| stat.rsplit_once(')').unwrap().1.split_whitespace().nth(16).unwrap().parse().unwrap();
    threads
        .filter_map(|thread| fs::read_to_string(thread.path().join("stat")).ok())
        .map(|stat| value(&stat))
        .collect()
}

/// A page with this many workers that never rest.
fn busy(workers: usize) -> String {
    format!(
        "() => {{ const url = URL.createObjectURL(new Blob(['postMessage(0); for (;;) {{}}'])); \
         return Promise.all(Array.from({{ length: {workers} }}, () => new Promise(done => \
         {{ new Worker(url).onmessage = done; }}))).then(() => 'busy'); }}"
    )
}

/// In both browsers every thread of every page runs at a lower priority than the threads of the browser, the GPU process,
/// the network service and the engine, workers included.
#[tokio::test]
async fn pages_run_at_a_lower_priority() {
    for kind in [BrowserKind::HeadlessShell, BrowserKind::Chromium] {
        let fixture = InstanceFixture::with(|options| {
            options.pool.browser = browser(kind);
        })
        .await;
        let mut seat = fixture.open_seat().await;
        seat.navigate(&fixture.site.url("/title?t=x")).await;
        seat.evaluate(&busy(1)).await;
        let own = nice(std::process::id())[0];
        let renderers = fixture.renderers();
        assert!(!renderers.is_empty());
        for renderer in renderers {
            let nice = nice(renderer);
            assert!(nice.iter().all(|nice| *nice >= own + 5), "{kind:?}: {nice:?}");
        }
        let others =
            fixture.helpers("--type=gpu-process").into_iter().chain(fixture.helpers("NetworkService"));
        let others: Vec<_> = others.chain(fixture.instance.process_ids()).collect();
        assert!(others.len() >= 3, "{kind:?}: {others:?}");
        for other in others {
            let nice = nice(other);
            assert!(nice.iter().all(|nice| *nice <= own), "{kind:?}: {}: {nice:?}", command(other));
        }
        seat.0.close().await;
        fixture.instance.stop(GRACE).await;
    }
}

/// A page whose workers keep every core busy ends no other session: its neighbour's calls go on, a new seat opens or is
/// only late, and the instance stays. A context that was made too late is removed.
#[tokio::test]
async fn busy_page_ends_no_other_session() {
    let fixture = InstanceFixture::start().await;
    let mut hog = fixture.open_seat().await;
    let mut neighbour = fixture.open_seat().await;
    neighbour.navigate(&fixture.site.url("/canary?name=neighbour")).await;
    hog.navigate(&fixture.site.url("/title?t=hog")).await;
    // More load than the machine can carry while the browser runs at its usual speed. The test opens only one more
    // seat, because no other test can run under this load.
    let cores = std::thread::available_parallelism().unwrap().get();
    hog.evaluate(&busy(20 * cores)).await;
    match within(TEST_TIMEOUT, fixture.instance.open(Arc::new(NoAgent))).await {
        Ok(seat) => seat.close().await,
        Err(OpenError::Late(why)) => assert!(why.message.contains("within 15 s"), "{why}"),
        Err(other) => panic!("{other}"),
    }
    assert!(neighbour.evaluate("() => document.cookie").await.contains("canary=neighbour"));
    within(TEST_TIMEOUT, fixture.instance.ping()).await.unwrap();
    assert_eq!(fixture.lost(), None);
    hog.0.close().await;
    // The next seat gets a context of its own, whichever appeared late.
    let mut next = fixture.open_seat().await;
    next.navigate(&fixture.site.url("/canary?name=next")).await;
    assert!(!next.evaluate("() => document.cookie").await.contains("neighbour"));
    assert!(neighbour.evaluate("() => document.cookie").await.contains("canary=neighbour"));
    fixture.instance.stop(GRACE).await;
}

/// A stopped engine makes a seat late and does not end the instance. When it continues, the seat that was given up is
/// removed, and is not taken for the next one.
#[tokio::test]
async fn late_seat_is_removed() {
    let fixture = InstanceFixture::start().await;
    let mut neighbour = fixture.open_seat().await;
    neighbour.navigate(&fixture.site.url("/canary?name=neighbour")).await;
    let node = fixture.instance.process_ids()[0];
    signal(node, Signal::STOP);
    let late = within(TEST_TIMEOUT, fixture.instance.open(Arc::new(NoAgent))).await.err().unwrap();
    assert!(matches!(late, OpenError::Late(_)), "{late}");
    assert_eq!(late.to_string(), "the engine did not open a browser context within 15 s");
    assert_eq!(fixture.lost(), None);
    signal(node, Signal::CONT);
    let mut one = fixture.open_seat().await;
    let mut other = fixture.open_seat().await;
    one.navigate(&fixture.site.url("/canary?name=one")).await;
    other.navigate(&fixture.site.url("/canary?name=other")).await;
    for (seat, name) in [(&mut one, "one"), (&mut other, "other"), (&mut neighbour, "neighbour")] {
        let seen = seat.evaluate("() => document.cookie").await;
        assert!(seen.contains(&format!("canary={name}")), "{name}: {seen}");
        let view = seat.0.view().borrow().clone();
        assert!(view.url.ends_with(name), "it follows its own context: {view:?}");
    }
    // Three seats have three pages: the page of the late seat is gone.
    eventually("the end of the late one", || (fixture.renderers().len() == 3).then_some(())).await;
    fixture.instance.stop(GRACE).await;
}

/// A page that crashes loses its tab: cookies and other tabs stay, the call that ran in it fails, and the crash is reported
/// once with its URL. Between calls as well as during one.
#[tokio::test]
async fn crashed_page_loses_its_tab() {
    let fixture = InstanceFixture::start().await;
    let mut seat = fixture.open_seat().await;
    let first = fixture.site.url("/canary?name=mine");
    let second = fixture.site.url("/title?t=second");
    seat.navigate(&first).await;
    let before = fixture.renderers();
    seat.call("browser_tabs", json!({ "action": "new" })).await;
    seat.navigate(&second).await;
    let kill_second = || {
        let new = fixture.renderers().into_iter().filter(|pid| !before.contains(pid)).collect::<Vec<_>>();
        new.into_iter().for_each(|pid| signal(pid, Signal::KILL));
    };

    // During a call.
    let hang = "() => { fetch('/hang-1'); return new Promise(() => {}); }";
    let called = async { seat.try_call("browser_evaluate", json!({ "function": hang })).await };
    let (called, ()) = tokio::join!(called, async {
        fixture.site.wait_for_hit("/hang-1").await;
        kill_second();
    });
    let called = called.unwrap();
    assert!(called.is_failure() && text(&called).contains("crash"), "{}", text(&called));
    let crashes = seat.crashes().await;
    assert_eq!(crashes.iter().map(|crash| &*crash.url).collect::<Vec<_>>(), [second.as_str()]);
    assert_eq!(*seat.0.lost().borrow(), None);
    seat.navigate(&second).await;
    assert_eq!(seat.0.take_crashes(), []);

    // Between calls.
    kill_second();
    assert_eq!(seat.crashes().await.len(), 1);
    // The engine may notice the crash a moment later than greenroom; then the first call fails.
    let third = json!({ "url": fixture.site.url("/title?t=third") });
    let first = seat.try_call("browser_navigate", third.clone()).await.unwrap();
    assert!(!first.is_failure() || text(&first).contains("crash"), "{}", text(&first));
    seat.call("browser_navigate", third).await;
    assert!(seat.evaluate("() => document.cookie").await.contains("canary=mine"));
    let tabs = seat.call("browser_tabs", json!({ "action": "list" })).await;
    assert!(tabs.contains("/canary?name=mine") && tabs.contains("t=third"), "{tabs}");
    seat.call("browser_tabs", json!({ "action": "select", "index": 0 })).await;
    assert!(seat.evaluate("() => document.title").await.contains("canary mine"));
    assert_eq!(fixture.lost(), None);
    fixture.instance.stop(GRACE).await;
}

/// A page that crashes whenever it is opened is a loss in the end.
#[tokio::test]
async fn crash_loop_loses_the_seat() {
    let fixture = InstanceFixture::start().await;
    let mut seat = fixture.open_seat().await;
    let mut lost = seat.0.lost();
    let page = json!({ "url": fixture.site.url("/title?t=x") });
    // A call may run into the crash of the page before it; then it fails, and opens no page.
    for crash in 0..50 {
        if seat.try_call("browser_navigate", page.clone()).await.is_err() {
            break;
        }
        assert!(crash < 40, "it goes on for ever");
        fixture.renderers().into_iter().for_each(|pid| signal(pid, Signal::KILL));
    }
    let why = within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone().unwrap();
    assert_eq!(why.to_string(), "the page crashed (10 times within 60 s)");
    assert_eq!(fixture.lost(), None, "its instance goes on");
    seat.0.close().await;
    fixture.open_seat().await.navigate(&fixture.site.url("/title?t=y")).await;
    fixture.instance.stop(GRACE).await;
}

/// A browser whose zygotes die opens no more pages. That is a loss, too, in both browsers.
#[tokio::test]
async fn killed_zygotes_lose_the_browser() {
    for kind in [BrowserKind::HeadlessShell, BrowserKind::Chromium] {
        let fixture = InstanceFixture::with(|options| options.pool.browser = browser(kind)).await;
        let seat = fixture.open_seat().await;
        let zygotes = fixture.helpers("--type=zygote");
        assert!(!zygotes.is_empty(), "{kind:?}");
        zygotes.into_iter().for_each(|zygote| signal(zygote, Signal::KILL));
        let why = fixture.wait_until_lost().await.to_string();
        assert!(why.contains("its zygote ended: it can open no more pages"), "{kind:?}: {why}");
        seat.0.close().await;
        fixture.instance.stop(GRACE).await;
    }
}

/// A browser whose network service dies has lost the cookies of its sessions. That is a loss, by its own name, in both
/// browsers; a browser that dies as a whole is lost as a browser.
#[tokio::test]
async fn killed_network_service_loses_the_cookies() {
    for kind in [BrowserKind::HeadlessShell, BrowserKind::Chromium] {
        let with = || InstanceFixture::with(|options| options.pool.browser = browser(kind));
        let fixture = with().await;
        let mut seat = fixture.open_seat().await;
        seat.navigate(&fixture.site.url("/canary?name=gone")).await;
        let [network] = fixture.helpers("NetworkService")[..] else { panic!("one network service") };
        signal(network, Signal::KILL);
        let why = fixture.wait_until_lost().await;
        assert_eq!(why, Lost::Cookies, "{kind:?}");
        assert!(why.to_string().starts_with("the browser's network service ended: cookies"), "{why}");
        let mut lost = seat.0.lost();
        assert_eq!(
            within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap().clone(),
            Some(Lost::Cookies)
        );
        seat.0.close().await;
        fixture.instance.stop(GRACE).await;

        let fixture = with().await;
        signal(fixture.browser(), Signal::KILL);
        let why = fixture.wait_until_lost().await;
        assert!(matches!(why, Lost::Browser { .. }), "{why:?}");
        fixture.instance.stop(GRACE).await;
    }
}
