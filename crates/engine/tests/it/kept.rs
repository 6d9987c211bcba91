//! Persistent profiles of browsers that the engine starts, with the fake engine in place of Node.

use std::{fs, os::unix::fs::PermissionsExt, sync::Arc, time::Duration};

use greenroom_core::{Engine, InstanceId, settings::Browser};
use greenroom_engine::{
    EngineBase, EngineOptions, PlaywrightEngine,
    browser::{Places, System},
    install,
    ports::Ports,
};
use greenroom_testkit::fake_engine_path;

use super::stage::{Stage, open, start};

/// A data folder with an engine as npm leaves it, and Firefox with a persistent profile.
fn firefox(stage: &Stage) -> PlaywrightEngine {
    let modules =
        stage.path("data/engines/playwright").join(install::PLAYWRIGHT.version()).join("node_modules");
    for (file, content) in [
        ("@playwright/mcp/package.json", format!(r#"{{"version": "{}"}}"#, install::PLAYWRIGHT.version())),
        ("@playwright/mcp/cli.js", "// engine".to_owned()),
        ("playwright-core/package.json", "{}".to_owned()),
    ] {
        let path = modules.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }
    let node = stage.script("node", &format!("exec {}", fake_engine_path().display()));
    let places =
        Places { system: System::Linux, root: stage.path("root"), home: None, search_path: "".into() };
    let mut options = EngineOptions::new(stage.path("data"), places);
    (options.pool.browser, options.pool.isolated) = (Browser::Firefox, false);
    options.profile = Some(stage.path("profile"));
    options.settings_mut().node = Some(node);
    PlaywrightEngine(EngineBase {
        options: Arc::new(options),
        launcher: stage.launcher.clone(),
        run: stage.run.clone(),
        ports: Ports::new(&stage.run),
        proxy: "127.0.0.1:4000".parse().unwrap(),
        tools_changed: Arc::new(|_| {}),
    })
}

/// A profile of Firefox belongs to one instance until that has stopped, and is closed to other users.
#[tokio::test]
async fn a_profile_has_one_instance() {
    let stage = Stage::new();
    let engine = firefox(&stage);
    let profile = stage.path("profile");
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
