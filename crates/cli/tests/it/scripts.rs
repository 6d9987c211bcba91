//! The scripts behind `make`, with fake programs in the place of greenroom.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use greenroom_engine::browser::version::MAJOR_MIN;
use insta::assert_snapshot;

/// A fake greenroom that prints its arguments; its `status` prints `running`.
fn greenroom(running: &str) -> String {
    format!("#!/bin/sh\n[ \"$1\" = status ] && echo '{running}' && exit\necho \"[greenroom $*]\"\n")
}

/// Runs `scripts/run` with this greenroom. Returns its exit code and output.
fn run(greenroom: &str) -> String {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("greenroom");
    std::fs::write(&binary, greenroom).unwrap();
    std::fs::set_permissions(&binary, std::fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/run");
    let output = Command::new("sh").arg(script).arg(&binary).stdin(Stdio::null()).output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
    let binary = binary.canonicalize().unwrap();
    format!("exit code: {}\n{printed}", output.status.code().unwrap())
        .replace(&binary.display().to_string(), "[BINARY]")
}

/// `make run` sets up, checks, prints how to connect, and becomes the server.
#[test]
fn run_script_starts_a_server() {
    assert_snapshot!("run", run(&greenroom("[]")));
}

/// If a server of this user already runs, `make run` names it and starts no second one. Processes that serve stdio do
/// not count.
#[test]
fn run_script_keeps_a_running_server() {
    let stdio = r#"{ "kind": "stdio",
    "listen": null }"#;
    let server = r#"{ "kind": "server",
    "listen": "http://127.0.0.1:34501" }"#;
    let printed = run(&greenroom(&format!("[{stdio},\n{server}]")));
    assert!(printed.starts_with("exit code: 0\n"), "{printed}");
    assert!(printed.contains("A server of yours runs already: http://127.0.0.1:34501/mcp\n"), "{printed}");
    assert!(!printed.contains("[greenroom serve]"), "{printed}");
    assert!(run(&greenroom(stdio)).ends_with("[greenroom serve]\n"));
}

/// A machine that lacks something gets no server, and the exit code of the failed check.
#[test]
fn run_script_fails_when_a_check_fails() {
    let printed = run("#!/bin/sh\necho \"[greenroom $*]\"\n[ \"$1\" != doctor ] || exit 1\n");
    assert_eq!(printed, "exit code: 1\n[greenroom setup]\n\n[greenroom doctor]\n");
}

/// A machine for `scripts/deps`: a folder for the only programs that the script finds, and one for Debian's browsers.
struct Machine(tempfile::TempDir);

impl Machine {
    /// `apt-get` logs its arguments, and installs browsers of this version; without one it fails.
    fn new(user: &str, installs: Option<&str>) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        for folder in ["bin", "browsers"] {
            std::fs::create_dir(machine.0.path().join(folder)).unwrap();
        }
        for tool in ["sh", "sed", "dirname", "env", "cp", "chmod"] {
            let real = ["/bin", "/usr/bin"].map(|folder| Path::new(folder).join(tool));
            let real = real.iter().find(|path| path.exists()).unwrap();
            std::os::unix::fs::symlink(real, machine.0.path().join("bin").join(tool)).unwrap();
        }
        machine.program("bin/id", &format!("echo {user}"));
        let root = machine.0.path().display();
        let installed = match installs {
            Some(version) => {
                machine.program("new", &format!("echo Chromium {version}"));
                format!(
                    "for name in chromium chromium-headless-shell; do cp {root}/new {root}/browsers/$name; done"
                )
            }
            None => "echo E: Unable to locate package >&2; exit 100".to_owned(),
        };
        machine.program(
            "bin/apt-get",
            &format!("echo apt-get $* >> {root}/asked\ncase $1 in install) {installed} ;; esac"),
        );
        machine
    }

    fn program(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let path = self.0.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Installs browsers of these versions.
    fn browsers(self, shell: &str, whole: &str) -> Self {
        self.program("browsers/chromium-headless-shell", &format!("echo Chromium {shell}"));
        self.program("browsers/chromium", &format!("echo Chromium {whole}"));
        self
    }

    /// Runs the script: its exit code, its output, and the arguments of `apt-get`.
    fn run(&self) -> (i32, String, String) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/deps");
        let output = Command::new("/bin/sh")
            .arg(script)
            .env_clear()
            .env("PATH", self.0.path().join("bin"))
            .env("GREENROOM_DEPS_FOLDER", self.0.path().join("browsers"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        let printed = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        let asked = std::fs::read_to_string(self.0.path().join("asked")).unwrap_or_default();
        (output.status.code().unwrap(), printed, asked)
    }
}

/// The arguments of `apt-get` where something is to be installed: the lists first.
const INSTALL: &str =
    "apt-get update\napt-get install -y --no-install-recommends chromium chromium-headless-shell\n";

/// Where both browsers are there and new enough, nothing is installed and nothing printed.
#[test]
fn deps_script_is_silent_when_nothing_is_missing() {
    for version in [format!("{MAJOR_MIN}.0.7871.100"), "1000.0.1.2".to_owned()] {
        let machine = Machine::new("0", None).browsers(&version, &version);
        assert_eq!(machine.run(), (0, String::new(), String::new()), "{version}");
    }
}

/// A browser that is missing, or older than greenroom supports, is installed after the lists are refreshed.
#[test]
fn deps_script_installs_from_fresh_lists() {
    let old = format!("{}.0.1.2", MAJOR_MIN - 1);
    let new = format!("{MAJOR_MIN}.0.1.2");
    let half = Machine::new("0", Some(&new));
    half.program("browsers/chromium", &format!("echo Chromium {new}"));
    for machine in [
        Machine::new("0", Some(&new)),
        half,
        Machine::new("0", Some(&new)).browsers(&old, &new),
        Machine::new("0", Some(&new)).browsers(&new, &old),
        Machine::new("0", Some(&new)).browsers("of no version", &new),
    ] {
        assert_eq!(machine.run(), (0, String::new(), INSTALL.to_owned()));
    }
}

/// A user who may not install gets instructions, and goes on with an old browser; without any it is an error. An archive
/// with only old browsers is no error either.
#[test]
fn deps_script_without_rights_prints_instructions() {
    let old = format!("{}.0.1.2", MAJOR_MIN - 1);
    let why = format!(
        "chromium is version {}, and {MAJOR_MIN} is the oldest that is supported; going on with the browser that is there\n\n\
         hint: run: sudo apt-get update && sudo apt-get install chromium chromium-headless-shell\n",
        MAJOR_MIN - 1
    );
    let user = Machine::new("1000", None).browsers(&old, &old);
    assert_eq!(user.run(), (0, why.clone(), String::new()));
    let archive = Machine::new("0", Some(&old)).browsers(&old, &old);
    assert_eq!(archive.run(), (0, why, INSTALL.to_owned()));
    let (code, printed, asked) = Machine::new("0", None).run();
    assert_eq!((code, &*asked), (1, INSTALL));
    assert!(
        printed.contains("error: no browser found, and none could be installed\n\nhint: run: sudo apt-get"),
        "{printed}"
    );
}
