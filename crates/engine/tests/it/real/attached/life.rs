//! How somebody else's browser is reached and lost, and what happens when it cannot be.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use greenroom_core::{Engine, InstanceId, Lost, Nobody, net::OwnPorts};
use greenroom_engine::{Endpoint, StartCommand, launcher::TAG, run_folder};
use greenroom_testkit::{
    PATIENCE, Site, eventually,
    process::{Signal, alive, processes_with_env, signal, wait_gone},
    within,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::{
    super::{GRACE, data_folder, text},
    Guest, attached,
    user::{CHROMIUM, FLAGS, UserBrowser},
};

/// Starts an instance that cannot be had, and says why. No process comes of it.
async fn refused(endpoint: Endpoint) -> (String, String) {
    let data = data_folder();
    let engine = attached(&data, Arc::new(endpoint), |_| {});
    let error = within(PATIENCE, engine.start(InstanceId(0))).await.err().unwrap();
    assert!(processes_with_env(TAG, engine.run.tag()).is_empty(), "Node is not started for nothing");
    (error.message, error.hint.unwrap_or_default())
}

fn endpoint(url: impl Into<String>) -> Endpoint {
    Endpoint { url: url.into(), headers: Vec::new(), start_command: StartCommand::default() }
}

/// The head of a request.
async fn head(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    Ok(head)
}

/// A browser that nobody ends but the test, also when it fails.
struct Ended(u32);

impl Drop for Ended {
    fn drop(&mut self) {
        signal(self.0, Signal::KILL);
    }
}

/// A browser that is not there, one that says nothing, and one that lets nobody in are told apart, within the limits, and
/// no engine is started for them.
#[tokio::test]
async fn browsers_that_cannot_be_had() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let silent = tokio::spawn(async move {
        let (stream, _) = listener.accept().await.unwrap();
        (listener, stream)
    });
    let (message, hint) = refused(endpoint(&url)).await;
    assert!(message.contains(&url) && message.ends_with("no answer within 5 s"), "{message}");
    assert!(hint.contains("says nothing"), "{hint}");

    let (listener, _stream) = silent.await.unwrap();
    for (status, said, advice) in [
        ("403 Forbidden", "refused with 403 Forbidden", "headers"),
        ("500 Internal Server Error", "refused with 500", "`localhost` or an IP address"),
        ("404 Not Found", "refused with 404", "--remote-debugging-port="),
    ] {
        let refuse = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            head(&mut stream).await.unwrap();
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let ((message, hint), _stream) = tokio::join!(refused(endpoint(&url)), refuse);
        assert!(message.contains(&url) && message.contains(said), "{message}");
        assert!(hint.contains(advice), "{hint}");
    }
    drop(listener);
    let (message, hint) = refused(endpoint(&url)).await;
    assert!(message.contains("refused") && message.contains(&url), "{message}");
    assert_eq!(hint, format!("is it running with --remote-debugging-port={port}?"));
    let (message, _) = refused(endpoint(format!("ws://127.0.0.1:{port}/devtools/browser/e7"))).await;
    assert!(message.contains(&format!("ws://127.0.0.1:{port}/devtools/browser/e7")), "{message}");
}

/// A browser that dies is lost at once, as a browser; so is the call that runs in it.
#[tokio::test]
async fn a_killed_browser_is_lost() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    assert_eq!(guest.instance.process_ids().len(), 1, "the browser's is not ours");
    guest.instance.ping().await.unwrap();
    let url = browser.endpoint().url.clone();
    let (mut lost, mut seat_lost) = (guest.instance.lost(), guest.seat.lost());
    let (answer, ()) = tokio::join!(
        guest.try_call("browser_evaluate", json!({ "function": "() => new Promise(() => {})" })),
        async {
            // The call has begun when the page is busy with it; killed before that, it fails the same.
            browser.kill().await;
        }
    );
    let said = answer.unwrap_err().to_string();
    assert_eq!(said, format!("the browser ended (its debugger at {url} is gone)"));
    for lost in [&mut lost, &mut seat_lost] {
        let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
        assert!(matches!(why, Some(Lost::Browser { .. })), "{why:?}");
    }
    assert!(guest.instance.open(Arc::new(Nobody)).await.is_err());
    guest.leave().await;
}

/// A tab of the user's that crashes is no loss; the seat's own is.
#[tokio::test]
async fn only_own_tabs_count_as_crashed() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let users = browser.tabs().await[0].id.clone();
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let own = browser.tabs().await.into_iter().find(|tab| tab.id != users).unwrap().id;
    browser.crash(&users).await;
    assert!(guest.evaluate("() => document.title").await.contains("own"));
    assert_eq!(*guest.seat.lost().borrow(), None);
    browser.crash(&own).await;
    let mut lost = guest.seat.lost();
    let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Page(_))), "{why:?}");
    guest.leave().await;
    assert_eq!(browser.tabs().await.len(), 1);
    browser.kill().await;
}

/// While a browser is attached to, its debugger's port is closed to greenroom's own browsers, by whatever name it was reached.
#[tokio::test]
async fn its_port_is_closed_to_browsers() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let guest = Guest::attach(Arc::new(endpoint(format!("http://localhost:{}", browser.port)))).await;
    let ports = guest.engine.ports.clone();
    assert!(ports.contains(browser.port));
    assert!(!ports.is_ours(browser.port), "it can be attached to again");
    guest.leave().await;
    assert!(!ports.contains(browser.port));
    browser.kill().await;
}

/// A port that has come to be greenroom's own is not attached to, by whatever name, and is not even spoken to.
#[tokio::test]
async fn own_ports_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (data, port) = (data_folder(), listener.local_addr().unwrap().port());
    for name in ["127.0.0.1", "localhost"] {
        let engine = attached(&data, Arc::new(endpoint(format!("http://{name}:{port}"))), |_| {});
        let _own = engine.ports.hold(port).unwrap();
        let error = within(PATIENCE, engine.start(InstanceId(0))).await.err().unwrap();
        assert!(
            error.message.starts_with(&format!("port {port} of this machine is greenroom's own")),
            "{error}"
        );
    }
    let connected = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(connected.is_err(), "nobody has come");
}

/// A start command brings a browser back that is gone, which is attached to then and outlives whoever started it. One that
/// answers is not started again.
#[tokio::test]
async fn a_start_command_revives() {
    let site = Site::start().await;
    let (data, profile) = (data_folder(), tempfile::tempdir().unwrap());
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let flags = FLAGS.iter().map(|flag| (*flag).to_owned());
    let own = [
        format!("--remote-debugging-port={port}"),
        format!("--user-data-dir={}", profile.path().display()),
        // Only to see that the address arrives.
        "--greenroom-test={url}".to_owned(),
        site.url("/title?t=home"),
    ];
    let start_command: Vec<_> = [CHROMIUM.to_owned()].into_iter().chain(flags).chain(own).collect();
    let back =
        Endpoint { start_command: start_command.into(), ..endpoint(format!("http://127.0.0.1:{port}")) };
    let engine = attached(&data, Arc::new(back), |_| {});
    assert!(engine.start(InstanceId(0)).await.is_err(), "starting an instance starts no browser");
    assert!(within(PATIENCE, engine.revive()).await.unwrap());
    assert!(!within(PATIENCE, engine.revive()).await.unwrap(), "it answers");

    let mark = format!("--greenroom-test=http://127.0.0.1:{port}");
    let is_it = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == mark.as_bytes())
            && !line.windows(7).any(|part| part == b"--type=")
    };
    let all = fs::read_dir("/proc").unwrap().flatten();
    let mut pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(is_it);
    let pid = pids.next().unwrap();
    let ended = Ended(pid);
    assert_eq!(pids.next(), None, "started once");

    let instance = engine.start(InstanceId(0)).await.unwrap();
    let seat = instance.open(Arc::new(Nobody)).await.unwrap();
    seat.close().await;
    instance.stop(GRACE).await;
    let launcher = engine.launcher.clone();
    drop((engine, instance));
    within(Duration::from_secs(5), launcher.all_ended()).await;
    drop(launcher);
    let gone = || {
        !fs::read_dir("/proc/self/task").unwrap().flatten().any(|task| {
            fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "launcher")
        })
    };
    eventually("the launcher's end", || gone().then_some(())).await;
    assert!(alive(pid));
    TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    drop(ended);
    wait_gone(pid).await;
}

/// What is sent along reaches the browser from greenroom and from the engine, and stands on no command line and in no
/// answer.
#[tokio::test]
async fn headers_are_sent_and_stay_secret() {
    const SECRET: &str = "sesame-7f3a91";
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let door = Door::open(
        browser.port,
        &["x-token: sesame-7f3a91", "authorization: Basic YW5uOnNlc2FtZS03ZjNhOTE="],
    )
    .await;
    let at = Endpoint {
        headers: vec![("X-Token".to_owned(), SECRET.to_owned())],
        ..endpoint(format!("http://ann:{SECRET}@127.0.0.1:{}", door.port))
    };
    let (message, hint) = refused(Endpoint { headers: Vec::new(), ..at.clone() }).await;
    assert!(message.ends_with("refused with 403 Forbidden") && hint.contains("headers"), "{message}");
    assert!(!message.contains(SECRET), "{message}");

    let mut guest = Guest::attach_with(Arc::new(at), |options| options.caps.push("config".to_owned())).await;
    guest.navigate(&site.url("/title?t=own")).await;
    let config = guest.try_call("browser_get_config", json!({})).await.unwrap();
    assert!(config.is_failure() && !text(&config).contains(SECRET), "{}", text(&config));
    let thrown = json!({ "function": format!("() => {{ throw new Error('saw {SECRET}') }}") });
    let failure = guest.try_call("browser_evaluate", thrown).await.unwrap();
    assert!(failure.is_failure() && text(&failure).contains("saw …"), "{}", text(&failure));
    assert!(!text(&failure).contains(SECRET), "{}", text(&failure));
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&line).contains(SECRET), "{}", entry.path().display());
    }
    guest.leave().await;
    assert!(door.passed() >= 3, "the address, the observer and the engine");
    browser.kill().await;
}

/// What a greenroom left behind that was killed is closed by the next one that attaches to the browser; tabs of the user's,
/// and of a greenroom that lives, are not.
#[tokio::test]
async fn what_the_dead_left_is_closed() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let dead = browser.open_tab(&site.url("/title?t=dead")).await;
    let before = browser.tabs().await;
    let data = data_folder();
    let folder = data.path().join("run/4194304-1-0/instances/0");
    fs::create_dir_all(&folder).unwrap();
    let apart = browser.make_context().await;
    fs::write(folder.join("tabs"), format!("opened {dead}\nown {dead}\nown ABC\ncontext {apart}\n")).unwrap();
    let users = browser.make_context().await;
    let neighbour = attached(&data, browser.endpoint(), |_| {});
    let living = neighbour.start(InstanceId(0)).await.unwrap();
    let seat = living.open(Arc::new(Nobody)).await.unwrap();
    assert_eq!(browser.tabs().await.len(), before.len() + 1, "nobody has reaped yet");

    assert_eq!(run_folder::reap(data.path()).folders, 1);
    let engine = attached(&data, browser.endpoint(), |_| {});
    let instance = engine.start(InstanceId(0)).await.unwrap();
    let now = browser.tabs().await;
    assert!(now.len() == before.len() && now.iter().all(|tab| tab.id != dead), "{now:?}");
    assert_eq!(browser.made_contexts().await, [users], "only what is listed");
    assert_eq!(fs::read_dir(data.path().join("run/left")).unwrap().count(), 0);
    seat.close().await;
    living.stop(GRACE).await;
    instance.stop(GRACE).await;
    assert_eq!(browser.tabs().await.len(), 1);
    browser.kill().await;
}

/// An engine that dies, and a connection that breaks, leave no tab behind for good: it is closed at once, or by whoever
/// comes back.
#[tokio::test]
async fn what_is_lost_is_closed() {
    let site = Site::start().await;
    let browser = UserBrowser::start(&site.url("/title?t=home")).await;
    let before = browser.tabs().await;
    let mut guest = Guest::attach(browser.endpoint()).await;
    guest.navigate(&site.url("/title?t=own")).await;
    signal(guest.instance.process_ids()[0], Signal::KILL);
    let mut lost = guest.instance.lost();
    let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Process { .. })), "{why:?}");
    guest.leave().await;
    assert_eq!(browser.tabs().await, before);

    let (data, door) = (data_folder(), Door::open(browser.port, &[]).await);
    let engine = attached(&data, Arc::new(endpoint(format!("http://127.0.0.1:{}", door.port))), |_| {});
    let instance = engine.start(InstanceId(0)).await.unwrap();
    let seat = instance.open(Arc::new(Nobody)).await.unwrap();
    // As an engine notes one that it made.
    let list = engine.run.path().join("instances/0/tabs");
    let noted = fs::read_to_string(&list).unwrap() + &format!("context {}\n", browser.make_context().await);
    fs::write(&list, noted).unwrap();
    door.cut();
    let mut lost = instance.lost();
    let why = within(PATIENCE, lost.wait_for(Option::is_some)).await.unwrap().clone();
    assert!(matches!(why, Some(Lost::Browser { .. })), "{why:?}");
    seat.close().await;
    instance.stop(GRACE).await;
    assert_eq!(browser.tabs().await.len(), 2, "nobody could close it");
    let instance = engine.start(InstanceId(0)).await.unwrap();
    assert_eq!((browser.tabs().await, browser.contexts().await), (before, 0));
    instance.stop(GRACE).await;
    browser.kill().await;
}

/// A browser's debugger behind a door that opens only to those who say all these lines.
pub struct Door {
    pub port: u16,
    passed: Arc<AtomicUsize>,
    cut: watch::Sender<()>,
}

impl Door {
    pub async fn open(behind: u16, lines: &'static [&'static str]) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (port, passed) = (listener.local_addr().unwrap().port(), Arc::new(AtomicUsize::new(0)));
        let (count, cut) = (passed.clone(), watch::Sender::new(()));
        let cuts = cut.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let (count, mut cut) = (count.clone(), cuts.subscribe());
                tokio::spawn(async move {
                    let head = head(&mut stream).await?;
                    let said = String::from_utf8_lossy(&head).to_lowercase();
                    if !lines.iter().all(|line| said.contains(&format!("{}\r\n", line.to_lowercase()))) {
                        return stream
                            .write_all(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")
                            .await;
                    }
                    count.fetch_add(1, Ordering::Relaxed);
                    let mut inside = TcpStream::connect(("127.0.0.1", behind)).await?;
                    inside.write_all(&head).await?;
                    tokio::select! {
                        copied = copy_bidirectional(&mut stream, &mut inside) => copied.map(drop),
                        _ = cut.changed() => Ok(()),
                    }
                });
            }
        });
        Self { port, passed, cut }
    }

    /// Ends all connections.
    fn cut(&self) {
        self.cut.send_replace(());
    }

    pub fn passed(&self) -> usize {
        self.passed.load(Ordering::Relaxed)
    }
}
