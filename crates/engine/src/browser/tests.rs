use std::{ffi::OsString, fs, os::unix::fs::PermissionsExt};

use super::*;

/// A machine in a folder: the files given stand below its root, executable; `/usr/bin` is the search path.
struct Machine {
    folder: tempfile::TempDir,
    system: System,
}

impl Machine {
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

    fn places(&self) -> Places {
        let search_path = OsString::from(self.at("/usr/bin"));
        Places {
            system: self.system,
            root: self.folder.path().to_owned(),
            home: Some(self.at("/home")),
            search_path,
        }
    }

    /// The browser that is found, as a path on the machine.
    fn find(&self, headless: bool, wanted: Wanted) -> Result<(String, Kind), NoBrowser> {
        let found = find(&self.places(), headless, wanted, None)?;
        let path = found.path.strip_prefix(self.folder.path()).unwrap();
        Ok((format!("/{}", path.display()), found.kind))
    }

    fn check(&self, headless: bool, wanted: Wanted, path: &str, kind: Kind) {
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
fn each_mode_has_its_order() {
    let all = [SHELL, CHROME, CHROMIUM, EDGE];
    for (n, (path, kind)) in
        all.into_iter().zip([Kind::HeadlessShell, Kind::Chrome, Kind::Chromium, Kind::Edge]).enumerate()
    {
        let there: Vec<_> = all[n..].iter().map(|path| (*path, BINARY)).collect();
        let machine = Machine::new(&there);
        machine.check(true, Wanted::Any, path, kind);
        if n == 0 {
            machine.check(false, Wanted::Any, CHROME, Kind::Chrome);
        } else {
            machine.check(false, Wanted::Any, path, kind);
        }
    }
}

/// A browser asked for by name is found or missing, and no other one takes its place.
#[test]
fn a_wanted_kind_is_the_only_one() {
    let machine = Machine::new(&[(SHELL, BINARY), (CHROMIUM, BINARY), (CHROME, BINARY)]);
    machine.check(true, Wanted::Only(Kind::Chrome), CHROME, Kind::Chrome);
    machine.check(true, Wanted::Only(Kind::Chromium), SHELL, Kind::HeadlessShell);
    machine.check(false, Wanted::Only(Kind::Chromium), CHROMIUM, Kind::Chromium);
    assert!(matches!(machine.find(true, Wanted::Only(Kind::Edge)), Err(NoBrowser::Missing { .. })));
    assert!(matches!(
        machine.find(false, Wanted::Only(Kind::HeadlessShell)),
        Err(NoBrowser::NoWindow { .. })
    ));
}

/// Scripts on the search path are followed to their binary, which is named in the script or lies in its folder.
#[test]
fn scripts_are_followed() {
    let debian = Machine::new(&[
        ("/usr/bin/chromium-headless-shell", "#!/bin/sh -e\n\n/opt/c/headless_shell \"$@\"\n"),
        ("/opt/c/headless_shell", BINARY),
    ]);
    debian.check(true, Wanted::Any, "/opt/c/headless_shell", Kind::HeadlessShell);

    let nix = Machine::new(&[
        (
            "/usr/bin/chromium",
            "#!/bin/sh\n# not /usr/bin/chromium\nexec -a \"$0\" \"/nix/store/x/chromium\" \"$@\"\n",
        ),
        ("/nix/store/x/chromium", BINARY),
    ]);
    nix.check(false, Wanted::Any, "/nix/store/x/chromium", Kind::Chromium);

    let google = Machine::new(&[
        ("/opt/g/google-chrome", "#!/bin/bash\nexec \"$HERE/chrome\"\n"),
        ("/opt/g/chrome", BINARY),
    ]);
    fs::create_dir_all(google.at("/usr/bin")).unwrap();
    std::os::unix::fs::symlink(google.at("/opt/g/google-chrome"), google.at("/usr/bin/google-chrome"))
        .unwrap();
    google.check(false, Wanted::Any, "/opt/g/chrome", Kind::Chrome);
}

/// A script with no browser behind it, a snap, and a file that cannot be executed are skipped, and the error says why.
#[test]
fn what_will_not_do_is_passed_over() {
    let machine = Machine::new(&[
        ("/usr/bin/chromium-browser", "#!/bin/sh\necho install me\n"),
        ("/usr/bin/snap", BINARY),
        (CHROME, BINARY),
    ]);
    std::os::unix::fs::symlink(machine.at("/usr/bin/snap"), machine.at("/usr/bin/chromium")).unwrap();
    fs::set_permissions(machine.at(CHROME), fs::Permissions::from_mode(0o644)).unwrap();
    let error = machine.find(false, Wanted::Any).unwrap_err().to_string();
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
    let machine = Machine::new(&downloads);
    machine.check(true, Wanted::Any, downloads[1].0, Kind::HeadlessShell);
    machine.check(false, Wanted::Any, downloads[2].0, Kind::Chromium);
    let machine = Machine::new(&[downloads[1], (EDGE, BINARY)]);
    machine.check(true, Wanted::Any, EDGE, Kind::Edge);
}

/// On a Mac the application folders are looked through.
#[test]
fn a_mac_has_applications() {
    let chrome = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome";
    let machine = Machine { system: System::Mac, ..Machine::new(&[(chrome, BINARY)]) };
    machine.check(true, Wanted::Any, chrome, Kind::Chrome);
}

/// The error for a missing browser names the Debian package that contains it, if there is one, else gives a general hint.
#[test]
fn a_missing_browser_says_what_to_install() {
    let hint = |machine: &Machine, headless, wanted| machine.find(headless, wanted).unwrap_err().hint();
    let debian = Machine::new(&[("/etc/debian_version", "12.0")]);
    assert_eq!(hint(&debian, true, Wanted::Any), "run `apt-get install chromium-headless-shell`");
    assert_eq!(hint(&debian, false, Wanted::Any), "run `apt-get install chromium`");
    assert!(hint(&debian, true, Wanted::Only(Kind::Edge)).starts_with("install it, or set `pool.browser`"));
    assert!(hint(&Machine::new(&[]), true, Wanted::Any).starts_with("install it, or set `pool.browser`"));
}

/// A browser given by path is used if it can be; otherwise the error names it.
#[test]
fn an_explicit_browser_is_checked() {
    let machine = Machine::new(&[
        ("/b/my-browser", "#!/bin/sh\nrun\n"),
        ("/b/notes", ""),
        ("/b/headless_shell", BINARY),
    ]);
    fs::set_permissions(machine.at("/b/notes"), fs::Permissions::from_mode(0o644)).unwrap();
    let find = |path: &str, headless| find(&machine.places(), headless, Wanted::Any, Some(&machine.at(path)));
    let path = machine.at("/b/my-browser");
    assert_eq!(find("/b/my-browser", false), Ok(Browser { path, kind: Kind::Chrome }));
    assert_eq!(find("/b/nothing", true), Err(NoBrowser::NotThere { path: machine.at("/b/nothing") }));
    assert_eq!(find("/b/notes", true), Err(NoBrowser::NotExecutable { path: machine.at("/b/notes") }));
    assert_eq!(find("/b", true), Err(NoBrowser::NotExecutable { path: machine.at("/b") }));
    assert_eq!(find("/b/headless_shell", true).unwrap().kind, Kind::HeadlessShell);
    assert_eq!(
        find("/b/headless_shell", false),
        Err(NoBrowser::NoWindow { path: machine.at("/b/headless_shell") })
    );
}
