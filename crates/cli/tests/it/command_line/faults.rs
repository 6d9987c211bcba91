//! Commands that meet broken things: a killed command, a closed stdout, servers that are many, old or silent.

use std::{fs, io::pipe, os::unix::net::UnixListener, process::Stdio};

use greenroom_testkit::{PATIENCE, process::Signal, process::signal, within};

use super::{command, run};
use crate::{
    front::fixture::FakeEngineSetup,
    http::{http_client, until_in_flight},
};

/// A command that is interrupted leaves its session usable: the call goes on, and the next command waits for its end.
#[tokio::test]
async fn interrupted() {
    let setup = FakeEngineSetup::new();
    let server = setup.serve().await;
    let client = http_client(&server).await;
    let gate = setup.gate("gate");
    let file = format!("file={}", gate.path());
    let mut first = command(&setup, &["call", "wait", &file]).spawn().unwrap();
    gate.arrived(1).await;
    signal(first.id().unwrap(), Signal::INT);
    assert!(within(PATIENCE, first.wait()).await.unwrap().code().is_none(), "the signal ends the command");
    let second = command(&setup, &["call", "echo", "text=after"]).stdout(Stdio::piped()).spawn().unwrap();
    until_in_flight(&client, "default", 1).await;
    gate.open();
    let second = within(PATIENCE, second.wait_with_output()).await.unwrap();
    assert_eq!(String::from_utf8_lossy(&second.stdout), "after\n");
}

/// A reader that has gone away is no failure.
#[tokio::test]
async fn closed_stdout() {
    let setup = FakeEngineSetup::new();
    let _server = setup.serve().await;
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let ended = command(&setup, &["call", "echo", "text=x"]).stdout(writer).stderr(Stdio::piped()).spawn();
    let ended = within(PATIENCE, ended.unwrap().wait_with_output()).await.unwrap();
    assert_eq!((ended.status.code(), ended.stderr.as_slice()), (Some(0), &b""[..]));
}

/// Where several servers run, a command uses the one that has its session, or wants to be told which.
#[tokio::test]
async fn several_servers() {
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

/// A process that listens and never answers is named, and the command ends.
#[tokio::test]
async fn no_answer() {
    let setup = FakeEngineSetup::new();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().to_owned();
    let folder = setup.data().join("run").join(format!("{}-{start}-3", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("server"), "http://127.0.0.1:1").unwrap();
    let listener = UnixListener::bind(folder.join("control.sock")).unwrap();
    // A server of another time knows no such route.
    let old = std::thread::spawn(move || {
        use std::io::{Read, Write};
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]).unwrap();
        let body = r#"{"error":{"code":"no_route","message":"nothing is served at `/control/call`"}}"#;
        let head = "HTTP/1.1 404 Not Found\r\ncontent-type: application/json\r\ncontent-length:";
        write!(stream, "{head} {}\r\n\r\n{body}", body.len()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        drop((stream, listener));
    });
    let old_server = run(&setup, &["call", "echo", "text=x"]).await;
    assert_eq!(old_server.code, 3, "{old_server:?}");
    assert!(old_server.stderr.contains("too old") && old_server.stderr.contains("kill "), "{old_server:?}");
    let broken = run(&setup, &["call", "echo", "text=x"]).await;
    assert_eq!((broken.code, broken.stdout.as_str()), (3, ""), "{broken:?}");
    assert!(broken.stderr.contains(&format!("pid {}", std::process::id())), "{broken:?}");
    old.join().unwrap();
}
