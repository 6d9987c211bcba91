//! Servers that commands start in the background.

use greenroom_testkit::{
    TEST_TIMEOUT,
    process::{Signal, alive, signal, wait_gone},
    within,
};
use serde_json::Value;

use super::{command, run};
use crate::{
    control::run_verb::{VerbOutput, run_verb},
    front::fixture::FakeEngineSetup,
};

/// The servers that run, ended when dropped.
struct Servers(Vec<u32>);

impl Servers {
    async fn of(setup: &FakeEngineSetup) -> Self {
        let status = run_verb(setup, &["status", "--json"]).await.json();
        let pid = |one: &Value| u32::try_from(one["pid"].as_u64().unwrap()).unwrap();
        Self(status.as_array().unwrap().iter().map(pid).collect())
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        for pid in self.0.iter().filter(|pid| alive(**pid)) {
            signal(*pid, Signal::KILL);
        }
    }
}

/// Commands that find no server start exactly one, however many run at once; it outlives them, and later commands use
/// it and print nothing about it.
#[tokio::test]
async fn concurrent_commands_start_one_server() {
    let setup = FakeEngineSetup::new();
    let starts: Vec<_> = (0..4)
        .map(|n| command(&setup, &["call", "echo", &format!("text=n{n}"), "-s", &format!("s{n}")]).output())
        .collect();
    let said: Vec<_> = within(TEST_TIMEOUT, futures_util::future::join_all(starts)).await;
    let servers = Servers::of(&setup).await;
    let said: Vec<_> = said.into_iter().map(|output| VerbOutput::new(output.unwrap())).collect();
    for (n, said) in said.iter().enumerate() {
        assert_eq!((said.code, &said.stdout), (0, &format!("n{n}\n")), "{said:?}");
    }
    assert_eq!(servers.0.len(), 1, "{:?}", servers.0);
    let noted = said.iter().filter(|said| said.stderr.contains("started a server in the background"));
    assert_eq!(noted.count(), 1, "{said:?}");
    let later = run(&setup, &["call", "echo", "text=later"]).await;
    assert_eq!((later.stdout.as_str(), later.stderr.as_str()), ("later\n", ""));
    let status = run_verb(&setup, &["status"]).await;
    assert!(status.stdout.contains("ends after 10 min without use"), "{status:?}");
    signal(servers.0[0], Signal::TERM);
    within(TEST_TIMEOUT, wait_gone(servers.0[0])).await;
}

/// The server ends by itself when its last session is closed and no command comes.
#[tokio::test]
async fn unused_server_ends() {
    let setup = FakeEngineSetup::new().set("server.idle_exit", "200ms");
    let first = run(&setup, &["call", "echo", "text=x"]).await;
    let servers = Servers::of(&setup).await;
    assert_eq!((first.code, servers.0.len()), (0, 1), "{first:?}");
    let closed = run(&setup, &["close"]).await;
    assert_eq!(closed.code, 0, "{closed:?}");
    within(TEST_TIMEOUT, wait_gone(servers.0[0])).await;
    let after = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!(after, serde_json::json!([]));
}

/// If the server cannot start, or there is no data folder, the command fails with exit code 3 and the server's reason.
#[tokio::test]
async fn failed_server_start_is_reported() {
    let setup = FakeEngineSetup::new().set("pool.command", "");
    let said = run(&setup, &["call", "echo", "text=x"]).await;
    assert!(matches!(said.code, 2 | 3) && said.stdout.is_empty(), "{said:?}");
    let setup = FakeEngineSetup::new();
    let file = setup.file("no-folder", "", 0o600);
    let data = file.join("data").display().to_string();
    let said = run(&setup, &["call", "echo", "text=x", "--data-dir", &data]).await;
    assert_eq!((said.code, said.stdout.as_str()), (3, ""), "{said:?}");
    assert!(said.stderr.contains("cannot use the data folder") && said.stderr.contains("hint: "), "{said:?}");
    let missing = FakeEngineSetup::new().command(&["/no/such/engine"]);
    let said = run(&missing, &["call", "echo", "text=x"]).await;
    let _servers = Servers::of(&missing).await;
    assert!(said.code != 0 && said.stderr.contains("/no/such/engine"), "{said:?}");
}
