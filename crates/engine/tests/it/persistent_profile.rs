//! Persistent profiles of browsers that the engine starts, with the fake engine in place of Node.

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use greenroom_core::{Engine, InstanceId, settings::Browser};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine,
    browser::{InstallPaths, System},
    install,
    ports::Ports,
};
use greenroom_testkit::fake_engine_path;

use super::fixture::{FakeEngineFixture, open, start};

/// A data folder with an engine as npm leaves it, and Firefox with a persistent profile.
fn firefox(fixture: &FakeEngineFixture) -> PlaywrightEngine {
    let modules =
        fixture.path("data/engines/playwright").join(install::PLAYWRIGHT.version()).join("node_modules");
    for (file, content) in [
        ("@playwright/mcp/package.json", format!(r#"{{"version": "{}"}}"#, install::PLAYWRIGHT.version())),
        ("@playwright/mcp/cli.js", "// engine".to_owned()),
        ("playwright-core/package.json", "{}".to_owned()),
    ] {
        let path = modules.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let node = fixture.script("node", &format!("exec {}", fake_engine_path().display()));
    let install_paths = InstallPaths {
        system: System::Linux,
        root: fixture.path("root"),
        home: None,
        search_path: "".into(),
    };
    let mut options = EngineOptions::new(fixture.path("data"), install_paths);
    options.pool.browser = Browser::Firefox;
    options.pool.isolated = false;
    options.profile = Some(fixture.path("profile"));
    options.settings_mut().node = Some(node);
    PlaywrightEngine(EngineBase {
        options: Arc::new(options),
        launcher: fixture.launcher.clone(),
        run: fixture.run.clone(),
        ports: Ports::new(&fixture.run),
        proxy: "127.0.0.1:4000".parse().unwrap(),
        egress: Arc::new(crate::FixedEgress("127.0.0.1:4000".parse().unwrap())),
        tools_changed: Arc::new(|_| {}),
    })
}

/// A profile of Firefox belongs to one instance until that has stopped, and is closed to other users.
#[tokio::test]
async fn profile_belongs_to_one_instance() {
    let fixture = FakeEngineFixture::new();
    let engine = firefox(&fixture);
    let profile = fixture.path("profile");
    fs::create_dir(&profile).unwrap();
    fs::set_permissions(&profile, fs::Permissions::from_mode(0o755)).unwrap();

    let first = start(&engine).await;
    assert_eq!(fs::metadata(&profile).unwrap().permissions().mode() & 0o777, 0o700);
    open(&first).await.close().await;
    let refused = engine.start(InstanceId(1)).await.err().unwrap();
    assert!(refused.message.contains("in use by another instance of greenroom"), "{refused}");

    first.stop(Duration::from_secs(2)).await;
    start(&engine).await.stop(Duration::from_secs(2)).await;
}
