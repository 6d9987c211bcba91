//! Browsers of Windows, with a script in place of `cmd.exe` and the fake engine in place of Windows.

use std::{ffi::OsString, net::SocketAddr, sync::Arc, time::Duration};

use greenroom_core::{
    View,
    settings::{Browser, Pool},
};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine,
    browser::{InstallPaths, System},
    install,
    ports::Ports,
};
use greenroom_testkit::{TEST_TIMEOUT, fake_engine_path, process::alive, within};
use serde_json::json;

use super::fixture::{FakeEngineFixture, call, open, pid, start};

fn options(fixture: &FakeEngineFixture, search_path: OsString) -> EngineOptions {
    let install_paths =
        InstallPaths { system: System::Linux, root: fixture.path("root"), home: None, search_path };
    let plain = EngineOptions::new(fixture.path("data"), install_paths);
    let pool = Pool {
        headless: false,
        browser: Browser::Msedge,
        timeout_settle: Some(Duration::ZERO),
        wsl_windows: true,
        ..plain.pool.clone()
    };
    EngineOptions { pool, ..plain }
}

/// `cmd.exe` is found on the search path and starts the pinned engine; the seat behind it answers calls and pings, shows
/// nothing, and is lost with its process.
#[tokio::test]
async fn windows_browser_answers_calls_and_is_lost_with_its_process() {
    let fixture = FakeEngineFixture::new();
    let argv = fixture.path("argv");
    let log = fixture.log();
    let fake = fake_engine_path();
    let script = format!(
        "printf '%s\\n' \"$@\" >{}\nexec {} --log {} --extra-tool browser_close",
        argv.display(),
        fake.display(),
        log.path().display()
    );
    std::fs::create_dir(fixture.path("windows")).unwrap();
    fixture.script("windows/cmd.exe", &script);
    let proxy: SocketAddr = "127.0.0.1:4000".parse().unwrap();
    let engine = PlaywrightEngine(EngineBase {
        options: Arc::new(options(&fixture, fixture.path("windows").into())),
        launcher: fixture.launcher.clone(),
        run: fixture.run.clone(),
        ports: Ports::new(&fixture.run),
        proxy,
        egress: Arc::new(crate::FixedEgress(proxy)),
        tools_changed: Arc::new(|_| {}),
    });
    let instance = start(&engine).await;
    let mut seat = open(&instance).await;
    assert_eq!(call(&mut seat, "echo", json!({ "text": "from Windows" })).await, "from Windows");
    let package = format!("@playwright/mcp@{}", install::PLAYWRIGHT.version());
    let argv_lines = std::fs::read_to_string(&argv).unwrap();
    let argv_lines: Vec<_> = argv_lines.lines().collect();
    assert_eq!(
        argv_lines,
        [
            "/c",
            "npx",
            "-y",
            &package,
            "--idle-timeout",
            "0",
            "--browser",
            "msedge",
            "--isolated",
            "--proxy-server",
            "http://127.0.0.1:4000",
            "--viewport-size",
            "1280x720",
            "--no-webmcp",
            "--console-level",
            "debug",
            "--timeout-settle",
            "0",
        ]
    );

    instance.ping().await.unwrap();
    assert_eq!((log.count("ping"), log.count("start")), (1, 1));
    assert_eq!(*seat.view().borrow(), View::default());
    let first = pid(&mut seat).await;
    assert_eq!(instance.process_ids(), [first]);
    seat.close().await;
    assert_eq!(log.count("tools/call browser_close"), 1);
    assert!(!alive(first));

    let mut seat = open(&instance).await;
    call(&mut seat, "die_after", json!({})).await;
    let mut lost = instance.lost();
    within(TEST_TIMEOUT, lost.wait_for(Option::is_some)).await.unwrap();
    seat.close().await;
    instance.stop(Duration::from_secs(2)).await;
}
