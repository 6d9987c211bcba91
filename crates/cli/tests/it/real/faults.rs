//! Errors name what is missing or broken on the machine, and no restart is needed after the repair.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use greenroom_testkit::{Launch, Site};
use serde_json::json;

use super::fixture::{DataFolder, GatewayFixture, REVISION, installed, launch};

/// The error for a missing browser names it, and greenroom uses it once it is there.
#[tokio::test]
async fn missing_browser_is_named_and_used_once_there() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let path = data.path().join("browser");
    let gateway = GatewayFixture::start(&data, &["--pool-executable-path", path.to_str().unwrap()]).await;
    let failure = gateway.navigate("a", &site.url("/")).await;
    assert!(failure.failed().contains(path.to_str().unwrap()), "{}", failure.text());
    assert_eq!(failure.code(), "start_failed");

    fs::write(&path, "#!/bin/sh\necho no screen to be seen >&2\nexit 7\n").unwrap();
    fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let failure = gateway.navigate("a", &site.url("/")).await.failed();
    for part in ["the browser ended (exit status: 7)", "no screen to be seen", path.to_str().unwrap()] {
        assert!(failure.contains(part), "no `{part}`: {failure}");
    }
    assert_eq!(gateway.sessions().await.len(), 0, "a session that never began is not listed");

    fs::remove_file(&path).unwrap();
    symlink(headless_shell(), &path).unwrap();
    gateway.navigate("a", &site.url("/")).await.ok_without_restart();
    gateway.end().await;
}

/// The error for a missing engine, or one of another version, says what to do.
#[tokio::test]
async fn missing_or_mismatched_engine_is_an_error() {
    let data = DataFolder::without_engine();
    let gateway = GatewayFixture::start(&data, &[]).await;
    let failure = gateway.navigate("a", "about:blank").await.failed();
    assert!(failure.contains("the playwright engine is not installed"), "{failure}");
    assert!(failure.contains("greenroom setup"), "{failure}");
    let list = gateway.client.request("tools/list", json!({})).await;
    assert!(list["error"]["message"].as_str().unwrap().contains("greenroom setup"), "{list}");

    // The same tree, except for the version that it claims.
    let engine = installed().join("engines/playwright").read_dir().unwrap().flatten().next().unwrap().path();
    let copy = data.path().join("engines/playwright").join(engine.file_name().unwrap());
    let package = PathBuf::from("node_modules/@playwright/mcp");
    fs::create_dir_all(copy.join(&package)).unwrap();
    for shared in ["node_modules/playwright-core", "node_modules/@playwright/mcp/cli.js"] {
        symlink(engine.join(shared), copy.join(shared)).unwrap();
    }
    let text = fs::read_to_string(engine.join(&package).join("package.json")).unwrap();
    let mut manifest: serde_json::Value = serde_json::from_str(&text).unwrap();
    manifest["version"] = json!("0.0.1");
    fs::write(copy.join(&package).join("package.json"), manifest.to_string()).unwrap();
    let failure = gateway.navigate("a", "about:blank").await.failed();
    assert!(failure.contains("the playwright engine is 0.0.1"), "{failure}");
    assert!(failure.contains("greenroom setup"), "{failure}");

    fs::remove_dir_all(data.path().join("engines")).unwrap();
    symlink(installed().join("engines"), data.path().join("engines")).unwrap();
    gateway.navigate("a", "about:blank").await.ok_without_restart();
    gateway.end().await;
}

/// A full disk fails new sessions with that reason, keeps the open ones, and new ones open once there is room again.
///
/// The test mounts a small tmpfs that only greenroom sees, and fills it by using up its inodes.
#[tokio::test]
async fn full_disk_fails_new_sessions_only() {
    let data = DataFolder::new();
    let site = Site::start().await;
    let mount = "mount -t tmpfs -o size=200m,nr_inodes=4000 tmpfs \"$1\" && ln -s \"$0\"/engines \"$0\"/cache \"$1\" \
                 && shift && exec \"$@\"";
    let launch = Launch::new("unshare")
        .args(["--user", "--map-root-user", "--mount", "sh", "-c", mount])
        .arg(installed())
        .arg(data.path())
        .arg(env!("CARGO_BIN_EXE_greenroom"))
        .args(["mcp", "--pool-slots", "2", "--pool-no-sandbox", "--data-dir"])
        .arg(data.path());
    let client = launch.spawn();
    client.initialize(REVISION, json!({})).await;
    let gateway = GatewayFixture { client };
    gateway.navigate("a", &site.url("/canary?name=a")).await.ok();
    // The mount is in greenroom's own view of the file system only.
    let inside = PathBuf::from(format!("/proc/{}/root", gateway.client.pid()));
    let disk = inside.join(data.path().strip_prefix("/").unwrap());
    assert!(disk.join("run").is_dir(), "greenroom's folder is on the small disk");

    let filled = fill(&disk);
    for session in ["b", "c"] {
        let failure = gateway.navigate(session, &site.url("/")).await;
        assert!(
            failure.failed().contains("cannot write to the data folder: No space left on device"),
            "{}",
            failure.text()
        );
        assert!(failure.text().contains("free some space"), "{}", failure.text());
    }
    let title = gateway.evaluate("a", "() => document.title").await.ok_without_restart();
    assert!(title.contains("canary a"), "{title}");

    fs::remove_dir_all(filled).unwrap();
    for session in ["a", "b", "c"] {
        gateway.navigate(session, &site.url("/")).await.ok_without_restart();
    }
    gateway.end().await;
}

/// The error for a browser with a window without a display says so.
#[tokio::test]
async fn headed_browser_without_a_display_is_an_error() {
    let data = DataFolder::new();
    let gateway = GatewayFixture::spawn(launch(data.path(), &[]).env("HEADLESS", "false")).await;
    let failure = gateway.navigate("a", "about:blank").await;
    assert!(failure.failed().contains("there is no screen"), "{}", failure.text());
    assert_eq!(failure.code(), "start_failed");
    gateway.end().await;
}

/// Makes empty files until no more can be made, and returns the folder they are in.
fn fill(disk: &Path) -> PathBuf {
    let folder = disk.join("filler");
    fs::create_dir(&folder).unwrap();
    let refused = (0..).find_map(|n: u32| fs::write(folder.join(n.to_string()), "").err()).unwrap();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);
    folder
}

/// The browser that greenroom chooses by default.
fn headless_shell() -> PathBuf {
    let path = PathBuf::from("/usr/lib/chromium/chromium-headless-shell");
    assert!(path.exists(), "no headless shell on this machine: `{}`", path.display());
    path
}
