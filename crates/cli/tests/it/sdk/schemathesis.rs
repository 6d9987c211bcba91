//! REST under random but repeatable requests: schemathesis reads greenroom's own description, and sends requests that are
//! valid, barely valid, and invalid.

use std::{process::Stdio, time::Duration};

use greenroom_testkit::within;
use serde_json::json;
use tokio::process::Command;

use super::script_run::installed;
use crate::{
    front::fixture::FakeEngineSetup,
    http::pools::{JSON, post},
};

/// How long the whole may take. Here it takes 20 s; a busy machine needs more.
const SUITE_TIMEOUT: Duration = Duration::from_secs(180);

/// Examples for every operation: enough to have found every fault that ten times as many found, in a fraction of the time.
const EXAMPLES: &str = "25";

/// No request, valid or not, causes a server error, or a status, a type or a shape that is not described; valid ones are
/// accepted, and others are refused.
#[tokio::test]
async fn rest_api_matches_its_description() {
    // A session that asks for a full instance is refused soon, before schemathesis gives the request up.
    let setup = FakeEngineSetup::new().set("pool.lease_timeout", "200ms");
    let server = setup.serve().await;
    // Make records, so that requests can find some.
    for (tool, params) in
        [("echo", json!({"text": "a\nb", "rich": true})), ("fail", json!({"message": "no luck"}))]
    {
        let body = json!({"session_id": "a", "tool": tool, "params": params}).to_string();
        assert_eq!(post(&server, "/api/calls", &[JSON], &body).await.0, 200);
    }
    let home = tempfile::tempdir().unwrap();
    let settings = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sdk/schemathesis/schemathesis.toml");
    let child = Command::new(installed().join("schemathesis/venv/bin/schemathesis"))
        .args(["--config-file", settings, "run"])
        .arg(format!("{}/api/openapi.json", server.url()))
        .args(["--checks", "all", "--phases", "coverage,fuzzing,stateful", "--max-examples", EXAMPLES])
        .args(["--seed", "1", "--generation-deterministic"])
        .args(["--suppress-health-check", "all", "--warnings", "off", "--no-color"])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("HOME", home.path())
        .current_dir(home.path())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap_or_else(|error| panic!("cannot start schemathesis: {error}"));
    let output = within(SUITE_TIMEOUT, child.wait_with_output()).await.unwrap();
    let printed = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{printed}");
    assert!(!printed.contains("unresolvable reference"), "{printed}");
    for phase in ["Coverage", "Fuzzing", "Stateful"] {
        assert!(printed.contains(&format!("✅ {phase}")), "{phase} was not run: {printed}");
    }
}
