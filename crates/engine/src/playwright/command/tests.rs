//! The exact command lines, for browsers that this machine has and for others.

use std::{fs, os::unix::fs::PermissionsExt, time::Duration};

use greenroom_core::settings::{Cap, Pool};

use super::*;
use crate::browser::{InstallPaths, System};

/// A data folder with a file in place of the engine, and scripts in place of Node and `cmd.exe`.
struct CommandFixture(tempfile::TempDir);

impl CommandFixture {
    fn new() -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let modules = machine
            .0
            .path()
            .join("engines/playwright")
            .join(install::PLAYWRIGHT.version())
            .join("node_modules");
        for package in ["@playwright/mcp", "playwright-core"] {
            fs::create_dir_all(modules.join(package)).unwrap();
            let manifest = format!(r#"{{"version":"{}"}}"#, install::PLAYWRIGHT.version());
            fs::write(modules.join(package).join("package.json"), manifest).unwrap();
        }
        fs::write(modules.join("@playwright/mcp/cli.js"), "// the engine").unwrap();
        for program in ["node", CMD] {
            let path = machine.0.path().join(program);
            fs::write(&path, "#!/bin/sh\n").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    /// The default options.
    fn options(&self) -> EngineOptions {
        let folder = self.0.path().to_owned();
        let search_path = folder.clone().into_os_string();
        let install_paths =
            InstallPaths { system: System::Linux, root: folder.clone(), home: None, search_path };
        EngineOptions::new(folder, install_paths)
    }

    /// Checks the command without the paths of this test, and without the flags of every Node.
    #[track_caller]
    fn check(&self, spec: Result<ProcessSpec, StartError>, expected: &str) {
        let spec = spec.unwrap();
        let words =
            std::iter::once(spec.program.as_os_str()).chain(spec.args.iter().map(OsString::as_os_str));
        let words: Vec<_> = words.map(|word| word.to_string_lossy()).collect();
        let line = words.join(" ").replace(&format!("{}/", self.0.path().display()), "");
        let cli = format!(
            "engines/playwright/{}/node_modules/@playwright/mcp/cli.js",
            install::PLAYWRIGHT.version()
        );
        let line = line.replace(&format!("node {} {cli}", node::NODE_FLAGS.join(" ")), "engine");
        // Every start ends with this.
        let expected = format!("{expected} --console-level debug");
        assert_eq!(line.replace(install::PLAYWRIGHT.version(), "VERSION"), expected);
    }
}

const PROXY: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 4000);

/// Every option reaches an engine that makes contexts; for a default context those that it would ignore are left out.
#[test]
fn command_for_a_chromium_of_greenroom() {
    let machine = CommandFixture::new();
    let plain = machine.options();
    machine.check(
        for_chromium(&plain),
        "engine --idle-timeout 0 --isolated --viewport-size 1280x720 --no-webmcp",
    );

    let mut all = plain.clone();
    all.pool = Pool {
        storage_state: Some("/state.json".into()),
        caps: vec![Cap::Pdf, Cap::Vision],
        timeout_action: Some(Duration::from_secs(1)),
        timeout_navigation: Some(Duration::from_millis(2_500)),
        user_agent: Some("an agent".into()),
        device: Some("iPhone 15".into()),
        ignore_https_errors: true,
        allowed_origins: vec!["http://a".into(), "http://b".into()],
        blocked_origins: vec!["http://c".into()],
        init_script: vec!["/one.js".into(), "/two.js".into()],
        image_responses: ImageResponses::Omit,
        test_id_attribute: Some("data-qa".into()),
        snapshot_boxes: true,
        codegen: Codegen::None,
        secrets_file: Some("/secrets".into()),
        save_session: true,
        output_dir: Some("/output".into()),
        ..plain.pool
    };
    all.settings_mut().tools.webmcp = true;
    let rest = "--timeout-action 1000 --timeout-navigation 2500 --caps pdf,vision \
                --allowed-origins http://a;http://b --blocked-origins http://c \
                --init-script /one.js --init-script /two.js --image-responses omit --save-session \
                --test-id-attribute data-qa --snapshot-boxes --codegen none --secrets /secrets";
    let context = "--isolated --device iPhone 15 --user-agent an agent --ignore-https-errors \
                   --storage-state /state.json";
    machine.check(for_chromium(&all), &format!("engine --idle-timeout 0 {context} {rest}"));
    all.pool.isolated = false;
    all.profile = Some("/profile".into());
    machine.check(for_chromium(&all), &format!("engine --idle-timeout 0 {rest}"));
}

/// The engine starts Firefox and WebKit, behind the egress proxy, with a fresh profile or a persistent one.
#[test]
fn command_for_browsers_that_the_engine_starts() {
    let machine = CommandFixture::new();
    let mut firefox = machine.options();
    firefox.pool.browser = Browser::Firefox;
    let rest = "--proxy-server http://127.0.0.1:4000 --viewport-size 1280x720";
    machine.check(
        starting_browser(&firefox, PROXY),
        &format!("engine --idle-timeout 0 --browser firefox --headless --isolated {rest} --no-webmcp"),
    );
    let plain = machine.options();
    let pool = Pool {
        browser: Browser::Webkit,
        headless: false,
        isolated: false,
        executable_path: Some("/opt/webkit".into()),
        user_agent: Some("x".into()),
        ..plain.pool.clone()
    };
    let webkit = EngineOptions { pool, profile: Some("/profiles/0".into()), ..plain };
    machine.check(
        starting_browser(&webkit, PROXY),
        &format!(
            "engine --idle-timeout 0 --browser webkit --user-data-dir /profiles/0 {rest} --user-agent x \
             --executable-path /opt/webkit --no-webmcp"
        ),
    );
}

/// With the extension the user's own browser stays unchanged.
#[test]
fn command_for_the_users_browser() {
    let machine = CommandFixture::new();
    let mut options = machine.options();
    options.pool.browser = Browser::Msedge;
    options.pool.extension = true;
    options.pool.isolated = false;
    assert!(options.engine_starts_browser());
    machine.check(
        starting_browser(&options, PROXY),
        "engine --idle-timeout 0 --browser msedge --extension --no-webmcp",
    );
}

/// In Windows npx starts the pinned version, and characters that `cmd.exe` would interpret are refused by name.
#[test]
fn command_for_browsers_of_windows() {
    let machine = CommandFixture::new();
    let mut options = machine.options();
    options.pool = Pool {
        browser: Browser::Msedge,
        headless: false,
        wsl_windows: true,
        init_script: vec![r"C:\scripts\one.js".into()],
        ..options.pool
    };
    machine.check(
        starting_browser(&options, PROXY),
        r"cmd.exe /c npx -y @playwright/mcp@VERSION --idle-timeout 0 --browser msedge --isolated --proxy-server http://127.0.0.1:4000 --viewport-size 1280x720 --init-script C:\scripts\one.js --no-webmcp",
    );
    options.pool.user_agent = Some("a & calc.exe".into());
    let refused = starting_browser(&options, PROXY).unwrap_err();
    assert_eq!(refused.message, "`cmd.exe` cannot pass this on: `a & calc.exe`");

    fs::remove_file(machine.0.path().join(CMD)).unwrap();
    options.pool.user_agent = None;
    let missing = starting_browser(&options, PROXY).unwrap_err();
    assert_eq!(missing.message, "Windows cannot be reached: no `cmd.exe` on the search path");
    assert!(missing.hint.is_some_and(|hint| hint.contains("Windows Subsystem for Linux")));
}
