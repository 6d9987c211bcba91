//! A browser that the engine starts itself. The browsers that need this cannot be installed everywhere, so here the real
//! engine starts a Chromium, behind a script that stands for `cmd.exe`.

use std::{fs, os::unix::fs::PermissionsExt};

use greenroom_core::{
    View,
    settings::{Browser, Pool},
};
use greenroom_engine::{
    EngineOptions,
    browser::{self, BrowserChoice, BrowserKind},
    install, node,
};
use greenroom_testkit::{
    Site,
    process::{children, wait_gone},
};
use serde_json::json;

use super::{GRACE, InstanceFixture, TestSeat};

/// A browser that the engine starts, here as it would on Windows: greenroom answers calls and reads linked snapshots, the browser sends all
/// requests through the egress proxy, also those to loopback, the instance answers pings during a call, and closing the
/// seat ends the engine and the browser.
#[tokio::test]
async fn launched_browser_uses_the_egress_proxy() {
    let fixture = InstanceFixture::new().await;
    let site = Site::start().await;
    let own = Site::start().await;
    let _held = fixture.ports.hold(own.port()).unwrap();
    let plain = fixture.options();
    let chromium =
        browser::find(&plain.install_paths, true, BrowserChoice::Only(BrowserKind::HeadlessShell), None)
            .unwrap();
    let node = node::locate(None, &plain.install_paths.search_path).unwrap();
    let cli = install::PLAYWRIGHT.locate(fixture.data.path()).unwrap().cli;
    // A stand-in for `cmd.exe`: it drops the arguments `/c npx -y PACKAGE` and runs the installed engine with the others.
    let script = format!("#!/bin/sh\nshift 4\nexec {} {} \"$@\"\n", node.display(), cli.display());
    let cmd = fixture.path("cmd.exe");
    fs::write(&cmd, script).unwrap();
    fs::set_permissions(&cmd, fs::Permissions::from_mode(0o755)).unwrap();
    let mut install_paths = plain.install_paths.clone();
    install_paths.search_path = fixture.data.path().into();
    let pool = Pool {
        browser: Browser::Chromium,
        executable_path: Some(chromium.path),
        no_sandbox: Some(true),
        wsl_windows: true,
        ..plain.pool.clone()
    };
    let options = EngineOptions { install_paths, pool, ..plain };
    let instance = fixture.start(options).await;
    let mut seat = TestSeat::open(&instance).await;
    let (_, reply) = seat.answer("browser_navigate", json!({ "url": site.url("/title?t=inside") })).await;
    assert!(
        reply.artifacts.iter().any(|artifact| artifact
            .instead
            .as_ref()
            .is_some_and(|text| text.contains("heading \"inside\""))),
        "{reply:?}"
    );
    assert_eq!(*seat.0.view().borrow(), View::default(), "nothing is observed");
    let refused = seat.navigate(&own.url("/title")).await;
    assert_eq!(own.requests().len(), 0, "a port of greenroom's: {refused:?}");

    let hang = "() => { fetch('/hang'); return new Promise(() => {}); }";
    seat.navigate(&site.url("/title")).await.unwrap();
    tokio::select! {
        answer = seat.call("browser_evaluate", json!({ "function": hang })) => panic!("{answer:?}"),
        () = async {
            site.wait_for_hit("/hang").await;
            instance.ping().await.unwrap();
        } => {}
    }
    let engine = instance.process_ids()[0];
    let below = children(engine);
    assert!(!below.is_empty(), "the browser is the engine's");
    seat.close().await;
    for pid in below {
        wait_gone(pid).await;
    }
    assert_eq!(instance.process_ids(), [] as [u32; 0]);
    instance.stop(GRACE).await;
}
