//! The audit log: lines of several processes in one file, floods, rotation, a full disk.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use greenroom_core::audit::{Audit as _, AuditActor, AuditEvent, AuditKind};
use greenroom_store::{AuditLog, AuditReader, AuditSettings, AuditText};
use rustix::process::{Resource, getrlimit, setrlimit};

use crate::{
    kit::{folder, soon},
    sharing::{is_rerun, rerun_this_test},
};

fn settings(folder: &Path) -> AuditSettings {
    AuditSettings {
        folder: folder.to_owned(),
        file_bytes_max: 1 << 20,
        max_age: Duration::from_secs(3600),
        bytes_max: 1 << 24,
    }
}

fn start(settings: AuditSettings) -> AuditLog {
    AuditLog::start(settings).unwrap()
}

/// A refused connection in a session.
fn refusal(session: usize, target: &str) -> AuditEvent {
    AuditEvent {
        actor: AuditActor { session: Some(format!("s{session}")), ..AuditActor::default() },
        kind: AuditKind::NetworkRefused {
            rule: "loopback".to_owned(),
            denied_by: None,
            target: Some(target.to_owned()),
        },
    }
}

fn rest(reader: &mut AuditReader) -> Vec<AuditText> {
    std::iter::from_fn(|| reader.next_line().unwrap()).collect()
}

fn read(folder: &Path) -> Vec<AuditText> {
    rest(&mut AuditReader::new(folder))
}

fn total(lines: &[AuditText]) -> u64 {
    lines.iter().map(|line| line.line.count).sum()
}

/// A flood of equal events takes two lines, with the exact number. Only this user can read the file.
#[tokio::test]
async fn floods_are_counted_and_files_are_private() {
    let folder = folder();
    let log = start(settings(folder.path()));
    for _ in 0..10_000 {
        log.report(refusal(1, "127.0.0.1:80"));
    }
    soon(log.close()).await;
    let lines = read(folder.path());
    assert!(lines.len() <= 2, "{lines:?}");
    assert_eq!((total(&lines), log.lost()), (10_000, 0));
    assert_eq!(lines[0].line.event, refusal(1, "127.0.0.1:80"));
    let mode = fs::metadata(folder.path().join("audit.jsonl")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

/// The first of equal events has its line at once, while the window goes on.
#[tokio::test]
async fn first_event_is_written_at_once() {
    let folder = folder();
    let log = start(settings(folder.path()));
    log.report(refusal(1, "a:80"));
    soon(log.written().wait_for(|lines| *lines == 1)).await.unwrap();
    assert_eq!(total(&read(folder.path())), 1);
}

/// Several logs write into one folder and rotate its file: no line is lost, broken or there twice, also for a reader that
/// follows them.
#[tokio::test]
async fn logs_share_a_folder_while_they_rotate() {
    const LOGS: usize = 4;
    const SESSIONS: usize = 40;
    const TARGETS: usize = 20;
    let folder = folder();
    let mut follower = AuditReader::new(folder.path());
    let mut followed = rest(&mut follower);
    assert_eq!(followed, []);
    let small = AuditSettings { file_bytes_max: 20_000, ..settings(folder.path()) };
    let logs: Vec<_> = (0..LOGS).map(|_| Arc::new(start(small.clone()))).collect();
    let reporting: Vec<_> = logs
        .iter()
        .enumerate()
        .map(|(number, log)| {
            let log = log.clone();
            std::thread::spawn(move || {
                for event in 0..SESSIONS * TARGETS {
                    log.report(refusal(number * SESSIONS + event / TARGETS, &format!("host{event}:80")));
                }
            })
        })
        .collect();
    while reporting.iter().any(|thread| !thread.is_finished()) {
        followed.extend(rest(&mut follower));
    }
    for log in &logs {
        soon(log.close()).await;
        assert_eq!((log.lost(), log.health()), (0, Ok(())));
    }
    followed.extend(rest(&mut follower));
    let expected = LOGS * SESSIONS * TARGETS;
    let mut reader = AuditReader::new(folder.path());
    for (what, lines, unreadable) in [
        ("a reader at the end", rest(&mut reader), reader.unreadable()),
        ("a reader that follows", followed, follower.unreadable()),
    ] {
        let mut texts: Vec<_> = lines.iter().map(|line| &line.text).collect();
        texts.sort();
        texts.dedup();
        assert_eq!((texts.len(), lines.len(), unreadable), (expected, expected, 0), "{what}");
    }
    let files = fs::read_dir(folder.path()).unwrap().count();
    assert!(files > 10, "the file was rotated: {files} files");
}

/// On a full disk events are lost, counted and reported; when there is room again, a line says how many. A limit on the
/// size of files plays the full disk: it stops root as well.
#[tokio::test]
async fn full_disk_is_told_and_recovered_from() {
    let Some(folder) = is_rerun() else {
        let folder = folder();
        let limited = "trap '' XFSZ; ulimit -S -f 8; exec \"$0\" \"$@\"";
        rerun_this_test("audit::full_disk_is_told_and_recovered_from", folder.path(), Some(limited)).wait();
        return;
    };
    let log = start(settings(&folder));
    let mut reported = 0;
    while log.lost() == 0 {
        log.report(refusal(reported, "127.0.0.1:80"));
        reported += 1;
        let done = u64::try_from(reported).unwrap();
        let mut written = log.written();
        soon(async {
            while *written.borrow_and_update() + log.lost() < done {
                tokio::task::yield_now().await;
            }
        })
        .await;
    }
    assert!(reported > 5, "{reported} were reported");
    assert!(log.health().is_err());
    let limit = getrlimit(Resource::Fsize);
    setrlimit(Resource::Fsize, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
    log.report(refusal(reported, "127.0.0.1:80"));
    soon(log.close()).await;
    assert_eq!(log.health(), Ok(()));
    let mut reader = AuditReader::new(&folder);
    let lines = rest(&mut reader);
    assert_eq!(total(&lines), u64::try_from(reported).unwrap() + 1);
    let lost = &lines.last().unwrap().line;
    assert_eq!((&lost.event.kind, lost.count), (&AuditKind::EventsLost, log.lost()));
    assert!(reader.unreadable() <= 1, "one line is broken off: {}", reader.unreadable());
}

/// A file that cannot be opened stops nothing: events are counted, the reason is told, and the log goes on when the file
/// can be opened.
#[tokio::test]
async fn unusable_file_is_told() {
    let folder = folder();
    let path = folder.path().join("audit.jsonl");
    fs::create_dir(&path).unwrap();
    let log = start(settings(folder.path()));
    log.report(refusal(1, "a:80"));
    soon(async {
        while log.health().is_ok() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(log.health().unwrap_err().contains("Is a directory"), "{:?}", log.health());
    fs::remove_dir(&path).unwrap();
    log.report(refusal(2, "b:80"));
    soon(log.written().wait_for(|lines| *lines == 1)).await.unwrap();
    assert_eq!((log.health(), log.lost()), (Ok(()), 1));
    soon(log.close()).await;
    let kinds: Vec<_> = read(folder.path()).into_iter().map(|line| line.line.event).collect();
    let lost = AuditEvent { actor: AuditActor::default(), kind: AuditKind::EventsLost };
    assert_eq!(kinds, [refusal(2, "b:80"), lost]);
}

/// The rest of a line that a killed process left does not spoil the next line.
#[tokio::test]
async fn broken_lines_are_ended_and_skipped() {
    let folder = folder();
    fs::write(folder.path().join("audit.jsonl"), "{\"time\":\"2026-").unwrap();
    let log = start(settings(folder.path()));
    log.report(refusal(1, "a:80"));
    soon(log.close()).await;
    let mut reader = AuditReader::new(folder.path());
    assert_eq!((total(&rest(&mut reader)), reader.unreadable()), (1, 1));
}
