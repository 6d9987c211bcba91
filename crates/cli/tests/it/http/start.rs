//! Where a server listens, and where it refuses to.

use greenroom_testkit::{EngineLog, text_of};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{control::ask::ask, front::stage::Stage, http::remote};

/// A port in use: a clear error, the exit code of a failure, and a hint.
#[tokio::test]
async fn port_in_use_is_an_error() {
    let stage = Stage::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said = ask(&stage, &["serve", "--listen", &address]).await;
    assert_eq!((said.code, said.stdout.as_str()), (1, ""), "{said:?}");
    assert!(said.stderr.contains(&format!("error: cannot listen on {address}: ")), "{said:?}");
    if cfg!(target_os = "linux") {
        let own = format!("(pid {}) listens there", std::process::id());
        assert!(said.stderr.contains(&own) && said.stderr.contains("hint: end it"), "{said:?}");
    }
    assert!(!stage.data().join("run").exists() || crate::real::look::runs(&stage.data()).is_empty());
}

/// The server refuses to listen beyond this machine, and starts nothing before that.
#[tokio::test]
async fn non_loopback_address_is_refused() {
    let stage = Stage::new();
    for address in ["0.0.0.0:0", "[::]:0", "192.0.2.1:80"] {
        let said = ask(&stage, &["serve", "--listen", address]).await;
        assert_eq!((said.code, said.stdout.as_str()), (2, ""), "{address}: {said:?}");
        assert!(said.stderr.contains("refusing to listen beyond this machine without API keys"), "{said:?}");
        assert!(said.stderr.contains("listen)") && said.stderr.contains("hint: "), "{said:?}");
    }
    let said = ask(&stage, &["serve", "--listen", "nowhere"]).await;
    assert_eq!(said.code, 2, "{said:?}");
    let log: EngineLog = stage.log();
    assert_eq!(log.lines(), Vec::<String>::new());
}

/// A server on the other loopback address is reached by its name there.
#[tokio::test]
async fn ipv6_loopback_server_is_reachable() {
    let stage = Stage::new();
    if TcpListener::bind("[::1]:0").await.is_err() {
        // This machine has no such address.
        return;
    }
    let server =
        greenroom_testkit::http::Server::start(stage.launch(&["serve", "--listen", "[::1]:0"])).await;
    let client = remote(&server).await;
    assert_eq!(text_of(&client.call("echo", json!({"text": "a"})).await), "a");
}
