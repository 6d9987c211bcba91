//! `greenroom demo`: the first thing a newcomer sees.

use std::{
    path::PathBuf,
    process::{Command, Output, Stdio},
};

use greenroom_testkit::process::{Signal, signal, wait_gone};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};

use super::{
    fixture::{DataFolder, installed},
    inspect,
};

fn demo(data: &DataFolder, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["demo", "--data-dir"])
        .arg(data.path())
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Every agent sees its own name and basket and no other's, in one Chromium; nothing is left behind.
#[test]
fn each_demo_agent_sees_only_its_own_basket() {
    let data = DataFolder::new();
    let output = demo(&data, &["--json", "--agents", "5"]);
    let stdout = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stdout}\n{stderr}");
    let events: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let of = |kind: &str| events.iter().filter(|event| event["event"] == kind).collect::<Vec<_>>();
    let seen: Vec<_> = of("agent")
        .into_iter()
        .map(|agent| [&agent["agent"], &agent["session"], &agent["signed_in_as"], &agent["basket"]])
        .map(|fields| fields.map(|field| field.as_str().unwrap()))
        .collect();
    let expected = [
        ["Ada", "sencha", "Ada", "Sencha, Biscuits"],
        ["Ben", "assam", "Ben", "Assam"],
        ["Cleo", "rooibos", "Cleo", "Rooibos for Grandma (wrapped)"],
        ["Dev", "oolong", "Dev", "Oolong"],
        ["Elif", "darjeeling", "Elif", "Darjeeling, Biscuits"],
    ];
    assert_eq!(seen, expected);
    let end = of("end")[0];
    assert_eq!((&end["browsers"], &end["chromiums"], &end["ok"]), (&json!(5), &json!(1), &json!(true)));
    let calls: u64 = of("agent").iter().map(|agent| agent["calls"].as_u64().unwrap()).sum();
    assert_eq!(end["calls"], calls);
    assert!(of("step").iter().any(|step| step["sees"] == "the cheapest is Mint at 2.90"), "{stdout}");
    for url in ["shop", "front"] {
        let url = of("start")[0][url].as_str().unwrap();
        let port = url.trim_end_matches("/mcp").rsplit(':').next().unwrap().parse().unwrap();
        assert!(!inspect::listens(port), "{url} still listens");
    }
    assert_eq!(inspect::runs(data.path()), [] as [PathBuf; 0]);
    assert!(!data.path().join("records.db").exists(), "the demo's calls are not the user's history");
}

/// For people, and without a terminal: lines that begin with a name, no colours, and a table at the end.
#[test]
fn demo_without_a_terminal_has_no_colours() {
    let data = DataFolder::new();
    let output = demo(&data, &["--agents", "2"]);
    let stdout = text(&output.stdout);
    assert!(output.status.success(), "{stdout}\n{}", text(&output.stderr));
    assert!(!stdout.contains('\x1b'), "{stdout}");
    for begin in ["Ada ", "Ben ", "AGENT ", "2 browsers in 1 Chromium, "] {
        assert!(stdout.lines().any(|line| line.starts_with(begin)), "{begin}: {stdout}");
    }
}

/// An interrupted demo cleans up like a finished one, and says that it was interrupted.
#[tokio::test]
async fn interrupted_demo_cleans_up() {
    let data = DataFolder::new();
    let mut child = tokio::process::Command::new(env!("CARGO_BIN_EXE_greenroom"))
        .args(["demo", "--json", "--data-dir"])
        .arg(data.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let pid = child.id().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        if line.contains("opens the shop") {
            break;
        }
    }
    let run = inspect::run_of(data.path(), pid);
    signal(pid, Signal::INT);
    // Read on: a reader that closes the pipe ends the demo in another way.
    while lines.next_line().await.unwrap().is_some() {}
    let output = child.wait_with_output().await.unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error: the demo was interrupted"), "{}", text(&output.stderr));
    wait_gone(pid).await;
    assert_eq!(inspect::tagged(&run), Vec::<u32>::new());
    assert_eq!(inspect::runs(data.path()), [] as [PathBuf; 0]);
}

/// A failed step is reported with its agent, and the exit code is a failure.
#[test]
fn failed_demo_step_is_reported() {
    let data = DataFolder::new();
    let output = demo(&data, &["--agents", "2", "--tools-deny", "browser_type"]);
    let stdout = text(&output.stdout);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stdout}\n{stderr}");
    assert!(stdout.lines().any(|line| line.starts_with("Ben") && line.contains("FAILED")), "{stdout}");
    assert!(
        stderr.contains("error: 2 of 2 agents failed; Ada: ") && stderr.contains("browser_type"),
        "{stderr}"
    );
    assert!(!stdout.contains("next:"), "{stdout}");
    assert_eq!(inspect::runs(data.path()), [] as [PathBuf; 0]);
}

/// Without an engine nothing starts, and the error says what to do.
#[test]
fn demo_without_an_engine_is_an_error() {
    installed();
    let data = DataFolder::without_engine();
    let output = demo(&data, &[]);
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    let stderr = text(&output.stderr);
    assert!(stderr.starts_with("error: the playwright engine is not installed: "), "{stderr}");
    assert!(stderr.contains("\nhint: run `greenroom setup`"), "{stderr}");
}
