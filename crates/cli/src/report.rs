//! How greenroom reports an error: `error: …`, then a blank line and `hint: …`, on stderr, and the exit code. Called by
//! `main`, and by verbs that report several problems.

use std::{
    error::Error,
    fmt,
    io::{self, Write},
    process::ExitCode,
};

use greenroom_core::{StartError, printable::printable_lines, settings::Problems};

/// Bad usage or bad configuration, as opposed to a failure (1).
const USAGE: u8 = 2;

/// No greenroom could be reached, and none started.
const UNREACHABLE: u8 = 3;

/// An error of the command line program: its message, its hint if there is one, and the exit code.
#[derive(Debug)]
pub struct CliError {
    message: String,
    hint: Option<String>,
    code: u8,
}

impl CliError {
    /// The command line or the configuration is wrong.
    pub fn usage(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: USAGE }
    }

    /// The request could not be carried out.
    pub fn failure(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: 1 }
    }

    /// No greenroom could be reached or started for a command.
    pub fn unreachable(message: impl Into<String>) -> Self {
        Self { message: message.into(), hint: None, code: UNREACHABLE }
    }

    /// The same error with the exit code of bad usage: the command line has caused it.
    pub fn into_usage(self) -> Self {
        Self { code: USAGE, ..self }
    }

    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for CliError {}

/// Prints clap's message: usage errors on stderr, `--help` and `--version` on stdout.
pub fn usage(stop: &clap::Error) -> ExitCode {
    // If stdout or stderr is closed, there is nowhere to report it.
    let _ = stop.print();
    if stop.use_stderr() { ExitCode::from(USAGE) } else { ExitCode::SUCCESS }
}

/// Prints an error with its causes and its hint.
pub fn failure(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_closed_pipe) {
        // The reader of our output, `head` perhaps, has closed it: that is no failure.
        return ExitCode::SUCCESS;
    }
    let hint = error.chain().find_map(hint).map_or_else(String::new, |hint| format!("\nhint: {hint}\n"));
    write(&format!("error: {error:#}\n{hint}"));
    ExitCode::from(error.chain().find_map(code).unwrap_or(1))
}

/// Prints one of several problems, as [`failure`] would.
pub fn problem(message: &str, hint: Option<&str>) {
    let hint = hint.map_or_else(String::new, |hint| format!("\nhint: {hint}\n"));
    write(&format!("error: {message}\n{hint}"));
}

/// Writes to stderr. Errors contain names and texts from files, servers and pages, so they are escaped: none of them
/// can control the terminal.
fn write(text: &str) {
    // If stderr is closed, there is nowhere to report it.
    let _ = io::stderr().lock().write_all(printable_lines(text).as_bytes());
}

fn hint(error: &(dyn Error + 'static)) -> Option<String> {
    if let Some(cli_error) = error.downcast_ref::<CliError>() {
        cli_error.hint.clone()
    } else if let Some(problems) = error.downcast_ref::<Problems>() {
        problems.hint()
    } else {
        error.downcast_ref::<StartError>().and_then(|start| start.hint.clone())
    }
}

fn code(error: &(dyn Error + 'static)) -> Option<u8> {
    if error.is::<Problems>() {
        Some(USAGE)
    } else {
        error.downcast_ref::<CliError>().map(|cli_error| cli_error.code)
    }
}

fn is_closed_pipe(error: &(dyn Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
