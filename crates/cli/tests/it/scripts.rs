//! The scripts behind `make`, with programs of their own making in the place of greenroom.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use insta::assert_snapshot;

/// Says what it was asked, and that this is what is running.
fn greenroom(running: &str) -> String {
    format!("#!/bin/sh\n[ \"$1\" = status ] && echo '{running}' && exit\necho \"[greenroom $*]\"\n")
}

/// Runs `scripts/run` with a greenroom like this. The answer is its exit code and what it said.
fn run(greenroom: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("greenroom");
    std::fs::write(&binary, greenroom).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run");
    let output = Command::new("sh").arg(script).arg(&binary).stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let binary = binary.canonicalize().unwrap();
    format!("exit code: {}\n{said}", output.status.code().unwrap())
        .replace(&binary.display().to_string(), "[BINARY]")
}

/// `make run` sets up, checks, says how to connect, and ends as the server.
#[test]
fn run_leaves_a_server() {
    assert_snapshot!("run", run(&greenroom("[]")));
}

/// Where a server of this user runs already, it is named, and no second one is started. Agents over stdio are none.
#[test]
fn run_leaves_a_running_server_alone() {
    let stdio = r#"{ "kind": "stdio",
    "listen": null }"#;
    let server = r#"{ "kind": "server",
    "listen": "http://127.0.0.1:34501" }"#;
    let said = run(&greenroom(&format!("[{stdio},\n{server}]")));
    assert!(said.starts_with("exit code: 0\n"), "{said}");
    assert!(said.contains("A server of yours runs already: http://127.0.0.1:34501\n"), "{said}");
    assert!(!said.contains("[greenroom serve]"), "{said}");
    assert!(run(&greenroom(stdio)).ends_with("[greenroom serve]\n"));
}

/// A machine on which something is missing gets no server, and the exit code of what found it out.
#[test]
fn run_stops_at_what_is_missing() {
    let said = run("#!/bin/sh\necho \"[greenroom $*]\"\n[ \"$1\" != doctor ] || exit 1\n");
    assert_eq!(said, "exit code: 1\n[greenroom setup]\n\n[greenroom doctor]\n");
}
