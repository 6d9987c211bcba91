//! Browsers that somebody else started, as far as they can be found and started again, with scripts and small servers
//! in their place.

use std::{fs, os::unix::fs::MetadataExt, time::Duration};

use greenroom_engine::Endpoint;
use greenroom_testkit::{
    PATIENCE, eventually,
    process::{Signal, alive, signal},
    within,
};
use tokio::net::TcpListener;

use super::stage::{Stage, launcher_gone};

fn endpoint(url: &str, start_command: &[&str]) -> Endpoint {
    let start_command = start_command.iter().map(|part| (*part).to_owned()).collect();
    Endpoint { url: url.to_owned(), headers: vec![("X-Token".into(), "sesame".into())], start_command }
}

/// A port of this machine where nobody listens.
async fn nowhere() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    format!("http://{}", listener.local_addr().unwrap())
}

/// A browser that is not there is named with what to do, and nothing that is secret.
#[tokio::test]
async fn nobody_there() {
    let url = nowhere().await;
    let port = url.rsplit_once(':').unwrap().1;
    let at = url.replace("//", "//ann:sesame@");
    let refused = endpoint(&at, &[]).reach().await.unwrap_err();
    assert!(refused.message.contains(&url) && !refused.message.contains("sesame"), "{refused}");
    assert_eq!(refused.hint.unwrap(), format!("is it running with --remote-debugging-port={port}?"));

    let shown = format!("{:?}", endpoint(&at, &["chrome", "--secret=sesame"]));
    assert!(shown.contains("X-Token") && shown.contains("chrome") && !shown.contains("sesame"), "{shown}");
}

/// Without a start command nothing is done; a command that is missing, or that fails, is named with how it ended.
#[tokio::test]
async fn commands_that_fail() {
    let (stage, url) = (Stage::new(), nowhere().await);
    assert!(!endpoint(&url, &[]).revive(&stage.launcher).await.unwrap());

    let missing = endpoint(&url, &["/nowhere/chrome", "--flag"]).revive(&stage.launcher).await.unwrap_err();
    assert!(missing.message.contains("cannot run the start command"), "{missing}");
    assert!(missing.message.ends_with("`/nowhere/chrome`"), "{missing}");

    let script = stage.script("chrome", "exit 7");
    let failing = endpoint(&url, &[script.to_str().unwrap()]);
    let failed = within(PATIENCE, failing.revive(&stage.launcher)).await.unwrap_err();
    assert!(failed.message.starts_with("the start command ended (exit status: 7): `"), "{failed}");
}

/// A start command is a program and its arguments, never a shell's; in them `{url}` is the browser's address, and a browser
/// that does not come within the limit is told of.
#[tokio::test]
async fn commands_are_no_shell() {
    let (stage, url) = (Stage::new(), nowhere().await);
    let (argv, gate) = (stage.path("argv"), stage.path("done"));
    let script =
        stage.script("chrome", &format!("printf '%s\\n' \"$@\" >{}\n: >{}", argv.display(), gate.display()));
    let command = [script.to_str().unwrap(), "--at={url}", "{url}/{url}", "$(id); a b", "{host}"];
    let slow = endpoint(&url, &command);
    let revived = tokio::spawn({
        let launcher = stage.launcher.clone();
        async move { slow.revive(&launcher).await }
    });
    eventually("the start command", || gate.exists().then_some(())).await;
    assert_eq!(
        fs::read_to_string(&argv).unwrap(),
        format!("--at={url}\n{url}/{url}\n$(id); a b\n{{host}}\n")
    );
    tokio::time::pause();
    let late = revived.await.unwrap().unwrap_err();
    assert!(late.message.contains("did not answer within 30 s"), "{late}");
    assert!(late.hint.unwrap().contains("--remote-debugging-port="));
}

/// What a start command starts is nobody's child: it has its own session, no tag and nothing of greenroom's environment,
/// talks to nobody, and lives on when the launcher is gone, whose end does not wait for it.
#[tokio::test]
async fn what_is_started_stays() {
    let (stage, url) = (Stage::new(), nowhere().await);
    let pid_file = stage.path("pid");
    let script = stage
        .script("chrome", &format!("echo $$ >{0}.part; mv {0}.part {0}; exec sleep 600", pid_file.display()));
    let reviving = endpoint(&url, &[script.to_str().unwrap()]);
    let revived = tokio::spawn({
        let launcher = stage.launcher.clone();
        async move { reviving.revive(&launcher).await }
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
    for fd in 0..3 {
        let open = fs::metadata(format!("/proc/{pid}/fd/{fd}")).unwrap();
        assert_eq!((open.dev(), open.ino()), (null.dev(), null.ino()), "fd {fd}");
    }

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
