use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt};

use super::*;

/// A machine in a folder: the files given stand below its root, executable; `/usr/bin` is the search path.
struct FakeMachine {
    folder: tempfile::TempDir,
    system: System,
}

impl FakeMachine {
    fn new(files: &[(&str, &str)]) -> Self {
        let machine = Self { folder: tempfile::tempdir().unwrap(), system: System::Linux };
        for (path, content) in files {
            let path = machine.at(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, content).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        machine
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path.trim_start_matches('/'))
    }

    fn install_paths(&self) -> InstallPaths {
        let search_path = OsString::from(self.at("/usr/bin"));
        InstallPaths {
            system: self.system,
            root: self.folder.path().to_owned(),
            home: Some(self.at("/home")),
            search_path,
        }
    }

    /// The browser that is found, as a path on the machine.
    fn find(&self, headless: bool, wanted: BrowserChoice) -> Result<(String, BrowserKind), NoBrowser> {
        let found = find(&self.install_paths(), headless, wanted, None)?;
        let path = found.path.strip_prefix(self.folder.path()).unwrap();
        Ok((format!("/{}", path.display()), found.kind))
    }

    fn check(&self, headless: bool, wanted: BrowserChoice, path: &str, kind: BrowserKind) {
        assert_eq!(self.find(headless, wanted), Ok((path.to_owned(), kind)));
    }
}

const BINARY: &str = "\u{7f}ELF";
const SHELL: &str = "/usr/lib/chromium/chromium-headless-shell";
const CHROMIUM: &str = "/usr/lib/chromium/chromium";
const CHROME: &str = "/opt/google/chrome/chrome";
const EDGE: &str = "/opt/microsoft/msedge/msedge";

/// Headless prefers the headless shell, headed never takes it; each falls through to the next kind.
#[test]
fn each_mode_prefers_its_kinds_in_order() {
    let all = [SHELL, CHROME, CHROMIUM, EDGE];
    for (n, (path, kind)) in all
        .into_iter()
        .zip([BrowserKind::HeadlessShell, BrowserKind::Chrome, BrowserKind::Chromium, BrowserKind::Edge])
        .enumerate()
    {
        let installed: Vec<_> = all[n..].iter().map(|path| (*path, BINARY)).collect();
        let machine = FakeMachine::new(&installed);
        machine.check(true, BrowserChoice::Any, path, kind);
        if n == 0 {
            machine.check(false, BrowserChoice::Any, CHROME, BrowserKind::Chrome);
        } else {
            machine.check(false, BrowserChoice::Any, path, kind);
        }
    }
}

/// A browser asked for by name is found or missing, and no other one takes its place.
#[test]
fn requested_kind_is_not_replaced() {
    let machine = FakeMachine::new(&[(SHELL, BINARY), (CHROMIUM, BINARY), (CHROME, BINARY)]);
    machine.check(true, BrowserChoice::Only(BrowserKind::Chrome), CHROME, BrowserKind::Chrome);
    machine.check(true, BrowserChoice::Only(BrowserKind::Chromium), SHELL, BrowserKind::HeadlessShell);
    machine.check(false, BrowserChoice::Only(BrowserKind::Chromium), CHROMIUM, BrowserKind::Chromium);
    assert!(matches!(
        machine.find(true, BrowserChoice::Only(BrowserKind::Edge)),
        Err(NoBrowser::Missing { .. })
    ));
    assert!(matches!(
        machine.find(false, BrowserChoice::Only(BrowserKind::HeadlessShell)),
        Err(NoBrowser::NoWindow { .. })
    ));
}

/// Scripts on the search path are followed to their binary, which is named in the script or lies in its folder.
#[test]
fn scripts_are_followed() {
    let debian = FakeMachine::new(&[
        ("/usr/bin/chromium-headless-shell", "#!/bin/sh -e\n\n/opt/c/headless_shell \"$@\"\n"),
        ("/opt/c/headless_shell", BINARY),
    ]);
    debian.check(true, BrowserChoice::Any, "/opt/c/headless_shell", BrowserKind::HeadlessShell);

    let nix = FakeMachine::new(&[
        (
            "/usr/bin/chromium",
            "#!/bin/sh\n# not /usr/bin/chromium\nexec -a \"$0\" \"/nix/store/x/chromium\" \"$@\"\n",
        ),
        ("/nix/store/x/chromium", BINARY),
    ]);
    nix.check(false, BrowserChoice::Any, "/nix/store/x/chromium", BrowserKind::Chromium);

    let google = FakeMachine::new(&[
        ("/opt/g/google-chrome", "#!/bin/bash\nexec \"$HERE/chrome\"\n"),
        ("/opt/g/chrome", BINARY),
    ]);
    fs::create_dir_all(google.at("/usr/bin")).unwrap();
    std::os::unix::fs::symlink(google.at("/opt/g/google-chrome"), google.at("/usr/bin/google-chrome"))
        .unwrap();
    google.check(false, BrowserChoice::Any, "/opt/g/chrome", BrowserKind::Chrome);
}

/// A script with no browser behind it, a snap, and a file that cannot be executed are skipped, and the error says why.
#[test]
fn unsuitable_candidates_are_skipped_with_a_reason() {
    let machine = FakeMachine::new(&[
        ("/usr/bin/chromium-browser", "#!/bin/sh\necho install me\n"),
        ("/usr/bin/snap", BINARY),
        (CHROME, BINARY),
    ]);
    std::os::unix::fs::symlink(machine.at("/usr/bin/snap"), machine.at("/usr/bin/chromium")).unwrap();
    fs::set_permissions(machine.at(CHROME), fs::Permissions::from_mode(0o644)).unwrap();
    let error = machine.find(false, BrowserChoice::Any).unwrap_err().to_string();
    for part in [
        "chrome/chrome (not executable)",
        "bin/chromium (a snap",
        "bin/chromium-browser (a script",
        "msedge",
        "`google-chrome on the search path`",
    ] {
        assert!(error.contains(part), "{part}: {error}");
    }
    assert!(error.starts_with("no headed browser found; looked for `"), "{error}");
}

/// Playwright's downloads come after everything else, the newest revision first.
#[test]
fn downloads_are_the_last_resort() {
    let downloads = [
        ("/home/.cache/ms-playwright/chromium_headless_shell-998/chrome-linux/headless_shell", BINARY),
        ("/home/.cache/ms-playwright/chromium_headless_shell-1187/chrome-linux/headless_shell", BINARY),
        ("/home/.cache/ms-playwright/chromium-1187/chrome-linux64/chrome", BINARY),
    ];
    let machine = FakeMachine::new(&downloads);
    machine.check(true, BrowserChoice::Any, downloads[1].0, BrowserKind::HeadlessShell);
    machine.check(false, BrowserChoice::Any, downloads[2].0, BrowserKind::Chromium);
    let machine = FakeMachine::new(&[downloads[1], (EDGE, BINARY)]);
    machine.check(true, BrowserChoice::Any, EDGE, BrowserKind::Edge);
}

/// On a Mac the application folders are looked through.
#[test]
fn applications_are_searched_on_mac() {
    let chrome = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";
    let machine = FakeMachine { system: System::Mac, ..FakeMachine::new(&[(chrome, BINARY)]) };
    machine.check(true, BrowserChoice::Any, chrome, BrowserKind::Chrome);
}

/// The error for a missing browser names the Debian package that contains it, if there is one, else gives a general hint.
#[test]
fn missing_browser_hint_names_the_package() {
    let hint = |machine: &FakeMachine, headless, wanted| machine.find(headless, wanted).unwrap_err().hint();
    let debian = FakeMachine::new(&[("/etc/debian_version", "12.0")]);
    assert_eq!(hint(&debian, true, BrowserChoice::Any), "run `apt-get install chromium-headless-shell`");
    assert_eq!(hint(&debian, false, BrowserChoice::Any), "run `apt-get install chromium`");
    assert!(
        hint(&debian, true, BrowserChoice::Only(BrowserKind::Edge))
            .starts_with("install it, or set `pool.browser`")
    );
    assert!(
        hint(&FakeMachine::new(&[]), true, BrowserChoice::Any)
            .starts_with("install it, or set `pool.browser`")
    );
}

/// A browser given by path is used if it can be; otherwise the error names it.
#[test]
fn explicit_browser_is_checked() {
    let machine = FakeMachine::new(&[
        ("/b/my-browser", "#!/bin/sh\nrun\n"),
        ("/b/notes", ""),
        ("/b/headless_shell", BINARY),
    ]);
    fs::set_permissions(machine.at("/b/notes"), fs::Permissions::from_mode(0o644)).unwrap();
    let find = |path: &str, headless| {
        find(&machine.install_paths(), headless, BrowserChoice::Any, Some(&machine.at(path)))
    };
    let path = machine.at("/b/my-browser");
    assert_eq!(find("/b/my-browser", false), Ok(Browser { path, kind: BrowserKind::Chrome }));
    assert_eq!(find("/b/nothing", true), Err(NoBrowser::NotThere { path: machine.at("/b/nothing") }));
    assert_eq!(find("/b/notes", true), Err(NoBrowser::NotExecutable { path: machine.at("/b/notes") }));
    assert_eq!(find("/b", true), Err(NoBrowser::NotExecutable { path: machine.at("/b") }));
    assert_eq!(find("/b/headless_shell", true).unwrap().kind, BrowserKind::HeadlessShell);
    assert_eq!(
        find("/b/headless_shell", false),
        Err(NoBrowser::NoWindow { path: machine.at("/b/headless_shell") })
    );
}
