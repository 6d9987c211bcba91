//! Installing the pinned engine: once with the real npm, otherwise with scripts in its place.

use std::{
    ffi::OsString,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use greenroom_engine::{
    install::{DEVTOOLS, InstallError, InstallProgress, InstalledEngine, NotInstalled, PLAYWRIGHT, Package},
    launcher::Launcher,
    node::{self, NodeError, Npm},
};

/// A data folder, and next to it a folder of scripts in place of Node and npm.
struct InstallFixture {
    folder: tempfile::TempDir,
    launcher: Launcher,
}

impl InstallFixture {
    fn new() -> Self {
        let fixture =
            Self { folder: tempfile::tempdir().unwrap(), launcher: Launcher::start("install-test").unwrap() };
        fs::create_dir(fixture.bin()).unwrap();
        fixture
    }

    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// The log that the scripts write.
    fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    fn script(&self, name: &str, text: &str) {
        let path = self.bin().join(name);
        let log = self.folder.path().join("log");
        fs::write(&path, format!("#!/bin/sh\nlog={}\n{text}\n", log.display())).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// An npm that runs `text`, with a Node in the same folder.
    async fn npm(&self, text: &str) -> Npm {
        self.script("node", "echo v22.0.0");
        self.script("npm", text);
        let path = search_path(&self.bin());
        let node = node::find(&self.launcher, None, &path).await.unwrap();
        node::npm(&node, &path).unwrap()
    }

    async fn install(&self, npm: &Npm) -> (Result<InstalledEngine, InstallError>, Vec<InstallProgress>) {
        self.install_one(&PLAYWRIGHT, npm).await
    }

    async fn install_one(
        &self,
        package: &Package,
        npm: &Npm,
    ) -> (Result<InstalledEngine, InstallError>, Vec<InstallProgress>) {
        let mut reported = Vec::new();
        let tell = &mut |progress| reported.push(progress);
        let result = package.install(&self.launcher, &self.data(), npm, tell).await;
        (result, reported)
    }

    /// The content of the playwright engine's folder, sorted.
    fn folder_content(&self) -> Vec<String> {
        self.folder_content_of(&PLAYWRIGHT)
    }

    fn folder_content_of(&self, package: &Package) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.data().join("engines").join(package.name)) else {
            return Vec::new();
        };
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

/// The folder first, then the system's, for the scripts' own `mkdir` and `sed`.
fn search_path(first: &Path) -> OsString {
    let system = std::env::split_paths("/usr/bin:/bin").collect::<Vec<_>>();
    std::env::join_paths(std::iter::once(first.to_owned()).chain(system)).unwrap()
}

/// An npm that installs what the package list asks for, as far as greenroom checks.
const NPM_THAT_INSTALLS: &str = r#"
    echo "ran $*, browsers skipped: $PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD" >> "$log"
    version=$(sed -n 's/.*"@playwright.mcp":"\([^"]*\)".*/\1/p' package.json)
    mkdir -p node_modules/@playwright/mcp node_modules/playwright-core
    echo "{\"version\": \"$version\"}" > node_modules/@playwright/mcp/package.json
    echo "// engine" > node_modules/@playwright/mcp/cli.js
    echo "{}" > node_modules/playwright-core/package.json
"#;

const NPM_THAT_FAILS: &str = r#"
    echo "ran" >> "$log"
    echo '{"error": {"code": "ENOTFOUND", "summary": "request failed, reason: no such host"}}'
    echo "npm error a stack trace" >&2
    exit 1
"#;

/// The real npm installs each engine, Node runs it, and a second run has nothing to do.
#[tokio::test]
async fn the_real_npm_installs_the_engines() {
    let fixture = InstallFixture::new();
    #[allow(clippy::disallowed_methods, reason = "a test takes the machine's own search path")]
    let path = std::env::var_os("PATH").unwrap();
    let node = node::find(&fixture.launcher, None, &path).await.unwrap();
    let npm = node::npm(&node, &path).unwrap();

    for package in [&PLAYWRIGHT, &DEVTOOLS] {
        let (first, reported) = fixture.install_one(package, &npm).await;
        let first = first.unwrap();
        assert!(!first.already);
        assert_eq!(reported, [InstallProgress::Downloading]);
        assert_eq!(package.locate(&fixture.data()).unwrap(), first.engine);
        assert_eq!(fixture.folder_content_of(package), [package.version()]);
        for folder in ["", "engines", &format!("engines/{}", package.name)] {
            let mode = fs::metadata(fixture.data().join(folder)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o700, "{folder}");
        }

        let (second, reported) = fixture.install_one(package, &npm).await;
        assert_eq!((second.unwrap().already, reported), (true, vec![]));
    }
    assert_eq!(fixture.folder_content(), [PLAYWRIGHT.version()], "the second engine left the first alone");
}

/// npm gets flags against running packages' scripts and downloading browsers.
#[tokio::test]
async fn npm_skips_scripts_and_browser_downloads() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm(NPM_THAT_INSTALLS).await;
    fixture.install(&npm).await.0.unwrap();
    let log = fixture.log();
    assert!(log.starts_with("ran ci --ignore-scripts --no-audit --no-fund --omit=dev"), "{log}");
    assert!(log.ends_with("browsers skipped: 1\n"), "{log}");
}

/// Of two installations at once one works; the other reports that it waits, and finds the engine installed.
#[tokio::test]
async fn concurrent_installations_install_once() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm(NPM_THAT_INSTALLS).await;
    let ((first, first_reported), (second, second_reported)) =
        tokio::join!(fixture.install(&npm), fixture.install(&npm));
    assert_eq!((first.unwrap().already, first_reported), (false, vec![InstallProgress::Downloading]));
    assert_eq!((second.unwrap().already, second_reported), (true, vec![InstallProgress::Waiting]));
    assert_eq!(fixture.log().lines().count(), 1);
}

/// The next installation removes what an interrupted one left, and replaces a damaged engine.
#[tokio::test]
async fn leftovers_are_removed_and_damaged_engines_replaced() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm(NPM_THAT_INSTALLS).await;
    fs::create_dir_all(fixture.data().join("engines/playwright/.part-1/node_modules")).unwrap();
    fs::create_dir_all(PLAYWRIGHT.target(&fixture.data()).join("node_modules")).unwrap();
    assert!(matches!(PLAYWRIGHT.locate(&fixture.data()), Err(NotInstalled::Damaged { .. })));

    assert!(!fixture.install(&npm).await.0.unwrap().already);
    assert_eq!(fixture.folder_content(), [PLAYWRIGHT.version()]);
    PLAYWRIGHT.locate(&fixture.data()).unwrap();
}

/// Offline, the error has npm's own reason and a hint, and nothing half-made stays behind.
#[tokio::test]
async fn offline_without_an_engine_is_an_error() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm(NPM_THAT_FAILS).await;
    let error = fixture.install(&npm).await.0.unwrap_err();
    assert_eq!(
        error.to_string(),
        format!(
            "npm could not install the playwright engine {}: request failed, reason: no such host",
            PLAYWRIGHT.version()
        )
    );
    let hint = error.hint();
    for part in ["npm ping", "proxy or registry", &*PLAYWRIGHT.target(&fixture.data()).display().to_string()]
    {
        assert!(hint.contains(part), "{part}: {hint}");
    }
    assert_eq!(fixture.folder_content(), Vec::<String>::new());
}

/// Offline, an installed engine suffices: npm is not run.
#[tokio::test]
async fn offline_with_an_engine_is_fine() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm(NPM_THAT_INSTALLS).await;
    fixture.install(&npm).await.0.unwrap();
    let before = fixture.log();
    let npm = fixture.npm(NPM_THAT_FAILS).await;
    assert!(fixture.install(&npm).await.0.unwrap().already);
    assert_eq!(fixture.log(), before);
}

/// An npm that claims success but installs nothing is an error.
#[tokio::test]
async fn npm_success_is_checked() {
    let fixture = InstallFixture::new();
    let npm = fixture.npm("exit 0").await;
    let error = fixture.install(&npm).await.0.unwrap_err();
    assert!(matches!(error, InstallError::Unusable(NotInstalled::Damaged { .. })), "{error}");
    assert_eq!(fixture.folder_content(), Vec::<String>::new());
}

/// A search path without Node, or with Node but without npm, is refused by name before anything is written.
#[tokio::test]
async fn missing_node_and_npm_are_refused() {
    let fixture = InstallFixture::new();
    let path = fixture.bin().into_os_string();
    assert!(matches!(node::find(&fixture.launcher, None, &path).await, Err(NodeError::Missing { .. })));
    fixture.script("node", "echo v22.0.0");
    let node = node::find(&fixture.launcher, None, &path).await.unwrap();
    assert!(matches!(node::npm(&node, &path), Err(NodeError::NoNpm)));
    assert!(!fixture.data().exists());
}
