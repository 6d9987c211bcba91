//! Commands that fail or are killed: a closed stdout; several servers, an old one, one that does not answer.

use std::{fs, io::pipe, os::unix::net::UnixListener, process::Stdio};

use greenroom_testkit::{
    TEST_TIMEOUT, eventually,
    process::{Signal, open_fds, signal},
    within,
};

use super::{command, run};
use crate::{
    front::fixture::FakeEngineSetup,
    http::{http_client, until_in_flight},
};

/// A command that is interrupted leaves its session usable: the call goes on, and the next command waits for its end.
#[tokio::test]
async fn interrupted_command_keeps_its_session() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let file = format!("file={}", gate.path());
    let mut first = command(&setup, &["call", "wait", &file]).spawn().unwrap();
    gate.arrived(1).await;
    signal(first.id().unwrap(), Signal::INT);
    assert!(
        within(TEST_TIMEOUT, first.wait()).await.unwrap().code().is_none(),
        "the signal ends the command"
    );
    let second = command(&setup, &["call", "echo", "text=after"]).stdout(Stdio::piped()).spawn().unwrap();
    until_in_flight(&client, "default", 1).await;
    gate.open();
    let second = within(TEST_TIMEOUT, second.wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&second.stdout), "after\n");
}

/// A command that is interrupted while it waits for its turn never runs.
#[tokio::test]
async fn interrupted_waiting_command_never_runs() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let file = format!("file={}", gate.path());
    let first = command(&setup, &["call", "wait", &file]).stdout(Stdio::null()).spawn().unwrap();
    gate.arrived(1).await;
    until_in_flight(&client, "default", 1).await;
    let files = open_fds(server.pid());
    let mut waiting = command(&setup, &["call", "set", "key=tea", "value=green"]).spawn().unwrap();
    until_in_flight(&client, "default", 2).await;
    signal(waiting.id().unwrap(), Signal::INT);
    assert!(within(TEST_TIMEOUT, waiting.wait()).await.unwrap().code().is_none());
    eventually("the end of its connection", || (open_fds(server.pid()) <= files).then_some(())).await;
    gate.open();
    let first = within(TEST_TIMEOUT, first.wait_with_output()).await.unwrap();
    assert!(first.status.success(), "{first:?}");
    // The next call of the session runs after all that came before it.
    assert_eq!(run(&setup, &["call", "echo", "text=after"]).await.stdout, "after\n");
    assert_eq!(setup.log().count("tools/call set"), 0, "{:?}", setup.log().lines());
}

/// A closed stdout is no failure.
#[tokio::test]
async fn closed_stdout_is_no_failure() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let ended = command(&setup, &["call", "echo", "text=x"]).stdout(writer).stderr(Stdio::piped()).spawn();
    let ended = within(TEST_TIMEOUT, ended.unwrap().wait_with_output()).await.unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

/// If several servers run, a command uses the one that has its session; if none has it, the command asks for `--pid`.
#[tokio::test]
async fn server_with_the_session_is_chosen() {
    let setup = FakeEngineSetup::new();
    let first = setup.serve().await;
    let second = setup.serve().await;
    let unclear = run(&setup, &["call", "pid"]).await;
    assert_eq!((unclear.code, unclear.stdout.as_str()), (2, ""), "{unclear:?}");
    for pid in [first.pid(), second.pid()] {
        assert!(unclear.stderr.contains(&format!("pid {pid}")), "{unclear:?}");
    }
    assert!(unclear.stderr.contains("--pid"), "{unclear:?}");
    let chosen = run(&setup, &["call", "pid", "--pid", &second.pid().to_string()]).await;
    assert_eq!(chosen.code, 0, "{chosen:?}");
    let found = run(&setup, &["call", "pid"]).await;
    assert_eq!((found.code, found.stdout), (0, chosen.stdout), "the session decides");
    let wrong = run(&setup, &["call", "pid", "--pid", "1"]).await;
    assert_eq!(wrong.code, 3, "{wrong:?}");
}

/// A server that is too old, that has another version, or that breaks off: the command says so and names the process. The
/// answer of another version counts.
#[tokio::test]
async fn unsuitable_server_is_named() {
    let setup = FakeEngineSetup::new();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let folder = setup.data().join("run").join(format!("{}-{start}-3", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("server"), "http://127.0.0.1:1").unwrap();
    let listener = UnixListener::bind(folder.join("control.sock")).unwrap();
    let servers = std::thread::spawn(move || {
        use std::io::{Read, Write};
        for (status, body) in [
            // An older server does not have this route.
            (
                "404 Not Found",
                r#"{"error":{"code":"no_route","message":"nothing is served at `/control/call`"}}"#,
            ),
            ("200 OK", r#"{"session":"s","tool":"echo","ok":true,"text":"echo: x","version":"99.1.0"}"#),
        ] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let head = format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length:");
            write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
        }
        let (stream, _) = listener.accept().unwrap();
        drop((stream, listener));
    });
    let old_server = run(&setup, &["call", "echo", "text=x"]).await;
    assert_eq!(old_server.code, 3, "{old_server:?}");
    assert!(old_server.stderr.contains("too old") && old_server.stderr.contains("kill "), "{old_server:?}");
    let other_version = run(&setup, &["call", "echo", "text=x"]).await;
    assert_eq!((other_version.code, other_version.stdout.as_str()), (0, "echo: x\n"), "{other_version:?}");
    for part in [format!("pid {}", std::process::id()), "version 99.1.0".into(), "`kill ".into()] {
        assert!(other_version.stderr.contains(&part), "{part}: {other_version:?}");
    }
    let broken = run(&setup, &["call", "echo", "text=x"]).await;
    assert_eq!((broken.code, broken.stdout.as_str()), (3, ""), "{broken:?}");
    assert!(broken.stderr.contains(&format!("pid {}", std::process::id())), "{broken:?}");
    servers.join().unwrap();
}
