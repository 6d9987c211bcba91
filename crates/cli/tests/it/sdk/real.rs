//! An official SDK with the real engine and a real Chromium behind greenroom.

use std::path::Path;

use greenroom_testkit::Site;
use serde_json::{Value, json};

use super::{
    script_run::{self, installed},
    server::SdkServer,
};
use crate::real::fixture::DataFolder;

/// Opens a page and follows a link, as an agent does with the newest TypeScript SDK.
async fn browse(mut run: Value, site: &Site) {
    let home = tempfile::tempdir().unwrap();
    run["sdk"] = json!(installed().join("typescript"));
    run["package"] = json!("sdk-2.4");
    run["site"] = json!(site.url("/"));
    run["env"] = json!({"HOME": home.path()});
    run["cwd"] = json!(home.path());
    let lines = script_run::run(Path::new("node"), "typescript/browse.mjs", &run, &[]).await;

    let steps: Vec<_> = lines.iter().map(|line| line["step"].as_str().unwrap()).collect();
    assert_eq!(steps, ["connect", "browser_navigate", "browser_click", "browser_snapshot", "session_close"]);
    assert!(lines.iter().all(|line| line["isError"] != true), "{lines:#?}");
    assert_eq!(lines[0]["revision"], run["revision"]);
    for (line, words) in
        [(1, "heading \"greenroom test site\""), (2, "heading \"form\""), (3, "button \"Send\"")]
    {
        assert!(lines[line]["text"].as_str().unwrap().contains(words), "no {words}: {:#}", lines[line]);
    }
    assert_eq!(site.hits("/form"), 1);
}

/// The newest TypeScript SDK browses over stdio.
#[tokio::test]
async fn typescript_sdk_browses_over_stdio() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let args = json!(["mcp", "--data-dir", data.path()]);
    let run = json!({"revision": "2025-11-25", "command": env!("CARGO_BIN_EXE_greenroom"), "args": args});
    browse(run, &site).await;
}

/// The newest TypeScript SDK browses over HTTP, without a handshake.
#[tokio::test]
async fn typescript_sdk_browses_over_http() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let home = tempfile::tempdir().unwrap();
    let environment = vec![("HOME".to_owned(), home.path().display().to_string())];
    let folder = data.path().display().to_string();
    let server = SdkServer::start(environment, home.path(), &["--data-dir", &folder]).await;
    browse(json!({"revision": "2026-07-28", "probe": true, "url": server.url()}), &site).await;
    server.end().await;
}
