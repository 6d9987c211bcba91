//! Finding and restarting attached browsers, with scripts and small servers in their place.

use std::{fs, os::unix::fs::MetadataExt, sync::Arc, time::Duration};

use greenroom_engine::Endpoint;
use greenroom_testkit::{
    TEST_TIMEOUT, eventually,
    process::{Signal, alive, signal},
    within,
};
use tokio::net::TcpListener;

use super::fixture::{FakeEngineFixture, launcher_gone};

fn endpoint(url: &str, start_command: &[&str]) -> Endpoint {
    let start_command: Vec<_> = start_command.iter().map(|part| (*part).to_owned()).collect();
    let headers = vec![("X-Token".into(), "sesame".into())];
    Endpoint { url: url.to_owned(), headers, start_command: start_command.into() }
}

/// A port of this machine without a listener.
async fn unused_address() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// The error for a browser that does not run has a hint, and no secret.
#[tokio::test]
async fn unreachable_browser_error_has_a_hint_and_no_secret() {
    let url = unused_address().await;
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
async fn failing_start_commands_are_named() {
    let fixture = FakeEngineFixture::new();
    let url = unused_address().await;
    assert!(!endpoint(&url, &[]).revive(&fixture.launcher, &fixture.run).await.unwrap());

    let missing = endpoint(&url, &["/nowhere/chrome", "--flag"])
        .revive(&fixture.launcher, &fixture.run)
        .await
        .unwrap_err();
    assert!(missing.message.contains("cannot run the start command"), "{missing}");
    assert!(missing.message.ends_with("`/nowhere/chrome`"), "{missing}");

    let script = fixture.script("chrome", "exit 7");
    let failing = endpoint(&url, &[script.to_str().unwrap()]);
    let failed = within(TEST_TIMEOUT, failing.revive(&fixture.launcher, &fixture.run)).await.unwrap_err();
    assert_eq!(failed.message, format!("the start command ended (exit status: 7): `{}`", script.display()));
}

/// A start command is a program and its arguments, never a shell command; in them `{url}` is the browser's address, and a
/// browser that does not answer within the limit is an error.
#[tokio::test]
async fn start_commands_are_not_run_by_a_shell() {
    let fixture = FakeEngineFixture::new();
    let url = unused_address().await;
    let argv = fixture.path("argv");
    let gate = fixture.path("done");
    let script = fixture
        .script("chrome", &format!("printf '%s\\n' \"$@\" >{}\n: >{}", argv.display(), gate.display()));
    let command = [script.to_str().unwrap(), "--at={url}", "{url}/{url}", "$(id); a b", "{host}"];
    let slow = endpoint(&url, &command);
    let revived = tokio::spawn({
        let launcher = fixture.launcher.clone();
        let run = fixture.run.clone();
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
async fn error_quotes_the_end_of_the_commands_output() {
    let fixture = FakeEngineFixture::new();
    let url = unused_address().await;
    let script =
        fixture.script("chrome", "seq 1000 >&2; echo \"cannot open display for $1\" >&2; echo out; exit 3");
    let at = url.replace("//", "//ann:sesame@") + "/?key=s3cret";
    let failing = endpoint(&at, &[script.to_str().unwrap(), "{url}"]);
    for _ in 0..2 {
        let failed = within(TEST_TIMEOUT, failing.revive(&fixture.launcher, &fixture.run)).await.unwrap_err();
        let (_, stderr) = failed.message.split_once("; its last output: ").unwrap();
        assert!(stderr.starts_with("990 | 991 | "), "the last lines: {stderr}");
        assert!(stderr.contains("1000 | cannot open display for http://ann:…@127.0.0.1:"), "{stderr}");
        assert!(
            !stderr.contains("sesame") && !stderr.contains("s3cret") && !stderr.contains("out"),
            "{stderr}"
        );
    }
}

/// A browser without a debugger is not started a second time while it runs: greenroom waits for it, and names it. Once it
/// has ended it is started again.
#[tokio::test]
async fn running_start_command_is_not_run_again() {
    let fixture = FakeEngineFixture::new();
    let url = unused_address().await;
    let pids = fixture.path("pids");
    let script = fixture
        .script("chrome", &format!("echo no debugger >&2; echo $$ >>{}; exec sleep 600", pids.display()));
    let without_debugger = Arc::new(endpoint(&url, &[script.to_str().unwrap()]));
    let revive = || {
        let without_debugger = without_debugger.clone();
        let launcher = fixture.launcher.clone();
        let run = fixture.run.clone();
        tokio::spawn(async move { without_debugger.revive(&launcher, &run).await })
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
/// writes only to a file, and lives on when the launcher is gone. The launcher's end does not wait for it.
#[tokio::test]
async fn started_browser_outlives_greenroom() {
    let fixture = FakeEngineFixture::new();
    let url = unused_address().await;
    let pid_file = fixture.path("pid");
    let script = fixture
        .script("chrome", &format!("echo $$ >{0}.part; mv {0}.part {0}; exec sleep 600", pid_file.display()));
    let reviving = endpoint(&url, &[script.to_str().unwrap()]);
    let revived = tokio::spawn({
        let launcher = fixture.launcher.clone();
        let run = fixture.run.clone();
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
    within(Duration::from_secs(5), fixture.launcher.all_ended()).await;
    drop(fixture);
    launcher_gone().await;
    assert!(alive(pid));
    signal(pid, Signal::KILL);
    // It is reaped too, so that it does not stay as a zombie.
    let gone = || !fs::exists(format!("/proc/{pid}")).unwrap();
    eventually("its end", || gone().then_some(())).await;
}
