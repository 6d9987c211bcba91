//! How greenroom reaches an attached browser, and what happens when it cannot.

use std::{fs, time::Duration};

use greenroom_core::{InstanceId, network::OwnPorts, settings::Cap};
use greenroom_engine::{Endpoint, launcher::TAG};
use greenroom_testkit::{
    DebuggerProxy, Site, TEST_TIMEOUT, UserBrowser, eventually,
    process::{alive, processes_with_env},
    within,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    super::{super::fixture::launcher_gone, data_folder, text},
    ADAPTERS, Adapter, AttachedFixture, at, with_playwright,
};

/// Starts an instance whose browser cannot be reached, and returns why. No process is left.
async fn refused(adapter: Adapter, endpoint: Endpoint) -> (String, String) {
    let data = data_folder();
    let attached = adapter.engine(data.path(), endpoint);
    let error = within(TEST_TIMEOUT, attached.engine.start(InstanceId(0))).await.err().unwrap();
    assert!(processes_with_env(TAG, attached.run.tag()).is_empty(), "Node is not started for nothing");
    (error.message, error.hint.unwrap_or_default())
}

/// The errors for a browser that does not run, one that does not answer, and one that refuses connections differ, come
/// within the limits, and no engine is started for them.
#[tokio::test]
async fn unreachable_browsers_have_distinct_errors() {
    // These run concurrently, since they mostly wait.
    tokio::join!(
        assert_unreachable_errors(Adapter::Playwright),
        assert_unreachable_errors(Adapter::Devtools)
    );
}

async fn assert_unreachable_errors(adapter: Adapter) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let silent = async { listener.accept().await.unwrap() };
    let ((message, hint), _stream) = tokio::join!(refused(adapter, at(&url)), silent);
    assert!(message.contains(&url) && message.ends_with("no answer within 5 s"), "{message}");
    assert!(hint.contains("says nothing"), "{hint}");

    for (status, expected, advice) in [
        ("403 Forbidden", "refused with 403 Forbidden", "headers"),
        ("500 Internal Server Error", "refused with 500", "`localhost` or an IP address"),
        ("404 Not Found", "refused with 404", "--remote-debugging-port="),
    ] {
        let refuse = async {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _ = stream.read(&mut [0; 4096]).await;
            let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n");
            stream.write_all(answer.as_bytes()).await.unwrap();
            stream
        };
        let ((message, hint), _stream) = tokio::join!(refused(adapter, at(&url)), refuse);
        assert!(message.contains(&url) && message.contains(expected), "{message}");
        assert!(hint.contains(advice), "{hint}");
    }
    drop(listener);
    let (message, hint) = refused(adapter, at(&url)).await;
    assert!(message.contains("refused") && message.contains(&url), "{message}");
    assert_eq!(
        hint,
        format!(
            "start it with --remote-debugging-port={port}; one that runs without it has to be ended first"
        )
    );
    let socket = format!("ws://127.0.0.1:{port}/devtools/browser/e7");
    let (message, _) = refused(adapter, at(&socket)).await;
    assert!(message.contains(&socket), "{message}");
}

/// While a browser is attached, its debugger's port is closed to greenroom's own browsers, by whatever name it was reached.
#[tokio::test]
async fn debugger_port_is_closed_to_browsers() {
    let user_browser = UserBrowser::start().await;
    for adapter in ADAPTERS {
        let fixture =
            AttachedFixture::at(adapter, at(format!("http://localhost:{}", user_browser.port()))).await;
        let ports = fixture.attached.ports.clone();
        assert!(ports.contains(user_browser.port()));
        assert!(!ports.is_greenroom_port(user_browser.port()), "it can be attached to again");
        fixture.stop().await;
        // The task that watched the browser is only just ending.
        eventually("the port's release", || (!ports.contains(user_browser.port())).then_some(())).await;
    }
}

/// greenroom does not attach to a port that has become its own, under any host name, and does not even connect to it.
#[tokio::test]
async fn own_ports_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (adapter, name) in ADAPTERS.into_iter().flat_map(|one| [(one, "127.0.0.1"), (one, "localhost")]) {
        let data = data_folder();
        let attached = adapter.engine(data.path(), at(format!("http://{name}:{port}")));
        let _own = attached.ports.hold(port).unwrap();
        let error = within(TEST_TIMEOUT, attached.engine.start(InstanceId(0))).await.err().unwrap();
        assert!(
            error.message.starts_with(&format!("port {port} of this machine is greenroom's own")),
            "{error}"
        );
    }
    let connected = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
    assert!(connected.is_err(), "no connection came");
}

/// A start command restarts a browser that is gone; greenroom then attaches to it, and it outlives greenroom. A browser that
/// answers is not started again.
#[tokio::test]
async fn start_command_restarts_the_browser() {
    for adapter in ADAPTERS {
        let mut user_browser = UserBrowser::start().await;
        user_browser.kill().await;
        // The argument only proves that the command gets the address.
        let start_command: Vec<_> =
            user_browser.command().into_iter().chain(["--greenroom-test={url}".to_owned()]).collect();
        let start_command = start_command.into();
        let data = data_folder();
        let attached = adapter.engine(data.path(), Endpoint { start_command, ..at(user_browser.url()) });
        assert!(
            attached.engine.start(InstanceId(0)).await.is_err(),
            "starting an instance starts no browser"
        );
        assert!(within(TEST_TIMEOUT, attached.engine.revive()).await.unwrap());
        let pid = user_browser.pid().unwrap();
        assert!(!within(TEST_TIMEOUT, attached.engine.revive()).await.unwrap(), "it answers");
        assert_eq!(user_browser.pid(), Some(pid), "started once");
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.contains(&format!("\0--greenroom-test={}\0", user_browser.url())), "{line}");

        let mut fixture = AttachedFixture::with_engine(adapter, attached, data).await;
        fixture.open_seat().await;
        fixture.stop().await;
        launcher_gone().await;
        assert!(alive(pid));
        TcpStream::connect(("127.0.0.1", user_browser.port())).await.unwrap();
    }
}

/// The headers reach the browser with every connection, and no engine knows them: they are on no command line and in no
/// environment.
#[tokio::test]
async fn headers_are_sent_and_stay_secret() {
    const SECRET: &str = "sesame-7f3a91";
    let site = Site::start().await;
    let user_browser = UserBrowser::start().await;
    for adapter in ADAPTERS {
        let lines = ["x-token: sesame-7f3a91", "authorization: Basic YW5uOnNlc2FtZS03ZjNhOTE="];
        let door = DebuggerProxy::open(user_browser.port(), &lines).await;
        let with = Endpoint {
            headers: vec![("X-Token".to_owned(), SECRET.to_owned())],
            ..at(format!("http://ann:{SECRET}@127.0.0.1:{}", door.port()))
        };
        let (message, hint) = refused(adapter, Endpoint { headers: Vec::new(), ..with.clone() }).await;
        assert!(message.ends_with("refused with 403 Forbidden") && hint.contains("headers"), "{message}");
        assert!(!message.contains(SECRET), "{message}");

        let mut fixture = AttachedFixture::at(adapter, with).await;
        fixture.open_seat().await;
        fixture.navigate(&site.url("/title?t=own")).await;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["cmdline", "environ"] {
                let message = fs::read(entry.path().join(file)).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&message).contains(SECRET), "{}", entry.path().display());
            }
        }
        fixture.stop().await;
        assert!(door.heads().len() >= 3, "the address, the observer and the engine: {:?}", door.heads());
    }
}

/// The tool that shows the engine's configuration does not show the browser's address.
#[tokio::test]
async fn the_engines_configuration_is_not_shown() {
    let user_browser = UserBrowser::start().await;
    let data = data_folder();
    let attached =
        with_playwright(data.path(), at(user_browser.url()), |options| options.pool.caps.push(Cap::Config));
    let mut fixture = AttachedFixture::with_engine(Adapter::Playwright, attached, data).await;
    fixture.open_seat().await;
    let config = fixture.try_call("browser_get_config", json!({})).await.unwrap();
    assert!(config.is_failure() && !text(&config).contains("ws://"), "{}", text(&config));
    fixture.stop().await;
}
