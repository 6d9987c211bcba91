//! `greenroom completions` and `greenroom man`: shells and manual readers accept what they print.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use crate::cli_fixture::CliFixture;

const BINARY: &str = env!("CARGO_BIN_EXE_greenroom");

/// A script that a new shell can read without a delay.
const SCRIPT_BYTES_MAX: usize = 200_000;

/// Runs greenroom as a packager's build does: without a home, and in a folder with a broken configuration.
fn printed(fixture: &CliFixture, arguments: &[&str]) -> String {
    let mut command = fixture.command(Path::new(BINARY), "cwd", arguments);
    let output = command.env_remove("HOME").output().unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn fixture() -> CliFixture {
    CliFixture::new().file("cwd/greenroom.toml", "no such key = 1\n")
}

/// The output of a program; `None` if it is not installed.
fn run_if_installed(program: &str, arguments: &[&str]) -> Option<Output> {
    match Command::new(program).args(arguments).output() {
        Ok(output) => Some(output),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => panic!("{program}: {error}"),
    }
}

/// Each script is small and names the commands; the shells that are installed accept their scripts.
#[test]
fn shells_accept_their_completion_scripts() {
    let fixture = fixture();
    for (shell, check) in [
        ("bash", Some(["bash", "-n"])),
        ("zsh", Some(["zsh", "-n"])),
        ("fish", Some(["fish", "--no-execute"])),
        ("elvish", None),
        ("powershell", None),
    ] {
        let script = printed(&fixture, &["completions", shell]);
        assert!(script.len() < SCRIPT_BYTES_MAX, "{shell}: {} bytes", script.len());
        assert!(script.contains("screenshot") && script.contains("full-page"), "{shell}");
        let file = fixture.real(&format!("home/{shell}"));
        fs::write(&file, script).unwrap();
        if let Some([program, flag]) = check
            && let Some(output) = run_if_installed(program, &[flag, file.to_str().unwrap()])
        {
            assert!(output.status.success() && output.stderr.is_empty(), "{shell}: {output:?}");
        }
    }
    let unknown = fixture.run(&["completions", "csh"]);
    assert!(unknown.starts_with("exit code: 2\n") && unknown.contains("bash"), "{unknown}");
}

/// bash completes commands, their flags and the names of clients, and offers settings only where they are listed.
#[test]
fn bash_completes_commands_and_flags() {
    let fixture = fixture();
    let script = fixture.real("home/completion");
    fs::write(&script, printed(&fixture, &["completions", "bash"])).unwrap();
    let complete = |words: &str, position: usize| {
        let line = format!(
            "source {}; COMP_WORDS=({words}); COMP_CWORD={position}; \
             _greenroom greenroom \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    assert_eq!(complete("greenroom scr", 1), "screenshot");
    assert_eq!(complete("greenroom screenshot --full", 2), "--full-page");
    assert_eq!(complete("greenroom setup wind", 2), "windsurf");
    assert_eq!(complete("greenroom serve --pool-slo", 2), "--pool-slots");
    assert_eq!(complete("greenroom click --pool-slo", 2), "");
}

/// There is a page for every command; groff, man and mandoc accept the pages where they are installed; two runs write the
/// same bytes; the page that is printed is greenroom's own.
#[test]
fn manual_pages_are_accepted() {
    let fixture = fixture();
    for folder in ["home/man1", "home/again"] {
        assert_eq!(printed(&fixture, &["man", "--out", fixture.real(folder).to_str().unwrap()]), "");
    }
    let mut pages = 0;
    for entry in fs::read_dir(fixture.real("home/man1")).unwrap() {
        let path = entry.unwrap().path();
        let text = fs::read_to_string(&path).unwrap();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(fixture.read(&format!("home/again/{name}")), Some(text.clone()), "{name}");
        assert!(text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"), "{name}");
        if let Some(output) = run_if_installed("groff", &["-man", "-Kutf8", "-Tutf8", path.to_str().unwrap()])
        {
            let shown = String::from_utf8_lossy(&output.stdout);
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success() && shown.lines().count() > 10, "{name}: {errors}");
            assert!(!errors.contains("error"), "{name}: {errors}");
        }
        if let Some(output) = run_if_installed("mandoc", &["-Tlint", "-Werror", path.to_str().unwrap()]) {
            assert!(output.status.success(), "{name}: {output:?}");
        }
        pages += 1;
    }
    assert!(pages > 40, "{pages} pages");
    let serve = fixture.read("home/man1/greenroom-serve.1").unwrap();
    assert!(serve.contains("Sessions per browser") || serve.contains("GREENROOM_POOL_SLOTS"), "{serve}");
    for page in
        ["greenroom.1", "greenroom-screenshot.1", "greenroom-sessions-close.1", "greenroom-completions.1"]
    {
        assert!(fixture.read(&format!("home/man1/{page}")).is_some(), "no {page}");
    }
    assert_eq!(Some(printed(&fixture, &["man"])), fixture.read("home/man1/greenroom.1"));
}

/// The error for a folder that cannot be written names it.
#[test]
fn unwritable_manual_folder_is_named() {
    let fixture = CliFixture::new().file("home/taken", "");
    let file = fixture.real("home/taken");
    let printed = fixture.run(&["man", "--out", file.to_str().unwrap()]);
    assert!(printed.starts_with("exit code: 1\n"), "{printed}");
    assert!(printed.contains("cannot write manual pages to `[HOME]/taken`"), "{printed}");
}
