//! Finding and restarting attached browsers, with scripts and small servers in their place.

use std::{fs, os::unix::fs::MetadataExt, sync::Arc, time::Duration};

use greenroom_engine::Endpoint;
use greenroom_testkit::{
    PATIENCE, eventually,
    process::{Signal, alive, signal},
    within,
};
use tokio::net::TcpListener;

use super::stage::{Stage, launcher_gone};

fn endpoint(url: &str, start_command: &[&str]) -> Endpoint {
    let start_command: Vec<_> = start_command.iter().map(|part| (*part).to_owned()).collect();
    let headers = vec![("X-Token".into(), "sesame".into())];
    Endpoint { url: url.to_owned(), headers, start_command: start_command.into() }
}

/// A port of this machine without a listener.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// The error for a browser that does not run has a hint, and no secret.
#[tokio::test]
async fn nobody_there() {
    let url = nowhere().await;
    let port = url.rsplit_once(':').unwrap().1;
    let at = url.replace("//", "//ann:sesame@");
    let refused = endpoint(&at, &[]).reach().await.unwrap_err();
    let shown = url.replace("//", "//***@");
    assert!(refused.message.contains(&shown) && !refused.message.contains("sesame"), "{refused}");
    assert_eq!(
        refused.hint.unwrap(),
        format!(
            "start it with --remote-debugging-port={port}; one that runs without it has to be ended first"
        )
    );

    let shown = format!("{:?}", endpoint(&at, &["chrome", "--secret=sesame"]));
    assert!(shown.contains("X-Token") && shown.contains("chrome") && !shown.contains("sesame"), "{shown}");
}

/// Without a start command nothing happens; the error for a missing or failing command names it and its exit.
#[tokio::test]
async fn commands_that_fail() {
    let stage = Stage::new();
    let url = nowhere().await;
    assert!(!endpoint(&url, &[]).revive(&stage.launcher, &stage.run).await.unwrap());

    let missing =
        endpoint(&url, &["/nowhere/chrome", "--flag"]).revive(&stage.launcher, &stage.run).await.unwrap_err();
    assert!(missing.message.contains("cannot run the start command"), "{missing}");
    assert!(missing.message.ends_with("`/nowhere/chrome`"), "{missing}");

    let script = stage.script("chrome", "exit 7");
    let failing = endpoint(&url, &[script.to_str().unwrap()]);
    let failed = within(PATIENCE, failing.revive(&stage.launcher, &stage.run)).await.unwrap_err();
    assert_eq!(failed.message, format!("the start command ended (exit status: 7): `{}`", script.display()));
}

/// A start command is a program and its arguments, never a shell command; in them `{url}` is the browser's address, and a
/// browser that does not answer within the limit is an error.
#[tokio::test]
async fn commands_are_no_shell() {
    let stage = Stage::new();
    let url = nowhere().await;
    let argv = stage.path("argv");
    let gate = stage.path("done");
    let script =
        stage.script("chrome", &format!("printf '%s\\n' \"$@\" >{}\n: >{}", argv.display(), gate.display()));
    let command = [script.to_str().unwrap(), "--at={url}", "{url}/{url}", "$(id); a b", "{host}"];
    let slow = endpoint(&url, &command);
    let revived = tokio::spawn({
        let (launcher, run) = (stage.launcher.clone(), stage.run.clone());
        async move { slow.revive(&launcher, &run).await }
    });
    eventually("the start command", || gate.exists().then_some(())).await;
    assert_eq!(
        fs::read_to_string(&argv).unwrap(),
        format!("--at={url}\n{url}/{url}\n$(id); a b\n{{host}}\n")
    );
    tokio::time::pause();
    let late = revived.await.unwrap().unwrap_err();
    // Browsers' own launchers exit like that, once the browser runs.
    assert!(
        late.message.starts_with("the start command ended (exit status: 0), and the browser at"),
        "{late}"
    );
    assert!(late.message.contains("did not answer within 30 s"), "{late}");
    assert!(late.hint.unwrap().contains("--remote-debugging-port="));
}

/// The error quotes the end of a command's output, without secrets of the address that the command got.
#[tokio::test]
async fn last_words_of_commands() {
    let stage = Stage::new();
    let url = nowhere().await;
    let script =
        stage.script("chrome", "seq 1000 >&2; echo \"cannot open display for $1\" >&2; echo out; exit 3");
    let at = url.replace("//", "//ann:sesame@") + "/?key=s3cret";
    let failing = endpoint(&at, &[script.to_str().unwrap(), "{url}"]);
    for _ in 0..2 {
        let failed = within(PATIENCE, failing.revive(&stage.launcher, &stage.run)).await.unwrap_err();
        let (_, said) = failed.message.split_once("; its last output: ").unwrap();
        assert!(said.starts_with("990 | 991 | "), "the last lines: {said}");
        assert!(said.contains("1000 | cannot open display for http://ann:…@127.0.0.1:"), "{said}");
        assert!(!said.contains("sesame") && !said.contains("s3cret") && !said.contains("out"), "{said}");
    }
}

/// A browser without a debugger is not started a second time while it runs: greenroom waits for it, and names it. Once it
/// has ended it is started again.
#[tokio::test]
async fn what_runs_is_not_started_twice() {
    let stage = Stage::new();
    let url = nowhere().await;
    let pids = stage.path("pids");
    let script = stage
        .script("chrome", &format!("echo no debugger >&2; echo $$ >>{}; exec sleep 600", pids.display()));
    let mute = Arc::new(endpoint(&url, &[script.to_str().unwrap()]));
    let revive = || {
        let (mute, launcher, run) = (mute.clone(), stage.launcher.clone(), stage.run.clone());
        tokio::spawn(async move { mute.revive(&launcher, &run).await })
    };
    let started = |count: usize| {
        let pids = pids.clone();
        async move {
            let all = || Some(fs::read_to_string(&pids).ok()?.lines().map(str::to_owned).collect::<Vec<_>>());
            eventually("the start command", || all().filter(|all| all.len() == count)).await.pop().unwrap()
        }
    };
    let mut first = revive();
    let pid = started(1).await;
    for _ in 0..2 {
        // From here on the test waits only for limits.
        tokio::time::pause();
        let late = first.await.unwrap().unwrap_err();
        tokio::time::resume();
        assert_eq!(
            late.message,
            format!(
                "process {pid}, which the start command started, still runs, and the browser at {url} did not answer \
                 within 30 s: `{}`; its last output: no debugger",
                script.display()
            )
        );
        assert!(late.hint.unwrap().ends_with(&format!("it is not run again while process {pid} runs")));
        assert_eq!(started(1).await, pid);
        first = revive();
    }
    signal(pid.parse().unwrap(), Signal::KILL);
    let next = started(2).await;
    assert!(next != pid && alive(next.parse().unwrap()));
    first.abort();
    let _ = first.await;
    signal(next.parse().unwrap(), Signal::KILL);
}

/// A process of a start command is independent of greenroom: it has its own session, no tag and no variable of greenroom's,
/// writes only to a file, and lives on when the launcher is gone, whose end does not wait for it.
#[tokio::test]
async fn what_is_started_stays() {
    let stage = Stage::new();
    let url = nowhere().await;
    let pid_file = stage.path("pid");
    let script = stage
        .script("chrome", &format!("echo $$ >{0}.part; mv {0}.part {0}; exec sleep 600", pid_file.display()));
    let reviving = endpoint(&url, &[script.to_str().unwrap()]);
    let revived = tokio::spawn({
        let (launcher, run) = (stage.launcher.clone(), stage.run.clone());
        async move { reviving.revive(&launcher, &run).await }
    });
    let pid = eventually("the start command", || fs::read_to_string(&pid_file).ok()).await;
    let pid: u32 = pid.trim().parse().unwrap();
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let fields: Vec<_> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    assert_eq!(
        (fields[2], fields[3]),
        (pid.to_string().as_str(), pid.to_string().as_str()),
        "group, session"
    );
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains("GREENROOM_"));
    let null = fs::metadata("/dev/null").unwrap();
    for fd in 0..2 {
        let open = fs::metadata(format!("/proc/{pid}/fd/{fd}")).unwrap();
        assert_eq!((open.dev(), open.ino()), (null.dev(), null.ino()), "fd {fd}");
    }
    let open = fs::metadata(format!("/proc/{pid}/fd/2")).unwrap();
    assert_eq!((open.is_file(), open.mode() & 0o777), (true, 0o600), "no pipe, whose end would end it");

    revived.abort();
    let _ = revived.await;
    within(Duration::from_secs(5), stage.launcher.all_ended()).await;
    drop(stage);
    launcher_gone().await;
    assert!(alive(pid));
    signal(pid, Signal::KILL);
    // It is reaped too, so that it does not stay as a zombie.
    let gone = || !fs::exists(format!("/proc/{pid}")).unwrap();
    eventually("its end", || gone().then_some(())).await;
}
