//! How greenroom reaches an attached browser, and what happens when it cannot.

use std::{fs, time::Duration};

use greenroom_core::{InstanceId, net::OwnPorts, settings::Cap};
use greenroom_engine::{Endpoint, launcher::TAG};
use greenroom_testkit::{
    Door, PATIENCE, Site, Theirs, eventually,
    process::{alive, processes_with_env},
    within,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    super::{super::stage::launcher_gone, data_folder, text},
    ADAPTERS, Adapter, Guest, at, with_playwright,
};

/// Starts an instance whose browser cannot be reached, and returns why. No process is left.
async fn refused(adapter: Adapter, endpoint: Endpoint) -> (String, String) {
    let data = data_folder();
    let house = adapter.engine(data.path(), endpoint);
    let error = within(PATIENCE, house.engine.start(InstanceId(0))).await.err().unwrap();
    assert!(processes_with_env(TAG, house.run.tag()).is_empty(), "Node is not started for nothing");
    (error.message, error.hint.unwrap_or_default())
}

/// The errors for a browser that does not run, one that does not answer, and one that refuses connections differ, come
/// within the limits, and no engine is started for them.
#[tokio::test]
async fn browsers_that_cannot_be_had() {
    // At once, since most of it is waiting.
    tokio::join!(cannot_be_had(Adapter::Playwright), cannot_be_had(Adapter::Devtools));
}

async fn cannot_be_had(adapter: Adapter) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let silent = async { listener.accept().await.unwrap() };
    let ((message, hint), _stream) = tokio::join!(refused(adapter, at(&url)), silent);
    assert!(message.contains(&url) && message.ends_with("no answer within 5 s"), "{message}");
    assert!(hint.contains("says nothing"), "{hint}");

    for (status, said, advice) in [
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
        assert!(message.contains(&url) && message.contains(said), "{message}");
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
async fn its_port_is_closed_to_browsers() {
    let theirs = Theirs::start().await;
    for adapter in ADAPTERS {
        let guest = Guest::at(adapter, at(format!("http://localhost:{}", theirs.port()))).await;
        let ports = guest.house.ports.clone();
        assert!(ports.contains(theirs.port()));
        assert!(!ports.is_ours(theirs.port()), "it can be attached to again");
        guest.leave().await;
        // The task that watched the browser is only just ending.
        eventually("the port's release", || (!ports.contains(theirs.port())).then_some(())).await;
    }
}

/// greenroom does not attach to a port that is its own by now, under any name, and does not even connect to it.
#[tokio::test]
async fn own_ports_are_refused() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    for (adapter, name) in ADAPTERS.into_iter().flat_map(|one| [(one, "127.0.0.1"), (one, "localhost")]) {
        let data = data_folder();
        let house = adapter.engine(data.path(), at(format!("http://{name}:{port}")));
        let _own = house.ports.hold(port).unwrap();
        let error = within(PATIENCE, house.engine.start(InstanceId(0))).await.err().unwrap();
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
async fn a_start_command_revives() {
    for adapter in ADAPTERS {
        let mut theirs = Theirs::start().await;
        theirs.kill().await;
        // Only to check that the command gets the address.
        let start_command: Vec<_> =
            theirs.command().into_iter().chain(["--greenroom-test={url}".to_owned()]).collect();
        let start_command = start_command.into();
        let data = data_folder();
        let house = adapter.engine(data.path(), Endpoint { start_command, ..at(theirs.url()) });
        assert!(house.engine.start(InstanceId(0)).await.is_err(), "starting an instance starts no browser");
        assert!(within(PATIENCE, house.engine.revive()).await.unwrap());
        let pid = theirs.pid().unwrap();
        assert!(!within(PATIENCE, house.engine.revive()).await.unwrap(), "it answers");
        assert_eq!(theirs.pid(), Some(pid), "started once");
        let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap();
        assert!(line.contains(&format!("\0--greenroom-test={}\0", theirs.url())), "{line}");

        let mut guest = Guest::of(adapter, house, data).await;
        guest.sit().await;
        guest.leave().await;
        launcher_gone().await;
        assert!(alive(pid));
        TcpStream::connect(("127.0.0.1", theirs.port())).await.unwrap();
    }
}

/// The headers reach the browser with every connection, and no engine knows them: they are on no command line and in no
/// environment.
#[tokio::test]
async fn headers_are_sent_and_stay_secret() {
    const SECRET: &str = "sesame-7f3a91";
    let (site, theirs) = (Site::start().await, Theirs::start().await);
    for adapter in ADAPTERS {
        let lines = ["x-token: sesame-7f3a91", "authorization: Basic YW5uOnNlc2FtZS03ZjNhOTE="];
        let door = Door::open(theirs.port(), &lines).await;
        let with = Endpoint {
            headers: vec![("X-Token".to_owned(), SECRET.to_owned())],
            ..at(format!("http://ann:{SECRET}@127.0.0.1:{}", door.port()))
        };
        let (message, hint) = refused(adapter, Endpoint { headers: Vec::new(), ..with.clone() }).await;
        assert!(message.ends_with("refused with 403 Forbidden") && hint.contains("headers"), "{message}");
        assert!(!message.contains(SECRET), "{message}");

        let mut guest = Guest::at(adapter, with).await;
        guest.sit().await;
        guest.navigate(&site.url("/title?t=own")).await;
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            for file in ["cmdline", "environ"] {
                let said = fs::read(entry.path().join(file)).unwrap_or_default();
                assert!(!String::from_utf8_lossy(&said).contains(SECRET), "{}", entry.path().display());
            }
        }
        guest.leave().await;
        assert!(door.heads().len() >= 3, "the address, the observer and the engine: {:?}", door.heads());
    }
}

/// The tool that shows the engine's configuration does not show the browser's address.
#[tokio::test]
async fn the_engines_configuration_is_not_shown() {
    let theirs = Theirs::start().await;
    let data = data_folder();
    let house = with_playwright(data.path(), at(theirs.url()), |options| options.pool.caps.push(Cap::Config));
    let mut guest = Guest::of(Adapter::Playwright, house, data).await;
    guest.sit().await;
    let config = guest.try_call("browser_get_config", json!({})).await.unwrap();
    assert!(config.is_failure() && !text(&config).contains("ws://"), "{}", text(&config));
    guest.leave().await;
}
