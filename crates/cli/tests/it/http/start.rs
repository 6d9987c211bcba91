//! Where a server listens, and where it refuses to.

use greenroom_testkit::{EngineLog, text_of};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{control::run_verb::run_verb, front::fixture::FakeEngineSetup, http::http_client};

/// A port in use: a clear error, the exit code of a failure, and a hint.
#[tokio::test]
async fn port_in_use_is_an_error() {
    let setup = FakeEngineSetup::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let output = run_verb(&setup, &["serve", "--listen", &address]).await;
    assert_eq!((output.code, output.stdout.as_str()), (1, ""), "{output:?}");
    assert!(output.stderr.contains(&format!("error: cannot listen on {address}: ")), "{output:?}");
    if cfg!(target_os = "linux") {
        let own = format!("(pid {}) listens there", std::process::id());
        assert!(output.stderr.contains(&own) && output.stderr.contains("hint: end it"), "{output:?}");
    }
    assert!(!setup.data().join("run").exists() || crate::real::inspect::runs(&setup.data()).is_empty());
}

/// The server refuses to listen beyond this machine, and starts nothing before that.
#[tokio::test]
async fn non_loopback_address_is_refused() {
    let setup = FakeEngineSetup::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let output = run_verb(&setup, &["serve", "--listen", address]).await;
        assert_eq!((output.code, output.stdout.as_str()), (2, ""), "{address}: {output:?}");
        assert!(
            output.stderr.contains("refusing to listen beyond this machine without API keys"),
            "{output:?}"
        );
        assert!(output.stderr.contains("listen)") && output.stderr.contains("hint: "), "{output:?}");
    }
    let output = run_verb(&setup, &["serve", "--listen", "nowhere"]).await;
    assert_eq!(output.code, 2, "{output:?}");
    let log: EngineLog = setup.log();
    assert_eq!(log.lines(), Vec::<String>::new());
}

/// A server on the other loopback address is reached by its name there.
#[tokio::test]
async fn ipv6_loopback_server_is_reachable() {
    let setup = FakeEngineSetup::new();
    if TcpListener::bind("[::1]:0").await.is_err() {
        // This machine has no such address.
        return;
    }
    let server =
        greenroom_testkit::http::Server::start(setup.launch(&["serve", "--listen", "[::1]:0"])).await;
    let client = http_client(&server).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
}
