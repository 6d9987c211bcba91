//! Runs the binary in a home and a working directory of its own, with no other environment, and shows its output.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

/// A home folder, a working directory and variables to run greenroom with. Dropping it removes the folders.
pub struct CliFixture {
    root: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl CliFixture {
    pub fn new() -> Self {
        let fixture = Self { root: tempfile::tempdir().unwrap(), variables: Vec::new() };
        for folder in ["home", "cwd"] {
            fs::create_dir(fixture.path().join(folder)).unwrap();
        }
        fixture
    }

    fn path(&self) -> PathBuf {
        self.root.path().canonicalize().unwrap()
    }

    /// Writes a file below `cwd/` or `home/`.
    pub fn file(self, path: &str, text: &str) -> Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Writes a program that is a shell script.
    pub fn program(self, path: &str, text: &str) -> Self {
        self.file(path, &format!("#!/bin/sh\n{text}\n")).mode(path, 0o755)
    }

    /// Sets the mode of a file or folder, whatever the user's mask is.
    pub fn mode(self, path: &str, mode: u32) -> Self {
        fs::set_permissions(self.path().join(path), fs::Permissions::from_mode(mode)).unwrap();
        self
    }

    /// Sets a variable.
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Makes a link below `cwd/` or `home/`.
    pub fn link(self, path: &str, target: &str) -> Self {
        let path = self.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::os::unix::fs::symlink(target, path).unwrap();
        self
    }

    /// A file's content now; `None` if it does not exist.
    pub fn read(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path().join(path)).ok()
    }

    /// The absolute path of a path in this fixture.
    pub fn real(&self, path: &str) -> PathBuf {
        self.path().join(path)
    }

    /// Runs greenroom. Returns its exit code, stdout and stderr, with this fixture's paths replaced.
    pub fn run(&self, arguments: &[&str]) -> String {
        self.run_in("cwd", arguments)
    }

    /// Runs greenroom in another folder of this fixture.
    pub fn run_in(&self, folder: &str, arguments: &[&str]) -> String {
        let binary = Path::new(env!("CARGO_BIN_EXE_greenroom"));
        let output = self.command(binary, folder, arguments).stdin(Stdio::null()).output().unwrap();
        self.show(&output)
    }

    /// The command that runs greenroom in this fixture, with nothing else in its environment.
    pub fn command(&self, binary: &Path, folder: &str, arguments: &[&str]) -> Command {
        let root = self.path();
        let mut command = Command::new(binary);
        command
            .args(arguments)
            .current_dir(root.join(folder))
            .env_clear()
            .env("HOME", root.join("home"))
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Exit code, stdout and stderr, with this fixture's paths replaced.
    pub fn show(&self, output: &Output) -> String {
        let root = self.path();
        let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
        let code = output.status.code().unwrap();
        let all = format!(
            "exit code: {code}\n----- stdout -----\n{}----- stderr -----\n{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        all.replace(&root.join("cwd").display().to_string(), "[CWD]")
            .replace(&root.join("home").display().to_string(), "[HOME]")
    }
}
