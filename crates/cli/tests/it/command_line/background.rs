//! Servers that commands start in the background.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::Stdio,
    time::{Duration, Instant},
};

use greenroom_testkit::{
    TEST_TIMEOUT, eventually,
    process::{Signal, alive, signal, wait_gone, with_argument},
    within,
};
use serde_json::{Value, json};

use super::{command, run};
use crate::{
    control::run_verb::{VerbOutput, run_verb},
    front::fixture::FakeEngineSetup,
};

/// The servers that run, ended when dropped.
struct Servers(Vec<u32>);

impl Servers {
    async fn running_in(setup: &FakeEngineSetup) -> Self {
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
    let servers = Servers::running_in(&setup).await;
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

/// A flag of a command is for the server that the command starts. The command says so if a server runs already.
#[tokio::test]
async fn flags_without_effect_are_noted() {
    let setup = FakeEngineSetup::new();
    let data = setup.data().display().to_string();
    let arguments = ["call", "echo", "text=x", "--tools-profile", "full", "--data-dir", &data];
    let first = run(&setup, &arguments).await;
    let servers = Servers::running_in(&setup).await;
    assert!(first.code == 0 && !first.stderr.contains("has no effect"), "{first:?}");
    let second = run(&setup, &arguments).await;
    assert_eq!((second.code, second.stdout.as_str()), (0, "x\n"), "{second:?}");
    let expected =
        format!("note: --tools-profile has no effect: the server (pid {}) runs already", servers.0[0]);
    assert!(second.stderr.starts_with(&expected), "{second:?}");
    assert_eq!(second.stderr.matches("has no effect").count(), 1, "{second:?}");
}

/// A command whose network policy is not that of the running server does not use the server: pages could reach what the
/// user forbids.
#[tokio::test]
async fn server_with_another_network_policy_is_not_used() {
    let setup = FakeEngineSetup::new();
    let guarded = ["call", "echo", "text=x", "--network-preset", "guarded"];
    let first = run(&setup, &guarded).await;
    let servers = Servers::running_in(&setup).await;
    assert_eq!(first.code, 0, "{first:?}");
    let same = run(&setup, &guarded).await;
    assert_eq!((same.code, same.stderr.as_str()), (0, ""), "{same:?}");
    // A command that says nothing about the network takes the server as it is.
    assert_eq!(run(&setup, &["call", "echo", "text=x"]).await.code, 0);
    for other in
        [&["--network-preset", "open"][..], &["--network-preset", "guarded", "--network-deny", "a.example"]]
    {
        let refused = run(&setup, &[&["call", "echo", "text=x"], other].concat()).await;
        let expected = format!("greenroom runs already (pid {}), with another network policy", servers.0[0]);
        assert!(refused.code == 1 && refused.stderr.contains(&expected), "{refused:?}");
    }
}

/// The server ends by itself when its last session is closed and no command comes.
#[tokio::test]
async fn unused_server_ends() {
    let setup = FakeEngineSetup::new().set("server.idle_exit", "200ms");
    let first = run(&setup, &["call", "echo", "text=x"]).await;
    let servers = Servers::running_in(&setup).await;
    assert_eq!((first.code, servers.0.len()), (0, 1), "{first:?}");
    let closed = run(&setup, &["close"]).await;
    assert_eq!(closed.code, 0, "{closed:?}");
    within(TEST_TIMEOUT, wait_gone(servers.0[0])).await;
    let after = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!(after, serde_json::json!([]));
}

/// A server that an MCP client has joined does not end while the client is connected, and ends after it has left.
#[tokio::test]
async fn joined_client_keeps_the_server() {
    const IDLE: Duration = Duration::from_millis(200);
    let setup = FakeEngineSetup::new().set("server.idle_exit", "200ms");
    run(&setup, &["call", "echo", "text=x"]).await;
    let servers = Servers::running_in(&setup).await;
    let client = setup.client().await;
    let status = run_verb(&setup, &["status", "--json"]).await.json();
    assert_eq!(status.as_array().unwrap().len(), 1, "the client joins the server: {status}");
    assert_eq!(run(&setup, &["close"]).await.code, 0);
    // Nothing happens to wait for: a server that counts the client as no use would end within this time.
    let closed = Instant::now();
    while closed.elapsed() < IDLE * 5 {
        client.request("ping", json!({})).await;
        assert!(alive(servers.0[0]), "the server ended, and a client is connected");
    }
    client.close_stdin().await;
    client.wait().await;
    within(TEST_TIMEOUT, wait_gone(servers.0[0])).await;
}

/// A command that is interrupted while its server starts leaves that server to later commands, and no second one is started
/// meanwhile.
#[tokio::test]
async fn interrupted_start_leaves_one_server() {
    let setup = FakeEngineSetup::new();
    let data = setup.data().display().to_string();
    let mut first = command(&setup, &["call", "echo", "text=first"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let is_server = |(_, line): &(u32, Vec<String>)| line.iter().any(|word| word == "--background");
    let server =
        eventually("a server that starts", || with_argument(&data).into_iter().find(is_server)).await.0;
    let servers = Servers(vec![server]);
    // It is stopped in the middle of its start, unless it has been faster.
    signal(server, Signal::STOP);
    signal(first.id().unwrap(), Signal::INT);
    within(TEST_TIMEOUT, first.wait()).await.unwrap();
    let second = command(&setup, &["call", "echo", "text=second"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (pid, lock) = (second.id().unwrap(), setup.data().join("start.lock"));
    let is_ready = || fs::read_dir(setup.data().join("run")).into_iter().flatten().flatten();
    let is_ready = || is_ready().any(|run| run.path().join("server").exists());
    let waits = || (has_open(pid, &lock) || is_ready()).then_some(());
    eventually("the second command to wait for the server", waits).await;
    signal(server, Signal::CONT);
    let second = VerbOutput::new(within(TEST_TIMEOUT, second.wait_with_output()).await.unwrap());
    assert_eq!(
        (second.code, second.stdout.as_str(), second.stderr.as_str()),
        (0, "second\n", ""),
        "{second:?}"
    );
    assert_eq!(Servers::running_in(&setup).await.0, servers.0);
    // The server has given the lock of the start back.
    fs::File::open(lock).unwrap().try_lock().unwrap();
}

/// Whether this process has opened this file.
fn has_open(pid: u32, file: &Path) -> bool {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    files.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|path| path == file)
}

/// If its user may not write the data folder, a command says so and has exit code 3. Root may write everywhere, so for root this
/// test runs the command as the user `nobody`.
#[tokio::test]
async fn missing_permission_to_start_is_reported() {
    let setup = FakeEngineSetup::new();
    fs::set_permissions(setup.path(""), fs::Permissions::from_mode(0o755)).unwrap();
    fs::set_permissions(setup.path("home"), fs::Permissions::from_mode(0o555)).unwrap();
    // That user must be able to reach the program.
    let binary = setup.path("greenroom");
    fs::copy(env!("CARGO_BIN_EXE_greenroom"), &binary).unwrap();
    let mut command = tokio::process::Command::new(&binary);
    command.args(["call", "echo", "text=x"]).env_clear().envs(setup.environment());
    command.current_dir(setup.path("home")).stdin(Stdio::null()).kill_on_drop(true);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let said = VerbOutput::new(within(TEST_TIMEOUT, command.output()).await.unwrap());
    fs::set_permissions(setup.path("home"), fs::Permissions::from_mode(0o755)).unwrap();
    assert_eq!((said.code, said.stdout.as_str()), (3, ""), "{said:?}");
    for part in ["none can be started", "Permission denied", "hint: ", "--data-dir"] {
        assert!(said.stderr.contains(part), "{part}: {said:?}");
    }
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
    let _servers = Servers::running_in(&missing).await;
    assert!(said.code != 0 && said.stderr.contains("/no/such/engine"), "{said:?}");
}
